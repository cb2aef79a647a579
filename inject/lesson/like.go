package lesson

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"precept/detect"
	"precept/inject/request"
)

// Likeness is the resemblance in words of a lesson and a window. A window is a sentence or a line of a text. A stem is
// a word without its inflection, and its weight is higher the fewer captured sessions contain it (Traffic.information).
// A part of a lesson is one of its phrases, its title or its description. The score of a window combines the share of a
// part's stems that the window contains with the share of the window's stems that the lesson contains.
//
// The weights and limits of a score were chosen by measurements on testdata/likeness.tsv.
const (
	titleWeight       = 0.85 // weight of the title, relative to a phrase
	descriptionWeight = 0.75 // weight of the description, relative to a phrase
	singleWeight      = 0.6  // factor for a part with only one stem
	coverWeight       = 0.6  // weight in the score of the share of the best part's stems that the window contains
	explainedWeight   = 0.4  // weight in the score of the share of the window's stems that the lesson contains
	relatedWeight     = 0.65 // weight of a related stem, relative to an equal stem
	commonWeight      = 2.31 // stems with at most this weight are common, and have no related stems

	minLike         = 0.55 // minimum score of a match, before the corrections by likeBounds
	rareInformation = 4.3  // minimum sum of the weights of the shared stems for rareDiscount to apply
	rarePhrase      = 4.5  // minimum weight of a related phrase that suffices alone; a phrase in 1% of the sessions has this weight
	freeWindows     = 4    // maximum number of windows for which perDoubling adds nothing
)

// likeBounds holds the minimum weights of the shared stems for a match, and corrections of minLike, for one kind of
// text.
type likeBounds struct {
	twoStems      float32 // minimum sum of weights if at least two stems are shared
	topicOnly     float32 // minimum sum of weights if only the main topic of the lesson is shared
	relatedPhrase float32 // minimum sum of weights if a related phrase of several words is shared
	rareDiscount  float32 // subtracted from minLike if the sum of weights reaches rareInformation
	perDoubling   float64 // added to minLike for each doubling of the number of windows of a text above freeWindows
}

//nolint:gochecknoglobals // immutable
var boundsOf = [sources]likeBounds{
	fromWords:  {twoStems: 6, topicOnly: 5, relatedPhrase: 1.5, rareDiscount: 0.1, perDoubling: 0.06},
	fromErrors: {twoStems: 5, topicOnly: 2.5, rareDiscount: 0.07, perDoubling: 0.04},
}

// source is the kind of text that a window is cut from.
type source uint8

const (
	fromWords source = iota
	fromErrors
	sources // number of kinds
)

// likePart is a phrase, the title or the description of a lesson. In addition, each lesson has a total part for each
// kind of text, with the stems of all parts that are compared with this kind.
type likePart struct {
	lesson      int32         // index in likeIndex.lessons
	in          [sources]bool // kinds of texts that are compared with the part
	weight      float32       // weight of the part, relative to a phrase; 0 for a total part
	totalWeight float32       // sum of the weights of the stems
}

// likeTerm is a stem, phrase or shape (see relatedTable) that occurs in the lessons.
type likeTerm struct {
	number  int32 // index in likeScratch.counted
	weight  float32
	parts   []int32 // indices in likeIndex.parts of the parts with the term
	topicOf []int32 // indices of the lessons whose main topic is this term
}

// likeIndex finds the lessons that share stems with a window, and scores their likeness. A likeIndex is immutable,
// apart from its pool.
type likeIndex struct {
	traffic    *Traffic
	terms      map[string]*likeTerm
	groups     [][]*likeTerm // by group of related.txt, its terms that occur in the lessons
	parts      []likePart
	totalParts [sources][]int32 // by lesson, the index of its total part
	lessons    []*Lesson
	thresholds []float32                // by lesson, the minimum score that the traffic demands
	kinds      map[detect.Kind][]int32  // lessons without error kinds, by the kinds of their error patterns
	about      map[int32][]string       // for the lessons in kinds, the stems of title, description and keywords
	requests   map[request.Kind][]int32 // lessons without kinds of requests, by the kinds of their keywords
	scratch    sync.Pool                // pool of *likeScratch
}

// newLikeIndex compiles lessons, without thresholds.
func newLikeIndex(lessons []*Lesson, traffic *Traffic) *likeIndex {
	x := &likeIndex{traffic: traffic, terms: map[string]*likeTerm{}, lessons: lessons, kinds: map[detect.Kind][]int32{}, about: map[int32][]string{}, requests: map[request.Kind][]int32{}}
	x.groups = make([][]*likeTerm, related().size)
	for i, l := range lessons {
		x.compile(int32(i), l) //nolint:gosec // a lesson count
	}
	x.scratch.New = func() any { return x.newScratch() }
	return x
}

// compile adds a lesson to the index. As in an exact match, error patterns are compared with tool errors only.
func (x *likeIndex) compile(lesson int32, l *Lesson) {
	var all [sources][]string
	phrases, inPhrases := 0, map[string]int{}
	add := func(weight float32, text string, in [sources]bool) []string {
		stems := sortedSet(stemsOf(text))
		if countFunc(stems, isStem) == 1 {
			weight *= singleWeight
		}
		for from := range sources {
			if in[from] {
				all[from] = append(all[from], stems...)
			}
		}
		x.add(likePart{lesson: lesson, in: in, weight: weight}, stems)
		return stems
	}
	everywhere, inErrors := [sources]bool{true, true}, [sources]bool{fromErrors: true}
	for i, p := range slices.Concat(l.Trigger.Keywords, l.Trigger.ErrorPatterns) {
		in := everywhere
		if i >= len(l.Trigger.Keywords) {
			in = inErrors
		}
		phrases++
		for _, s := range add(1, p, in) {
			if isStem(s) {
				inPhrases[s]++
			}
		}
	}
	about := everywhere
	if l.aboutErrors() {
		about = inErrors
	}
	for _, s := range sortedSet(slices.Concat(add(titleWeight, l.Title, about), add(descriptionWeight, l.Trigger.Description, about))) {
		if inPhrases[s] > 0 { // the title or the description confirms the topic
			inPhrases[s] += 2
		}
	}
	for _, k := range patternKinds(l) {
		x.kinds[k] = append(x.kinds[k], lesson)
		x.about[lesson] = sortedSet(stemsOf(strings.Join(append([]string{l.Title, l.Trigger.Description}, l.Trigger.Keywords...), "\n")))
	}
	for _, k := range phraseKinds(l) {
		x.requests[k] = append(x.requests[k], lesson)
	}
	for from := range sources {
		var in [sources]bool
		in[from] = true
		x.totalParts[from] = append(x.totalParts[from], int32(len(x.parts))) //nolint:gosec // a count of phrases
		x.add(likePart{lesson: lesson, in: in}, sortedSet(all[from]))
	}
	for s, n := range inPhrases {
		if n >= 3 && 5*n >= 2*phrases { // a main topic is a stem in at least two fifths of the phrases
			x.terms[s].topicOf = append(x.terms[s].topicOf, lesson)
		}
	}
}

// add adds a part with its stems to the index.
func (x *likeIndex) add(p likePart, stems []string) {
	for _, s := range stems {
		t := x.terms[s]
		if t == nil {
			t = &likeTerm{number: int32(len(x.terms)), weight: x.traffic.information(s)} //nolint:gosec // a count of words
			x.terms[s] = t
			if t.weight > commonWeight {
				for _, g := range related().groups[s] {
					x.groups[g] = append(x.groups[g], t)
				}
			}
		}
		t.parts = append(t.parts, int32(len(x.parts))) //nolint:gosec // a count of phrases
		if isStem(s) {
			p.totalWeight += t.weight
		}
	}
	x.parts = append(x.parts, p)
}

// Resemblance is a lesson that resembles a window of a text.
type Resemblance struct {
	Lesson    *Lesson
	CallID    string   // id of the tool call whose result contains the window; empty for the user's words
	Window    string   // sentence or line that resembles the lesson
	Words     []string // words of the window that the lesson shares
	Score     float64
	Threshold float64 // minimum score for a match

	index int32 // index of the lesson in likeIndex.lessons
}

// Fires reports whether the score suffices for a match.
func (r *Resemblance) Fires() bool { return r.Score >= r.Threshold }

// bestMatches returns the lessons that match the texts of a query by likeness, at most one for each text. The kind of
// an error or of a request finds the lesson first. Otherwise, the scores of the windows decide.
func (x *likeIndex) bestMatches(q *Query) []Resemblance {
	s, _ := x.scratch.Get().(*likeScratch)
	defer x.scratch.Put(s)
	s.left = likeWork
	var out []Resemblance
	for t := range q.likeTexts {
		if s.left -= min(len(t.text), maxLikeText); s.left < 0 {
			break
		}
		r, ok := x.matchErrorKind(t)
		if !ok {
			r, ok = x.matchRequestKind(s, t)
		}
		if !ok {
			r, ok = x.matchWindows(s, t)
		}
		if ok && !slices.ContainsFunc(out, func(o Resemblance) bool { return o.index == r.index }) {
			out = append(out, r)
		}
	}
	return out
}

// shouldCompare reports whether the words of a text are compared with a lesson. An error whose kind is known is not
// compared with a lesson that has error kinds, because the exact match compares the kinds.
func (x *likeIndex) shouldCompare(t *likeText, lesson int32) bool {
	return len(t.kinds) == 0 || len(x.lessons[lesson].Trigger.ErrorKinds) == 0
}

// matchWindows returns the lesson that resembles a text most, if its score suffices. In each window, only the lesson
// with the highest score counts. Of these lessons, matchWindows returns the one with the highest score relative to its
// minimum.
func (x *likeIndex) matchWindows(s *likeScratch, t likeText) (Resemblance, bool) {
	var best likeScore
	var bestWindow window
	var ratio float32 // of the best score to its minimum
	windows := 0
	for w := range t.windows {
		windows++
		scores := slices.DeleteFunc(x.score(s, w.stems, t.from), func(of likeScore) bool { return !x.shouldCompare(&t, of.lesson) })
		if len(scores) == 0 {
			continue
		}
		top := slices.MaxFunc(scores, func(a, b likeScore) int {
			return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(b.lesson, a.lesson))
		})
		if r := top.score / x.minScore(&top, 1); r > ratio {
			best, bestWindow, ratio = top, w, r
		}
	}
	if ratio == 0 || best.score < x.minScore(&best, windows) {
		return Resemblance{}, false
	}
	return x.resemblance(best, bestWindow, windows, t), true
}

func (x *likeIndex) resemblance(score likeScore, w window, windows int, t likeText) Resemblance {
	r := Resemblance{
		Lesson: x.lessons[score.lesson], CallID: t.callID, Window: strings.TrimSpace(w.text), Score: float64(score.score),
		Threshold: float64(x.minScore(&score, windows)), index: score.lesson,
	}
	for word, stem := range wordStems(w.text) {
		if term := x.terms[stem]; term != nil && slices.Contains(term.parts, x.totalParts[t.from][score.lesson]) && !slices.Contains(r.Words, word) {
			r.Words = append(r.Words, word)
		}
	}
	return r
}

// similarWindows returns the windows of a query whose score for a lesson is at least share times the minimum score of
// a match. The highest score comes first.
func (x *likeIndex) similarWindows(q *Query, lesson int32, share float32) []Resemblance {
	s := x.newScratch()
	var out []Resemblance
	for t := range q.likeTexts {
		windows := slices.Collect(t.windows)
		for _, w := range windows {
			s.left = likeWork
			for _, score := range x.score(s, w.stems, t.from) {
				if score.lesson == lesson && x.shouldCompare(&t, lesson) && score.score >= share*x.minScore(&score, len(windows)) {
					out = append(out, x.resemblance(score, w, len(windows), t))
				}
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Resemblance) int { return cmp.Compare(b.Score, a.Score) })
	return out
}
