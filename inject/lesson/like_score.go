package lesson

import (
	"iter"
	"math"
	"slices"
)

// maxLikeWork is the maximum number of steps in one turn, which are visited lesson parts plus text bytes. This many
// steps take a few milliseconds.
const maxLikeWork = 1 << 17

// likeTally sums up the stems that a window and a lesson part share.
type likeTally struct {
	sharedWeight     float32
	sharedStems      uint8  // shared stems in the window
	hasRelatedPhrase bool   // the window has a rare phrase that is related to a term in the part
	stemBits         uint64 // bit i is set if the window's stem i is in the tally
}

// likeScratch is reusable memory for scoring windows.
type likeScratch struct {
	budget  int         // remaining part of maxLikeWork
	tallies []likeTally // by part
	counted []bool      // by term number: whether the term is in the tallies
	terms   []int32     // numbers of counted terms
	cover   []float32   // by lesson: the largest product of a part's weight and the part's share of stems in the window
	parts   []int32     // parts with a shared stem
	lessons []int32     // lessons with a shared stem
	scores  []likeScore
}

func (x *likeIndex) newScratch() *likeScratch {
	return &likeScratch{tallies: make([]likeTally, len(x.parts)), counted: make([]bool, len(x.terms)), cover: make([]float32, len(x.lessons))}
}

type likeScore struct {
	lesson       int32
	score        float32
	sharedWeight float32
	from         textKind
}

// score compares a window's distinct stems with the lessons, and returns those with enough shared stems. The result is
// valid until the next call with s.
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

// lessonsSharing yields the lessons that share stems with a window in the user's text, each with the shared weight.
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

// creditStems adds a window's stems to the tallies of the parts that have an equal or related stem, and returns the
// window's weight.
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

// creditRelated credits a stem to related terms. It stops after half of maxLikeWork, to leave the other half for equal
// stems.
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

func (s *likeScratch) markCounted(t *likeTerm) {
	if !s.counted[t.number] {
		s.terms = append(s.terms, t.number)
		s.counted[t.number] = true
	}
}

func (x *likeIndex) weight(stem string) float32 {
	if t := x.terms[stem]; t != nil {
		return t.weight
	}
	return x.traffic.information(stem)
}

// likeCredit is a window's stem while it is added to the tallies.
type likeCredit struct {
	from     textKind
	stem     int // index in the window
	weight   float32
	isEqual  bool
	isPhrase bool // the stem is a phrase of several words
}

// credit adds a window's stem to the parts with the equal or related term t. A total part (see likePart) counts each of
// the window's stems once. Other parts count each of their terms once, and a single-word stem that has only related
// terms in the part counts for the first of them.
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

// suffices reports whether the shared stems are enough for a score: two stems, the main topic, or a phrase related to a
// term in the lesson.
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
		return t != nil && slices.Contains(t.topicLessons, l)
	})
}

// minScore returns the lowest score for a match in a text with this many windows.
func (x *likeIndex) minScore(score *likeScore, windows int) float32 {
	bounds := &boundsByKind[score.from]
	minScore := float32(minLike + bounds.perDoubling*math.Log2(max(1, float64(windows)/freeWindows)))
	if score.sharedWeight >= rareInformation {
		minScore -= bounds.rareDiscount
	}
	return max(x.thresholds[score.lesson], minScore)
}
