package lesson

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"precept/detect"
	"precept/inject/request"
)

// Weights and limits of a score, chosen by measurements on testdata/likeness.tsv. A score measures the
// likeness, the resemblance in words, of a lesson and a window, which is a sentence or a line of a text.
const (
	titleWeight       = 0.85
	descriptionWeight = 0.75
	singleWeight      = 0.6  // weight of a phrase with one meaningful word
	coverWeight       = 0.6  // weight of the covered share of the best part
	explainedWeight   = 0.4  // weight of the share of the window that the lesson explains
	relatedWeight     = 0.65 // weight of a related stem, relative to an equal stem
	commonWeight      = 2.31 // weight of a common word: words with at most this weight have no related stems

	minLike         = 0.55 // least score of a match, before the changes of likeBounds
	rareInformation = 4.3  // least sum of the weights of the shared stems for forRare
	rarePhrase      = 4.5  // least weight of a related phrase that suffices alone: a phrase of 1% of the sessions
	freeWindows     = 4    // number of windows up to which perDoubling adds nothing
)

// likeBounds are the bounds of a match in one kind of text.
type likeBounds struct {
	information float32 // least sum of the weights of the shared stems
	head        float32 // least weight of a stem that suffices alone
	phrase      float32 // least sum of the weights if a related phrase of several words is shared
	forRare     float32 // subtracted from minLike if rareInformation is reached
	perDoubling float64 // added to minLike for each doubling of the windows of a text above freeWindows
}

//nolint:gochecknoglobals // immutable
var boundsOf = [sources]likeBounds{
	fromWords:  {information: 6, head: 5, phrase: 1.5, forRare: 0.1, perDoubling: 0.06},
	fromErrors: {information: 5, head: 2.5, forRare: 0.07, perDoubling: 0.04},
}

// source is the kind of text that a window is cut from.
type source uint8

const (
	fromWords source = iota
	fromErrors
	sources // number of kinds
)

// likePart is a phrase, the title or the description of a lesson. Each lesson also has a part for each kind of
// text, with all stems that are compared with this kind.
type likePart struct {
	lesson int32
	in     [sources]bool // kinds of texts that are compared with the part
	weight float32       // score of a window that covers the part; 0 for all stems of a lesson
	mass   float32       // sum of the weights of the stems
}

// likeTerm is a stem that occurs in the lessons.
type likeTerm struct {
	number int32
	weight float32
	parts  []int32 // parts with the stem
	heads  []int32 // lessons whose main topic is this stem
}

// likeIndex finds the lessons that resemble a window: the lessons that share stems with the window. A
// likeIndex is immutable, apart from its pool.
type likeIndex struct {
	traffic    *Traffic
	terms      map[string]*likeTerm
	groups     [][]*likeTerm // terms of the groups of related.txt
	parts      []likePart
	allStems   [sources][]int32 // part with all stems, by lesson
	lessons    []*Lesson
	thresholds []float32                // by lesson
	kinds      map[detect.Kind][]int32  // lessons without error kinds, by the kinds of their error patterns
	about      map[int32][]string       // stems of the title, the description and the keywords, for the lessons in kinds
	requests   map[request.Kind][]int32 // lessons without kinds of requests, by the kinds of their phrases
	scratch    sync.Pool                // of *likeScratch
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

// compile adds the parts of a lesson. Error patterns are compared with errors only, as in an exact
// match.
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
		x.allStems[from] = append(x.allStems[from], int32(len(x.parts))) //nolint:gosec // a count of phrases
		x.add(likePart{lesson: lesson, in: in}, sortedSet(all[from]))
	}
	for s, n := range inPhrases {
		if n >= 3 && 5*n >= 2*phrases { // the topic: a stem of two fifths of the phrases
			x.terms[s].heads = append(x.terms[s].heads, lesson)
		}
	}
}

// add adds a part and its stems.
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
			p.mass += t.weight
		}
	}
	x.parts = append(x.parts, p)
}

// Resemblance is a lesson that resembles a window of a text.
type Resemblance struct {
	Lesson    *Lesson
	CallID    string   // tool result with the window; empty for user words
	Window    string   // sentence or line
	Words     []string // words of the window that the lesson shares
	Score     float64
	Threshold float64 // least score for a match

	index int32
}

// Fires reports whether the score suffices.
func (r *Resemblance) Fires() bool { return r.Score >= r.Threshold }

// resembling returns at most one lesson for each text. In each window, only the lesson with the highest
// score counts; of these lessons, the result is the lesson with the highest score relative to its
// threshold.
func (x *likeIndex) resembling(q *Query) []Resemblance {
	s, _ := x.scratch.Get().(*likeScratch)
	defer x.scratch.Put(s)
	s.left = likeWork
	var out []Resemblance
	for t := range q.likeTexts {
		if s.left -= min(len(t.text), maxLikeText); s.left < 0 {
			break
		}
		r, ok := x.ofKind(t)
		if !ok {
			r, ok = x.ofRequest(s, t)
		}
		if !ok {
			r, ok = x.bestOf(s, t)
		}
		if ok && !slices.ContainsFunc(out, func(o Resemblance) bool { return o.index == r.index }) {
			out = append(out, r)
		}
	}
	return out
}

// compares reports whether the words of a text are compared with a lesson. An error with a kind is compared
// only with lessons without error kinds: the kind itself finds the other lessons.
func (x *likeIndex) compares(t *likeText, lesson int32) bool {
	return len(t.kinds) == 0 || len(x.lessons[lesson].Trigger.ErrorKinds) == 0
}

// bestOf returns the lesson that resembles a text most, if the score suffices.
func (x *likeIndex) bestOf(s *likeScratch, t likeText) (Resemblance, bool) {
	var best likeScore
	var bestWindow window
	var ratio float32 // of the score to the threshold
	windows := 0
	for w := range t.windows {
		windows++
		scores := slices.DeleteFunc(x.score(s, w.stems, t.from), func(of likeScore) bool { return !x.compares(&t, of.lesson) })
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
		if term := x.terms[stem]; term != nil && slices.Contains(term.parts, x.allStems[t.from][score.lesson]) && !slices.Contains(r.Words, word) {
			r.Words = append(r.Words, word)
		}
	}
	return r
}

// near returns the windows of a query whose likeness to a lesson is at least share times the
// threshold, the highest score first.
func (x *likeIndex) near(q *Query, lesson int32, share float32) []Resemblance {
	s := x.newScratch()
	var out []Resemblance
	for t := range q.likeTexts {
		windows := slices.Collect(t.windows)
		for _, w := range windows {
			s.left = likeWork
			for _, score := range x.score(s, w.stems, t.from) {
				if score.lesson == lesson && x.compares(&t, lesson) && score.score >= share*x.minScore(&score, len(windows)) {
					out = append(out, x.resemblance(score, w, len(windows), t))
				}
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Resemblance) int { return cmp.Compare(b.Score, a.Score) })
	return out
}
