package sqlite

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"precept/session"
)

func openTest(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{Path: path, EchoLog: 3000})
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

// model is what FindEcho should know: of each key, when each session had it last.
type model map[session.EchoKey]map[int]int

func (m model) newest(k session.EchoKey) (ids []session.ID) {
	sessions := slices.SortedFunc(maps.Keys(m[k]), func(a, b int) int { return m[k][b] - m[k][a] })
	for _, n := range sessions[:min(len(sessions), echoesPerKey)] {
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
			t.Errorf("key %x: have %x, want %x", k, found[k], want)
		}
	}
}

// Echoes by the ten thousand, over several runs, the log and a reopening: the answers are those of
// a plain map.
func TestEchoRuns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "precept.db")
	s := openTest(t, path)
	rng := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // a test repeats itself
	m, at := model{}, 0
	start := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 40 {
		var b session.Batch
		for range 300 {
			at++
			k, n := session.EchoKey(rng.IntN(3_000)), 1+rng.IntN(40)
			if rng.IntN(20) == 0 {
				k = 1 << 50 // the key that goes by everywhere
			}
			when := at
			if rng.IntN(10) == 0 {
				when = max(1, at-rng.IntN(5_000)) // late
			}
			if m[k] == nil {
				m[k] = map[int]int{}
			}
			for clash := true; clash; when++ { // no ties: their order is nobody's business
				clash = slices.Contains(slices.Collect(maps.Values(m[k])), when+1)
			}
			m[k][n] = max(m[k][n], when)
			b.Echoes = append(b.Echoes, session.Echo{Tenant: "default", Key: k, ID: testID(n), At: start.Add(time.Duration(when) * time.Millisecond)})
		}
		if err := s.Write(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	book := s.echoes.Load()
	if len(book.runs) < 2 || len(book.log) == 0 || len(book.log) > 16 {
		t.Fatalf("%d runs, %d parts of the log: the test proves nothing", len(book.runs), len(book.log))
	}
	keys := []session.EchoKey{1 << 50, 1 << 51}
	for range 200 {
		keys = append(keys, session.EchoKey(rng.IntN(3_100)))
	}
	checkModel(t, s, m, keys)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, path)
	checkModel(t, s, m, keys)

	// Too old, they go: runs whole, the log when it is sorted.
	if _, err := s.Retain(t.Context(), start.Add(1000*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if n := len(s.echoes.Load().runs); n != 0 {
		t.Errorf("%d runs are left", n)
	}
	checkModel(t, s, model{}, keys)
}

// What a run of several blocks holds of other sessions is found as before when one session's
// echoes were taken out of it: at once, and when the store was opened anew. Other runs stay.
func TestRunsKeepWhatIsNotForgotten(t *testing.T) {
	const sessions, each = 10, 300
	path := filepath.Join(t.TempDir(), "precept.db")
	s, err := Open(t.Context(), Options{Path: path, EchoLog: sessions * each / 2})
	if err != nil {
		t.Fatal(err)
	}
	m, keys := model{}, []session.EchoKey{}
	for n := range sessions {
		var b session.Batch
		for i := range each {
			k := session.EchoKey(n*each + i)
			keys, m[k] = append(keys, k), map[int]int{n + 1: 1}
			b.Echoes = append(b.Echoes, session.Echo{Tenant: "default", Key: k, ID: testID(n + 1), At: time.Unix(int64(n+1), 0)})
		}
		if err := s.Write(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.echoes.Load().runs); n != 2 {
		t.Fatalf("%d runs: the test proves nothing", n)
	}
	for _, n := range []int{sessions, sessions - 1, sessions - 2} { // all of the second run
		if ok, err := s.Forget(t.Context(), "default", testID(n)); !ok || err != nil {
			t.Fatal(ok, err)
		}
		for i := range each {
			m[session.EchoKey((n-1)*each+i)] = nil
		}
		checkModel(t, s, m, keys)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	checkModel(t, openTest(t, path), m, keys)
}

func TestRunsAreBounded(t *testing.T) {
	s := openTest(t, filepath.Join(t.TempDir(), "precept.db"))
	err := s.update(t.Context(), "test", func(x *tx) error {
		var runs []*run
		for range maxRuns + 5 {
			if _, err := x.exec("INSERT INTO echo_log(v) VALUES(?)", packEntries([]entry{{1, 2, 3}})); err != nil {
				return err
			}
			book, err := x.sortLog(runs)
			if err != nil {
				return err
			}
			runs = book.runs
		}
		if len(runs) != maxRuns {
			t.Errorf("%d runs", len(runs))
		}
		for _, table := range []string{"echo_runs", "echo_blocks"} {
			if n, err := x.number("SELECT count(*) FROM " + table); err != nil || n != maxRuns {
				t.Errorf("%s: %d, %v", table, n, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestFold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOf(rapid.Custom(func(t *rapid.T) entry {
			return entry{rapid.Int64Range(-3, 3).Draw(t, "key"), rapid.Int64Range(0, 9).Draw(t, "at"), rapid.Int64Range(1, 7).Draw(t, "sid")}
		})).Draw(t, "list")
		folded := fold(slices.Clone(list))
		if !slices.IsSortedFunc(folded, compareEntries) {
			t.Fatalf("not sorted: %v", folded)
		}
		latest := map[[2]int64]int64{} // of key and session
		for _, e := range list {
			k := [2]int64{e.key, e.sid}
			if at, ok := latest[k]; !ok || e.at > at {
				latest[k] = e.at
			}
		}
		for key := int64(-3); key <= 3; key++ {
			have := withKey(folded, key)
			var times []int64
			for k, at := range latest {
				if k[0] == key {
					times = append(times, at)
				}
			}
			slices.SortFunc(times, func(a, b int64) int { return int(b - a) })
			times = times[:min(len(times), echoesPerKey)]
			if len(have) != len(times) {
				t.Fatalf("key %d: %v, want times %v", key, have, times)
			}
			for i, e := range have {
				if e.at != times[i] || latest[[2]int64{key, e.sid}] != e.at {
					t.Fatalf("key %d: %v, want times %v", key, have, times)
				}
			}
		}
		if again, err := unpackEntries(nil, packEntries(folded)); err != nil || !slices.Equal(again, folded) {
			t.Fatalf("unpacked: %v, %v", again, err)
		}
	})
}

// A run finds each of its keys wherever the block borders fall, and reads few blocks for keys that
// it has not.
func TestRun(t *testing.T) {
	for _, n := range []int{0, 1, 2, blockEntries - 1, blockEntries, blockEntries + 1, 3*blockEntries + 7} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			s := openTest(t, filepath.Join(t.TempDir(), "precept.db"))
			var list []entry
			for i := range n {
				list = append(list, entry{int64(mix(uint64(i / 3))), int64(i), int64(i)})
			}
			list = fold(list)
			err := s.update(t.Context(), "test", func(x *tx) error {
				r := newRun(1, list)
				if err := r.store(x.conn, list); err != nil {
					return err
				}
				for i := range n {
					key := int64(mix(uint64(i / 3)))
					if have, err := r.find(x.conn, key, nil); err != nil || !slices.Equal(have, withKey(list, key)) {
						t.Fatalf("key %d: %v, %v, want %v", i/3, have, err, withKey(list, key))
					}
				}
				vain := 0
				for i := range 10_000 {
					if n > 0 && r.bloom.has(int64(mix(uint64(1_000_000+i)))) {
						vain++
					}
				}
				if n > 100 && vain > 100 {
					t.Errorf("the filter lets %d of 10,000 unknown keys through", vain)
				}
				loaded, err := loadRuns(x.conn)
				if err == nil && (len(loaded) != 1 || !slices.Equal(loaded[0].fences, r.fences) || !slices.Equal(loaded[0].bloom, r.bloom) || loaded[0].newest != r.newest) {
					t.Errorf("loaded %+v, want %+v", loaded, r)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}
