package storetest

import (
	"context"
	"time"

	"precept/bandit/feedback"
	"precept/bandit/trial"
	"precept/internal/sample"
	"precept/internal/session"
)

func deletionCases() map[string]func(tester, Store) {
	return map[string]func(tester, Store){
		"empty store's stats are zero": func(t tester, s Store) {
			st := stats(t, s)
			for _, name := range []string{"sessions", "exchanges", "exchanges_ever", "samples", "samples_ever", "feedback", "parked"} {
				if n, ok := st[name]; !ok || n != 0 {
					t.Errorf("Stats[%q] of an empty store: got %d, present = %v, want 0 and present = true", name, n, ok)
				}
			}
			if _, ok := st["bytes"]; !ok {
				t.Error(`Stats has no entry "bytes", want one`)
			}
		},
		"forget removes all session data": testForget,
		"forgetting an unknown session changes nothing": func(t tester, s Store) {
			write(t, s, session.Batch{Rows: []session.Row{row(tenantA, 1, 1)}})
			checkEqual(t, "unknown session forgotten", mustGet[bool](t)(s.Forget(t.Context(), tenantA, id(2))), false)
			checkEqual(t, "another tenant's session forgotten", mustGet[bool](t)(s.Forget(t.Context(), tenantB, id(1))), false)
			checkEqual(t, "row of the kept session", mustSession(t, s, tenantA, 1), row(tenantA, 1, 1))
		},
		"forget removes all tenant data": testForgetTenant,
		"forgetting an unknown tenant changes nothing": func(t tester, s Store) {
			writeCompleteSession(t, s, tenantA, 1)
			checkEqual(t, "unknown tenant's sessions forgotten", mustGet[int](t)(s.ForgetTenant(t.Context(), tenantB)), 0)
			checkEqual(t, "tenants", mustGet[[]string](t)(s.Tenants(t.Context())), []string{tenantA})
			checkEqual(t, "tenant A's session data", mustSession(t, s, tenantA, 1).Data, row(tenantA, 1, 1).Data)
		},
		"forgotten session can start again": func(t tester, s Store) {
			writeCompleteSession(t, s, tenantA, 1)
			mustGet[bool](t)(s.Forget(t.Context(), tenantA, id(1)))
			writeCompleteSession(t, s, tenantA, 1)
			checkEqual(t, "sessions for key 101 after the restart", echoes(t, s, tenantA, 101)[101], []session.ID{id(1)})
			checkEqual(t, "exchanges after the restart", len(exchanges(t, s, tenantA, 1)), 2)
			checkEqual(t, "samples after the restart", len(walkSamples(t, s, tenantA, time.Time{}, time.Time{})), 1)
			checkEqual(t, "exchanges ever stored", stats(t, s)["exchanges_ever"], int64(4))
		},
		"retention deletes sessions by last use": func(t tester, s Store) {
			for n := range 100 {
				writeCompleteSession(t, s, tenantA, n)
			}
			write(t, s, session.Batch{Rows: []session.Row{row(tenantA, 5, 1000)}}) // session 5 is seen again later
			checkEqual(t, "sessions deleted by age", mustGet[int](t)(s.PurgeSessions(t.Context(), atMinute(90))), 89)
			checkNoSession(t, s, tenantA, 89)
			checkEqual(t, "session seen at minute 90", mustSession(t, s, tenantA, 90).ID, id(90))
			checkEqual(t, "session seen again", mustSession(t, s, tenantA, 5).ID, id(5))
			st := stats(t, s)
			checkEqual(t, "sessions, exchanges, samples and feedback left", []int64{st["sessions"], st["exchanges"], st["samples"], st["feedback"]}, []int64{11, 22, 11, 11})
			checkEqual(t, "sessions deleted by a second call", mustGet[int](t)(s.PurgeSessions(t.Context(), atMinute(90))), 0)
		},
		"retention stops when the context ends, and continues": func(t tester, s Store) {
			var b session.Batch
			for n := range 200 {
				b.Rows = append(b.Rows, row(tenantA, n, n))
			}
			write(t, s, b)
			deleted, err := s.PurgeSessions(&endingContext{Context: t.Context(), calls: 1}, atMinute(500))
			if deleted == 0 || deleted == 200 || !isContextError(err) {
				t.Errorf("PurgeSessions with a context that ends: got %d deleted sessions, error %v, want 1 to 199 and the context's error", deleted, err)
			}
			checkEqual(t, "sessions deleted by the second call", mustGet[int](t)(s.PurgeSessions(t.Context(), atMinute(500))), 200-deleted)
		},
		"sync succeeds": func(t tester, s Store) {
			must(t, s.Sync(t.Context()))
			writeCompleteSession(t, s, tenantA, 1)
			must(t, s.Sync(t.Context()))
		},
		"closed store refuses calls": func(t tester, s Store) {
			writeCompleteSession(t, s, tenantA, 1)
			must(t, s.Close())
			must(t, s.Close()) // a second call of Close must do nothing
			if err := s.Write(t.Context(), session.Batch{Rows: []session.Row{row(tenantA, 2, 2)}}); err == nil {
				t.Error("Write to a closed store: got no error, want an error")
			}
			if _, _, err := s.Session(t.Context(), tenantA, id(1)); err == nil {
				t.Error("Session of a closed store: got no error, want an error")
			}
		},
	}
}

// endingContext is a context that ends after a number of calls of Err.
type endingContext struct {
	context.Context
	calls int // how many more calls of Err return nil
}

func (e *endingContext) Err() error {
	if e.calls--; e.calls < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// writeCompleteSession writes session n with a row, two echo keys, exchanges, a sample, feedback and a settlement. The
// echo keys are 100, which all sessions have, and 100+n.
func writeCompleteSession(t tester, s Store, tenant string, n int) {
	t.Helper()
	write(t, s, session.Batch{
		Rows:      []session.Row{row(tenant, n, n)},
		Echoes:    []session.Echo{echo(tenant, 100, n, n), echo(tenant, session.EchoKey(100+n), n, n)},
		Exchanges: []sample.Exchange{exchange(tenant, n, 1), exchange(tenant, n, 2)},
		Samples:   []session.StoredSample{storedSample(tenant, n, n)},
	})
	addFeedback(t, s, tenant, n, entry("a", n, 1))
	settle(t, s, settlement(tenant, n, 0, delta("a@1", "n", 0, 1)))
}

// testForget tests that Forget deletes a session's data, but no counters, and no data of other sessions and tenants.
func testForget(t tester, s Store) {
	writeCompleteSession(t, s, tenantA, 1)
	writeCompleteSession(t, s, tenantA, 2)
	writeCompleteSession(t, s, tenantB, 1)
	checkEqual(t, "session 1 forgotten", mustGet[bool](t)(s.Forget(t.Context(), tenantA, id(1))), true)
	checkEqual(t, "session 1 forgotten by a second call", mustGet[bool](t)(s.Forget(t.Context(), tenantA, id(1))), false)

	checkNoSession(t, s, tenantA, 1)
	checkEqual(t, "sessions by key after the deletion", echoes(t, s, tenantA, 100, 101, 102), map[session.EchoKey][]session.ID{100: {id(2)}, 102: {id(2)}})
	checkEqual(t, "exchanges in the forgotten session", len(exchanges(t, s, tenantA, 1)), 0)
	checkEqual(t, "feedback on the forgotten session", len(entries(t, s, tenantA, 1)), 0)
	checkEqual(t, "forgotten session's settled state", settledState(t, s, tenantA, 1), session.SettledState{})
	if _, ok, err := s.SampleSession(t.Context(), tenantA, "sample-default-1"); ok || err != nil {
		t.Errorf("SampleSession(sample of a forgotten session): got found = %v, error %v, want found = false and no error", ok, err)
	}
	checkEqual(t, "samples left", sampleIDs(walkSamples(t, s, tenantA, time.Time{}, time.Time{})), []string{"sample-default-2"})

	checkEqual(t, "counters after the deletion", counters(t, s, tenantA), []trial.Delta{delta("a@1", "n", 0, 2)})
	checkEqual(t, "other session's entries", entries(t, s, tenantA, 2), []feedback.Entry{entry("a", 2, 1)})
	checkEqual(t, "other tenant's exchanges", len(exchanges(t, s, tenantB, 1)), 2)
	st := stats(t, s)
	checkEqual(t, "sessions, exchanges, exchanges ever, samples and feedback", []int64{st["sessions"], st["exchanges"], st["exchanges_ever"], st["samples"], st["feedback"]}, []int64{2, 4, 6, 2, 2})
}

// testForgetTenant tests that ForgetTenant deletes a tenant's sessions, but no counters, and no data of other tenants.
func testForgetTenant(t tester, s Store) {
	const sessions = 70 // more than ForgetTenant deletes in one step
	for n := range sessions {
		writeCompleteSession(t, s, tenantA, n)
	}
	writeCompleteSession(t, s, tenantB, 1)
	must(t, s.Park(t.Context(), tenantA, 7, entry("early", 1, 1)))
	must(t, s.Park(t.Context(), tenantB, 7, entry("early", 1, 1)))
	checkEqual(t, "sessions forgotten", mustGet[int](t)(s.ForgetTenant(t.Context(), tenantA)), sessions)
	checkEqual(t, "sessions forgotten by a second call", mustGet[int](t)(s.ForgetTenant(t.Context(), tenantA)), 0)

	for _, n := range []int{0, 1, sessions - 1} {
		checkNoSession(t, s, tenantA, n)
		checkEqual(t, "exchanges in a forgotten session", len(exchanges(t, s, tenantA, n)), 0)
		checkEqual(t, "feedback on a forgotten session", len(entries(t, s, tenantA, n)), 0)
		checkEqual(t, "forgotten session's settled state", settledState(t, s, tenantA, n), session.SettledState{})
		checkEqual(t, "forgotten session's keys", len(echoes(t, s, tenantA, 100, session.EchoKey(100+n))), 0)
	}
	checkEqual(t, "forgotten tenant's samples", len(walkSamples(t, s, tenantA, time.Time{}, time.Time{})), 0)
	checkEqual(t, "forgotten tenant's sessions with joined feedback", len(mustGet[map[session.ID]int](t)(s.Unpark(t.Context(), tenantA, map[session.EchoKey]session.ID{7: id(77)}))), 0)
	checkEqual(t, "counters after the deletion", counters(t, s, tenantA), []trial.Delta{delta("a@1", "n", 0, sessions)})

	checkEqual(t, "other tenant's row", mustSession(t, s, tenantB, 1).Data, row(tenantB, 1, 1).Data)
	checkEqual(t, "other tenant's exchanges", len(exchanges(t, s, tenantB, 1)), 2)
	checkEqual(t, "other tenant's echoes", echoes(t, s, tenantB, 100, 101), map[session.EchoKey][]session.ID{100: {id(1)}, 101: {id(1)}})
	checkEqual(t, "other tenant's sessions with joined feedback", len(mustGet[map[session.ID]int](t)(s.Unpark(t.Context(), tenantB, map[session.EchoKey]session.ID{7: id(77)}))), 1)
	st := stats(t, s)
	checkEqual(t, "sessions, exchanges, samples, feedback and parked feedback", []int64{st["sessions"], st["exchanges"], st["samples"], st["feedback"], st["parked"]}, []int64{1, 2, 1, 2, 0})
	checkEqual(t, "exchanges ever stored", st["exchanges_ever"], int64(2*sessions+2))
}
