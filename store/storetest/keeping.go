package storetest

import (
	"context"
	"time"

	"precept/bandit/feedback"
	"precept/bandit/trial"
	"precept/internal/sample"
	"precept/internal/session"
)

// keepingCases returns the cases of deletions.
func keepingCases() map[string]func(tester, Store) {
	return map[string]func(tester, Store){
		"stats of an empty store are zero": func(t tester, s Store) {
			st := stats(t, s)
			for _, name := range []string{"sessions", "exchanges", "exchanges_ever", "samples", "samples_ever", "feedback", "parked"} {
				if n, ok := st[name]; !ok || n != 0 {
					t.Errorf("%s: got %d, present %v, want 0, present", name, n, ok)
				}
			}
			if _, ok := st["bytes"]; !ok {
				t.Error("no bytes")
			}
		},
		"forget removes all data of a session": forgetOne,
		"forget of an unknown session changes nothing": func(t tester, s Store) {
			write(t, s, session.Batch{Rows: []session.Row{row(us, 1, 1)}})
			equal(t, "unknown", got[bool](t)(s.Forget(t.Context(), us, id(2))), false)
			equal(t, "another tenant's", got[bool](t)(s.Forget(t.Context(), them, id(1))), false)
			equal(t, "row", sessionOf(t, s, us, 1), row(us, 1, 1))
		},
		"forget removes all data of a tenant": forgetTenant,
		"forget of an unknown tenant changes nothing": func(t tester, s Store) {
			writeFull(t, s, us, 1)
			equal(t, "unknown", got[int](t)(s.ForgetTenant(t.Context(), them)), 0)
			equal(t, "tenants", got[[]string](t)(s.Tenants(t.Context())), []string{us})
			equal(t, "row", sessionOf(t, s, us, 1).Data, row(us, 1, 1).Data)
		},
		"forgotten session can start again": func(t tester, s Store) {
			writeFull(t, s, us, 1)
			got[bool](t)(s.Forget(t.Context(), us, id(1)))
			writeFull(t, s, us, 1)
			equal(t, "echoes", echoes(t, s, us, 101)[101], []session.ID{id(1)})
			equal(t, "exchanges", len(exchanges(t, s, us, 1)), 2)
			equal(t, "sample", len(walkSamples(t, s, us, time.Time{}, time.Time{})), 1)
			equal(t, "ever", stats(t, s)["exchanges_ever"], int64(4))
		},
		"retention deletes by last seen": func(t tester, s Store) {
			for n := range 100 {
				writeFull(t, s, us, n)
			}
			write(t, s, session.Batch{Rows: []session.Row{row(us, 5, 1000)}}) // seen again
			equal(t, "gone", got[int](t)(s.Retain(t.Context(), at(90))), 89)
			noSession(t, s, us, 89)
			equal(t, "seen at 90", sessionOf(t, s, us, 90).ID, id(90))
			equal(t, "seen again", sessionOf(t, s, us, 5).ID, id(5))
			st := stats(t, s)
			equal(t, "left", []int64{st["sessions"], st["exchanges"], st["samples"], st["feedback"]}, []int64{11, 22, 11, 11})
			equal(t, "gone again", got[int](t)(s.Retain(t.Context(), at(90))), 0)
		},
		"retention stops and continues with its context": func(t tester, s Store) {
			var b session.Batch
			for n := range 200 {
				b.Rows = append(b.Rows, row(us, n, n))
			}
			write(t, s, b)
			deleted, err := s.Retain(&ending{Context: t.Context(), after: 1}, at(500))
			if deleted == 0 || deleted == 200 || !isEnded(err) {
				t.Errorf("%d are gone when the time is up, %v", deleted, err)
			}
			equal(t, "the rest", got[int](t)(s.Retain(t.Context(), at(500))), 200-deleted)
		},
		"sync succeeds": func(t tester, s Store) {
			must(t, s.Sync(t.Context()))
			writeFull(t, s, us, 1)
			must(t, s.Sync(t.Context()))
		},
		"closed store refuses calls": func(t tester, s Store) {
			writeFull(t, s, us, 1)
			must(t, s.Close())
			must(t, s.Close()) // twice is fine
			if err := s.Write(t.Context(), session.Batch{Rows: []session.Row{row(us, 2, 2)}}); err == nil {
				t.Error("Write succeeded")
			}
			if _, _, err := s.Session(t.Context(), us, id(1)); err == nil {
				t.Error("Session succeeded")
			}
		},
	}
}

// ending is a context that ends after a number of calls of Err.
type ending struct {
	context.Context
	after int
}

func (e *ending) Err() error {
	if e.after--; e.after < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// writeFull writes values of every kind for a session.
func writeFull(t tester, s Store, tenant string, n int) {
	t.Helper()
	write(t, s, session.Batch{
		Rows:      []session.Row{row(tenant, n, n)},
		Echoes:    []session.Echo{echo(tenant, 100, n, n), echo(tenant, session.EchoKey(100+n), n, n)},
		Exchanges: []sample.Exchange{exchange(tenant, n, 1), exchange(tenant, n, 2)},
		Samples:   []session.StoredSample{stored(tenant, n, n)},
	})
	add(t, s, tenant, n, entry("a", n, 1))
	settle(t, s, step(tenant, n, 0, delta("a@1", "n", 0, 1)))
}

func forgetOne(t tester, s Store) {
	writeFull(t, s, us, 1)
	writeFull(t, s, us, 2)
	writeFull(t, s, them, 1)
	equal(t, "forgotten", got[bool](t)(s.Forget(t.Context(), us, id(1))), true)
	equal(t, "again", got[bool](t)(s.Forget(t.Context(), us, id(1))), false)

	noSession(t, s, us, 1)
	equal(t, "echoes", echoes(t, s, us, 100, 101, 102), map[session.EchoKey][]session.ID{100: {id(2)}, 102: {id(2)}})
	equal(t, "exchanges", len(exchanges(t, s, us, 1)), 0)
	equal(t, "feedback", len(entries(t, s, us, 1)), 0)
	equal(t, "applied", applied(t, s, us, 1), session.Applied{})
	if _, ok, err := s.SampleSession(t.Context(), us, "sample-default-1"); ok || err != nil {
		t.Errorf("sample: %v, %v", ok, err)
	}
	equal(t, "walk", sampleIDs(walkSamples(t, s, us, time.Time{}, time.Time{})), []string{"sample-default-2"})

	equal(t, "counters stay", counters(t, s, us), []trial.Delta{delta("a@1", "n", 0, 2)})
	equal(t, "the other session", entries(t, s, us, 2), []feedback.Entry{entry("a", 2, 1)})
	equal(t, "the other tenant", len(exchanges(t, s, them, 1)), 2)
	st := stats(t, s)
	equal(t, "counts", []int64{st["sessions"], st["exchanges"], st["exchanges_ever"], st["samples"], st["feedback"]}, []int64{2, 4, 6, 2, 2})
}

func forgetTenant(t tester, s Store) {
	const sessions = 70 // more than one step deletes
	for n := range sessions {
		writeFull(t, s, us, n)
	}
	writeFull(t, s, them, 1)
	must(t, s.Park(t.Context(), us, 7, entry("early", 1, 1)))
	must(t, s.Park(t.Context(), them, 7, entry("early", 1, 1)))
	equal(t, "forgotten", got[int](t)(s.ForgetTenant(t.Context(), us)), sessions)
	equal(t, "again", got[int](t)(s.ForgetTenant(t.Context(), us)), 0)

	for _, n := range []int{0, 1, sessions - 1} {
		noSession(t, s, us, n)
		equal(t, "exchanges", len(exchanges(t, s, us, n)), 0)
		equal(t, "feedback", len(entries(t, s, us, n)), 0)
		equal(t, "applied", applied(t, s, us, n), session.Applied{})
		equal(t, "echoes", len(echoes(t, s, us, 100, session.EchoKey(100+n))), 0)
	}
	equal(t, "samples", len(walkSamples(t, s, us, time.Time{}, time.Time{})), 0)
	equal(t, "parked", len(got[map[session.ID]int](t)(s.Join(t.Context(), us, map[session.EchoKey]session.ID{7: id(77)}))), 0)
	equal(t, "counters stay", counters(t, s, us), []trial.Delta{delta("a@1", "n", 0, sessions)})

	equal(t, "the other tenant's row", sessionOf(t, s, them, 1).Data, row(them, 1, 1).Data)
	equal(t, "its exchanges", len(exchanges(t, s, them, 1)), 2)
	equal(t, "its echoes", echoes(t, s, them, 100, 101), map[session.EchoKey][]session.ID{100: {id(1)}, 101: {id(1)}})
	equal(t, "its parked feedback", len(got[map[session.ID]int](t)(s.Join(t.Context(), them, map[session.EchoKey]session.ID{7: id(77)}))), 1)
	st := stats(t, s)
	equal(t, "counts", []int64{st["sessions"], st["exchanges"], st["samples"], st["feedback"], st["parked"]}, []int64{1, 2, 1, 2, 0})
	equal(t, "ever", st["exchanges_ever"], int64(2*sessions+2))
}
