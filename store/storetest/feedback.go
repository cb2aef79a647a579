package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"pgregory.net/rapid"

	"precept/bandit/feedback"
	"precept/internal/session"
)

func feedbackCases() map[string]func(tester, Store) {
	return map[string]func(tester, Store){
		"entry is returned as written": func(t tester, s Store) {
			e := entry("a", 1, 0.25)
			e.Label, e.Rule, e.Turn, e.Source, e.Tier = "good", "tests", 3, "system", 2
			e.Correction, e.Details = json.RawMessage(`{"x":[1,"<"]}`), json.RawMessage(`"why"`)
			checkEqual(t, "added entries", addFeedback(t, s, tenantA, 1, e), 1)
			got := entries(t, s, tenantA, 1)
			if len(got) != 1 || string(got[0].Correction) == "" || !json.Valid(got[0].Details) {
				t.Fatalf("stored feedback: got %+v, want one entry with a correction and valid details", got)
			}
			var v map[string][]any
			if json.Unmarshal(got[0].Correction, &v) != nil || v["x"][1] != "<" {
				t.Errorf("stored correction: got %s, want x[1] = \"<\" in it", got[0].Correction)
			}
			got[0].Correction, got[0].Details, e.Correction, e.Details = nil, nil, nil, nil
			checkEqual(t, "entry without correction and details", got[0], e)
		},
		"unknown session has no feedback": func(t tester, s Store) {
			checkEqual(t, "entries added by an empty call", addFeedback(t, s, tenantA, 1), 0)
			checkEqual(t, "entries", len(entries(t, s, tenantA, 1)), 0)
		},
		"entries are merged by id, in time order": func(t tester, s Store) {
			checkEqual(t, "entries added by the first call", addFeedback(t, s, tenantA, 1, entry("b", 2, 1), entry("c", 1, 0)), 2)
			checkEqual(t, "entries added by the second call", addFeedback(t, s, tenantA, 1, entry("b", 2, 1), entry("a", 2, 0.5)), 1)
			checkEqual(t, "entries", entries(t, s, tenantA, 1), []feedback.Entry{entry("c", 1, 0), entry("a", 2, 0.5), entry("b", 2, 1)})
			checkEqual(t, "stored feedback", stats(t, s)["feedback"], int64(3))
		},
		"latest entry with an id wins": func(t tester, s Store) {
			checkEqual(t, "entries changed by the first version", addFeedback(t, s, tenantA, 1, entry("a", 5, 1)), 1)
			checkEqual(t, "entries changed by an earlier version", addFeedback(t, s, tenantA, 1, entry("a", 4, 0)), 0)
			checkEqual(t, "entries changed by a later version", addFeedback(t, s, tenantA, 1, entry("a", 6, 0.5)), 1)
			checkEqual(t, "entries", entries(t, s, tenantA, 1), []feedback.Entry{entry("a", 6, 0.5)})
			checkEqual(t, "stored feedback", stats(t, s)["feedback"], int64(1))
		},
		"sessions and tenants are separate": func(t tester, s Store) {
			addFeedback(t, s, tenantA, 1, entry("a", 1, 1))
			addFeedback(t, s, tenantA, 2, entry("a", 1, 0))
			addFeedback(t, s, tenantB, 1, entry("a", 1, 0.5))
			checkEqual(t, "session 1's entries", entries(t, s, tenantA, 1), []feedback.Entry{entry("a", 1, 1)})
			checkEqual(t, "session 2's entries", entries(t, s, tenantA, 2), []feedback.Entry{entry("a", 1, 0)})
			checkEqual(t, "tenant B's entries", entries(t, s, tenantB, 1), []feedback.Entry{entry("a", 1, 0.5)})
			checkEqual(t, "entries in tenant B's session 2", len(entries(t, s, tenantB, 2)), 0)
		},
		"entry is found by id": func(t tester, s Store) {
			addFeedback(t, s, tenantA, 1, entry("a", 1, 1), entry("b", 2, 0))
			find := func(tenant string, n int, name string) (feedback.Entry, bool) {
				e, ok, err := s.FeedbackEntry(t.Context(), tenant, id(n), name)
				must(t, err)
				return e, ok
			}
			e, ok := find(tenantA, 1, "b")
			checkEqual(t, "entry found by id", ok, true)
			checkEqual(t, "entry", e, entry("b", 2, 0))
			for name, find := range map[string]func() (feedback.Entry, bool){
				"an unknown id":      func() (feedback.Entry, bool) { return find(tenantA, 1, "c") },
				"an unknown session": func() (feedback.Entry, bool) { return find(tenantA, 2, "a") },
				"another tenant":     func() (feedback.Entry, bool) { return find(tenantB, 1, "a") },
			} {
				_, ok := find()
				checkEqual(t, "entry found for "+name, ok, false)
			}
			if _, _, err := s.FeedbackEntry(canceledContext(t), tenantA, id(1), "a"); !isContextError(err) {
				t.Errorf("FeedbackEntry(canceled context): got error %v, want the context's error", err)
			}
		},
		"entries are added to many sessions at once": func(t tester, s Store) {
			addFeedback(t, s, tenantA, 2, entry("a", 1, 0))
			m := map[session.ID][]feedback.Entry{id(2): {entry("a", 1, 0)}, id(3): nil}
			for n := range 200 {
				m[id(100+n)] = []feedback.Entry{entry("a", n, 1), entry("b", n, 0)}
			}
			changed := mustGet[map[session.ID]int](t)(s.AddFeedback(t.Context(), tenantA, m))
			checkEqual(t, "changed sessions", len(changed), 200)
			checkEqual(t, "entries added to session 150", changed[id(150)], 2)
			checkEqual(t, "session 150's entries", entries(t, s, tenantA, 150), []feedback.Entry{entry("a", 50, 1), entry("b", 50, 0)})
		},
		"invalid entry refuses the whole batch": func(t tester, s Store) {
			bad := entry("b", 1, 1)
			bad.Details = json.RawMessage(`{"x":`)
			if added, err := s.AddFeedback(t.Context(), tenantA, feedbackFor(1, entry("a", 1, 1), bad)); err == nil || len(added) != 0 {
				t.Errorf("AddFeedback(valid and invalid entry): got %v, error %v, want no added entry and an error", added, err)
			}
			checkEqual(t, "entries", len(entries(t, s, tenantA, 1)), 0)
		},
		"entry count per session is limited": func(t tester, s Store) {
			list := make([]feedback.Entry, session.MaxFeedback-1)
			for i := range list {
				list[i] = entry(fmt.Sprint("e", i), i, 1)
			}
			checkEqual(t, "entries added below the limit", addFeedback(t, s, tenantA, 1, list...), len(list))
			m := feedbackFor(1, entry("new", 1, 1), entry("one more", 1, 0), entry("e5", 5, 1), entry("e7", 9000, 0))
			m[id(2)] = []feedback.Entry{entry("b", 1, 1)}
			added, err := s.AddFeedback(t.Context(), tenantA, m)
			checkEqual(t, "error for entries above the limit", err, error(session.FeedbackFull(1)))
			checkEqual(t, "added entries by session", added, map[session.ID]int{id(1): 2, id(2): 1})
			checkEqual(t, "added entries by a repeated post", addFeedback(t, s, tenantA, 1, entry("e5", 5, 1)), 0)
			checkEqual(t, "added corrections", addFeedback(t, s, tenantA, 1, entry("e5", 9001, 0)), 1)
			got := entries(t, s, tenantA, 1)
			checkEqual(t, "entries", len(got), session.MaxFeedback)
			checkEqual(t, "latest entry", got[len(got)-1], entry("e5", 9001, 0))
			checkEqual(t, "stored feedback", stats(t, s)["feedback"], int64(session.MaxFeedback+1))
		},
		"entry size per session is limited": func(t tester, s Store) {
			large := func(id string, minute, size int) feedback.Entry {
				e := entry(id, minute, 1)
				e.Comment = strings.Repeat("x", size)
				return e
			}
			const size = session.MaxFeedbackBytes / 8
			list := make([]feedback.Entry, 7)
			for i := range list {
				list[i] = large(fmt.Sprint("e", i), i, size)
			}
			checkEqual(t, "entries added below the size limit", addFeedback(t, s, tenantA, 1, list...), len(list))
			checkEqual(t, "entries added at the size limit", addFeedback(t, s, tenantA, 1, large("last", 1, size)), 1)
			for _, e := range []feedback.Entry{entry("new", 1, 1), large("e0", 9, size+1)} {
				if _, err := s.AddFeedback(t.Context(), tenantA, feedbackFor(1, e)); !errors.Is(err, session.FeedbackFull(1)) {
					t.Errorf("AddFeedback(entry %s, above the size limit): got error %v, want session.FeedbackFull(1)", e.ID, err)
				}
			}
			checkEqual(t, "entries replaced by a shorter entry", addFeedback(t, s, tenantA, 1, entry("e0", 9, 0)), 1)
			checkEqual(t, "entries added after the replacement", addFeedback(t, s, tenantA, 1, entry("new", 1, 1)), 1)
		},
		"calls with a canceled context return errors": func(t tester, s Store) {
			if _, err := s.AddFeedback(canceledContext(t), tenantA, feedbackFor(1, entry("a", 1, 1))); !isContextError(err) {
				t.Errorf("AddFeedback(canceled context): got error %v, want the context's error", err)
			}
			if _, err := s.Feedback(canceledContext(t), tenantA, id(1)); !isContextError(err) {
				t.Errorf("Feedback(canceled context): got error %v, want the context's error", err)
			}
			checkEqual(t, "entries", len(entries(t, s, tenantA, 1)), 0)
		},
	}
}

// parkingCases returns the cases for parked feedback. This is feedback that waits under an echo key until a session
// with this key is stored.
func parkingCases() map[string]func(tester, Store) {
	type parked = map[session.EchoKey][]feedback.Entry
	park := func(t tester, s Store, tenant string, k session.EchoKey, list ...feedback.Entry) {
		t.Helper()
		for _, e := range list {
			must(t, s.Park(t.Context(), tenant, k, e))
		}
	}
	var unparked atomic.Int64 // number of unparked keys; the feedback of each key joins a new session
	unpark := func(t tester, s Store, tenant string, keys ...session.EchoKey) parked {
		t.Helper()
		out, sessions := parked{}, map[session.EchoKey]session.ID{}
		for _, k := range keys {
			sessions[k] = id(1000 + int(unparked.Add(1)))
		}
		mustGet[map[session.ID]int](t)(s.Unpark(t.Context(), tenant, sessions))
		for k, to := range sessions {
			if list := mustGet[[]feedback.Entry](t)(s.Feedback(t.Context(), tenant, to)); len(list) > 0 {
				out[k] = list
			}
		}
		return out
	}
	return map[string]func(tester, Store){
		"Unpark without parked entries joins nothing": func(t tester, s Store) {
			checkEqual(t, "joined entries", unpark(t, s, tenantA, 1, 2), parked{})
			checkEqual(t, "entries joined without keys", unpark(t, s, tenantA), parked{})
		},
		"parked entries join once, in time order": func(t tester, s Store) {
			park(t, s, tenantA, 7, entry("b", 2, 1), entry("a", 1, 0))
			park(t, s, tenantA, 8, entry("c", 1, 1))
			park(t, s, tenantA, 9, entry("d", 1, 1))
			checkEqual(t, "parked entries", stats(t, s)["parked"], int64(4))
			checkEqual(t, "joined entries", unpark(t, s, tenantA, 8, 7, 6), parked{7: {entry("a", 1, 0), entry("b", 2, 1)}, 8: {entry("c", 1, 1)}})
			checkEqual(t, "entries joined by a second call", unpark(t, s, tenantA, 8, 7), parked{})
			checkEqual(t, "entries still parked", stats(t, s)["parked"], int64(1))
		},
		"latest parked entry with an id wins": func(t tester, s Store) {
			park(t, s, tenantA, 7, entry("a", 5, 1), entry("a", 4, 0), entry("a", 6, 0.5), entry("a", 6, 0.5))
			checkEqual(t, "parked entries", stats(t, s)["parked"], int64(1))
			checkEqual(t, "joined entries", unpark(t, s, tenantA, 7), parked{7: {entry("a", 6, 0.5)}})
		},
		"parked entry is found by id": func(t tester, s Store) {
			park(t, s, tenantA, 7, entry("a", 1, 1), entry("b", 2, 0))
			find := func(tenant string, key session.EchoKey, name string) (feedback.Entry, bool) {
				e, ok, err := s.ParkedEntry(t.Context(), tenant, key, name)
				must(t, err)
				return e, ok
			}
			e, ok := find(tenantA, 7, "a")
			checkEqual(t, "parked entry found by id", ok, true)
			checkEqual(t, "parked entry", e, entry("a", 1, 1))
			unpark(t, s, tenantA, 7)
			park(t, s, tenantA, 8, entry("c", 1, 1))
			for name, find := range map[string]func() (feedback.Entry, bool){
				"a joined id":      func() (feedback.Entry, bool) { return find(tenantA, 7, "a") },
				"another key's id": func() (feedback.Entry, bool) { return find(tenantA, 7, "c") },
				"another tenant":   func() (feedback.Entry, bool) { return find(tenantB, 8, "c") },
			} {
				_, ok := find()
				checkEqual(t, "parked entry found for "+name, ok, false)
			}
		},
		"tenants are separate": func(t tester, s Store) {
			park(t, s, tenantA, 7, entry("a", 1, 1))
			park(t, s, tenantB, 7, entry("b", 1, 1))
			checkEqual(t, "tenant B's joined entries", unpark(t, s, tenantB, 7), parked{7: {entry("b", 1, 1)}})
			checkEqual(t, "tenant A's joined entries", unpark(t, s, tenantA, 7), parked{7: {entry("a", 1, 1)}})
		},
		"parked entries join the session with the key": func(t tester, s Store) {
			park(t, s, tenantA, 7, entry("a", 1, 0), entry("b", 2, 1))
			park(t, s, tenantA, 8, entry("a", 3, 0.5), entry("c", 1, 1))
			park(t, s, tenantA, 9, entry("d", 1, 1))
			park(t, s, tenantB, 7, entry("e", 1, 1))
			addFeedback(t, s, tenantA, 2, entry("d", 1, 1))
			sessions := map[session.EchoKey]session.ID{7: id(1), 8: id(1), 9: id(2), 10: id(3)}
			added := mustGet[map[session.ID]int](t)(s.Unpark(t.Context(), tenantA, sessions))
			checkEqual(t, "sessions with joined entries", len(added), 1) // session 2 already had the entry
			checkEqual(t, "session 1's entries", entries(t, s, tenantA, 1), []feedback.Entry{entry("c", 1, 1), entry("b", 2, 1), entry("a", 3, 0.5)})
			checkEqual(t, "session 2's entries", entries(t, s, tenantA, 2), []feedback.Entry{entry("d", 1, 1)})
			checkEqual(t, "sessions with joined entries after a second call", len(mustGet[map[session.ID]int](t)(s.Unpark(t.Context(), tenantA, sessions))), 0)
			checkEqual(t, "entries joined by a third call", unpark(t, s, tenantA, 7, 8, 9, 10), parked{})
			checkEqual(t, "tenant B's joined entries", unpark(t, s, tenantB, 7), parked{7: {entry("e", 1, 1)}})
		},
		"parked entries per key are limited": func(t tester, s Store) {
			for i := range session.MaxFeedback {
				park(t, s, tenantA, 7, entry(fmt.Sprint("e", i), i, 1))
			}
			if err := s.Park(t.Context(), tenantA, 7, entry("new", 1, 1)); !errors.Is(err, session.ErrParkingFull) {
				t.Errorf("Park(key with the maximum number of entries): got error %v, want session.ErrParkingFull", err)
			}
			park(t, s, tenantA, 7, entry("e5", 9000, 0))
			park(t, s, tenantA, 8, entry("new", 1, 1))
			addFeedback(t, s, tenantA, 1, entry("own", 1, 1))
			added, err := s.Unpark(t.Context(), tenantA, map[session.EchoKey]session.ID{7: id(1), 8: id(2)})
			checkEqual(t, "error for entries above the limit", err, error(session.FeedbackFull(1)))
			checkEqual(t, "joined entries by session", added, map[session.ID]int{id(1): session.MaxFeedback - 1, id(2): 1})
			checkEqual(t, "entries still parked", stats(t, s)["parked"], int64(0))
		},
		"old parked entries are purged": func(t tester, s Store) {
			park(t, s, tenantA, 7, entry("a", 1, 1), entry("b", 3, 1))
			park(t, s, tenantB, 7, entry("c", 2, 1))
			checkEqual(t, "purged entries", mustGet[int](t)(s.PurgeParked(t.Context(), atMinute(3))), 2)
			checkEqual(t, "entries purged by a second call", mustGet[int](t)(s.PurgeParked(t.Context(), atMinute(3))), 0)
			checkEqual(t, "parked entries", stats(t, s)["parked"], int64(1))
			checkEqual(t, "tenant A's joined entries", unpark(t, s, tenantA, 7), parked{7: {entry("b", 3, 1)}})
		},
	}
}

// addFeedback adds feedback to session n, and returns the number of added or changed entries.
func addFeedback(t tester, s Store, tenant string, n int, list ...feedback.Entry) int {
	t.Helper()
	return mustGet[map[session.ID]int](t)(s.AddFeedback(t.Context(), tenant, feedbackFor(n, list...)))[id(n)]
}

func feedbackFor(n int, list ...feedback.Entry) map[session.ID][]feedback.Entry {
	return map[session.ID][]feedback.Entry{id(n): list}
}

func entries(t tester, s Store, tenant string, n int) []feedback.Entry {
	t.Helper()
	return mustGet[[]feedback.Entry](t)(s.Feedback(t.Context(), tenant, id(n)))
}

// testFeedbackOrder tests that the stored feedback does not depend on the order of the entries, nor on whether they
// arrive in one batch or two, nor on whether entries are repeated.
func testFeedbackOrder(s Store) func(*rapid.T) {
	n := 0
	return func(rt *rapid.T) {
		n += 2
		list := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) feedback.Entry {
			return entry(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "id"), rapid.IntRange(1, 3).Draw(rt, "minute"),
				float64(rapid.IntRange(0, 4).Draw(rt, "score"))/4)
		}), 1, 8).Draw(rt, "entries")
		shuffled := rapid.Permutation(append(list, list[0])).Draw(rt, "order")
		for _, e := range list {
			addFeedback(rt, s, tenantA, n, e)
		}
		cut := rapid.IntRange(0, len(shuffled)).Draw(rt, "cut")
		addFeedback(rt, s, tenantA, n+1, shuffled[:cut]...)
		addFeedback(rt, s, tenantA, n+1, shuffled[cut:]...)
		checkEqual(rt, "feedback after a different order and split", entries(rt, s, tenantA, n+1), entries(rt, s, tenantA, n))
	}
}
