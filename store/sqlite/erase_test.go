package sqlite

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"precept/bandit/feedback"
	"precept/internal/sample"
	"precept/internal/session"
)

// canary is a text that the tests store and delete. After the deletion, no file may contain it.
const canary = "canary-9f27c1"

// writeCanaries writes session n so that every table contains the canary.
func writeCanaries(t *testing.T, s *Store, tenant string, n int) {
	t.Helper()
	at := time.Unix(int64(1000*n), 0)
	id := testID(n)
	err := s.Write(t.Context(), session.Batch{
		Rows:   []session.Row{{Tenant: tenant, ID: id, Started: at, Seen: at, Data: []byte(`{"name":"` + canary + `"}`)}},
		Echoes: []session.Echo{{Tenant: tenant, Key: session.EchoKey(n), ID: id, At: at}},
		Exchanges: []sample.Exchange{{ID: canary, Tenant: tenant, Session: id.String(), At: at, Reply: sample.Reply{
			Text: string(bytes.Repeat([]byte(canary+" "), 3000)), // long enough for several pages of the file
		}}},
		Samples: []session.StoredSample{{Tenant: tenant, Agent: "a", ID: id, Sample: sample.Sample{
			ID: canary, CreatedAt: at, Input: map[string]any{"text": canary}, Output: map[string]any{}, Feedback: sample.Feedback{Details: map[string]any{}},
		}}},
	})
	if err == nil {
		_, err = s.AddFeedback(t.Context(), tenant, map[session.ID][]feedback.Entry{id: {{ID: "f", At: at, Comment: canary}}})
	}
	if err == nil {
		err = s.Park(t.Context(), tenant, session.EchoKey(n+100_000), feedback.Entry{ID: "p", At: at, Comment: canary})
	}
	if err == nil {
		_, err = s.Settle(t.Context(), []session.Settlement{{Tenant: tenant, ID: id, To: session.SettledState{AssignmentAtClose: []byte(canary)}}})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func countOnDisk(t *testing.T, s *Store, needle []byte) int {
	t.Helper()
	return bytes.Count(readAllFiles(t, s), needle)
}

// readAllFiles returns the bytes of all database files, including deleted pages.
func readAllFiles(t *testing.T, s *Store) (all []byte) {
	t.Helper()
	files, err := filepath.Glob(s.options.Path + "*")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("database files: got none")
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data...)
	}
	return all
}

// echoBytes returns the bytes that represent an echo key in the database file.
func echoBytes(t *testing.T, s *Store, tenant string, n int) []byte {
	t.Helper()
	id, ok := s.tenants.get(tenant)
	if !ok {
		t.Fatalf("tenant %q has no number in the store", tenant)
	}
	return binary.BigEndian.AppendUint64(nil, uint64(echoKey(id, session.EchoKey(n))))
}

// The first sessions that PurgeSessions reads were stored while the clock was ahead. The old sessions come after them.
func TestPurgeSessionsPassesSessionsFromFastClock(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "precept.db"))
	now := time.Unix(1_800_000_000, 0)
	var rows []session.Row
	add := func(count int, at time.Time) {
		for range count {
			rows = append(rows, session.Row{Tenant: "a", ID: testID(len(rows)), Started: at, Seen: at, Data: []byte("{}")})
		}
	}
	add(maxYoungSessions+1, now.AddDate(1, 0, 0))
	add(10, now.AddDate(0, -2, 0))
	add(1, now)
	if err := s.Write(t.Context(), session.Batch{Rows: rows}); err != nil {
		t.Fatal(err)
	}
	if n, err := s.PurgeSessions(t.Context(), now.AddDate(0, -1, 0)); err != nil {
		t.Error(err)
	} else if n != 10 {
		t.Errorf("sessions deleted by PurgeSessions = %d, want 10", n)
	}
}

func TestForgetTenantErasesDataFromFiles(t *testing.T) {
	const sessions = 70 // more than ForgetTenant deletes in one step
	s := openStore(t, filepath.Join(t.TempDir(), "precept.db"))
	for n := range sessions {
		writeCanaries(t, s, "forgotten", n+1)
	}
	const kept = 200
	if err := s.Write(t.Context(), session.Batch{
		Rows:   []session.Row{{Tenant: "kept", ID: testID(kept), Data: []byte("{}")}},
		Echoes: []session.Echo{{Tenant: "kept", Key: kept, ID: testID(kept)}},
	}); err != nil {
		t.Fatal(err)
	}
	for _, needle := range [][]byte{[]byte(canary), echoBytes(t, s, "forgotten", 7)} {
		if countOnDisk(t, s, needle) == 0 {
			t.Fatalf("no file contains %q before the deletion", needle)
		}
	}
	if n, err := s.ForgetTenant(t.Context(), "forgotten"); err != nil {
		t.Fatal(err)
	} else if n != sessions {
		t.Fatalf("ForgetTenant = %d, want %d", n, sessions)
	}
	if n := countOnDisk(t, s, []byte(canary)); n != 0 {
		t.Errorf("occurrences of the deleted text in the files: got %d, want 0", n)
	}
	all := readAllFiles(t, s)
	for n := range sessions {
		if c := bytes.Count(all, echoBytes(t, s, "forgotten", n+1)); c != 0 {
			t.Errorf("echo %d: got %d occurrences in the files after the deletion, want 0", n+1, c)
		}
	}
	found, err := s.FindEcho(t.Context(), "kept", []session.EchoKey{kept})
	if err != nil {
		t.Fatal(err)
	}
	if len(found[kept]) != 1 {
		t.Errorf("FindEcho(other tenant)[kept] = %+v, want 1 item", found[kept])
	}
}

func TestForgetErasesSessionFromFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "precept.db")
	s := openStore(t, path)
	for n := range 30 {
		at := time.Unix(int64(n), 0)
		err := s.Write(t.Context(), session.Batch{
			Rows:   []session.Row{{Tenant: "t", ID: testID(n), Started: at, Seen: at, Data: []byte("{}")}},
			Echoes: []session.Echo{{Tenant: "t", Key: session.EchoKey(n), ID: testID(n), At: at}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	writeCanaries(t, s, "t", 50)
	if ok, err := s.Forget(t.Context(), "t", testID(50)); err != nil {
		t.Fatal(err)
	} else if !ok {
		t.Fatal("Forget: ok = false, want true")
	}
	if ok, err := s.Forget(t.Context(), "t", testID(3)); err != nil {
		t.Fatal(err)
	} else if !ok {
		t.Fatal("Forget: ok = false, want true")
	}
	// Forget keeps parked feedback, because it belongs to no session. PurgeParked deletes it.
	if _, err := s.PurgeParked(t.Context(), time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
	if err := s.checkpoint(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if n := countOnDisk(t, s, []byte(canary)); n != 0 {
		t.Errorf("occurrences of the deleted text in the files: got %d, want 0", n)
	}
	for _, n := range []int{3, 50} {
		if c := countOnDisk(t, s, echoBytes(t, s, "t", n)); c != 0 {
			t.Errorf("echo %d: got %d occurrences in the files after the deletion, want 0", n, c)
		}
	}
	checkEchoes := func(s *Store) {
		t.Helper()
		for n := range 30 {
			found, err := s.FindEcho(t.Context(), "t", []session.EchoKey{session.EchoKey(n)})
			want := 1
			if n == 3 {
				want = 0
			}
			if err != nil {
				t.Errorf("FindEcho(%d): %v", n, err)
			} else if len(found) != want {
				t.Errorf("FindEcho(%d) = %+v, want %d items", n, found, want)
			}
		}
	}
	checkEchoes(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	checkEchoes(openStore(t, path))
}

func TestPurgeSessionsStopsWhenContextEnds(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "precept.db"))
	const sessions = 3*deleteChunk + 7
	var b session.Batch
	for n := range sessions {
		at := time.Unix(int64(n), 0)
		b.Rows = append(b.Rows, session.Row{Tenant: "t", ID: testID(n), Started: at, Seen: at, Data: []byte("{}")})
	}
	if err := s.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	before := time.Unix(sessions-10, 0)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if n, err := s.PurgeSessions(ended, before); n != 0 {
		t.Errorf("PurgeSessions with a canceled context = %d, want 0", n)
	} else if !errors.Is(err, context.Canceled) {
		t.Errorf("PurgeSessions with a canceled context: error = %v, want context.Canceled", err)
	}
	total, calls := 0, 0
	for more := true; more && calls < 100; calls++ {
		n, err := s.PurgeSessions(&endingContext{Context: t.Context()}, before)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("PurgeSessions: got error %v, want none or context.DeadlineExceeded", err)
		}
		if err != nil && n == 0 {
			t.Fatal("PurgeSessions deleted no session before the context ended")
		}
		more = err != nil
		total += n
	}
	if total != sessions-10 {
		t.Errorf("sessions deleted by PurgeSessions: total = %d, want %d", total, sessions-10)
	}
	if calls < 3 {
		t.Errorf("sessions deleted by PurgeSessions: calls = %d, want at least 3", calls)
	}
}

// endingContext is a context that ends at the second call of Err.
type endingContext struct {
	context.Context
	calls int // how often Err was called
}

func (c *endingContext) Err() error {
	if c.calls++; c.calls > 1 {
		return context.DeadlineExceeded
	}
	return nil
}

// Before schema 2, parked feedback was stored without a tenant. ForgetTenant must also delete such feedback.
func TestForgetTenantDeletesParkedFeedbackFromSchema1(t *testing.T) {
	path := filepath.Join(t.TempDir(), "precept.db")
	s := openStore(t, path)
	if err := s.Park(t.Context(), "t", 7, feedback.Entry{ID: "p", Comment: canary}); err != nil {
		t.Fatal(err)
	}
	downgrade(t, s, 1)
	s = openStore(t, path)
	if _, err := s.ForgetTenant(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	if n := countOnDisk(t, s, []byte(canary)); n != 0 {
		t.Errorf("occurrences of the deleted text in the files: got %d, want 0", n)
	}
	if st, err := s.Stats(t.Context()); err != nil {
		t.Errorf("Stats[%q] after ForgetTenant: %v", totalParked, err)
	} else if st[totalParked] != 0 {
		t.Errorf("Stats[%q] after ForgetTenant = %d, want 0", totalParked, st[totalParked])
	}
}
