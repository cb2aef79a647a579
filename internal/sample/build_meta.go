package sample

import (
	"cmp"
	"maps"
	"slices"

	"github.com/google/uuid"
)

// tokens sums what the provider said, ignoring where it said nothing.
func tokens(of []*Exchange) map[string]any {
	var in, cached, out int
	for _, e := range of {
		in += max(0, e.Reply.InputTokens)
		cached += max(0, e.Reply.CachedTokens)
		out += max(0, e.Reply.OutputTokens)
	}
	return map[string]any{"input": in, "cached": cached, "output": out}
}

// eventIDs are the exchanges that the sample was made of: the way back to the evidence.
func eventIDs(of []*Exchange) []string {
	const most = 256
	var ids []string
	for _, e := range of {
		if uuid.Validate(e.ID) == nil && len(ids) < most {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// lessonsOf lists each lesson once, with the strongest thing that happened to it.
func lessonsOf(of []*Exchange) []Lesson {
	best := map[string]Lesson{}
	for _, e := range of {
		for _, l := range e.Lessons {
			if old, ok := best[l.Slug]; !ok || strength(l.State) > strength(old.State) {
				best[l.Slug] = l
			}
		}
	}
	return slices.SortedFunc(maps.Values(best), func(a, b Lesson) int { return cmp.Compare(a.Slug, b.Slug) })
}

// strength orders what can happen to a lesson: matched alone, -1, says the least.
func strength(state string) int {
	return slices.Index([]string{"control", "withheld", "injected"}, state)
}
