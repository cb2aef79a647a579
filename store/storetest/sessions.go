package storetest

import (
	"bytes"
	"time"

	"pgregory.net/rapid"

	"precept/internal/session"
)

func sessionCases() map[string]func(tester, Store) {
	return map[string]func(tester, Store){
		"unknown session is not found": func(t tester, s Store) {
			checkNoSession(t, s, tenantA, 1)
		},
		"row is returned as written": func(t tester, s Store) {
			r := row(tenantA, 1, 5)
			write(t, s, session.Batch{Rows: []session.Row{r}})
			checkEqual(t, "row", mustSession(t, s, tenantA, 1), r)
		},
		"zero times and empty data are kept": func(t tester, s Store) {
			write(t, s, session.Batch{Rows: []session.Row{{Tenant: tenantA, ID: id(1)}}})
			r := mustSession(t, s, tenantA, 1)
			if !r.Started.IsZero() || !r.Seen.IsZero() || len(r.Data) != 0 || r.Closed {
				t.Errorf("stored row: got %+v, want zero times, no data and Closed = false", r)
			}
		},
		"binary data is kept": func(t tester, s Store) {
			r := row(tenantA, 1, 1)
			r.Data = []byte("\x00\xff'\";--\r\n")
			write(t, s, session.Batch{Rows: []session.Row{r}})
			checkEqual(t, "row", mustSession(t, s, tenantA, 1), r)
		},
		"row with the later Seen wins":                       testNewerRowWins,
		"closed session stays closed":                        testClosedSessionStaysClosed,
		"row replaces the stand-in":                          testRowReplacesStandIn,
		"tenants are separate":                               testTenantsAreSeparate,
		"due sessions are listed oldest first":               testDueOrder,
		"each due session is on one page":                    testDuePages,
		"DueSessions omits closed sessions":                  testDueOmitsClosed,
		"due session with feedback is not listed as unrated": testDueUnrated,
		"calls with a canceled context return errors":        testSessionContext,
		"empty batch changes nothing":                        func(t tester, s Store) { write(t, s, session.Batch{}); checkNoSession(t, s, tenantA, 1) },
		"tenant names may have any bytes":                    testTenantNames,
		"run's row is stored as a session": func(t tester, s Store) {
			run := row(tenantA, 2, 2)
			run.IsUnit = true
			write(t, s, session.Batch{Rows: []session.Row{row(tenantA, 1, 1), run, row(tenantB, 3, 3)}})
			run.IsUnit = false // Session does not return IsUnit
			for _, want := range []session.Row{row(tenantA, 1, 1), run} {
				got, ok, err := s.Session(t.Context(), tenantA, want.ID)
				must(t, err)
				checkEqual(t, "row found", ok, true)
				checkEqual(t, "row", got, want)
			}
			checkEqual(t, "tenant B's row", mustSession(t, s, tenantB, 3), row(tenantB, 3, 3))
		},
		"newest row in a batch wins": func(t tester, s Store) {
			write(t, s, session.Batch{Rows: []session.Row{row(tenantA, 1, 2), row(tenantA, 1, 3), row(tenantA, 1, 1)}})
			checkEqual(t, "row", mustSession(t, s, tenantA, 1), row(tenantA, 1, 3))
			checkEqual(t, "sessions", stats(t, s)["sessions"], int64(1))
		},
	}
}

func mustSession(t tester, s Store, tenant string, n int) session.Row {
	t.Helper()
	r, ok, err := s.Session(t.Context(), tenant, id(n))
	if err != nil || !ok {
		t.Fatalf("session %d of tenant %s: got found = %v, error %v, want found = true and no error", n, tenant, ok, err)
	}
	return r
}

func checkNoSession(t tester, s Store, tenant string, n int) {
	t.Helper()
	if r, ok, err := s.Session(t.Context(), tenant, id(n)); ok || err != nil {
		t.Errorf("Session(%s, %d): got %+v, found = %v, error %v, want found = false and no error", tenant, n, r, ok, err)
	}
}

// testNewerRowWins tests that a new row replaces the stored row unless Seen is later in the stored row.
func testNewerRowWins(t tester, s Store) {
	for _, seen := range []int{5, 4, 6, 6, 2} {
		write(t, s, session.Batch{Rows: []session.Row{row(tenantA, 1, seen)}})
	}
	checkEqual(t, "row", mustSession(t, s, tenantA, 1), row(tenantA, 1, 6))
	again := row(tenantA, 1, 6)
	again.Data = []byte(`{"again":1}`)
	again.Started = atMinute(0)
	write(t, s, session.Batch{Rows: []session.Row{again}})
	checkEqual(t, "row after a second row with the same Seen", mustSession(t, s, tenantA, 1), again)
}

func testClosedSessionStaysClosed(t tester, s Store) {
	closed := row(tenantA, 1, 5)
	closed.Closed = true
	write(t, s, session.Batch{Rows: []session.Row{closed}})
	want := row(tenantA, 1, 7)
	write(t, s, session.Batch{Rows: []session.Row{want}})
	want.Closed = true
	checkEqual(t, "row after a later open row", mustSession(t, s, tenantA, 1), want)

	write(t, s, session.Batch{Rows: []session.Row{row(tenantA, 2, 9)}})
	late := row(tenantA, 2, 3)
	late.Closed = true
	write(t, s, session.Batch{Rows: []session.Row{late}})
	want = row(tenantA, 2, 9)
	want.Closed = true
	checkEqual(t, "row after an earlier closed row", mustSession(t, s, tenantA, 2), want)
}

func testTenantsAreSeparate(t tester, s Store) {
	write(t, s, session.Batch{Rows: []session.Row{row(tenantA, 1, 5)}})
	checkNoSession(t, s, tenantB, 1)
	write(t, s, session.Batch{Rows: []session.Row{row(tenantB, 1, 2)}})
	checkEqual(t, "tenant A's row", mustSession(t, s, tenantA, 1), row(tenantA, 1, 5))
	checkEqual(t, "tenant B's row", mustSession(t, s, tenantB, 1), row(tenantB, 1, 2))
}

func testTenantNames(t tester, s Store) {
	names := []string{"", "a", "A", "a ", "a:b", "{a}", "a*", "a\x00b", "ä", "\xff\xfe", "' OR '1'='1", "../../etc"}
	for i, name := range names {
		write(t, s, session.Batch{Rows: []session.Row{row(name, 1, i)}})
	}
	for i, name := range names {
		if r := mustSession(t, s, name, 1); !r.Seen.Equal(atMinute(i)) || r.Tenant != name {
			t.Errorf("row of tenant %q: got %+v, want this tenant and Seen = %v", name, r, atMinute(i))
		}
	}
	checkEqual(t, "tenants", len(mustGet[[]string](t)(s.Tenants(t.Context()))), len(names))
}

// dueSessions returns the due rows. It sets Unrated to false in each row, because not every store sets Unrated.
func dueSessions(t tester, s Store, before time.Time, after session.Row, limit int) []session.Row {
	t.Helper()
	rows := mustGet[[]session.Row](t)(s.DueSessions(t.Context(), before, after, limit))
	for i := range rows {
		rows[i].Unrated = false
	}
	return rows
}

// testDueUnrated tests that DueSessions sets Unrated only for sessions without feedback.
func testDueUnrated(t tester, s Store) {
	write(t, s, session.Batch{Rows: []session.Row{row(tenantA, 1, 1), row(tenantA, 2, 2), row(tenantB, 2, 2)}})
	_ = mustGet[map[session.ID]int](t)(s.AddFeedback(t.Context(), tenantA, feedbackFor(2, entry("a", 1, 1))))
	for _, r := range mustGet[[]session.Row](t)(s.DueSessions(t.Context(), atMinute(9), session.Row{}, 10)) {
		entries, state, err := s.SessionFeedback(t.Context(), r.Tenant, r.ID)
		must(t, err)
		if r.Unrated && (len(entries) > 0 || state != 0) {
			t.Errorf("session %s of tenant %s: got Unrated = true with %d feedback entries and feedback state %d, want Unrated = false", r.ID, r.Tenant, len(entries), state)
		}
	}
}

// testDueOrder tests that DueSessions lists due sessions (open, and old enough to close) in the order of their starts,
// even if a session's row is written again later.
func testDueOrder(t tester, s Store) {
	write(t, s, session.Batch{Rows: []session.Row{row(tenantA, 3, 9), row(tenantA, 1, 2), row(tenantB, 2, 2), row(tenantA, 4, 4)}})
	checkEqual(t, "sessions due before minute 4", dueSessions(t, s, atMinute(4), session.Row{}, 10), []session.Row{row(tenantA, 1, 2), row(tenantB, 2, 2), row(tenantA, 3, 9)})
	checkEqual(t, "sessions due before minute 1", len(dueSessions(t, s, atMinute(1), session.Row{}, 10)), 0)
	checkEqual(t, "sessions with limit 0", len(dueSessions(t, s, atMinute(4), session.Row{}, 0)), 0)
	write(t, s, session.Batch{Rows: []session.Row{row(tenantA, 1, 50)}})
	checkEqual(t, "due sessions after a later row", dueSessions(t, s, atMinute(2), session.Row{}, 10), []session.Row{row(tenantA, 1, 50)})
}

// testDuePages tests that each due session is on exactly one page, even if several sessions have started at the same
// time.
func testDuePages(t tester, s Store) {
	var rows []session.Row
	for n := range 25 {
		for _, tenant := range []string{tenantA, tenantB} {
			r := row(tenant, n, n)
			r.Started = atMinute(n / 10) // 20 sessions with the same start
			rows = append(rows, r)
		}
	}
	write(t, s, session.Batch{Rows: rows})
	var seen []session.Row
	last := session.Row{}
	for {
		page := dueSessions(t, s, atMinute(100), last, 7)
		if len(page) == 0 {
			break
		}
		if len(page) > 7 {
			t.Fatalf("sessions on a page of DueSessions: got %d, want at most 7", len(page))
		}
		for _, r := range page {
			if len(seen) > 0 && !dueBefore(last, r) {
				t.Errorf("order of DueSessions: got session (%v, %x, %s) after session (%v, %x, %s), want sessions ordered by start, id and tenant", r.Started, r.ID, r.Tenant, last.Started, last.ID, last.Tenant)
			}
			seen, last = append(seen, r), r
		}
	}
	checkEqual(t, "sessions on all pages", len(seen), len(rows))
}

func dueBefore(a, b session.Row) bool {
	if !a.Started.Equal(b.Started) {
		return a.Started.Before(b.Started)
	}
	if c := bytes.Compare(a.ID[:], b.ID[:]); c != 0 {
		return c < 0
	}
	return a.Tenant < b.Tenant
}

func testDueOmitsClosed(t tester, s Store) {
	closed := row(tenantA, 1, 1)
	closed.Closed = true
	write(t, s, session.Batch{Rows: []session.Row{closed, row(tenantA, 2, 2), row(tenantA, 3, 3)}})
	checkEqual(t, "accepted settlement", mustGet[[]bool](t)(s.Settle(t.Context(), []session.Settlement{{Tenant: tenantA, ID: id(2)}})), []bool{true})
	checkEqual(t, "due sessions", dueSessions(t, s, atMinute(9), session.Row{}, 10), []session.Row{row(tenantA, 3, 3)})
}

func testSessionContext(t tester, s Store) {
	write(t, s, session.Batch{Rows: []session.Row{row(tenantA, 1, 1)}})
	ctx := canceledContext(t)
	if err := s.Write(ctx, session.Batch{Rows: []session.Row{row(tenantA, 1, 2)}}); !isContextError(err) {
		t.Errorf("Write(canceled context): got error %v, want the context's error", err)
	}
	if _, _, err := s.Session(ctx, tenantA, id(1)); !isContextError(err) {
		t.Errorf("Session(canceled context): got error %v, want the context's error", err)
	}
	if _, err := s.FindEcho(ctx, tenantA, []session.EchoKey{1}); !isContextError(err) {
		t.Errorf("FindEcho(canceled context): got error %v, want the context's error", err)
	}
	if _, err := s.DueSessions(ctx, atMinute(9), session.Row{}, 1); !isContextError(err) {
		t.Errorf("DueSessions(canceled context): got error %v, want the context's error", err)
	}
	checkEqual(t, "row", mustSession(t, s, tenantA, 1), row(tenantA, 1, 1))
}

// testRowReplacesStandIn tests that the row of a session replaces a stand-in, and that a stand-in never replaces a row.
// A stand-in is a temporary row that was written while the session's row could not be read.
func testRowReplacesStandIn(t tester, s Store) {
	standIn := func(n, seen int) session.Row {
		r := row(tenantA, n, seen)
		r.Started, r.StartedOffline, r.Data = atMinute(seen), true, []byte(`{"stand":"in"}`)
		return r
	}
	write(t, s, session.Batch{Rows: []session.Row{row(tenantA, 1, 5)}})
	write(t, s, session.Batch{Rows: []session.Row{standIn(1, 9)}})
	checkEqual(t, "row after a stand-in", mustSession(t, s, tenantA, 1), row(tenantA, 1, 5))

	write(t, s, session.Batch{Rows: []session.Row{standIn(2, 7)}})
	write(t, s, session.Batch{Rows: []session.Row{standIn(2, 9)}})
	checkEqual(t, "the newest stand-in", mustSession(t, s, tenantA, 2), standIn(2, 9))
	checkEqual(t, "due sessions with a stand-in", dueSessions(t, s, atMinute(100), session.Row{}, 10), []session.Row{row(tenantA, 1, 5), standIn(2, 9)})
	write(t, s, session.Batch{Rows: []session.Row{row(tenantA, 2, 5)}})
	checkEqual(t, "the row after the stand-in", mustSession(t, s, tenantA, 2), row(tenantA, 2, 5))
	checkEqual(t, "due sessions after the row", dueSessions(t, s, atMinute(100), session.Row{}, 10), []session.Row{row(tenantA, 1, 5), row(tenantA, 2, 5)})
	write(t, s, session.Batch{Rows: []session.Row{standIn(2, 11)}})
	checkEqual(t, "row after a later stand-in", mustSession(t, s, tenantA, 2), row(tenantA, 2, 5))
}

// testRowOrder tests that the stored row does not depend on the order in which rows are written, or on repeated writes.
func testRowOrder(s Store) func(*rapid.T) {
	n := 0
	return func(rt *rapid.T) {
		n++
		var rows []session.Row
		for i := range rapid.IntRange(1, 6).Draw(rt, "rows") {
			r := row(tenantA, n, i)
			r.Started = atMinute(n)
			r.Closed = rapid.Bool().Draw(rt, "closed")
			r.StartedOffline = rapid.Bool().Draw(rt, "stand-in")
			rows = append(rows, r)
		}
		want := rows[len(rows)-1]
		for _, r := range rows { // the latest row wins, but a stand-in never replaces a row
			if want.StartedOffline && !r.StartedOffline || want.StartedOffline == r.StartedOffline {
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
		checkEqual(rt, "row", mustSession(rt, s, tenantA, n), want)
	}
}
