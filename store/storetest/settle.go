package storetest

import (
	"fmt"
	"math"

	"pgregory.net/rapid"

	"precept/bandit/trial"
	"precept/internal/session"
)

// settleCases returns the cases for settlements. A settlement closes a session, stores the reward and adds deltas to
// the counters.
func settleCases() map[string]func(tester, Store) {
	return map[string]func(tester, Store){
		"empty store has no settlements": func(t tester, s Store) {
			checkEqual(t, "settled state", settledState(t, s, tenantA, 1), session.SettledState{})
			checkEqual(t, "counters", len(counters(t, s, tenantA)), 0)
			checkEqual(t, "results without settlements", len(settle(t, s)), 0)
		},
		"settlement closes the session and changes counters": testFirstSettlement,
		"stale settlement is refused":                        testStaleSettlement,
		"consecutive settlements in one batch are accepted":  testConsecutiveSettlements,
		"counters that return to zero are not listed":        testCountersReturnToZero,
		"rewards keep full precision": func(t tester, s Store) {
			for i, r := range []float64{0, 1, 0.1, 1.0 / 3, math.SmallestNonzeroFloat64, -0.5} {
				to := session.SettledState{Rewarded: i%2 == 0, Reward: r, Tier: i, AssignmentAtClose: []byte{0, byte(i), 255}}
				settle(t, s, session.Settlement{Tenant: tenantA, ID: id(i), To: to})
				to.Version = 1
				checkEqual(t, "settled state", settledState(t, s, tenantA, i), to)
			}
		},
		"tenants are separate": func(t tester, s Store) {
			settle(t, s, settlement(tenantA, 1, 0, delta("a@1", "n1", 3, 5)), settlement(tenantB, 1, 0, delta("a@1", "n1", 3, 7)))
			checkEqual(t, "tenant A's counters", counters(t, s, tenantA), []trial.Delta{delta("a@1", "n1", 3, 5)})
			checkEqual(t, "tenant B's counters", counters(t, s, tenantB), []trial.Delta{delta("a@1", "n1", 3, 7)})
			settle(t, s, settlement(tenantA, 1, 1))
			checkEqual(t, "tenant A's version", settledState(t, s, tenantA, 1).Version, int64(2))
			checkEqual(t, "tenant B's version", settledState(t, s, tenantB, 1).Version, int64(1))
			checkEqual(t, "tenants", mustGet[[]string](t)(s.Tenants(t.Context())), []string{tenantA, tenantB})
		},
		"new feedback makes a session unsettled":         testNewFeedbackUnsettles,
		"counters are sorted":                            testCounterOrder,
		"Settle with a canceled context changes nothing": testSettleContext,
		"late row for a settled session is closed": func(t tester, s Store) {
			settle(t, s, settlement(tenantA, 1, 0))
			checkNoSession(t, s, tenantA, 1)
			write(t, s, session.Batch{Rows: []session.Row{row(tenantA, 1, 1)}})
			want := row(tenantA, 1, 1)
			want.Closed = true
			checkEqual(t, "row", mustSession(t, s, tenantA, 1), want)
		},
	}
}

func settledState(t tester, s Store, tenant string, n int) session.SettledState {
	t.Helper()
	return mustGet[session.SettledState](t)(s.SettledState(t.Context(), tenant, id(n)))
}

func counters(t tester, s Store, tenant string) []trial.Delta {
	t.Helper()
	return mustGet[[]trial.Delta](t)(s.Counters(t.Context(), tenant))
}

// settle calls Settle, and returns for each settlement whether the store has accepted it.
func settle(t tester, s Store, steps ...session.Settlement) []bool {
	t.Helper()
	return mustGet[[]bool](t)(s.Settle(t.Context(), steps))
}

// settlement returns a settlement of session n that replaces the settled state with the version from.
func settlement(tenant string, n int, from int64, deltas ...trial.Delta) session.Settlement {
	return session.Settlement{
		Tenant: tenant, ID: id(n), From: from, Deltas: deltas,
		To: session.SettledState{Rewarded: true, Reward: float64(from), Tier: 1, AssignmentAtClose: fmt.Appendf(nil, "frozen %d", n)},
	}
}

func unsettledSessions(t tester, s Store) []session.UnsettledSession {
	t.Helper()
	return mustGet[[]session.UnsettledSession](t)(s.UnsettledSessions(t.Context(), 10))
}

// testNewFeedbackUnsettles tests that new feedback makes a closed session unsettled until a settlement includes this
// feedback.
func testNewFeedbackUnsettles(t tester, s Store) {
	feedbackState := func(n int) int64 {
		_, m, err := s.SessionFeedback(t.Context(), tenantA, id(n))
		must(t, err)
		return m
	}
	write(t, s, session.Batch{Rows: []session.Row{row(tenantA, 1, 1), row(tenantA, 2, 2), row(tenantB, 1, 1)}})
	checkEqual(t, "feedback state without feedback", feedbackState(1), int64(0))
	addFeedback(t, s, tenantA, 1, entry("a", 1, 1))
	checkEqual(t, "unsettled sessions before close", len(unsettledSessions(t, s)), 0)
	first := settlement(tenantA, 1, 0)
	first.FeedbackState = feedbackState(1)
	settle(t, s, first, settlement(tenantB, 1, 0))
	checkEqual(t, "unsettled sessions after a settlement with all feedback", len(unsettledSessions(t, s)), 0)

	// A second entry arrives, and is corrected before the next settlement.
	onlySession1 := []session.UnsettledSession{{Tenant: tenantA, ID: id(1)}}
	addFeedback(t, s, tenantA, 1, entry("b", 2, 0))
	checkEqual(t, "unsettled sessions after a second entry", unsettledSessions(t, s), onlySession1)
	next := settlement(tenantA, 1, 1)
	next.FeedbackState = feedbackState(1)
	addFeedback(t, s, tenantA, 1, entry("b", 3, .5))
	settle(t, s, next)
	checkEqual(t, "unsettled sessions after a correction during the settlement", unsettledSessions(t, s), onlySession1)
	addFeedback(t, s, tenantA, 1, entry("b", 3, .5))
	next = settlement(tenantA, 1, 2)
	next.FeedbackState = feedbackState(1)
	stale := settlement(tenantA, 1, 1)
	stale.FeedbackState = next.FeedbackState
	checkEqual(t, "the store accepts a stale settlement", settle(t, s, stale), []bool{false})
	checkEqual(t, "unsettled sessions after a stale settlement", unsettledSessions(t, s), onlySession1)
	settle(t, s, next)
	checkEqual(t, "unsettled sessions after a settlement with all corrections", len(unsettledSessions(t, s)), 0)

	// Feedback that arrives during the first settlement, and parked feedback, must also make the session unsettled.
	closing := settlement(tenantA, 2, 0)
	closing.FeedbackState = feedbackState(2)
	addFeedback(t, s, tenantA, 2, entry("a", 1, 1))
	settle(t, s, closing)
	checkEqual(t, "unsettled sessions after feedback during close", unsettledSessions(t, s), []session.UnsettledSession{{Tenant: tenantA, ID: id(2)}})
	must(t, s.Park(t.Context(), tenantB, 7, entry("early", 1, 1)))
	mustGet[map[session.ID]int](t)(s.Unpark(t.Context(), tenantB, map[session.EchoKey]session.ID{7: id(1)}))
	checkEqual(t, "unsettled sessions after parked feedback joined", len(unsettledSessions(t, s)), 2)
	mustGet[bool](t)(s.Forget(t.Context(), tenantA, id(2)))
	checkEqual(t, "unsettled sessions after the deletion", unsettledSessions(t, s), []session.UnsettledSession{{Tenant: tenantB, ID: id(1)}})
}

func testFirstSettlement(t tester, s Store) {
	write(t, s, session.Batch{Rows: []session.Row{row(tenantA, 1, 1)}})
	checkEqual(t, "accepted settlements", settle(t, s, settlement(tenantA, 1, 0, delta("a@1", "n1", 3, 5), delta("a@1", "n1", 3, 6), delta("", "n", 0, -2))), []bool{true})
	checkEqual(t, "settled state", settledState(t, s, tenantA, 1), session.SettledState{Version: 1, Rewarded: true, Tier: 1, AssignmentAtClose: []byte("frozen 1")})
	checkEqual(t, "counters", counters(t, s, tenantA), []trial.Delta{delta("", "n", 0, -2), delta("a@1", "n1", 3, 11)})
	if !mustSession(t, s, tenantA, 1).Closed {
		t.Error("the session is still open after the first settlement, want it closed")
	}
}

// testStaleSettlement tests that the store refuses a settlement that replaces a wrong version, both alone and in a
// batch with other settlements.
func testStaleSettlement(t tester, s Store) {
	settle(t, s, settlement(tenantA, 1, 0, delta("a@1", "n", 0, 1)))
	for _, from := range []int64{0, 2, -1} {
		checkEqual(t, fmt.Sprint("accepted settlement from version ", from), settle(t, s, settlement(tenantA, 1, from, delta("a@1", "n", 0, 100))), []bool{false})
	}
	checkEqual(t, "version", settledState(t, s, tenantA, 1).Version, int64(1))
	checkEqual(t, "accepted settlements around a stale settlement", settle(t, s, settlement(tenantA, 2, 0, delta("a@1", "n", 0, 10)), settlement(tenantA, 1, 0, delta("a@1", "n", 0, 100)),
		settlement(tenantA, 1, 1, delta("a@1", "n", 0, 1000))), []bool{true, false, true})
	checkEqual(t, "counters", counters(t, s, tenantA), []trial.Delta{delta("a@1", "n", 0, 1011)})
}

func testConsecutiveSettlements(t tester, s Store) {
	checkEqual(t, "accepted settlements", settle(t, s, settlement(tenantA, 1, 0, delta("a@1", "n", 0, 1)), settlement(tenantA, 1, 1, delta("a@1", "n", 0, 10)),
		settlement(tenantA, 1, 1, delta("a@1", "n", 0, 100))), []bool{true, true, false})
	checkEqual(t, "settled state", settledState(t, s, tenantA, 1), session.SettledState{Version: 2, Rewarded: true, Reward: 1, Tier: 1, AssignmentAtClose: []byte("frozen 1")})
	checkEqual(t, "counters", counters(t, s, tenantA), []trial.Delta{delta("a@1", "n", 0, 11)})
}

func testCountersReturnToZero(t tester, s Store) {
	settle(t, s, settlement(tenantA, 1, 0, delta("a@1", "n", 0, 1), delta("b@1", "n", 0, 4), delta("a@1", "s1", 9, -math.MaxInt64)))
	settle(t, s, settlement(tenantA, 2, 0, delta("b@1", "n", 0, 5)))
	settle(t, s, settlement(tenantA, 1, 1, delta("a@1", "n", 0, -1), delta("b@1", "n", 0, -4), delta("a@1", "s1", 9, math.MaxInt64)))
	checkEqual(t, "counters", counters(t, s, tenantA), []trial.Delta{delta("b@1", "n", 0, 5)})
}

func testCounterOrder(t tester, s Store) {
	settle(t, s, settlement(tenantA, 1, 0, delta("b@1", "n", 0, 1), delta("a@1", "z", 5, 2), delta("x:cat", "cn", 0, 3), delta("", "N1", 0, 4),
		delta("a@1", "z", -1, 5), delta("a@1", "n1", 7, 6), delta("a@1", "z", 40, 7)))
	checkEqual(t, "counters", counters(t, s, tenantA), []trial.Delta{
		delta("", "N1", 0, 4), delta("a@1", "n1", 7, 6), delta("a@1", "z", -1, 5), delta("a@1", "z", 5, 2), delta("a@1", "z", 40, 7),
		delta("b@1", "n", 0, 1), delta("x:cat", "cn", 0, 3),
	})
}

func testSettleContext(t tester, s Store) {
	if _, err := s.Settle(canceledContext(t), []session.Settlement{settlement(tenantA, 1, 0, delta("a@1", "n", 0, 1))}); !isContextError(err) {
		t.Errorf("Settle(canceled context): got error %v, want the context's error", err)
	}
	checkEqual(t, "settled state", settledState(t, s, tenantA, 1), session.SettledState{})
	checkEqual(t, "counters", len(counters(t, s, tenantA)), 0)
}

// testSettlementOrder tests that the counters do not depend on the order of the settlements, nor on whether they arrive
// in one batch or two.
func testSettlementOrder(s Store) func(*rapid.T) {
	n := 0
	return func(rt *rapid.T) {
		n++
		tenant1, tenant2 := fmt.Sprint("a", n), fmt.Sprint("b", n)
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
		settleInOrder := func(tenant string, order []int, cut int) {
			var steps []session.Settlement
			for _, i := range order {
				steps = append(steps, settlement(tenant, n*100+i, 0, list[i]...))
			}
			settle(rt, s, steps[:cut]...)
			settle(rt, s, steps[cut:]...)
		}
		settleInOrder(tenant1, order, rapid.IntRange(0, len(list)).Draw(rt, "cut"))
		settleInOrder(tenant2, rapid.Permutation(order).Draw(rt, "order"), rapid.IntRange(0, len(list)).Draw(rt, "other cut"))
		checkEqual(rt, "counters", counters(rt, s, tenant2), counters(rt, s, tenant1))
	}
}
