package lesson_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"precept/inject/lesson"
)

// Only an active lesson supersedes another, directly or through a chain of lessons. Lessons in a cycle do not supersede
// each other.
func TestSupersededLessonDoesNotMatch(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(rt, "lessons")
		lessons := make([]*lesson.Lesson, n)
		for i := range lessons {
			l := &lesson.Lesson{Slug: fmt.Sprintf("lesson-%d", i), Trigger: lesson.Trigger{Keywords: []string{"load more"}}}
			l.State = rapid.SampledFrom([]lesson.State{lesson.Active, lesson.Active, lesson.Benched, lesson.Quarantined}).Draw(rt, "state")
			if rapid.IntRange(0, 4).Draw(rt, "expires") == 0 {
				l.ExpiresAt = now
			}
			// The number n names a missing lesson.
			for _, old := range rapid.SliceOfN(rapid.IntRange(0, n), 0, 3).Draw(rt, "supersedes") {
				l.Supersedes = append(l.Supersedes, fmt.Sprintf("lesson-%d", old))
			}
			lessons[i] = l
		}
		book := lesson.NewBook(lessons)
		var reaches func(from, to string, seen map[string]bool) bool
		reaches = func(from, to string, seen map[string]bool) bool {
			l, known := book.Get(from)
			if seen[from] || !known {
				return false
			}
			seen[from] = true
			return slices.ContainsFunc(l.Supersedes, func(old string) bool { return old == to || reaches(old, to, seen) })
		}
		supersedes := func(successor, old string) bool {
			return reaches(successor, old, map[string]bool{}) && !reaches(old, successor, map[string]bool{})
		}
		matches := map[string]bool{}
		for _, h := range book.Match(&lesson.Query{Words: []string{"load more"}, Now: now}) {
			matches[h.Lesson.Slug] = true
		}
		for _, l := range lessons {
			var successors []string
			for _, other := range lessons {
				if supersedes(other.Slug, l.Slug) && other.IsActiveAt(now) {
					successors = append(successors, other.Slug)
				}
			}
			var got []string
			for _, h := range book.Successors(l.Slug, now) {
				got = append(got, h.Slug)
			}
			if slices.Sort(got); !slices.Equal(got, successors) {
				rt.Fatalf("Successors(%s) = %q, want %q", l.Slug, got, successors)
			}
			want := l.State
			switch {
			case !l.State.IsActive():
			case l.ExpiredAt(now):
				want = lesson.Expired
			case len(successors) > 0:
				want = lesson.Superseded
			}
			if got, ok := book.StateAt(l.Slug, now); !ok || got != want {
				rt.Fatalf("StateAt(%s) = %s, want %s", l.Slug, got, want)
			}
			if matches[l.Slug] != want.IsActive() {
				rt.Fatalf("%s in state %s: match = %v, want %v", l.Slug, want, matches[l.Slug], want.IsActive())
			}
		}
	})
}
