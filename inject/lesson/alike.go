package lesson

import (
	"slices"
	"strings"
)

// PossibleDuplicates returns the lessons that might duplicate l, sorted by slug. Such a lesson has a similar title, can
// match for the same agent, and has at least half of the triggers of the shorter trigger list in common with l. Neither
// of the two lessons supersedes the other.
func (b *Book) PossibleDuplicates(l *Lesson) (out []*Lesson) {
	keys, ownClaim, index := triggerKeys(l), newClaim(l), b.triggerIndex()
	shared := map[*claim]int{}
	for _, key := range keys {
		for _, other := range index[key] {
			shared[other]++
		}
	}
	for other, n := range shared {
		x := other.lesson
		if x.Slug != l.Slug && 2*n >= min(len(keys), len(triggerKeys(x))) && ownClaim.resembles(other) && sameAudience(l, x) &&
			!slices.Contains(l.Supersedes, x.Slug) && !slices.Contains(x.Supersedes, l.Slug) {
			out = append(out, x)
		}
	}
	slices.SortFunc(out, func(x, y *Lesson) int { return strings.Compare(x.Slug, y.Slug) })
	return out
}

// resembles reports whether two titles give the same advice, because they are equal, or because the longer title has
// half of the shorter title's words. A title that forbids an action does not resemble one that recommends it.
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
