package distill_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"precept/distill"
)

// The store already holds the maximum number of kinds of failures. A new kind replaces the kind that has not occurred
// for the longest time.
func TestNewFailureReplacesOldestFailure(t *testing.T) {
	f := newFixture(t)
	notes := map[string][]byte{}
	for i := range distill.MaxCases {
		key := fmt.Sprintf("tool|t%04d|it is not available", i)
		last := i + 1
		if i == 0 { // the first failure occurred again
			last = distill.MaxCases + 1
		}
		notes["case|"+key] = raw(map[string]any{"key": key, "tool": fmt.Sprintf("t%04d", i), "sessions": 9, "last": last})
	}
	f.store.(*memoryStore).tenantNotes["default"] = notes
	storeSessions(f, "p", 6,
		call("bash", `{"command":"git push"}`, "fatal: The current branch feature/x has no upstream branch.\nTo push the current branch and set the remote as upstream, use\n\n    git push --set-upstream origin feature/x\n[exit code: 128]"),
		call("bash", `{"command":"git push -u origin feature/x"}`, "done"))
	storeSessions(f, "q", 2, call("find_rooms", `{"rooms":"four"}`, `{"error":"rooms must be an integer: four"}`), call("find_rooms", `{"rooms":"4"}`, `{"found":[]}`))
	sum := f.runDistiller()
	checkEqual(t, "RemovedCases and lesson count", []int{sum.RemovedCases, len(f.slugs())}, []int{2, 2})

	var kept []string
	if err := f.store.EachNote(t.Context(), "default", "case|", func(key string, data []byte) error {
		if data != nil { // nil: the note was deleted
			kept = append(kept, strings.TrimPrefix(key, "case|tool|"))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	has := func(tool string) bool {
		return slices.ContainsFunc(kept, func(k string) bool { return strings.HasPrefix(k, tool+"|") })
	}
	checkEqual(t, "failure count; t0000, t0001, t0002 and t0003 are kept", []any{len(kept), has("t0000"), has("t0001"), has("t0002"), has("t0003")}, []any{distill.MaxCases, true, false, false, true})
	checkEqual(t, "RemovedCases without new sessions", f.runDistiller().RemovedCases, 0)
}
