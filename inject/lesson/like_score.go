package lesson

import (
	"iter"
	"math"
	"slices"
)

// maxLikeWork is the maximum number of steps for comparing the texts of one turn with the lessons. A step is a visited
// part of a lesson or a byte of text. All steps together take a few milliseconds.
const maxLikeWork = 1 << 17

// likeTally sums up the stems that a window (a sentence or a line) shares with a part of a lesson.
type likeTally struct {
	sharedWeight     float32 // sum of the weights of the shared stems
	sharedStems      uint8   // number of shared stems of the window
	hasRelatedPhrase bool    // the window has a rare phrase of several words that is related to a term of the part
	stemBits         uint64  // bit i is set if stem i of the window is in the tally
}

// likeScratch is the reusable memory of comparisons.
type likeScratch struct {
	budget  int         // remaining steps of maxLikeWork
	tallies []likeTally // by part
	counted []bool      // by number of a term, whether the tallies contain the term
	terms   []int32     // numbers of the counted terms
	cover   []float32   // by lesson, the maximum over its parts: the share of the part's stems that the window contains, times the weight of the part
	parts   []int32     // parts with a shared stem
	lessons []int32     // lessons with a shared stem
	scores  []likeScore
}

func (x *likeIndex) newScratch() *likeScratch {
	return &likeScratch{tallies: make([]likeTally, len(x.parts)), counted: make([]bool, len(x.terms)), cover: make([]float32, len(x.lessons))}
}

// likeScore is the likeness of a window and a lesson.
type likeScore struct {
	lesson       int32
	score        float32
	sharedWeight float32 // sum of the weights of the shared stems
	from         textKind
}

// score compares a window, given as its distinct stems, with the lessons. It returns a score for each lesson that
// shares enough stems. The result is valid until the next call with the same scratch.
func (x *likeIndex) score(s *likeScratch, stems []string, from textKind) []likeScore {
	s.parts, s.lessons, s.scores = s.parts[:0], s.lessons[:0], s.scores[:0]
	windowWeight := x.creditStems(s, stems, from)
	for _, p := range s.parts {
		target := &x.parts[p]
		if target.weight == 0 {
			s.lessons = append(s.lessons, target.lesson)
		} else if target.totalWeight > 0 {
			s.cover[target.lesson] = max(s.cover[target.lesson], target.weight*min(1, s.tallies[p].sharedWeight/target.totalWeight))
		}
	}
	for _, l := range s.lessons {
		all := &s.tallies[x.totalParts[from][l]]
		if s.budget >= 0 && x.suffices(l, all, stems, from) {
			explained := math.Sqrt(float64(min(1, all.sharedWeight/max(windowWeight, 1))))
			s.scores = append(s.scores, likeScore{l, coverWeight*s.cover[l] + explainedWeight*float32(explained), all.sharedWeight, from})
		}
		s.cover[l] = 0
	}
	for _, p := range s.parts {
		s.tallies[p] = likeTally{}
	}
	return s.scores
}

// lessonsSharing yields each lesson that shares stems with a window of the user's words, with the sum of the weights of
// the shared stems.
func (x *likeIndex) lessonsSharing(s *likeScratch, stems []string) iter.Seq2[int32, float32] {
	return func(yield func(int32, float32) bool) {
		s.parts = s.parts[:0]
		x.creditStems(s, stems, fromWords)
		more := true
		for _, p := range s.parts {
			if x.parts[p].weight == 0 && more {
				more = yield(x.parts[p].lesson, s.tallies[p].sharedWeight)
			}
		}
		for _, p := range s.parts {
			s.tallies[p] = likeTally{}
		}
	}
}

// creditStems adds the stems of a window to the tallies of the parts that share them, or that contain a related stem.
// It returns the sum of the weights of all stems of the window.
func (x *likeIndex) creditStems(s *likeScratch, stems []string, from textKind) (windowWeight float32) {
	for i, stem := range stems {
		if t := x.terms[stem]; t != nil && (from == fromWords || isStem(stem)) {
			x.credit(s, t, likeCredit{from: from, stem: i, weight: t.weight, isEqual: isStem(stem) || isPhrase(stem), isPhrase: isPhrase(stem)})
			s.markCounted(t)
		}
	}
	for i, stem := range stems {
		weight := x.weight(stem)
		switch {
		case isStem(stem):
			windowWeight += weight
		case isPhrase(stem) && from == fromWords:
			windowWeight += weight
			for _, w := range related().stems[stem] {
				windowWeight -= x.weight(w)
			}
		}
		if from == fromWords && weight > commonWeight {
			x.creditRelated(s, stem, likeCredit{from: from, stem: i, weight: weight, isPhrase: isPhrase(stem)})
		}
		if s.budget < 0 {
			break
		}
	}
	for _, t := range s.terms {
		s.counted[t] = false
	}
	s.terms = s.terms[:0]
	return windowWeight
}

// creditRelated adds a stem to the tallies of the parts with a related term. It stops when half of maxLikeWork is used,
// so that the other half remains for equal stems.
func (x *likeIndex) creditRelated(s *likeScratch, stem string, c likeCredit) {
	for _, g := range related().groups[stem] {
		for _, t := range x.groups[g] {
			if s.budget < maxLikeWork/2 {
				return
			}
			x.credit(s, t, c)
			s.markCounted(t)
		}
	}
}

// markCounted records that the tallies contain a term.
func (s *likeScratch) markCounted(t *likeTerm) {
	if !s.counted[t.number] {
		s.terms = append(s.terms, t.number)
		s.counted[t.number] = true
	}
}

// weight returns the weight of a stem.
func (x *likeIndex) weight(stem string) float32 {
	if t := x.terms[stem]; t != nil {
		return t.weight
	}
	return x.traffic.information(stem)
}

// likeCredit is a stem of a window, as added to the tallies of parts.
type likeCredit struct {
	from     textKind
	stem     int     // index of the stem in the window
	weight   float32 // weight of the stem
	isEqual  bool    // the parts contain the stem itself; false means that they contain a related term
	isPhrase bool    // the stem is a phrase of several words
}

// credit adds a stem of a window to the tallies of the parts that contain the term t. The term equals the stem or is
// related to it. A total part counts each stem of the window once. Any other part counts each term once, and counts a
// stem without an equal term for one related term only.
func (x *likeIndex) credit(s *likeScratch, t *likeTerm, c likeCredit) {
	if s.budget -= len(t.parts); s.budget < 0 {
		return
	}
	share := float32(relatedWeight)
	if c.isEqual {
		share = 1
	}
	bit := uint64(1) << c.stem
	for _, p := range t.parts {
		target, tally := &x.parts[p], &s.tallies[p]
		if !target.textKinds[c.from] {
			continue
		}
		if tally.stemBits == 0 {
			s.parts = append(s.parts, p)
		}
		first := tally.stemBits&bit == 0
		tally.stemBits |= bit
		switch {
		case target.weight == 0:
			tally.hasRelatedPhrase = tally.hasRelatedPhrase || c.isPhrase && !c.isEqual && c.weight >= rarePhrase
			if first {
				tally.sharedStems++
				tally.sharedWeight += share * min(c.weight, t.weight)
			}
		case c.isEqual, !s.counted[t.number] && (first || c.isPhrase):
			tally.sharedWeight += share * t.weight
		}
	}
}

// suffices reports whether the shared stems are enough for a match. The window must share two stems, the main topic of
// the lesson, or a phrase of several words that is related to a term of the lesson. Each case has its own minimum of
// the sum of weights in likeBounds.
func (x *likeIndex) suffices(l int32, all *likeTally, stems []string, from textKind) bool {
	switch bounds := &boundsByKind[from]; {
	case all.hasRelatedPhrase:
		return all.sharedWeight >= bounds.relatedPhrase
	case all.sharedStems >= 2:
		return all.sharedWeight >= bounds.twoStems
	case all.sharedWeight < bounds.topicOnly:
		return false
	}
	return slices.ContainsFunc(stems, func(stem string) bool {
		t := x.terms[stem]
		return t != nil && slices.Contains(t.topicOf, l)
	})
}

// minScore returns the minimum score for a match in a text with the given number of windows.
func (x *likeIndex) minScore(score *likeScore, windows int) float32 {
	bounds := &boundsByKind[score.from]
	minScore := float32(minLike + bounds.perDoubling*math.Log2(max(1, float64(windows)/freeWindows)))
	if score.sharedWeight >= rareInformation {
		minScore -= bounds.rareDiscount
	}
	return max(x.thresholds[score.lesson], minScore)
}
