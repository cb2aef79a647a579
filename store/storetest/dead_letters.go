package storetest

import (
	"fmt"
	"time"

	"precept/internal/sample"
	"precept/internal/session"
)

// asideCases returns the cases of sessions and exchanges that are set aside.
func asideCases() map[string]func(tester, Store) {
	return map[string]func(tester, Store){
		"late exchange of a settled session is unsampled": lateExchange,
		"exchange without a row is due":                   exchangeWithoutRow,
		"samples of a session are replaced together":      samplesReplaced,
		"session set aside is not due":                    asideIsNotDue,
		"settled session set aside is not unsettled":      asideIsNotUnsettled,
		"exchange set aside leaves a mark":                exchangeAside,
		"marks are listed newest first": func(t tester, s Store) {
			var list []session.DeadLetter
			for n := range 3 {
				m := mark(fmt.Sprint("x", n))
				m.At = at([]int{2, 9, 5}[n])
				list = append(list, m)
			}
			list[1].Tenant = them
			must(t, s.SetAside(t.Context(), list))
			have, total, err := s.DeadLetters(t.Context(), 2)
			must(t, err)
			list[1].Tries, list[2].Tries = 1, 1
			equal(t, "marks", have, list[1:])
			equal(t, "how many marks", total, 3)
		},
		"forgotten session leaves no mark": func(t tester, s Store) {
			write(t, s, session.Batch{Rows: []session.Row{row(us, 1, 1)}, Exchanges: []sample.Exchange{exchange(us, 1, 1)}})
			settle(t, s, step(us, 1, 0))
			write(t, s, session.Batch{Exchanges: []sample.Exchange{exchange(us, 1, 2)}})
			must(t, s.SetAside(t.Context(), []session.DeadLetter{mark(""), mark("x")}))
			got[bool](t)(s.Forget(t.Context(), us, id(1)))
			marks(t, s)
			equal(t, "unsampled", unsampled(t, s), int64(0))
		},
	}
}

func mark(exchange string) session.DeadLetter {
	return session.DeadLetter{Tenant: us, ID: id(1), Exchange: exchange, Step: "samples", Why: "index out of range <7>", At: at(1)}
}

// marks compares all marks.
func marks(t tester, s Store, want ...session.DeadLetter) {
	t.Helper()
	list, total, err := s.DeadLetters(t.Context(), 10)
	must(t, err)
	equal(t, "how many marks", total, len(want))
	if len(want) > 0 {
		equal(t, "marks", list, want)
	}
}

func unsampled(t tester, s Store) int64 {
	t.Helper()
	return got[int64](t)(s.Unsampled(t.Context()))
}

// lateExchange tests that an exchange of a settled session makes the session unsettled, and is
// counted until the next settlement, once if it is written twice.
func lateExchange(t tester, s Store) {
	write(t, s, session.Batch{Rows: []session.Row{row(us, 1, 1)}, Exchanges: []sample.Exchange{exchange(us, 1, 1)}})
	first := step(us, 1, 0)
	_, n, err := s.SessionFeedback(t.Context(), us, id(1))
	must(t, err)
	first.FeedbackState = n
	settle(t, s, first)
	equal(t, "settled", []int64{unsampled(t, s), int64(len(unsettled(t, s)))}, []int64{0, 0})
	late := session.Batch{Exchanges: []sample.Exchange{exchange(us, 1, 2), exchange(us, 1, 3)}}
	write(t, s, late)
	write(t, s, late)
	equal(t, "late ones", unsampled(t, s), int64(2))
	equal(t, "to be settled again", unsettled(t, s), []session.Unsettled{{Tenant: us, ID: id(1)}})
	_, n, err = s.SessionFeedback(t.Context(), us, id(1))
	must(t, err)
	write(t, s, session.Batch{Exchanges: []sample.Exchange{exchange(us, 1, 4)}})
	second := step(us, 1, 1)
	second.FeedbackState = n
	settle(t, s, second)
	equal(t, "an exchange during the settlement", len(unsettled(t, s)), 1)
	_, third, err := s.SessionFeedback(t.Context(), us, id(1))
	must(t, err)
	last := step(us, 1, 2)
	last.FeedbackState = third
	settle(t, s, last)
	equal(t, "all of them", []int64{unsampled(t, s), int64(len(unsettled(t, s)))}, []int64{0, 0})
}

// exchangeWithoutRow tests a crash between an exchange and the row of the session: the session closes like any
// other session and accepts a later row.
func exchangeWithoutRow(t tester, s Store) {
	write(t, s, session.Batch{Exchanges: []sample.Exchange{exchange(us, 1, 1), exchange(us, 2, 1)}})
	list := due(t, s, at(60), session.Row{}, 10)
	equal(t, "due", len(list), 2)
	equal(t, "the first one", uncounted(t, list[0], 1), session.Row{Tenant: us, ID: id(1), Started: at(2), Seen: at(2)})
	noSession(t, s, us, 1)
	write(t, s, session.Batch{Rows: []session.Row{row(us, 1, 5)}})
	equal(t, "its row", sessionOf(t, s, us, 1), row(us, 1, 5))
	list = due(t, s, at(60), session.Row{}, 10)
	equal(t, "due still", len(list), 2)
	equal(t, "with its row", uncounted(t, list[0], 1), row(us, 1, 5))
	settle(t, s, step(us, 1, 0), step(us, 2, 0))
	equal(t, "closed", len(due(t, s, at(60), session.Row{}, 10)), 0)
}

// uncounted returns a due row without the number of exchanges, which a store may leave out.
func uncounted(t tester, r session.Row, exchanges int) session.Row {
	if r.Exchanges != 0 {
		equal(t, "exchanges of the session", r.Exchanges, exchanges)
	}
	r.Exchanges = 0
	return r
}

func samplesReplaced(t tester, s Store) {
	write(t, s, session.Batch{Samples: []session.StoredSample{stored(us, 1, 1), stored(us, 1, 2), stored(us, 2, 3), stored(them, 1, 4)}})
	write(t, s, session.Batch{
		Samples: []session.StoredSample{stored(us, 1, 2), stored(us, 1, 5)},
		Whole:   []session.Ref{{Tenant: us, ID: id(1)}, {Tenant: us, ID: id(9)}, {Tenant: them, ID: id(2)}},
	})
	equal(t, "ours", walkSamples(t, s, us, time.Time{}, time.Time{}), []session.StoredSample{stored(us, 1, 2), stored(us, 2, 3), stored(us, 1, 5)})
	equal(t, "theirs", len(walkSamples(t, s, them, time.Time{}, time.Time{})), 1)
	equal(t, "count", stats(t, s)["samples"], int64(4))
	if _, ok, err := s.SampleSession(t.Context(), us, "sample-default-1"); ok || err != nil {
		t.Errorf("a sample that was built before: %v, %v", ok, err)
	}
}

func asideIsNotDue(t tester, s Store) {
	write(t, s, session.Batch{Rows: []session.Row{row(us, 1, 1), row(us, 2, 2)}, Exchanges: []sample.Exchange{exchange(us, 1, 1)}})
	must(t, s.SetAside(t.Context(), []session.DeadLetter{mark("")}))
	first := mark("")
	first.Tries = 1
	marks(t, s, first)
	equal(t, "the others are due", due(t, s, at(60), session.Row{}, 10), []session.Row{row(us, 2, 2)})
	equal(t, "without a sample", unsampled(t, s), int64(1))
	write(t, s, session.Batch{Rows: []session.Row{row(us, 1, 9)}})
	equal(t, "not due after a later row", len(due(t, s, at(60), session.Row{}, 10)), 1)
	equal(t, "the later row", sessionOf(t, s, us, 1), row(us, 1, 9))
	equal(t, "readmitted", got[int](t)(s.Readmit(t.Context(), 2)), 1)
	equal(t, "due again", len(due(t, s, at(60), session.Row{}, 10)), 2)
	equal(t, "unsampled after the readmission", unsampled(t, s), int64(0))
	must(t, s.SetAside(t.Context(), []session.DeadLetter{mark("")}))
	second := mark("")
	second.Tries = 2
	marks(t, s, second)
	equal(t, "not readmitted again", got[int](t)(s.Readmit(t.Context(), 2)), 0)
	equal(t, "not due", len(due(t, s, at(60), session.Row{}, 10)), 1)
	settle(t, s, step(us, 1, 0))
	marks(t, s)
	equal(t, "unsampled after the settlement", unsampled(t, s), int64(0))
}

func asideIsNotUnsettled(t tester, s Store) {
	write(t, s, session.Batch{Rows: []session.Row{row(us, 1, 1)}, Exchanges: []sample.Exchange{exchange(us, 1, 1)}})
	first := step(us, 1, 0)
	_, n, err := s.SessionFeedback(t.Context(), us, id(1))
	must(t, err)
	first.FeedbackState = n
	settle(t, s, first)
	add(t, s, us, 1, entry("a", 1, 1))
	must(t, s.SetAside(t.Context(), []session.DeadLetter{mark("")}))
	equal(t, "not unsettled", len(unsettled(t, s)), 0)
	equal(t, "its exchange has a sample", unsampled(t, s), int64(0))
	equal(t, "readmitted", got[int](t)(s.Readmit(t.Context(), 3)), 1)
	equal(t, "to be settled", len(unsettled(t, s)), 1)
}

func exchangeAside(t tester, s Store) {
	write(t, s, session.Batch{Rows: []session.Row{row(us, 1, 1)}})
	must(t, s.SetAside(t.Context(), []session.DeadLetter{mark("x-1")}))
	one := mark("x-1")
	one.Tries = 1
	marks(t, s, one)
	equal(t, "its session is due", len(due(t, s, at(60), session.Row{}, 10)), 1)
	equal(t, "it is not tried again", got[int](t)(s.Readmit(t.Context(), 3)), 0)
	settle(t, s, step(us, 1, 0))
	marks(t, s, one)
}
