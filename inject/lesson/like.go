package lesson

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"precept/detect"
	"precept/inject/request"
)

// Weights and limits for likeness, the similarity in words between a lesson and a window (a sentence or line of a
// text). The prefix "like" in names stands for likeness, as in the trigger's like key. Words are compared by stems
// (words without endings). The fewer captured sessions contain a stem, the more it weighs. A score combines two shares:
// how much of a lesson part (a phrase, the title or the description) is in the window, and how much of the window is in
// the lesson.
//
// The values were chosen by measurements on testdata/likeness.tsv.
const (
	titleWeight       = 0.85 // relative to a phrase
	descriptionWeight = 0.75 // relative to a phrase
	singleWeight      = 0.6  // factor for the weight of a part with one stem
	coverWeight       = 0.6  // weight of the first share, for the lesson's best part
	explainedWeight   = 0.4  // weight of the second share
	relatedWeight     = 0.65 // a related stem, relative to an equal stem
	commonWeight      = 2.31 // a stem with at most this weight is common; it gets no related stems

	minLike         = 0.55 // minimum score, before the corrections by likeBounds
	rareInformation = 4.3  // if the shared weight is at least this, rareDiscount is subtracted from minLike
	rarePhrase      = 4.5  // minimum phrase weight for relatedPhrase: the weight of a phrase in 1% of the sessions
	freeWindows     = 4    // if a text has more windows than this, perDoubling is added to minLike
)

// likeBounds holds the limits for one kind of text. The first three are minimum shared weights.
type likeBounds struct {
	twoStems      float32 // if at least two stems are shared
	topicOnly     float32 // if only the lesson's main topic (see likeTerm.topicLessons) is shared
	relatedPhrase float32 // if a phrase of several words is related to a term in the lesson
	rareDiscount  float32 // subtracted from minLike; see rareInformation
	perDoubling   float64 // added to minLike for each doubling of the number of windows above freeWindows
}

// boundsByKind holds the limits by kind of text.
//
//nolint:gochecknoglobals // immutable
var boundsByKind = [numTextKinds]likeBounds{
	fromWords:  {twoStems: 6, topicOnly: 5, relatedPhrase: 1.5, rareDiscount: 0.1, perDoubling: 0.06},
	fromErrors: {twoStems: 5, topicOnly: 2.5, rareDiscount: 0.07, perDoubling: 0.04},
}

// textKind is the kind of the text around a window.
type textKind uint8

const (
	fromWords  textKind = iota // the user's words
	fromErrors                 // a tool error
	numTextKinds
)

// likePart is a lesson's phrase, title or description. A total part is different: it holds all stems of the lesson that
// are compared with one kind of text.
type likePart struct {
	lesson      int32              // index in likeIndex.lessons
	textKinds   [numTextKinds]bool // kinds of text that are compared with the part
	weight      float32            // relative to a phrase; 0 for a total part
	totalWeight float32            // sum of the stems' weights
}

// likeTerm is a stem, phrase or shape (see relatedTable) in a lesson.
type likeTerm struct {
	number       int32 // index in likeScratch.counted
	weight       float32
	parts        []int32 // indices in likeIndex.parts
	topicLessons []int32 // lessons with this main topic
}

// likeIndex finds and scores the lessons that share stems with a window. Everything except scratch is immutable.
type likeIndex struct {
	traffic       *Traffic
	terms         map[string]*likeTerm
	groups        [][]*likeTerm // by group in related.txt: the terms in the lessons
	parts         []likePart
	totalParts    [numTextKinds][]int32 // by lesson: the index in parts
	lessons       []*Lesson
	thresholds    []float32                // by lesson, from Traffic.thresholds
	byErrorKind   map[detect.Kind][]int32  // lessons without error kinds, by their error patterns' kind
	topicStems    map[int32][]string       // stems in title, description and keywords, for byErrorKind
	byRequestKind map[request.Kind][]int32 // lessons without request kinds, by their keywords' kind
	scratch       sync.Pool                // *likeScratch values
}

// newLikeIndex returns an index without thresholds.
func newLikeIndex(lessons []*Lesson, traffic *Traffic) *likeIndex {
	x := &likeIndex{traffic: traffic, terms: map[string]*likeTerm{}, lessons: lessons, byErrorKind: map[detect.Kind][]int32{}, topicStems: map[int32][]string{}, byRequestKind: map[request.Kind][]int32{}}
	x.groups = make([][]*likeTerm, related().groupCount)
	for i, l := range lessons {
		x.addLesson(int32(i), l) //nolint:gosec // the number of lessons fits in an int32
	}
	x.scratch.New = func() any { return x.newScratch() }
	return x
}

// addLesson adds a lesson. Error patterns are compared only with tool errors, as in exact matches.
func (x *likeIndex) addLesson(lesson int32, l *Lesson) {
	var stemsByKind [numTextKinds][]string
	phrases, phraseCounts := 0, map[string]int{}
	add := func(weight float32, text string, textKinds [numTextKinds]bool) []string {
		stems := sortedSet(textStems(text))
		if countFunc(stems, isStem) == 1 {
			weight *= singleWeight
		}
		for from := range numTextKinds {
			if textKinds[from] {
				stemsByKind[from] = append(stemsByKind[from], stems...)
			}
		}
		x.addPart(likePart{lesson: lesson, textKinds: textKinds, weight: weight}, stems)
		return stems
	}
	allKinds, errorsOnly := [numTextKinds]bool{true, true}, [numTextKinds]bool{fromErrors: true}
	for i, p := range slices.Concat(l.Trigger.Keywords, l.Trigger.ErrorPatterns) {
		textKinds := allKinds
		if i >= len(l.Trigger.Keywords) {
			textKinds = errorsOnly
		}
		phrases++
		for _, s := range add(1, p, textKinds) {
			if isStem(s) {
				phraseCounts[s]++
			}
		}
	}
	titleKinds := allKinds
	if l.isTriggeredOnlyByErrors() {
		titleKinds = errorsOnly
	}
	for _, s := range sortedSet(slices.Concat(add(titleWeight, l.Title, titleKinds), add(descriptionWeight, l.Trigger.Description, titleKinds))) {
		if phraseCounts[s] > 0 { // a stem that is also in the title or description counts as in two more phrases
			phraseCounts[s] += 2
		}
	}
	for _, k := range patternKinds(l) {
		x.byErrorKind[k] = append(x.byErrorKind[k], lesson)
		x.topicStems[lesson] = sortedSet(textStems(strings.Join(append([]string{l.Title, l.Trigger.Description}, l.Trigger.Keywords...), "\n")))
	}
	for _, k := range phraseKinds(l) {
		x.byRequestKind[k] = append(x.byRequestKind[k], lesson)
	}
	for from := range numTextKinds {
		var textKinds [numTextKinds]bool
		textKinds[from] = true
		x.totalParts[from] = append(x.totalParts[from], int32(len(x.parts))) //nolint:gosec // the number of parts fits in an int32
		x.addPart(likePart{lesson: lesson, textKinds: textKinds}, sortedSet(stemsByKind[from]))
	}
	for s, n := range phraseCounts {
		if n >= 3 && 5*n >= 2*phrases { // a main topic is in at least two fifths of the phrases
			x.terms[s].topicLessons = append(x.terms[s].topicLessons, lesson)
		}
	}
}

func (x *likeIndex) addPart(p likePart, stems []string) {
	for _, s := range stems {
		t := x.terms[s]
		if t == nil {
			t = &likeTerm{number: int32(len(x.terms)), weight: x.traffic.information(s)} //nolint:gosec // the number of terms fits in an int32
			x.terms[s] = t
			if t.weight > commonWeight {
				for _, g := range related().groups[s] {
					x.groups[g] = append(x.groups[g], t)
				}
			}
		}
		t.parts = append(t.parts, int32(len(x.parts))) //nolint:gosec // the number of parts fits in an int32
		if isStem(s) {
			p.totalWeight += t.weight
		}
	}
	x.parts = append(x.parts, p)
}

// Resemblance is a lesson similar to a window in a text.
type Resemblance struct {
	Lesson    *Lesson
	CallID    string   // tool call whose result contains the window; empty for the user's words
	Window    string   // sentence or line
	Words     []string // words shared with the lesson
	Score     float64
	Threshold float64 // minimum score

	lessonIndex int32 // in likeIndex.lessons
}

// bestMatches returns at most one lesson per text. This is a lesson with the kind of the error or request or, if there
// is none, the lesson with the best score.
func (x *likeIndex) bestMatches(q *Query) []Resemblance {
	s, _ := x.scratch.Get().(*likeScratch)
	defer x.scratch.Put(s)
	s.budget = maxLikeWork
	var out []Resemblance
	for t := range q.likeTexts {
		if s.budget -= min(len(t.text), maxLikeText); s.budget < 0 {
			break
		}
		r, ok := x.matchErrorKind(t)
		if !ok {
			r, ok = x.matchRequestKind(s, t)
		}
		if !ok {
			r, ok = x.matchWindows(s, t)
		}
		if ok && !slices.ContainsFunc(out, func(o Resemblance) bool { return o.lessonIndex == r.lessonIndex }) {
			out = append(out, r)
		}
	}
	return out
}

// shouldCompare reports whether a text is compared with a lesson. If the text is an error with a known kind and the
// lesson names error kinds, the exact match decides by the kind, and the texts are not compared.
func (x *likeIndex) shouldCompare(t *likeText, lesson int32) bool {
	return len(t.kinds) == 0 || len(x.lessons[lesson].Trigger.ErrorKinds) == 0
}

// matchWindows returns the lesson that is most similar to a text, relative to the lesson's minimum score.
func (x *likeIndex) matchWindows(s *likeScratch, t likeText) (Resemblance, bool) {
	var best likeScore
	var bestWindow window
	var ratio float32 // best score divided by the minimum
	windows := 0
	for w := range t.windows {
		windows++
		scores := slices.DeleteFunc(x.score(s, w.stems, t.from), func(candidate likeScore) bool { return !x.shouldCompare(&t, candidate.lesson) })
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
		Threshold: float64(x.minScore(&score, windows)), lessonIndex: score.lesson,
	}
	for word, stem := range wordStems(w.text) {
		if term := x.terms[stem]; term != nil && slices.Contains(term.parts, x.totalParts[t.from][score.lesson]) && !slices.Contains(r.Words, word) {
			r.Words = append(r.Words, word)
		}
	}
	return r
}

// similarWindows returns the windows for Book.Likeness.
func (x *likeIndex) similarWindows(q *Query, lesson int32, share float32) []Resemblance {
	s := x.newScratch()
	var out []Resemblance
	for t := range q.likeTexts {
		windows := slices.Collect(t.windows)
		for _, w := range windows {
			s.budget = maxLikeWork
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
