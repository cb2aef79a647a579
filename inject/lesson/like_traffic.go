package lesson

import (
	"maps"
	"math"
	"slices"
	"strings"

	"precept/detect"
	"precept/inject/request"
)

// Limits of the captured traffic for likeness. Likeness is the match of a lesson by the resemblance of words,
// without an exact phrase; captured sessions show how frequent each word is.
const (
	// LikeSessions is the least number of captured sessions with which likeness is on. Fewer sessions say too
	// little about the frequency of words.
	LikeSessions = 200
	// MaxLikeSessions is the number of the newest sessions that are read.
	MaxLikeSessions = 2000

	maxTrafficWindows = 50_000
	maxTextWindows    = 64 // windows of one text
)

// Traffic holds the words of captured sessions: the frequency of stems, and the windows (sentences and
// lines) from which the thresholds of lessons are computed. Concurrent readers may share a Traffic that no
// goroutine changes.
type Traffic struct {
	sessions int
	total    int                                // number of windows, with repeated windows
	found    map[string]int                     // number of sessions by stem
	kinds    map[detect.Kind]int                // number of sessions by kind of error
	requests map[request.Kind]int               // number of sessions by kind of request
	windows  [sources]map[string]*trafficWindow // by their stems, joined by blanks
}

// trafficWindow is a captured window.
type trafficWindow struct {
	text   string // text of the first window with these stems
	number int    // number of windows with these stems
}

// NewTraffic returns an empty Traffic.
func NewTraffic() *Traffic {
	return &Traffic{found: map[string]int{}, kinds: map[detect.Kind]int{}, requests: map[request.Kind]int{}, windows: [sources]map[string]*trafficWindow{{}, {}}}
}

// Sessions returns the number of sessions.
func (t *Traffic) Sessions() int {
	if t == nil {
		return 0
	}
	return t.sessions
}

// Windows returns the number of windows.
func (t *Traffic) Windows() int { return t.total }

// Sentences returns at most n captured sentences of users, at equal distances in the sorted list of all.
func (t *Traffic) Sentences(n int) []string {
	keys := slices.Sorted(maps.Keys(t.windows[fromWords]))
	var out []string
	for i := range min(n, len(keys)) {
		out = append(out, strings.TrimSpace(t.windows[fromWords][keys[i*len(keys)/min(n, len(keys))]].text))
	}
	return out
}

// Enough reports whether the traffic suffices for likeness.
func (t *Traffic) Enough() bool { return t != nil && t.sessions >= LikeSessions }

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
				if left--; left < 0 || t.total == maxTrafficWindows {
					continue
				}
				t.total++
				key := strings.Join(w.stems, " ")
				if t.windows[text.from][key] == nil {
					t.windows[text.from][key] = &trafficWindow{text: excerpt(w.text)}
				}
				t.windows[text.from][key].number++
			}
		}
	}
	for s := range seen {
		t.found[s]++
	}
	for k := range kinds {
		t.kinds[k]++
	}
	for k := range requests {
		t.requests[k]++
	}
}

// likeText is a text that is compared by likeness.
type likeText struct {
	text, callID string
	from         source
	kinds        []detect.Kind // kinds of an error, the most specific first; nil means no kind, or only a general kind
}

// windows yields the windows of a text that may call for a lesson. A single markup tag does not, nor does a
// prohibition in the words of a user.
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

// likeTexts yields the texts of a query that are compared by likeness: the user's words, and the
// errors.
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

// information returns the weight of a stem: the logarithm of the inverse share of the sessions with
// the stem.
func (t *Traffic) information(stem string) float32 {
	n, found := float64(t.sessions), float64(t.found[stem])
	if commonWords()[stem] {
		found = max(found, n/10)
	}
	return float32(math.Log((n + 1) / (found + 1)))
}

// thresholds returns a threshold for each lesson of the index: the lowest score that at most a share of rate
// of all windows reaches. A window that matches the lesson exactly does not count, because a lesson with
// many exact matches would otherwise have a threshold above all similar windows. exact returns the lessons
// that match a window exactly.
func (t *Traffic) thresholds(x *likeIndex, rate float64, exact func(text string, from source) []int32) []float32 {
	limit := int(rate * float64(t.total))
	best := make([][]scored, len(x.lessons))
	s := x.newScratch()
	for from, windows := range t.windows {
		for key, w := range windows {
			s.left = math.MaxInt
			scores := x.score(s, strings.Fields(key), source(from)) //nolint:gosec // one of sources
			if len(scores) == 0 {
				continue
			}
			matched := exact(w.text, source(from)) //nolint:gosec // one of sources
			for _, r := range scores {
				if !slices.Contains(matched, r.lesson) {
					best[r.lesson] = keepBest(best[r.lesson], scored{r.score, w.number}, limit)
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

// scored counts the windows with one score.
type scored struct {
	score   float32
	windows int
}

func byScore(a, b scored) int {
	switch {
	case a.score > b.score:
		return -1
	case a.score < b.score:
		return 1
	}
	return 0
}

// keepBest adds a score to a list. The caller needs only the highest limit+1 scores, so keepBest cuts a list
// of twice this length.
func keepBest(list []scored, r scored, limit int) []scored {
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
