package storetest

import (
	"bytes"
	"time"

	"pgregory.net/rapid"

	"precept/internal/session"
)

// sessionCases returns the cases of rows and of open sessions.
func sessionCases() map[string]func(tester, Store) {
	return map[string]func(tester, Store){
		"unknown session is not found": func(t tester, s Store) {
			noSession(t, s, us, 1)
		},
		"row is returned as written": func(t tester, s Store) {
			r := row(us, 1, 5)
			write(t, s, session.Batch{Rows: []session.Row{r}})
			equal(t, "row", sessionOf(t, s, us, 1), r)
		},
		"the zero time and empty data survive": func(t tester, s Store) {
			write(t, s, session.Batch{Rows: []session.Row{{Tenant: us, ID: id(1)}}})
			r := sessionOf(t, s, us, 1)
			if !r.Started.IsZero() || !r.Seen.IsZero() || len(r.Data) != 0 || r.Closed {
				t.Errorf("have %+v", r)
			}
		},
		"data is bytes, not text": func(t tester, s Store) {
			r := row(us, 1, 1)
			r.Data = []byte("\x00\xff'\";--\r\n")
			write(t, s, session.Batch{Rows: []session.Row{r}})
			equal(t, "row", sessionOf(t, s, us, 1), r)
		},
		"row with the later Seen wins":       newerSeen,
		"closed session stays closed":        closedStays,
		"row replaces its stand-in":          standIns,
		"tenants are separate":               sessionTenants,
		"due sessions are oldest first":      dueOrder,
		"due continues after the last page":  duePages,
		"due omits closed sessions":          dueClosed,
		"due session with feedback is rated": dueRated,
		"ended context returns its error":    sessionContext,
		"empty batch changes nothing":        func(t tester, s Store) { write(t, s, session.Batch{}); noSession(t, s, us, 1) },
		"tenant names are arbitrary":         oddTenants,
		"row of a run is stored as a session": func(t tester, s Store) {
			run := row(us, 2, 2)
			run.Unit = true
			write(t, s, session.Batch{Rows: []session.Row{row(us, 1, 1), run, row(them, 3, 3)}})
			run.Unit = false // the row of the run is not restored with the flag
			for _, want := range []session.Row{row(us, 1, 1), run} {
				have, ok, err := s.Session(t.Context(), us, want.ID)
				must(t, err)
				equal(t, "there", ok, true)
				equal(t, "row", have, want)
			}
			equal(t, "theirs", sessionOf(t, s, them, 3), row(them, 3, 3))
		},
		"newest row of a batch wins": func(t tester, s Store) {
			write(t, s, session.Batch{Rows: []session.Row{row(us, 1, 2), row(us, 1, 3), row(us, 1, 1)}})
			equal(t, "row", sessionOf(t, s, us, 1), row(us, 1, 3))
			equal(t, "sessions", stats(t, s)["sessions"], int64(1))
		},
	}
}

func sessionOf(t tester, s Store, tenant string, n int) session.Row {
	t.Helper()
	r, ok, err := s.Session(t.Context(), tenant, id(n))
	if err != nil || !ok {
		t.Fatalf("session %d of %s: found %v, error %v", n, tenant, ok, err)
	}
	return r
}

func noSession(t tester, s Store, tenant string, n int) {
	t.Helper()
	if r, ok, err := s.Session(t.Context(), tenant, id(n)); ok || err != nil {
		t.Errorf("session %d of %s: have %+v, %v, %v, want nothing", n, tenant, r, ok, err)
	}
}

func newerSeen(t tester, s Store) {
	for _, seen := range []int{5, 4, 6, 6, 2} {
		write(t, s, session.Batch{Rows: []session.Row{row(us, 1, seen)}})
	}
	equal(t, "row", sessionOf(t, s, us, 1), row(us, 1, 6))
	again := row(us, 1, 6)
	again.Data = []byte(`{"again":1}`)
	again.Started = at(0)
	write(t, s, session.Batch{Rows: []session.Row{again}})
	equal(t, "the same Seen, written later", sessionOf(t, s, us, 1), again)
}

func closedStays(t tester, s Store) {
	closed := row(us, 1, 5)
	closed.Closed = true
	write(t, s, session.Batch{Rows: []session.Row{closed}})
	want := row(us, 1, 7)
	write(t, s, session.Batch{Rows: []session.Row{want}})
	want.Closed = true
	equal(t, "a later open row", sessionOf(t, s, us, 1), want)

	write(t, s, session.Batch{Rows: []session.Row{row(us, 2, 9)}})
	late := row(us, 2, 3)
	late.Closed = true
	write(t, s, session.Batch{Rows: []session.Row{late}})
	want = row(us, 2, 9)
	want.Closed = true
	equal(t, "an earlier closed row", sessionOf(t, s, us, 2), want)
}

func sessionTenants(t tester, s Store) {
	write(t, s, session.Batch{Rows: []session.Row{row(us, 1, 5)}})
	noSession(t, s, them, 1)
	write(t, s, session.Batch{Rows: []session.Row{row(them, 1, 2)}})
	equal(t, "ours", sessionOf(t, s, us, 1), row(us, 1, 5))
	equal(t, "theirs", sessionOf(t, s, them, 1), row(them, 1, 2))
}

func oddTenants(t tester, s Store) {
	names := []string{"", "a", "A", "a ", "a:b", "{a}", "a*", "a\x00b", "ä", "\xff\xfe", "' OR '1'='1", "../../etc"}
	for i, name := range names {
		write(t, s, session.Batch{Rows: []session.Row{row(name, 1, i)}})
	}
	for i, name := range names {
		if r := sessionOf(t, s, name, 1); !r.Seen.Equal(at(i)) || r.Tenant != name {
			t.Errorf("tenant %q: have %+v", name, r)
		}
	}
	equal(t, "tenants", len(got[[]string](t)(s.Tenants(t.Context()))), len(names))
}

// due returns due rows without Unrated, which a store may leave out.
func due(t tester, s Store, before time.Time, after session.Row, limit int) []session.Row {
	t.Helper()
	rows := got[[]session.Row](t)(s.Due(t.Context(), before, after, limit))
	for i := range rows {
		rows[i].Unrated = false
	}
	return rows
}

// dueRated tests that a due session is reported as unrated only without feedback.
func dueRated(t tester, s Store) {
	write(t, s, session.Batch{Rows: []session.Row{row(us, 1, 1), row(us, 2, 2), row(them, 2, 2)}})
	_ = got[map[session.ID]int](t)(s.AddFeedback(t.Context(), us, entriesOf(2, entry("a", 1, 1))))
	for _, r := range got[[]session.Row](t)(s.Due(t.Context(), at(9), session.Row{}, 10)) {
		entries, state, err := s.SessionFeedback(t.Context(), r.Tenant, r.ID)
		must(t, err)
		if r.Unrated && (len(entries) > 0 || state != 0) {
			t.Errorf("session %s of %s is unrated, and has %d entries and state %d", r.ID, r.Tenant, len(entries), state)
		}
	}
}

func dueOrder(t tester, s Store) {
	write(t, s, session.Batch{Rows: []session.Row{row(us, 3, 9), row(us, 1, 2), row(them, 2, 2), row(us, 4, 4)}})
	equal(t, "before 4", due(t, s, at(4), session.Row{}, 10), []session.Row{row(us, 1, 2), row(them, 2, 2), row(us, 3, 9)})
	equal(t, "before 1", len(due(t, s, at(1), session.Row{}, 10)), 0)
	equal(t, "none asked for", len(due(t, s, at(4), session.Row{}, 0)), 0)
	write(t, s, session.Batch{Rows: []session.Row{row(us, 1, 50)}})
	equal(t, "seen again", due(t, s, at(2), session.Row{}, 10), []session.Row{row(us, 1, 50)})
}

func duePages(t tester, s Store) {
	var rows []session.Row
	for n := range 25 {
		for _, tenant := range []string{us, them} {
			r := row(tenant, n, n)
			r.Started = at(n / 10) // many at once
			rows = append(rows, r)
		}
	}
	write(t, s, session.Batch{Rows: rows})
	var seen []session.Row
	last := session.Row{}
	for {
		page := due(t, s, at(100), last, 7)
		if len(page) == 0 {
			break
		}
		if len(page) > 7 {
			t.Fatalf("a page of %d", len(page))
		}
		for _, r := range page {
			if len(seen) > 0 && !less(last, r) {
				t.Errorf("%v %x %s is listed after %v %x %s", r.Started, r.ID, r.Tenant, last.Started, last.ID, last.Tenant)
			}
			seen, last = append(seen, r), r
		}
	}
	equal(t, "sessions over all pages", len(seen), len(rows))
}

func less(a, b session.Row) bool {
	if !a.Started.Equal(b.Started) {
		return a.Started.Before(b.Started)
	}
	if c := bytes.Compare(a.ID[:], b.ID[:]); c != 0 {
		return c < 0
	}
	return a.Tenant < b.Tenant
}

func dueClosed(t tester, s Store) {
	closed := row(us, 1, 1)
	closed.Closed = true
	write(t, s, session.Batch{Rows: []session.Row{closed, row(us, 2, 2), row(us, 3, 3)}})
	equal(t, "settled", got[[]bool](t)(s.Settle(t.Context(), []session.Settlement{{Tenant: us, ID: id(2)}})), []bool{true})
	equal(t, "due", due(t, s, at(9), session.Row{}, 10), []session.Row{row(us, 3, 3)})
}

func sessionContext(t tester, s Store) {
	write(t, s, session.Batch{Rows: []session.Row{row(us, 1, 1)}})
	ctx := ended(t)
	if err := s.Write(ctx, session.Batch{Rows: []session.Row{row(us, 1, 2)}}); !isEnded(err) {
		t.Errorf("Write: %v", err)
	}
	if _, _, err := s.Session(ctx, us, id(1)); !isEnded(err) {
		t.Errorf("Session: %v", err)
	}
	if _, err := s.FindEcho(ctx, us, []session.EchoKey{1}); !isEnded(err) {
		t.Errorf("FindEcho: %v", err)
	}
	if _, err := s.Due(ctx, at(9), session.Row{}, 1); !isEnded(err) {
		t.Errorf("Due: %v", err)
	}
	equal(t, "row", sessionOf(t, s, us, 1), row(us, 1, 1))
}

// standIns tests that a stand-in never replaces the row of its session, and is replaced by the row.
func standIns(t tester, s Store) {
	standIn := func(n, seen int) session.Row {
		r := row(us, n, seen)
		r.Started, r.StandIn, r.Data = at(seen), true, []byte(`{"stand":"in"}`)
		return r
	}
	write(t, s, session.Batch{Rows: []session.Row{row(us, 1, 5)}})
	write(t, s, session.Batch{Rows: []session.Row{standIn(1, 9)}})
	equal(t, "a stand-in after the row", sessionOf(t, s, us, 1), row(us, 1, 5))

	write(t, s, session.Batch{Rows: []session.Row{standIn(2, 7)}})
	write(t, s, session.Batch{Rows: []session.Row{standIn(2, 9)}})
	equal(t, "the newest stand-in", sessionOf(t, s, us, 2), standIn(2, 9))
	equal(t, "due", due(t, s, at(100), session.Row{}, 10), []session.Row{row(us, 1, 5), standIn(2, 9)})
	write(t, s, session.Batch{Rows: []session.Row{row(us, 2, 5)}})
	equal(t, "the row after the stand-in", sessionOf(t, s, us, 2), row(us, 2, 5))
	equal(t, "due after the row", due(t, s, at(100), session.Row{}, 10), []session.Row{row(us, 1, 5), row(us, 2, 5)})
	write(t, s, session.Batch{Rows: []session.Row{standIn(2, 11)}})
	equal(t, "a later stand-in", sessionOf(t, s, us, 2), row(us, 2, 5))
}

// anyRow tests that the rows of a session end in the same row in every order and with every
// repetition.
func anyRow(s Store) func(*rapid.T) {
	n := 0
	return func(rt *rapid.T) {
		n++
		var rows []session.Row
		for i := range rapid.IntRange(1, 6).Draw(rt, "rows") {
			r := row(us, n, i)
			r.Started = at(n)
			r.Closed = rapid.Bool().Draw(rt, "closed")
			r.StandIn = rapid.Bool().Draw(rt, "stand-in")
			rows = append(rows, r)
		}
		want := rows[len(rows)-1]
		for _, r := range rows {
			if want.StandIn && !r.StandIn || want.StandIn == r.StandIn {
				closed := want.Closed
				want = r
				want.Closed = closed
			}
			want.Closed = want.Closed || r.Closed
		}
		rows = append(rows, rapid.SliceOf(rapid.SampledFrom(rows)).Draw(rt, "repeated")...)
		for _, r := range rapid.Permutation(rows).Draw(rt, "order") {
			write(rt, s, session.Batch{Rows: []session.Row{r}})
		}
		equal(rt, "row", sessionOf(rt, s, us, n), want)
	}
}
