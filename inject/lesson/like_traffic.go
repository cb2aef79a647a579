package lesson

import (
	"maps"
	"math"
	"slices"
	"strings"

	"precept/detect"
	"precept/inject/request"
)

// Limits for the captured traffic, which provides the word frequencies.
const (
	// LikeSessions is the minimum number of captured sessions for likeness. With fewer, word frequencies are too
	// uncertain.
	LikeSessions = 200
	// MaxLikeSessions is the maximum number of sessions in a Traffic.
	MaxLikeSessions = 2000

	maxTrafficWindows = 50_000 // per Traffic
	maxTextWindows    = 64     // per text
)

// Traffic holds the stem frequencies in captured sessions, and windows (sentences and lines) from which thresholds are
// computed. Concurrent readers can share it as long as no goroutine calls Add.
type Traffic struct {
	sessions              int
	windowCount           int                                     // including repeated windows
	sessionsByStem        map[string]int                          // sessions with the stem
	sessionsByErrorKind   map[detect.Kind]int                     // sessions with the kind
	sessionsByRequestKind map[request.Kind]int                    // sessions with the kind
	windows               [numTextKinds]map[string]*trafficWindow // by kind of text, then by joined stems
}

// trafficWindow represents all windows with the same stems.
type trafficWindow struct {
	text  string // the first window's text
	count int
}

// NewTraffic returns an empty Traffic.
func NewTraffic() *Traffic {
	return &Traffic{sessionsByStem: map[string]int{}, sessionsByErrorKind: map[detect.Kind]int{}, sessionsByRequestKind: map[request.Kind]int{}, windows: [numTextKinds]map[string]*trafficWindow{{}, {}}}
}

// Sessions returns the number of sessions.
func (t *Traffic) Sessions() int {
	if t == nil {
		return 0
	}
	return t.sessions
}

// Windows returns the number of windows.
func (t *Traffic) Windows() int { return t.windowCount }

// Sentences returns at most n captured user sentences, evenly spaced in sorted order.
func (t *Traffic) Sentences(n int) []string {
	keys := slices.Sorted(maps.Keys(t.windows[fromWords]))
	var out []string
	for i := range min(n, len(keys)) {
		out = append(out, strings.TrimSpace(t.windows[fromWords][keys[i*len(keys)/min(n, len(keys))]].text))
	}
	return out
}

// HasEnoughSessions reports whether lessons can match by likeness.
func (t *Traffic) HasEnoughSessions() bool { return t != nil && t.sessions >= LikeSessions }

// Add adds one session, which is given as one query per turn. Once there are MaxLikeSessions sessions, Add does
// nothing.
func (t *Traffic) Add(queries []Query) {
	if t.sessions == MaxLikeSessions {
		return
	}
	t.sessions++
	seen, kinds, requests := map[string]bool{}, map[detect.Kind]bool{}, map[request.Kind]bool{}
	for i := range queries {
		q := &queries[i]
		for _, e := range q.Errors {
			for _, k := range e.Kinds {
				kinds[k] = true
			}
		}
		for _, k := range q.RequestKinds() {
			requests[k] = true
		}
		for text := range q.likeTexts {
			left := maxTextWindows
			for w := range text.windows {
				for _, s := range w.stems {
					seen[s] = true
				}
				if left--; left < 0 || t.windowCount == maxTrafficWindows {
					continue
				}
				t.windowCount++
				key := strings.Join(w.stems, " ")
				if t.windows[text.from][key] == nil {
					t.windows[text.from][key] = &trafficWindow{text: excerpt(w.text)}
				}
				t.windows[text.from][key].count++
			}
		}
	}
	for s := range seen {
		t.sessionsByStem[s]++
	}
	for k := range kinds {
		t.sessionsByErrorKind[k]++
	}
	for k := range requests {
		t.sessionsByRequestKind[k]++
	}
}

// likeText is a text whose likeness to lessons is computed: words from the user, or an error.
type likeText struct {
	text, callID string
	from         textKind
	kinds        []detect.Kind // error kinds, most specific first; nil if the first kind is too general, such as build-failed
}

// windows yields the text's windows. It skips single markup tags, and sentences in which the user forbids something.
func (t *likeText) windows(yield func(window) bool) {
	for w := range splitWindows(t.text) {
		if isMarkup(w.text) || t.from == fromWords && isProhibition(w.text) {
			continue
		}
		if !yield(w) {
			return
		}
	}
}

// likeTexts yields the user's words, then the errors.
func (q *Query) likeTexts(yield func(likeText) bool) {
	for _, w := range q.Words {
		if !yield(likeText{text: w, from: fromWords}) {
			return
		}
	}
	for i := range q.Errors {
		e := &q.Errors[i]
		t := likeText{text: e.Text, callID: e.CallID, from: fromErrors}
		if len(e.Kinds) > 0 && e.Kinds[0] != "uncaught-exception" && e.Kinds[0] != "build-failed" {
			t.kinds = e.Kinds
		}
		if !yield(t) {
			return
		}
	}
}

// information returns a stem's weight, which is the logarithm of the number of all sessions divided by the number of
// sessions with the stem. The weight of a common word is limited.
func (t *Traffic) information(stem string) float32 {
	total, withStem := float64(t.sessions), float64(t.sessionsByStem[stem])
	if commonWords()[stem] {
		withStem = max(withStem, total/10)
	}
	return float32(math.Log((total + 1) / (withStem + 1)))
}

// thresholds returns, for each lesson, the lowest score for a match. rate is the largest share of all windows that may
// reach this score. Windows with an exact match do not count, because many such windows would raise the threshold above
// the score of every similar window.
func (t *Traffic) thresholds(x *likeIndex, rate float64, exactMatches func(text string, from textKind) []int32) []float32 {
	limit := int(rate * float64(t.windowCount))
	best := make([][]scoreCount, len(x.lessons))
	s := x.newScratch()
	for from, windows := range t.windows {
		for key, w := range windows {
			s.budget = math.MaxInt
			scores := x.score(s, strings.Fields(key), textKind(from)) //nolint:gosec // the index of an array of numTextKinds elements fits in a uint8
			if len(scores) == 0 {
				continue
			}
			matched := exactMatches(w.text, textKind(from)) //nolint:gosec // the index of an array of numTextKinds elements fits in a uint8
			for _, r := range scores {
				if !slices.Contains(matched, r.lesson) {
					best[r.lesson] = keepBest(best[r.lesson], scoreCount{r.score, w.count}, limit)
				}
			}
		}
	}
	out := make([]float32, len(x.lessons))
	for i, list := range best {
		slices.SortFunc(list, byScore)
		reached := 0
		for _, r := range list {
			if reached += r.windowCount; reached > limit {
				out[i] = math.Nextafter32(r.score, math.MaxFloat32)
				break
			}
		}
	}
	return out
}

type scoreCount struct {
	score       float32
	windowCount int
}

func byScore(a, b scoreCount) int {
	switch {
	case a.score > b.score:
		return -1
	case a.score < b.score:
		return 1
	}
	return 0
}

// keepBest appends r. When the list is twice as long as necessary, keepBest keeps only the limit+1 highest scores.
func keepBest(list []scoreCount, r scoreCount, limit int) []scoreCount {
	list = append(list, r)
	if len(list) < 2*(limit+1) {
		return list
	}
	slices.SortFunc(list, byScore)
	return list[:limit+1]
}

// maxExcerpt is the maximum length of the text that is kept for a window.
const maxExcerpt = 400

func excerpt(text string) string {
	if len(text) <= maxExcerpt {
		return strings.Clone(text)
	}
	return strings.Clone(strings.ToValidUTF8(text[:maxExcerpt], ""))
}
