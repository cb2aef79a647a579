package sample

import (
	"cmp"
	"maps"
	"slices"

	"github.com/google/uuid"
)

func tokens(exchanges []*Exchange) map[string]any {
	var in, cached, written, out int
	for _, e := range exchanges {
		in += max(0, e.Reply.InputTokens)
		cached += max(0, e.Reply.CachedTokens)
		written += e.Reply.Written
		out += max(0, e.Reply.OutputTokens)
	}
	used := map[string]any{"input": in, "cached": cached, "output": out}
	if written > 0 {
		used["cache_write"] = written
	}
	return used
}

const maxEventIDs = 256

func eventIDs(exchanges []*Exchange) []string {
	var ids []string
	for _, e := range exchanges {
		if uuid.Validate(e.ID) == nil && len(ids) < maxEventIDs {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

func collectLessons(exchanges []*Exchange) []Lesson {
	best := map[string]Lesson{}
	for _, e := range exchanges {
		for _, l := range e.Lessons {
			if old, ok := best[l.Slug]; !ok || stateRank(l.State) > stateRank(old.State) {
				best[l.Slug] = l
			}
		}
	}
	return slices.SortedFunc(maps.Values(best), func(a, b Lesson) int { return cmp.Compare(a.Slug, b.Slug) })
}

// stateRank returns a lesson state's rank. The state "matched" and the states of rules file sections have the rank -1.
func stateRank(state string) int {
	return slices.Index([]string{"control", "withheld", "injected"}, state)
}
