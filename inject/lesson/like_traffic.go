package lesson

import (
	"maps"
	"math"
	"slices"
	"strings"

	"precept/detect"
	"precept/inject/request"
)

// Limits of the captured traffic, from which the frequency of each word is computed.
const (
	// LikeSessions is the minimum number of captured sessions for matches by likeness. With fewer sessions, the
	// frequency of a word is too uncertain.
	LikeSessions = 200
	// MaxLikeSessions is the maximum number of sessions in a Traffic.
	MaxLikeSessions = 2000

	maxTrafficWindows = 50_000 // windows of a Traffic
	maxTextWindows    = 64     // windows that a Traffic keeps of one text
)

// Traffic holds the frequency of stems in captured sessions, and the windows (sentences and lines) from which the
// thresholds of lessons are computed. Concurrent readers may share a Traffic while no goroutine calls Add.
type Traffic struct {
	sessions              int                                     // number of sessions
	windowCount           int                                     // number of windows, including repeated windows
	sessionsByStem        map[string]int                          // by stem, the number of sessions that contain it
	sessionsByErrorKind   map[detect.Kind]int                     // by kind of error, the number of sessions that contain it
	sessionsByRequestKind map[request.Kind]int                    // by kind of request, the number of sessions that contain it
	windows               [numTextKinds]map[string]*trafficWindow // by kind of text, the windows by their stems, joined by blanks
}

// trafficWindow represents all captured windows with the same stems.
type trafficWindow struct {
	text  string // text of the first of the windows
	count int    // number of these windows
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

// Sentences returns at most n captured sentences of users, evenly spaced in the sorted list of all sentences.
func (t *Traffic) Sentences(n int) []string {
	keys := slices.Sorted(maps.Keys(t.windows[fromWords]))
	var out []string
	for i := range min(n, len(keys)) {
		out = append(out, strings.TrimSpace(t.windows[fromWords][keys[i*len(keys)/min(n, len(keys))]].text))
	}
	return out
}

// HasEnoughSessions reports whether the traffic has enough sessions for matches by likeness.
func (t *Traffic) HasEnoughSessions() bool { return t != nil && t.sessions >= LikeSessions }

// Add adds one session, given as the queries of its turns. Sessions beyond MaxLikeSessions are ignored.
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

// likeText is a text that is compared with lessons by likeness.
type likeText struct {
	text, callID string
	from         textKind
	kinds        []detect.Kind // kinds of an error, the most specific first; nil means no kind, or a general kind such as build-failed
}

// windows yields the windows of a text that are compared with lessons. It skips a window that is a single markup tag,
// and a sentence of the user that forbids something.
func (t *likeText) windows(yield func(window) bool) {
	for w := range windowsOf(t.text) {
		if isMarkup(w.text) || t.from == fromWords && isProhibition(w.text) {
			continue
		}
		if !yield(w) {
			return
		}
	}
}

// likeTexts yields the texts of a query: the user's words, then the errors.
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

// information returns the weight of a stem, which is the logarithm of the number of all sessions divided by the number
// of sessions with the stem. The weight of a common word is limited; see commonWords.
func (t *Traffic) information(stem string) float32 {
	total, withStem := float64(t.sessions), float64(t.sessionsByStem[stem])
	if commonWords()[stem] {
		withStem = max(withStem, total/10)
	}
	return float32(math.Log((total + 1) / (withStem + 1)))
}

// thresholds returns a threshold for each lesson of the index. It is the lowest score that at most the share rate of
// all windows reaches. A window that matches the lesson exactly does not count, because the threshold of a lesson with
// many exact matches would otherwise exceed the score of every similar window. exactMatches returns the lessons that
// match a window exactly.
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
			if reached += r.windows; reached > limit {
				out[i] = math.Nextafter32(r.score, math.MaxFloat32)
				break
			}
		}
	}
	return out
}

// scoreCount is a score, and the number of windows that have this score.
type scoreCount struct {
	score   float32
	windows int
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

// keepBest appends r to list, and drops all but the highest limit+1 scores when the list reaches twice this length.
func keepBest(list []scoreCount, r scoreCount, limit int) []scoreCount {
	list = append(list, r)
	if len(list) < 2*(limit+1) {
		return list
	}
	slices.SortFunc(list, byScore)
	return list[:limit+1]
}

// maxExcerpt is the maximum number of bytes of a window's text that a Traffic keeps.
const maxExcerpt = 400

// excerpt returns a copy of the first bytes of a text.
func excerpt(text string) string {
	if len(text) <= maxExcerpt {
		return strings.Clone(text)
	}
	return strings.Clone(strings.ToValidUTF8(text[:maxExcerpt], ""))
}
