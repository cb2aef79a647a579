package storetest

import (
	"time"

	"pgregory.net/rapid"

	"precept/bandit/feedback"
	"precept/internal/sample"
	"precept/internal/session"
)

// history is a random sequence of events in the sessions of one tenant.
type history struct {
	tester
	store  Store
	number int // different in each history, so that sample ids are unique
}

// testRandomHistory tests a store after random events. The totals in Stats must equal the numbers of rows, every open
// session must be due or set aside, and ForgetTenant must leave no data.
func testRandomHistory(s Store) func(*rapid.T) {
	number := 0
	return func(rt *rapid.T) {
		number++
		h := history{rt, s, number}
		// The arguments of each step are a session number n from 1 to 3, and a random number k from 0 to 4.
		steps := map[string]func(n, k int){
			"row": func(n, k int) {
				r := row(tenantA, n, k)
				r.Closed, r.StartedOffline = k == 0, k == 1
				write(h, s, session.Batch{Rows: []session.Row{r}})
			},
			"exchange": func(n, k int) { write(h, s, session.Batch{Exchanges: []sample.Exchange{exchange(tenantA, n, k)}}) },
			"samples":  h.rebuildSamples,
			"echo": func(n, k int) {
				write(h, s, session.Batch{Echoes: []session.Echo{echo(tenantA, session.EchoKey(k), n, k)}})
			},
			"feedback": func(n, k int) { addFeedback(h, s, tenantA, n, entry("f", k, 1), entry("g", 1, 0)) },
			"settle":   func(n, _ int) { h.settle(n) },
			"set aside": func(n, _ int) {
				must(h, s.SetAside(h.Context(), []session.DeadLetter{{Tenant: tenantA, ID: id(n), Step: "step", At: atMinute(n)}}))
			},
			"readmit": func(_, k int) { mustGet[int](h)(s.Readmit(h.Context(), k)) },
			"forget":  func(n, _ int) { mustGet[bool](h)(s.Forget(h.Context(), tenantA, id(n))) },
			"purge":   func(_, k int) { mustGet[int](h)(s.PurgeSessions(h.Context(), atMinute(k))) },
		}
		names := []string{"row", "exchange", "samples", "echo", "feedback", "settle", "set aside", "readmit", "forget", "purge"}
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			steps[rapid.SampledFrom(names).Draw(rt, "step")](rapid.IntRange(1, 3).Draw(rt, "session"), rapid.IntRange(0, 4).Draw(rt, "k"))
			if rt.Failed() {
				return
			}
		}
		h.checkTotals()
		mustGet[int](h)(s.ForgetTenant(h.Context(), tenantA))
		h.checkEmpty()
	}
}

func (h history) rebuildSamples(n, k int) {
	b := session.Batch{ReplacedSamples: []session.Ref{{Tenant: tenantA, ID: id(n)}}}
	for i := range k {
		b.Samples = append(b.Samples, storedSample(tenantA, n, h.number*100+n*10+i))
	}
	write(h, h.store, b)
}

// settle makes the next settlement of session n, which includes all feedback so far.
func (h history) settle(n int) {
	next := settlement(tenantA, n, settledState(h, h.store, tenantA, n).Version, delta("a@1", "n", 0, 1))
	_, state, err := h.store.SessionFeedback(h.Context(), tenantA, id(n))
	must(h, err)
	next.FeedbackState = state
	checkEqual(h, "accepted settlements", settle(h, h.store, next), []bool{true})
}

func (h history) checkTotals() {
	got, open := map[string]int64{}, map[session.ID]bool{}
	must(h, h.store.EachSession(h.Context(), tenantA, time.Time{}, time.Time{}, func(r session.Row, a session.SettledState) error {
		got["sessions"]++
		open[r.ID] = !r.Closed
		if !r.Closed && a.Version > 0 {
			h.Errorf("session %x is settled but open, want it closed", r.ID)
		}
		return nil
	}))
	for n := 1; n <= 3; n++ {
		got["exchanges"] += int64(len(exchanges(h, h.store, tenantA, n)))
		got["feedback"] += int64(len(entries(h, h.store, tenantA, n)))
	}
	got["samples"] = int64(len(walkSamples(h, h.store, tenantA, time.Time{}, time.Time{})))
	st := stats(h, h.store)
	for name, n := range got {
		checkEqual(h, "total "+name, st[name], n)
	}
	letters, _, err := h.store.DeadLetters(h.Context(), 10)
	must(h, err)
	for _, letter := range letters {
		delete(open, letter.ID)
	}
	for _, r := range dueSessions(h, h.store, atMinute(100), session.Row{}, 10) {
		if r.Closed {
			h.Errorf("session %x is closed but due, want it not due", r.ID)
		}
		delete(open, r.ID)
	}
	for id, isOpen := range open {
		if isOpen {
			h.Errorf("session %x is open but neither due nor set aside, want it due or set aside", id)
		}
	}
	if n := countUnsampled(h, h.store); n < 0 || n > got["exchanges"] {
		h.Errorf("exchanges without a sample: got %d, want 0 to %d", n, got["exchanges"])
	}
}

func (h history) checkEmpty() {
	st := stats(h, h.store)
	for _, name := range []string{"sessions", "exchanges", "samples", "feedback"} {
		checkEqual(h, "total "+name+" after ForgetTenant", st[name], int64(0))
	}
	checkDeadLetters(h, h.store)
	checkEqual(h, "due sessions", len(dueSessions(h, h.store, atMinute(100), session.Row{}, 10)), 0)
	checkEqual(h, "unsettled sessions", len(unsettledSessions(h, h.store)), 0)
	checkEqual(h, "unsampled exchanges", countUnsampled(h, h.store), int64(0))
	for n := 1; n <= 3; n++ {
		checkEqual(h, "feedback on a deleted session", entries(h, h.store, tenantA, n), []feedback.Entry(nil))
		checkEqual(h, "deleted session's settled state", settledState(h, h.store, tenantA, n), session.SettledState{})
	}
	checkEqual(h, "deleted tenant's keys", len(echoes(h, h.store, tenantA, 0, 1, 2, 3, 4)), 0)
}
