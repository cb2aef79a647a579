package sqlite

import (
	"encoding/binary"
	"errors"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"precept/internal/session"
)

func openStore(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func testID(n int) (id session.ID) {
	binary.BigEndian.PutUint32(id[:], uint32(n))
	return id
}

// model maps each echo key to the key's sessions, with the latest time of each session.
type model map[session.EchoKey]map[int]int

// newest returns the sessions that FindEcho must return for a key, the newest first.
func (m model) newest(k session.EchoKey) (ids []session.ID) {
	sessions := slices.SortedFunc(maps.Keys(m[k]), func(a, b int) int { return m[k][b] - m[k][a] })
	for _, n := range sessions[:min(len(sessions), maxEchoesPerKey)] {
		ids = append(ids, testID(n))
	}
	return ids
}

func checkModel(t *testing.T, s *Store, m model, keys []session.EchoKey) {
	t.Helper()
	found, err := s.FindEcho(t.Context(), "default", keys)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		if want := m.newest(k); !slices.Equal(found[k], want) {
			t.Errorf("FindEcho(%x): got %x, want %x", k, found[k], want)
		}
	}
}

// fillGeneration makes the newest generation (echoes that are deleted together) almost full.
func fillGeneration(s *Store) { s.newestGen.size = maxGenerationSize }

func countEchoes(t *testing.T, s *Store, where string, args ...any) int64 {
	t.Helper()
	n, err := read(t.Context(), s, func(c *conn) int64 {
		return c.queryInt("SELECT count(*) FROM echoes WHERE "+where, args...)
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestFindEchoMatchesModel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "precept.db")
	s := openStore(t, path)
	rng := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // the seed makes the test reproducible
	m, at := model{}, 0
	start := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	for round := range 40 {
		var b session.Batch
		for range 300 {
			at++
			k, n := session.EchoKey(rng.IntN(3_000)), 1+rng.IntN(40)
			if rng.IntN(20) == 0 {
				k = 1 << 50 // a key in every batch
			}
			echoTime := at
			if rng.IntN(10) == 0 {
				echoTime = max(1, at-rng.IntN(5_000)) // an echo that arrives late
			}
			if m[k] == nil {
				m[k] = map[int]int{}
			}
			for clash := true; clash; echoTime++ { // the order of equal times is not defined
				clash = slices.Contains(slices.Collect(maps.Values(m[k])), echoTime+1)
			}
			m[k][n] = max(m[k][n], echoTime)
			b.Echoes = append(b.Echoes, session.Echo{Tenant: "default", Key: k, ID: testID(n), At: start.Add(time.Duration(echoTime) * time.Millisecond)})
		}
		if round%9 == 8 {
			fillGeneration(s)
		}
		if err := s.Write(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	keys := []session.EchoKey{1 << 50, 1 << 51}
	for range 200 {
		keys = append(keys, session.EchoKey(rng.IntN(3_100)))
	}
	checkModel(t, s, m, keys)
	newest := s.newestGen
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, path)
	checkModel(t, s, m, keys)
	if s.newestGen.number != newest.number {
		t.Errorf("newest generation after reopening: number = %d, want %d", s.newestGen.number, newest.number)
	}
	if s.newestGen.number != 4 {
		t.Errorf("newest generation after reopening: number = %d, want 4", s.newestGen.number)
	}
	if s.newestGen.size == 0 {
		t.Error("newest generation after reopening: size = 0, want at least 1")
	}

	if _, err := s.PurgeSessions(t.Context(), start.Add(time.Duration(at)*time.Millisecond/2)); err != nil {
		t.Fatal(err)
	}
	if oldEchoes, newEchoes := countEchoes(t, s, "gen < 1"), countEchoes(t, s, "gen > 2"); oldEchoes != 0 {
		t.Errorf("echoes after PurgeSessions: oldEchoes = %d, want 0", oldEchoes)
	} else if newEchoes == 0 {
		t.Error("echoes after PurgeSessions: newEchoes = 0, want at least 1")
	}
	if _, err := s.PurgeSessions(t.Context(), start.Add(1000*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if n := countEchoes(t, s, "true"); n != 0 {
		t.Errorf("echoes after PurgeSessions deleted all sessions: got %d, want 0", n)
	}
	checkModel(t, s, model{}, keys)
}

func TestForgetKeepsOtherSessionsEchoes(t *testing.T) {
	const sessions, perSession = 10, 300
	path := filepath.Join(t.TempDir(), "precept.db")
	s := openStore(t, path)
	m, keys := model{}, []session.EchoKey{}
	for n := range sessions {
		var b session.Batch
		for i := range perSession {
			k := session.EchoKey(n*perSession + i)
			keys, m[k] = append(keys, k), map[int]int{n + 1: 1}
			b.Echoes = append(b.Echoes, session.Echo{Tenant: "default", Key: k, ID: testID(n + 1), At: time.Unix(int64(n+1), 0)})
		}
		if n == sessions/2 {
			fillGeneration(s)
		}
		if err := s.Write(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []int{1, 2, sessions} {
		if ok, err := s.Forget(t.Context(), "default", testID(n)); err != nil {
			t.Fatalf("Forget(%d): %v", n, err)
		} else if !ok {
			t.Fatalf("Forget(%d): ok = false, want true", n)
		}
		for i := range perSession {
			m[session.EchoKey((n-1)*perSession+i)] = nil
		}
		checkModel(t, s, m, keys)
	}
	if n := countEchoes(t, s, "true"); n != (sessions-3)*perSession {
		t.Errorf("echoes after the deletions: got %d, want %d", n, (sessions-3)*perSession)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	checkModel(t, openStore(t, path), m, keys)
}

func TestEchoCountIsLimited(t *testing.T) {
	const everywhere, perBatch = 1 << 50, maxEchoesPerKey + 2
	s := openStore(t, filepath.Join(t.TempDir(), "precept.db"))
	for n := range maxGenerations + 5 {
		var b session.Batch
		for i := range perBatch {
			b.Echoes = append(b.Echoes, session.Echo{Tenant: "default", Key: everywhere, ID: testID(perBatch*n + i), At: time.Unix(int64(perBatch*n+i), 0)})
		}
		b.Echoes = append(b.Echoes, session.Echo{Tenant: "default", Key: session.EchoKey(n), ID: testID(perBatch * n), At: time.Unix(int64(perBatch*n), 0)})
		fillGeneration(s)
		if err := s.Write(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	if n := countEchoes(t, s, "true"); n != maxGenerations*(maxEchoesPerKey+1) {
		t.Errorf("stored echoes: got %d, want %d", n, maxGenerations*(maxEchoesPerKey+1))
	}
	last := maxGenerations + 4
	found, err := s.FindEcho(t.Context(), "default", []session.EchoKey{4, 5, everywhere})
	var want []session.ID
	for i := range maxEchoesPerKey {
		want = append(want, testID(perBatch*last+perBatch-1-i))
	}
	if err != nil {
		t.Fatal(err)
	}
	if found[4] != nil {
		t.Errorf("FindEcho[4] = %+v, want nil", found[4])
	}
	if len(found[5]) != 1 {
		t.Errorf("FindEcho[5] = %+v, want 1 item", found[5])
	}
	if !slices.Equal(found[everywhere], want) {
		t.Errorf("FindEcho[everywhere] = %+v, want %+v", found[everywhere], want)
	}
}

func TestRollbackUndoesNewGeneration(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "precept.db"))
	fillGeneration(s)
	stop := errors.New("stop")
	echo := session.Echo{Tenant: "default", Key: 1, ID: testID(1), At: time.Unix(1, 0)}
	err := s.update(t.Context(), "test", func(x *tx) {
		x.putEchoes([]session.Echo{echo})
		x.db.fail(stop)
	})
	if !errors.Is(err, stop) {
		t.Fatalf("update: got error %v, want %v", err, stop)
	}
	if s.newestGen.number != 0 {
		t.Errorf("newest generation after the rollback: got %d, want 0", s.newestGen.number)
	}
	if err := s.Write(t.Context(), session.Batch{Echoes: []session.Echo{echo}}); err != nil {
		t.Fatal(err)
	}
	checkModel(t, s, model{1: {1: 1}}, []session.EchoKey{1})
	if s.newestGen.number != 1 {
		t.Errorf("newest generation after the next write: got %d, want 1", s.newestGen.number)
	}
}
