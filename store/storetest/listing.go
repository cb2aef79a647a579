package storetest

import (
	"errors"

	"precept/internal/sample"
	"precept/internal/session"
)

func listingCases() map[string]func(tester, Store) {
	return map[string]func(tester, Store){
		"sessions are listed newest first in pages": func(t tester, s Store) {
			var b session.Batch
			for n := range 7 {
				b.Rows = append(b.Rows, row(tenantA, n, n), row(tenantB, n, n))
			}
			write(t, s, b)
			first := listSessions(t, s, tenantA, session.ListRange{Limit: 3})
			checkEqual(t, "first page", sessionNumbers(first.List), []int{6, 5, 4})
			write(t, s, session.Batch{Rows: []session.Row{row(tenantA, 7, 7)}}) // a new session must not shift the next page
			second := listSessions(t, s, tenantA, session.ListRange{Limit: 3, After: first.Next})
			checkEqual(t, "second page", sessionNumbers(second.List), []int{3, 2, 1})
			third := listSessions(t, s, tenantA, session.ListRange{Limit: 3, After: second.Next})
			checkEqual(t, "third page", sessionNumbers(third.List), []int{0})
			checkEqual(t, "cursor after the last page", third.Next, "")
			checkEqual(t, "first row", first.List[0].Row, row(tenantA, 6, 6))
			checkEqual(t, "unknown tenant's page", listSessions(t, s, "unknown", session.ListRange{Limit: 3}), session.Page[session.ListedSession]{})
		},
		"page after a full last page is missing or empty": func(t tester, s Store) {
			write(t, s, session.Batch{Rows: []session.Row{row(tenantA, 1, 1), row(tenantA, 2, 2)}})
			p := listSessions(t, s, tenantA, session.ListRange{Limit: 2})
			checkEqual(t, "page", sessionNumbers(p.List), []int{2, 1})
			if p.Next != "" {
				p = listSessions(t, s, tenantA, session.ListRange{Limit: 2, After: p.Next})
				checkEqual(t, "sessions on the next page", len(p.List), 0)
				checkEqual(t, "cursor after the last page", p.Next, "")
			}
		},
		"sessions in a period": func(t tester, s Store) {
			var b session.Batch
			for n := range 9 {
				b.Rows = append(b.Rows, row(tenantA, n, n))
			}
			write(t, s, b)
			within := session.ListRange{Since: atMinute(2), Until: atMinute(6), Limit: 3}
			var got []int
			for {
				p := listSessions(t, s, tenantA, within)
				got = append(got, sessionNumbers(p.List)...)
				within.After = p.Next
				if p.Next == "" {
					break
				}
			}
			checkEqual(t, "sessions in the period", got, []int{5, 4, 3, 2})
		},
		"sessions are listed oldest first in pages": func(t tester, s Store) {
			var b session.Batch
			for n := range 9 {
				b.Rows = append(b.Rows, row(tenantA, n, n), row(tenantB, n, n))
			}
			write(t, s, b)
			within := session.ListRange{Limit: 4, OldestFirst: true}
			first := listSessions(t, s, tenantA, within)
			checkEqual(t, "first page", sessionNumbers(first.List), []int{0, 1, 2, 3})
			// The new row is the newest one, so it must not be on the next page.
			write(t, s, session.Batch{Rows: []session.Row{row(tenantA, 9, 9)}})
			within.After = first.Next
			second := listSessions(t, s, tenantA, within)
			checkEqual(t, "second page", sessionNumbers(second.List), []int{4, 5, 6, 7})
			within.After = second.Next
			third := listSessions(t, s, tenantA, within)
			checkEqual(t, "third page", sessionNumbers(third.List), []int{8, 9})
			checkEqual(t, "cursor after the last page", third.Next, "")
			period := session.ListRange{Since: atMinute(2), Until: atMinute(6), Limit: 9, OldestFirst: true}
			checkEqual(t, "sessions in a period", sessionNumbers(listSessions(t, s, tenantA, period).List), []int{2, 3, 4, 5})
		},
		"session is listed with the settlement": func(t tester, s Store) {
			write(t, s, session.Batch{Rows: []session.Row{row(tenantA, 1, 1), row(tenantA, 2, 2)}})
			to := session.SettledState{Version: 1, Rewarded: true, Reward: 0.75, Tier: 2, AssignmentAtClose: []byte(`{"x":1}`)}
			mustGet[[]bool](t)(s.Settle(t.Context(), []session.Settlement{{Tenant: tenantA, ID: id(1), To: to}}))
			list := listSessions(t, s, tenantA, session.ListRange{Limit: 5}).List
			checkEqual(t, "settled session's settlement", list[1].SettledState, to)
			checkEqual(t, "settled session's Closed", list[1].Row.Closed, true)
			checkEqual(t, "open session's version", list[0].SettledState.Version, int64(0))
		},
		"forgotten session is not listed, and cursors stay valid": func(t tester, s Store) {
			var b session.Batch
			for n := range 4 {
				b.Rows, b.Samples = append(b.Rows, row(tenantA, n, n)), append(b.Samples, storedSample(tenantA, n, n))
			}
			write(t, s, b)
			page := listSessions(t, s, tenantA, session.ListRange{Limit: 2})
			samples := listSamples(t, s, session.ListRange{Limit: 2})
			mustGet[bool](t)(s.Forget(t.Context(), tenantA, id(2)))
			checkEqual(t, "sessions after the cursor", sessionNumbers(listSessions(t, s, tenantA, session.ListRange{Limit: 9, After: page.Next}).List), []int{1, 0})
			checkEqual(t, "all sessions", sessionNumbers(listSessions(t, s, tenantA, session.ListRange{Limit: 9}).List), []int{3, 1, 0})
			checkEqual(t, "samples after the cursor", sampleIDs(listSamples(t, s, session.ListRange{Limit: 9, After: samples.Next}).List), []string{"sample-default-1", "sample-default-0"})
			checkEqual(t, "all samples", sampleIDs(listSamples(t, s, session.ListRange{Limit: 9}).List), []string{"sample-default-3", "sample-default-1", "sample-default-0"})
		},
		"samples are listed newest first in pages": func(t tester, s Store) {
			for n := range 5 {
				write(t, s, session.Batch{Samples: []session.StoredSample{storedSample(tenantA, 1, n), storedSample(tenantB, 1, n)}})
			}
			first := listSamples(t, s, session.ListRange{Limit: 2})
			checkEqual(t, "first page", first.List, []session.StoredSample{storedSample(tenantA, 1, 4), storedSample(tenantA, 1, 3)})
			second := listSamples(t, s, session.ListRange{Limit: 9, After: first.Next})
			checkEqual(t, "second page", sampleIDs(second.List), []string{"sample-default-2", "sample-default-1", "sample-default-0"})
			checkEqual(t, "cursor after the last page", second.Next, "")
			rated := storedSample(tenantA, 1, 4)
			rated.Sample.Feedback = sample.Feedback{Source: "user", Type: "approval", QualityLabel: "good", Details: map[string]any{"rated": true}}
			write(t, s, session.Batch{Samples: []session.StoredSample{rated}})
			checkEqual(t, "samples after a rating", listSamples(t, s, session.ListRange{Limit: 1}).List, []session.StoredSample{rated})
			checkEqual(t, "samples in a period", sampleIDs(listSamples(t, s, session.ListRange{Since: atMinute(1), Until: atMinute(3), Limit: 9}).List), []string{"sample-default-2", "sample-default-1"})
		},
		"invalid cursor is refused": func(t tester, s Store) {
			write(t, s, session.Batch{Rows: []session.Row{row(tenantA, 1, 1)}, Samples: []session.StoredSample{storedSample(tenantA, 1, 1)}})
			for _, cursor := range []string{"x y", "1;2", "-", "'"} {
				if _, err := s.ListSessions(t.Context(), tenantA, session.ListRange{After: cursor, Limit: 1}); !errors.Is(err, session.ErrUnknownPosition) {
					t.Errorf("ListSessions after %q: got error %v, want session.ErrUnknownPosition", cursor, err)
				}
				if _, err := s.ListSamples(t.Context(), tenantA, session.ListRange{After: cursor, Limit: 1}); !errors.Is(err, session.ErrUnknownPosition) {
					t.Errorf("ListSamples after %q: got error %v, want session.ErrUnknownPosition", cursor, err)
				}
			}
		},
		"page size is limited": func(t tester, s Store) {
			var b session.Batch
			for n := range 600 {
				b.Rows, b.Samples = append(b.Rows, row(tenantA, n, n)), append(b.Samples, storedSample(tenantA, n, n))
			}
			write(t, s, b)
			old := session.ListRange{Since: atMinute(1), Until: atMinute(4), Limit: 10} // the sessions in this range are older than all others
			checkEqual(t, "oldest sessions", sessionNumbers(listSessions(t, s, tenantA, old).List), []int{3, 2, 1})
			checkEqual(t, "samples in the oldest sessions", sampleIDs(listSamples(t, s, old).List), []string{"sample-default-3", "sample-default-2", "sample-default-1"})
			total, pages, within := 0, 0, session.ListRange{Limit: 1 << 30}
			for more := true; more; pages++ {
				p := listSessions(t, s, tenantA, within)
				total += len(p.List)
				if len(p.List) > 500 {
					t.Errorf("sessions on a page with a very large limit: got %d, want at most 500", len(p.List))
				}
				within.After, more = p.Next, p.Next != ""
			}
			checkEqual(t, "sessions on all pages", total, 600)
			if pages < 2 {
				t.Errorf("pages with 600 sessions: got %d, want at least 2", pages)
			}
			if _, err := s.ListSessions(canceledContext(t), tenantA, session.ListRange{Limit: 1}); !isContextError(err) {
				t.Errorf("ListSessions(canceled context): got error %v, want the context's error", err)
			}
			checkEqual(t, "sessions in a period without sessions", len(listSessions(t, s, tenantA, session.ListRange{Since: atMinute(5000), Limit: 1}).List), 0)
		},
	}
}

func listSessions(t tester, s Store, tenant string, within session.ListRange) session.Page[session.ListedSession] {
	t.Helper()
	return mustGet[session.Page[session.ListedSession]](t)(s.ListSessions(t.Context(), tenant, within))
}

func listSamples(t tester, s Store, within session.ListRange) session.Page[session.StoredSample] {
	t.Helper()
	return mustGet[session.Page[session.StoredSample]](t)(s.ListSamples(t.Context(), tenantA, within))
}

// sessionNumbers returns the numbers of the listed sessions, which is n for the session with the id id(n).
func sessionNumbers(list []session.ListedSession) []int {
	out := []int{}
	for _, l := range list {
		for n := range 1000 {
			if l.Row.ID == id(n) {
				out = append(out, n)
			}
		}
	}
	return out
}

func sampleIDs(list []session.StoredSample) []string {
	out := []string{}
	for i := range list {
		out = append(out, list[i].Sample.ID)
	}
	return out
}
