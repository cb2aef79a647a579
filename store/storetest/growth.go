package storetest

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"precept/bandit/feedback"
	"precept/bandit/trial"
	"precept/internal/sample"
	"precept/internal/session"
)

// RunGrowth tests that a backend keeps no data of deleted sessions. In each of ten rounds, it writes and deletes
// sessions. The function sizes returns the sizes of the backend's structures by name. After the first round, each size
// may grow by at most 50%. The function addOwn adds data that only this backend stores.
func RunGrowth(t *testing.T, s Store, addOwn func(id session.ID, start time.Time), sizes func() map[string]int64) {
	t.Helper()
	const perRound = 40          // sessions
	const slack = 64             // extra bytes for numbers with more digits
	later := atMinute(60 * 1000) // after all sessions in the test
	runRound := func(n int) {
		for i := range perRound {
			writeFullSession(t, s, n*perRound+i, atMinute(60*n))
			addOwn(hashedID(n*perRound+i), atMinute(60*n))
		}
		if deleted := mustGet[int](t)(s.PurgeSessions(t.Context(), later)); deleted < perRound {
			t.Fatalf("sessions deleted by PurgeSessions: got %d, want at least %d", deleted, perRound)
		}
		mustGet[int](t)(s.PurgeParked(t.Context(), later))
	}
	runRound(0)
	first := sizes()
	for n := range 9 {
		runRound(n + 1)
	}
	last := sizes()
	checkEqual(t, "size names", slices.Sorted(maps.Keys(last)), slices.Sorted(maps.Keys(first)))
	for name, n := range last {
		if n > first[name]*3/2+slack {
			t.Errorf("size of %s after ten rounds: got %d, after %d in the first round, want at most %d", name, n, first[name], first[name]*3/2+slack)
		}
	}
}

// hashedID returns the id of session n, which is a hash as in production.
func hashedID(n int) session.ID {
	return session.NamedID(tenantA, session.NamespaceSession, fmt.Sprint(n))
}

// writeFullSession writes a session with every kind of data, including an exchange that arrives after the settlement.
func writeFullSession(t tester, s Store, n int, start time.Time) {
	t.Helper()
	ctx, sid := t.Context(), hashedID(n)
	key := session.EchoKey(n) * 0x9e3779b97f4a7c15
	write(t, s, session.Batch{
		Rows:      []session.Row{{Tenant: tenantA, ID: sid, Started: start, Seen: start, Data: []byte("{}")}},
		Echoes:    []session.Echo{{Tenant: tenantA, Key: key, ID: sid, At: start}, {Tenant: tenantA, Key: 7, ID: sid, At: start}},
		Exchanges: []sample.Exchange{{ID: sid.String(), Tenant: tenantA, Session: sid.String(), Turn: 1, At: start}},
		Samples:   []session.StoredSample{{Tenant: tenantA, ID: sid, Sample: sample.Sample{ID: "s" + sid.String(), CreatedAt: start}}},
	})
	entry := feedback.Entry{ID: "f", At: start, Type: feedback.TypeScore}
	must(t, s.Park(ctx, tenantA, key, entry))
	must(t, s.Park(ctx, tenantA, key+1, entry)) // no session has this key
	mustGet[map[session.ID]int](t)(s.Unpark(ctx, tenantA, map[session.EchoKey]session.ID{key: sid}))
	must(t, s.WriteNotes(ctx, tenantA, map[session.ID][]byte{sid: []byte("mark")}, nil))
	must(t, s.SetAside(ctx, []session.DeadLetter{{Tenant: tenantA, ID: sid, At: start}, {Tenant: tenantA, ID: sid, Exchange: "x", At: start}}))
	settle(t, s, session.Settlement{Tenant: tenantA, ID: sid, Deltas: []trial.Delta{delta("a@1", "n", 0, 1)}})
	write(t, s, session.Batch{Exchanges: []sample.Exchange{{ID: "late" + sid.String(), Tenant: tenantA, Session: sid.String(), Turn: 2, At: start}}})
}
