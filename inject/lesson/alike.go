package lesson

import (
	"slices"
	"strings"
)

// PossibleDuplicates returns the lessons of the book that may duplicate l, in the order of their slugs. Two lessons are
// alike if they share at least half of the triggers of the lesson with fewer triggers, their titles resemble each
// other, and one agent may see both. Neither lesson may supersede the other.
func (b *Book) PossibleDuplicates(l *Lesson) (out []*Lesson) {
	keys, own, o := triggerKeys(l), newClaim(l), b.overlaps()
	shared := map[*claim]int{}
	for _, key := range keys {
		for _, other := range o[key] {
			shared[other]++
		}
	}
	for other, n := range shared {
		x := other.lesson
		if x.Slug != l.Slug && 2*n >= min(len(keys), len(triggerKeys(x))) && own.resembles(other) && sameAudience(l, x) &&
			!slices.Contains(l.Supersedes, x.Slug) && !slices.Contains(x.Supersedes, l.Slug) {
			out = append(out, x)
		}
	}
	slices.SortFunc(out, func(x, y *Lesson) int { return strings.Compare(x.Slug, y.Slug) })
	return out
}

// resembles reports whether the titles of two lessons give the same advice. The titles must be equal, or the longer
// title must contain half of the words of the shorter title. Lessons with opposite outcomes do not resemble each other,
// nor does a title that forbids an action resemble a title that recommends it.
func (c *claim) resembles(other *claim) bool {
	if c.forbids != other.forbids || opposedOutcomes(c.lesson, other.lesson) {
		return false
	}
	if c.lesson.Title == other.lesson.Title {
		return true
	}
	shared := 0
	for _, w := range c.words {
		if slices.Contains(other.words, w) {
			shared++
		}
	}
	return shared > 0 && 2*shared >= min(len(c.words), len(other.words))
}
