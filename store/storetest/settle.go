package storetest

import (
	"fmt"
	"math"

	"pgregory.net/rapid"

	"precept/bandit/trial"
	"precept/internal/session"
)

// settleCases returns the cases of settlements.
func settleCases() map[string]func(tester, Store) {
	return map[string]func(tester, Store){
		"empty store has no settlements": func(t tester, s Store) {
			equal(t, "applied", applied(t, s, us, 1), session.Applied{})
			equal(t, "counters", len(counters(t, s, us)), 0)
			equal(t, "no steps", len(settle(t, s)), 0)
		},
		"settlement closes and counts":            firstStep,
		"stale settlement is refused":             staleStep,
		"settlements of one session in one batch": chainedSteps,
		"undone settlement leaves no counters":    undoneSettlement,
		"rewards keep every bit": func(t tester, s Store) {
			for i, r := range []float64{0, 1, 0.1, 1.0 / 3, math.SmallestNonzeroFloat64, -0.5} {
				to := session.Applied{Rewarded: i%2 == 0, Reward: r, Tier: i, Frozen: []byte{0, byte(i), 255}}
				settle(t, s, session.Settlement{Tenant: us, ID: id(i), To: to})
				to.Version = 1
				equal(t, "applied", applied(t, s, us, i), to)
			}
		},
		"tenants are separate": func(t tester, s Store) {
			settle(t, s, step(us, 1, 0, delta("a@1", "n1", 3, 5)), step(them, 1, 0, delta("a@1", "n1", 3, 7)))
			equal(t, "ours", counters(t, s, us), []trial.Delta{delta("a@1", "n1", 3, 5)})
			equal(t, "theirs", counters(t, s, them), []trial.Delta{delta("a@1", "n1", 3, 7)})
			settle(t, s, step(us, 1, 1))
			equal(t, "our version", applied(t, s, us, 1).Version, int64(2))
			equal(t, "their version", applied(t, s, them, 1).Version, int64(1))
			equal(t, "tenants", got[[]string](t)(s.Tenants(t.Context())), []string{us, them})
		},
		"new feedback makes a session unsettled": newFeedbackUnsettles,
		"counters are sorted":                    sortedCounters,
		"ended context settles nothing":          settleContext,
		"late row of a settled session is closed": func(t tester, s Store) {
			settle(t, s, step(us, 1, 0))
			noSession(t, s, us, 1)
			write(t, s, session.Batch{Rows: []session.Row{row(us, 1, 1)}})
			want := row(us, 1, 1)
			want.Closed = true
			equal(t, "row", sessionOf(t, s, us, 1), want)
		},
	}
}

func applied(t tester, s Store, tenant string, n int) session.Applied {
	t.Helper()
	return got[session.Applied](t)(s.Applied(t.Context(), tenant, id(n)))
}

func counters(t tester, s Store, tenant string) []trial.Delta {
	t.Helper()
	return got[[]trial.Delta](t)(s.Counters(t.Context(), tenant))
}

func settle(t tester, s Store, steps ...session.Settlement) []bool {
	t.Helper()
	return got[[]bool](t)(s.Settle(t.Context(), steps))
}

func step(tenant string, n int, from int64, deltas ...trial.Delta) session.Settlement {
	return session.Settlement{
		Tenant: tenant, ID: id(n), From: from, Deltas: deltas,
		To: session.Applied{Rewarded: true, Reward: float64(from), Tier: 1, Frozen: fmt.Appendf(nil, "frozen %d", n)},
	}
}

func unsettled(t tester, s Store) []session.Unsettled {
	t.Helper()
	return got[[]session.Unsettled](t)(s.Unsettled(t.Context(), 10))
}

// newFeedbackUnsettles tests that feedback on a closed session, however it arrives, makes the session unsettled
// until a settlement includes the feedback.
func newFeedbackUnsettles(t tester, s Store) {
	state := func(n int) int64 {
		_, m, err := s.SessionFeedback(t.Context(), us, id(n))
		must(t, err)
		return m
	}
	write(t, s, session.Batch{Rows: []session.Row{row(us, 1, 1), row(us, 2, 2), row(them, 1, 1)}})
	equal(t, "no feedback", state(1), int64(0))
	add(t, s, us, 1, entry("a", 1, 1))
	equal(t, "still open", len(unsettled(t, s)), 0)
	first := step(us, 1, 0)
	first.FeedbackState = state(1)
	settle(t, s, first, step(them, 1, 0))
	equal(t, "settled with all feedback", len(unsettled(t, s)), 0)

	// A correction, and another correction during the first.
	ours := []session.Unsettled{{Tenant: us, ID: id(1)}}
	add(t, s, us, 1, entry("b", 2, 0))
	equal(t, "a correction", unsettled(t, s), ours)
	next := step(us, 1, 1)
	next.FeedbackState = state(1)
	add(t, s, us, 1, entry("b", 3, .5))
	settle(t, s, next)
	equal(t, "a correction during the settlement", unsettled(t, s), ours)
	add(t, s, us, 1, entry("b", 3, .5))
	next = step(us, 1, 2)
	next.FeedbackState = state(1)
	stale := step(us, 1, 1)
	stale.FeedbackState = next.FeedbackState
	equal(t, "a stale step", settle(t, s, stale), []bool{false})
	equal(t, "a stale step settles nothing", unsettled(t, s), ours)
	settle(t, s, next)
	equal(t, "settled with all corrections", len(unsettled(t, s)), 0)

	// Feedback during the first settlement, and feedback that was parked.
	closing := step(us, 2, 0)
	closing.FeedbackState = state(2)
	add(t, s, us, 2, entry("a", 1, 1))
	settle(t, s, closing)
	equal(t, "feedback during the closing", unsettled(t, s), []session.Unsettled{{Tenant: us, ID: id(2)}})
	must(t, s.Park(t.Context(), them, 7, entry("early", 1, 1)))
	got[map[session.ID]int](t)(s.Join(t.Context(), them, map[session.EchoKey]session.ID{7: id(1)}))
	equal(t, "joined", len(unsettled(t, s)), 2)
	got[bool](t)(s.Forget(t.Context(), us, id(2)))
	equal(t, "forgotten", unsettled(t, s), []session.Unsettled{{Tenant: them, ID: id(1)}})
}

func firstStep(t tester, s Store) {
	write(t, s, session.Batch{Rows: []session.Row{row(us, 1, 1)}})
	equal(t, "taken", settle(t, s, step(us, 1, 0, delta("a@1", "n1", 3, 5), delta("a@1", "n1", 3, 6), delta("", "n", 0, -2))), []bool{true})
	equal(t, "applied", applied(t, s, us, 1), session.Applied{Version: 1, Rewarded: true, Tier: 1, Frozen: []byte("frozen 1")})
	equal(t, "counters", counters(t, s, us), []trial.Delta{delta("", "n", 0, -2), delta("a@1", "n1", 3, 11)})
	if !sessionOf(t, s, us, 1).Closed {
		t.Error("the session is still open")
	}
}

func staleStep(t tester, s Store) {
	settle(t, s, step(us, 1, 0, delta("a@1", "n", 0, 1)))
	for _, from := range []int64{0, 2, -1} {
		equal(t, fmt.Sprint("from ", from), settle(t, s, step(us, 1, from, delta("a@1", "n", 0, 100))), []bool{false})
	}
	equal(t, "version", applied(t, s, us, 1).Version, int64(1))
	equal(t, "a stale one beside good ones", settle(t, s, step(us, 2, 0, delta("a@1", "n", 0, 10)), step(us, 1, 0, delta("a@1", "n", 0, 100)),
		step(us, 1, 1, delta("a@1", "n", 0, 1000))), []bool{true, false, true})
	equal(t, "counters", counters(t, s, us), []trial.Delta{delta("a@1", "n", 0, 1011)})
}

func chainedSteps(t tester, s Store) {
	equal(t, "taken", settle(t, s, step(us, 1, 0, delta("a@1", "n", 0, 1)), step(us, 1, 1, delta("a@1", "n", 0, 10)),
		step(us, 1, 1, delta("a@1", "n", 0, 100))), []bool{true, true, false})
	equal(t, "applied", applied(t, s, us, 1), session.Applied{Version: 2, Rewarded: true, Reward: 1, Tier: 1, Frozen: []byte("frozen 1")})
	equal(t, "counters", counters(t, s, us), []trial.Delta{delta("a@1", "n", 0, 11)})
}

func undoneSettlement(t tester, s Store) {
	settle(t, s, step(us, 1, 0, delta("a@1", "n", 0, 1), delta("b@1", "n", 0, 4), delta("a@1", "s1", 9, -math.MaxInt64)))
	settle(t, s, step(us, 2, 0, delta("b@1", "n", 0, 5)))
	settle(t, s, step(us, 1, 1, delta("a@1", "n", 0, -1), delta("b@1", "n", 0, -4), delta("a@1", "s1", 9, math.MaxInt64)))
	equal(t, "counters", counters(t, s, us), []trial.Delta{delta("b@1", "n", 0, 5)})
}

func sortedCounters(t tester, s Store) {
	settle(t, s, step(us, 1, 0, delta("b@1", "n", 0, 1), delta("a@1", "z", 5, 2), delta("x:cat", "cn", 0, 3), delta("", "N1", 0, 4),
		delta("a@1", "z", -1, 5), delta("a@1", "n1", 7, 6), delta("a@1", "z", 40, 7)))
	equal(t, "counters", counters(t, s, us), []trial.Delta{
		delta("", "N1", 0, 4), delta("a@1", "n1", 7, 6), delta("a@1", "z", -1, 5), delta("a@1", "z", 5, 2), delta("a@1", "z", 40, 7),
		delta("b@1", "n", 0, 1), delta("x:cat", "cn", 0, 3),
	})
}

func settleContext(t tester, s Store) {
	if _, err := s.Settle(ended(t), []session.Settlement{step(us, 1, 0, delta("a@1", "n", 0, 1))}); !isEnded(err) {
		t.Errorf("Settle: %v", err)
	}
	equal(t, "applied", applied(t, s, us, 1), session.Applied{})
	equal(t, "counters", len(counters(t, s, us)), 0)
}

// anyOrder tests that any order of steps, and any cut into batches, ends in the same counters, byte
// for byte.
func anyOrder(s Store) func(*rapid.T) {
	n := 0
	return func(rt *rapid.T) {
		n++
		ours, theirs := fmt.Sprint("a", n), fmt.Sprint("b", n)
		list := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) []trial.Delta {
			return rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) trial.Delta {
				return delta(rapid.SampledFrom([]string{"", "a@1", "a@2", "x:c"}).Draw(rt, "scope"), rapid.SampledFrom([]string{"n", "n1", "s1", "zz"}).Draw(rt, "field"),
					int32(rapid.IntRange(0, 3).Draw(rt, "day")), rapid.Int64Range(-3, 3).Draw(rt, "value"))
			}), 0, 12).Draw(rt, "deltas")
		}), 1, 8).Draw(rt, "sessions")
		order := make([]int, len(list))
		for i := range order {
			order[i] = i
		}
		run := func(tenant string, order []int, cut int) {
			var steps []session.Settlement
			for _, i := range order {
				steps = append(steps, step(tenant, n*100+i, 0, list[i]...))
			}
			settle(rt, s, steps[:cut]...)
			settle(rt, s, steps[cut:]...)
		}
		run(ours, order, rapid.IntRange(0, len(list)).Draw(rt, "cut"))
		run(theirs, rapid.Permutation(order).Draw(rt, "order"), rapid.IntRange(0, len(list)).Draw(rt, "other cut"))
		equal(rt, "counters", counters(rt, s, theirs), counters(rt, s, ours))
	}
}
