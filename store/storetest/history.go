package storetest

import (
	"time"

	"pgregory.net/rapid"

	"precept/bandit/feedback"
	"precept/internal/sample"
	"precept/internal/session"
)

// history is a sequence of events in the sessions of one tenant, drawn by rapid.
type history struct {
	tester
	s      Store
	number int // number of the history, because sample ids are unique in a store
}

// anyHistory tests the state after events in any order: the running totals equal the counts of a walk, an
// open session is due or set aside, and no data of a deleted tenant is stored.
func anyHistory(s Store) func(*rapid.T) {
	number := 0
	return func(rt *rapid.T) {
		number++
		l := history{rt, s, number}
		steps := map[string]func(n, k int){
			"row": func(n, k int) {
				r := row(tenantA, n, k)
				r.Closed, r.StandIn = k == 0, k == 1
				write(l, s, session.Batch{Rows: []session.Row{r}})
			},
			"exchange": func(n, k int) { write(l, s, session.Batch{Exchanges: []sample.Exchange{exchange(tenantA, n, k)}}) },
			"samples":  l.rebuildSamples,
			"echo": func(n, k int) {
				write(l, s, session.Batch{Echoes: []session.Echo{echo(tenantA, session.EchoKey(k), n, k)}})
			},
			"feedback": func(n, k int) { addFeedback(l, s, tenantA, n, entry("f", k, 1), entry("g", 1, 0)) },
			"settle":   func(n, _ int) { l.settle(n) },
			"aside": func(n, _ int) {
				must(l, s.SetAside(l.Context(), []session.DeadLetter{{Tenant: tenantA, ID: id(n), Step: "step", At: at(n)}}))
			},
			"readmit": func(_, k int) { mustGet[int](l)(s.Readmit(l.Context(), k)) },
			"forget":  func(n, _ int) { mustGet[bool](l)(s.Forget(l.Context(), tenantA, id(n))) },
			"retain":  func(_, k int) { mustGet[int](l)(s.Retain(l.Context(), at(k))) },
		}
		names := []string{"row", "exchange", "samples", "echo", "feedback", "settle", "aside", "readmit", "forget", "retain"}
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			steps[rapid.SampledFrom(names).Draw(rt, "step")](rapid.IntRange(1, 3).Draw(rt, "session"), rapid.IntRange(0, 4).Draw(rt, "k"))
			if rt.Failed() {
				return
			}
		}
		l.checkTotals()
		mustGet[int](l)(s.ForgetTenant(l.Context(), tenantA))
		l.checkEmpty()
	}
}

// rebuildSamples writes k samples as all samples of a session.
func (l history) rebuildSamples(n, k int) {
	b := session.Batch{Whole: []session.Ref{{Tenant: tenantA, ID: id(n)}}}
	for i := range k {
		b.Samples = append(b.Samples, storedSample(tenantA, n, l.number*100+n*10+i))
	}
	write(l, l.s, b)
}

// settle applies the next settlement of the session, with all feedback.
func (l history) settle(n int) {
	next := settlement(tenantA, n, applied(l, l.s, tenantA, n).Version, delta("a@1", "n", 0, 1))
	_, state, err := l.s.SessionFeedback(l.Context(), tenantA, id(n))
	must(l, err)
	next.FeedbackState = state
	equal(l, "accepted settlements", settle(l, l.s, next), []bool{true})
}

// checkTotals compares the running totals with the counts of a walk, and checks that each open session is
// due or set aside.
func (l history) checkTotals() {
	have, open := map[string]int64{}, map[session.ID]bool{}
	must(l, l.s.EachSession(l.Context(), tenantA, time.Time{}, time.Time{}, func(r session.Row, a session.Applied) error {
		have["sessions"]++
		if open[r.ID] = !r.Closed; open[r.ID] && a.Version > 0 {
			l.Errorf("session %x is settled and open", r.ID)
		}
		return nil
	}))
	for n := 1; n <= 3; n++ {
		have["exchanges"] += int64(len(exchanges(l, l.s, tenantA, n)))
		have["feedback"] += int64(len(entries(l, l.s, tenantA, n)))
	}
	have["samples"] = int64(len(walkSamples(l, l.s, tenantA, time.Time{}, time.Time{})))
	st := stats(l, l.s)
	for name, n := range have {
		equal(l, name, st[name], n)
	}
	marks, _, err := l.s.DeadLetters(l.Context(), 10)
	must(l, err)
	for _, m := range marks {
		delete(open, m.ID)
	}
	for _, r := range due(l, l.s, at(100), session.Row{}, 10) {
		if r.Closed {
			l.Errorf("session %x is both due and closed", r.ID)
		}
		delete(open, r.ID)
	}
	for id, isOpen := range open {
		if isOpen {
			l.Errorf("session %x is open, and neither due nor set aside", id)
		}
	}
	if n := unsampled(l, l.s); n < 0 || n > have["exchanges"] {
		l.Errorf("got %d exchanges without a sample, want 0 to %d", n, have["exchanges"])
	}
}

// checkEmpty checks that no data of the deleted tenant is stored.
func (l history) checkEmpty() {
	st := stats(l, l.s)
	for _, name := range []string{"sessions", "exchanges", "samples", "feedback"} {
		equal(l, name+" left", st[name], int64(0))
	}
	wantDeadLetters(l, l.s)
	equal(l, "due", len(due(l, l.s, at(100), session.Row{}, 10)), 0)
	equal(l, "unsettled", len(unsettled(l, l.s)), 0)
	equal(l, "unsampled", unsampled(l, l.s), int64(0))
	for n := 1; n <= 3; n++ {
		equal(l, "entries", entries(l, l.s, tenantA, n), []feedback.Entry(nil))
		equal(l, "applied", applied(l, l.s, tenantA, n), session.Applied{})
	}
	equal(l, "echoes", len(echoes(l, l.s, tenantA, 0, 1, 2, 3, 4)), 0)
}
