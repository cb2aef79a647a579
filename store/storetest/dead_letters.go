package storetest

import (
	"fmt"
	"time"

	"precept/internal/sample"
	"precept/internal/session"
)

// deadLetterCases returns the cases for dead letters (records of sessions and exchanges at which a step panicked), and
// for exchanges without a sample.
func deadLetterCases() map[string]func(tester, Store) {
	return map[string]func(tester, Store){
		"late exchange in a settled session is unsampled": testLateExchange,
		"session with exchanges but no row is due":        testExchangeWithoutRow,
		"ReplacedSamples replaces a session's samples":    testSamplesReplaced,
		"session set aside is not due":                    testSetAsideIsNotDue,
		"session set aside is not listed as unsettled":    testSetAsideIsNotUnsettled,
		"exchange set aside leaves a dead letter":         testExchangeSetAside,
		"dead letters are listed newest first": func(t tester, s Store) {
			var list []session.DeadLetter
			for n := range 3 {
				m := deadLetter(fmt.Sprint("x", n))
				m.At = atMinute([]int{2, 9, 5}[n])
				list = append(list, m)
			}
			list[1].Tenant = tenantB
			must(t, s.SetAside(t.Context(), list))
			got, total, err := s.DeadLetters(t.Context(), 2)
			must(t, err)
			list[1].Tries, list[2].Tries = 1, 1
			checkEqual(t, "dead letters", got, list[1:])
			checkEqual(t, "number of dead letters", total, 3)
		},
		"forgotten session leaves no dead letter": func(t tester, s Store) {
			write(t, s, session.Batch{Rows: []session.Row{row(tenantA, 1, 1)}, Exchanges: []sample.Exchange{exchange(tenantA, 1, 1)}})
			settle(t, s, settlement(tenantA, 1, 0))
			write(t, s, session.Batch{Exchanges: []sample.Exchange{exchange(tenantA, 1, 2)}})
			must(t, s.SetAside(t.Context(), []session.DeadLetter{deadLetter(""), deadLetter("x")}))
			mustGet[bool](t)(s.Forget(t.Context(), tenantA, id(1)))
			checkDeadLetters(t, s)
			checkEqual(t, "unsampled exchanges", countUnsampled(t, s), int64(0))
		},
	}
}

// deadLetter returns the dead letter for an exchange in session 1, or for the session itself if exchange is empty.
func deadLetter(exchange string) session.DeadLetter {
	return session.DeadLetter{Tenant: tenantA, ID: id(1), Exchange: exchange, Step: "samples", Why: "index out of range <7>", At: atMinute(1)}
}

func checkDeadLetters(t tester, s Store, want ...session.DeadLetter) {
	t.Helper()
	list, total, err := s.DeadLetters(t.Context(), 10)
	must(t, err)
	checkEqual(t, "number of dead letters", total, len(want))
	if len(want) > 0 {
		checkEqual(t, "dead letters", list, want)
	}
}

// countUnsampled returns the number of exchanges without a sample. These are late exchanges in settled sessions, and
// exchanges in sessions that are set aside.
func countUnsampled(t tester, s Store) int64 {
	t.Helper()
	return mustGet[int64](t)(s.CountUnsampled(t.Context()))
}

// testLateExchange tests an exchange that arrives after its session was settled. The session must become unsettled, and
// CountUnsampled must count the exchange until the next settlement.
func testLateExchange(t tester, s Store) {
	write(t, s, session.Batch{Rows: []session.Row{row(tenantA, 1, 1)}, Exchanges: []sample.Exchange{exchange(tenantA, 1, 1)}})
	first := settlement(tenantA, 1, 0)
	_, state, err := s.SessionFeedback(t.Context(), tenantA, id(1))
	must(t, err)
	first.FeedbackState = state
	settle(t, s, first)
	checkEqual(t, "unsampled and unsettled after the settlement", []int64{countUnsampled(t, s), int64(len(unsettledSessions(t, s)))}, []int64{0, 0})
	late := session.Batch{Exchanges: []sample.Exchange{exchange(tenantA, 1, 2), exchange(tenantA, 1, 3)}}
	write(t, s, late)
	write(t, s, late)
	checkEqual(t, "late exchanges", countUnsampled(t, s), int64(2))
	checkEqual(t, "unsettled sessions after late exchanges", unsettledSessions(t, s), []session.UnsettledSession{{Tenant: tenantA, ID: id(1)}})
	_, state, err = s.SessionFeedback(t.Context(), tenantA, id(1))
	must(t, err)
	write(t, s, session.Batch{Exchanges: []sample.Exchange{exchange(tenantA, 1, 4)}})
	second := settlement(tenantA, 1, 1)
	second.FeedbackState = state
	settle(t, s, second)
	checkEqual(t, "unsettled sessions after an exchange during the settlement", len(unsettledSessions(t, s)), 1)
	_, state, err = s.SessionFeedback(t.Context(), tenantA, id(1))
	must(t, err)
	last := settlement(tenantA, 1, 2)
	last.FeedbackState = state
	settle(t, s, last)
	checkEqual(t, "unsampled and unsettled after the last settlement", []int64{countUnsampled(t, s), int64(len(unsettledSessions(t, s)))}, []int64{0, 0})
}

// testExchangeWithoutRow tests a session that has exchanges but no row, as after a crash.
func testExchangeWithoutRow(t tester, s Store) {
	write(t, s, session.Batch{Exchanges: []sample.Exchange{exchange(tenantA, 1, 1), exchange(tenantA, 2, 1)}})
	list := dueSessions(t, s, atMinute(60), session.Row{}, 10)
	checkEqual(t, "due sessions", len(list), 2)
	checkEqual(t, "first due session", checkAndClearExchanges(t, list[0], 1), session.Row{Tenant: tenantA, ID: id(1), Started: atMinute(2), Seen: atMinute(2)})
	checkNoSession(t, s, tenantA, 1)
	write(t, s, session.Batch{Rows: []session.Row{row(tenantA, 1, 5)}})
	checkEqual(t, "row after the exchange", mustSession(t, s, tenantA, 1), row(tenantA, 1, 5))
	list = dueSessions(t, s, atMinute(60), session.Row{}, 10)
	checkEqual(t, "due sessions after the row", len(list), 2)
	checkEqual(t, "first due session with a row", checkAndClearExchanges(t, list[0], 1), row(tenantA, 1, 5))
	settle(t, s, settlement(tenantA, 1, 0), settlement(tenantA, 2, 0))
	checkEqual(t, "due sessions after the settlements", len(dueSessions(t, s, atMinute(60), session.Row{}, 10)), 0)
}

// checkAndClearExchanges returns a row with its exchange count set to 0, so that callers can compare the row. It fails
// the test unless the count was want, or 0, because a store need not set the count.
func checkAndClearExchanges(t tester, r session.Row, want int) session.Row {
	if r.Exchanges != 0 {
		checkEqual(t, "exchanges in the session", r.Exchanges, want)
	}
	r.Exchanges = 0
	return r
}

// testSamplesReplaced tests that a batch deletes the earlier samples of the sessions that ReplacedSamples lists, and no
// other samples.
func testSamplesReplaced(t tester, s Store) {
	write(t, s, session.Batch{Samples: []session.StoredSample{storedSample(tenantA, 1, 1), storedSample(tenantA, 1, 2), storedSample(tenantA, 2, 3), storedSample(tenantB, 1, 4)}})
	write(t, s, session.Batch{
		Samples:         []session.StoredSample{storedSample(tenantA, 1, 2), storedSample(tenantA, 1, 5)},
		ReplacedSamples: []session.Ref{{Tenant: tenantA, ID: id(1)}, {Tenant: tenantA, ID: id(9)}, {Tenant: tenantB, ID: id(2)}},
	})
	checkEqual(t, "tenant A's samples", walkSamples(t, s, tenantA, time.Time{}, time.Time{}), []session.StoredSample{storedSample(tenantA, 1, 2), storedSample(tenantA, 2, 3), storedSample(tenantA, 1, 5)})
	checkEqual(t, "tenant B's samples", len(walkSamples(t, s, tenantB, time.Time{}, time.Time{})), 1)
	checkEqual(t, "stored samples", stats(t, s)["samples"], int64(4))
	if _, ok, err := s.SampleSession(t.Context(), tenantA, "sample-default-1"); ok || err != nil {
		t.Errorf("SampleSession(sample that ReplacedSamples has deleted): got found = %v, error %v, want found = false and no error", ok, err)
	}
}

// testSetAsideIsNotDue tests that a session that was set aside after a panic is due again only after Readmit. Readmit
// must omit sessions with too many tries.
func testSetAsideIsNotDue(t tester, s Store) {
	write(t, s, session.Batch{Rows: []session.Row{row(tenantA, 1, 1), row(tenantA, 2, 2)}, Exchanges: []sample.Exchange{exchange(tenantA, 1, 1)}})
	must(t, s.SetAside(t.Context(), []session.DeadLetter{deadLetter("")}))
	first := deadLetter("")
	first.Tries = 1
	checkDeadLetters(t, s, first)
	checkEqual(t, "other due sessions", dueSessions(t, s, atMinute(60), session.Row{}, 10), []session.Row{row(tenantA, 2, 2)})
	checkEqual(t, "unsampled exchanges", countUnsampled(t, s), int64(1))
	write(t, s, session.Batch{Rows: []session.Row{row(tenantA, 1, 9)}})
	checkEqual(t, "due sessions after a later row", len(dueSessions(t, s, atMinute(60), session.Row{}, 10)), 1)
	checkEqual(t, "the later row", mustSession(t, s, tenantA, 1), row(tenantA, 1, 9))
	checkEqual(t, "readmitted sessions", mustGet[int](t)(s.Readmit(t.Context(), 2)), 1)
	checkEqual(t, "due sessions after the readmission", len(dueSessions(t, s, atMinute(60), session.Row{}, 10)), 2)
	checkEqual(t, "unsampled exchanges after the readmission", countUnsampled(t, s), int64(0))
	must(t, s.SetAside(t.Context(), []session.DeadLetter{deadLetter("")}))
	second := deadLetter("")
	second.Tries = 2
	checkDeadLetters(t, s, second)
	checkEqual(t, "readmitted sessions after too many tries", mustGet[int](t)(s.Readmit(t.Context(), 2)), 0)
	checkEqual(t, "due sessions after too many tries", len(dueSessions(t, s, atMinute(60), session.Row{}, 10)), 1)
	settle(t, s, settlement(tenantA, 1, 0))
	checkDeadLetters(t, s)
	checkEqual(t, "unsampled exchanges after the settlement", countUnsampled(t, s), int64(0))
}

func testSetAsideIsNotUnsettled(t tester, s Store) {
	write(t, s, session.Batch{Rows: []session.Row{row(tenantA, 1, 1)}, Exchanges: []sample.Exchange{exchange(tenantA, 1, 1)}})
	first := settlement(tenantA, 1, 0)
	_, state, err := s.SessionFeedback(t.Context(), tenantA, id(1))
	must(t, err)
	first.FeedbackState = state
	settle(t, s, first)
	addFeedback(t, s, tenantA, 1, entry("a", 1, 1))
	must(t, s.SetAside(t.Context(), []session.DeadLetter{deadLetter("")}))
	checkEqual(t, "unsettled sessions set aside", len(unsettledSessions(t, s)), 0)
	checkEqual(t, "unsampled exchanges", countUnsampled(t, s), int64(0))
	checkEqual(t, "readmitted sessions", mustGet[int](t)(s.Readmit(t.Context(), 3)), 1)
	checkEqual(t, "unsettled sessions after the readmission", len(unsettledSessions(t, s)), 1)
}

// testExchangeSetAside tests an exchange that is set aside. Its session must stay due, and Readmit and a settlement
// must keep the dead letter.
func testExchangeSetAside(t tester, s Store) {
	write(t, s, session.Batch{Rows: []session.Row{row(tenantA, 1, 1)}})
	must(t, s.SetAside(t.Context(), []session.DeadLetter{deadLetter("x-1")}))
	want := deadLetter("x-1")
	want.Tries = 1
	checkDeadLetters(t, s, want)
	checkEqual(t, "due sessions with an exchange set aside", len(dueSessions(t, s, atMinute(60), session.Row{}, 10)), 1)
	checkEqual(t, "readmitted exchanges", mustGet[int](t)(s.Readmit(t.Context(), 3)), 0)
	settle(t, s, settlement(tenantA, 1, 0))
	checkDeadLetters(t, s, want)
}
