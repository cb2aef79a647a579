package lesson

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"precept/detect"
)

const (
	enoughSessions = LikeSessions + 10
	matchRate      = 0.005 // highest share of captured sentences that reach a lesson's threshold
)

// paraphrase pairs a lesson with a user text that expresses one of the lesson's keywords in other words.
type paraphrase struct {
	lesson *Lesson
	text   string
}

func readLines(t testing.TB, name string) []string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(strings.Split(strings.TrimSpace(string(b)), "\n"), func(s string) bool { return strings.HasPrefix(s, "#") })
}

func paraphrases(t testing.TB) []paraphrase {
	t.Helper()
	return readParaphrases(t, "likeness.tsv")
}

// readParaphrases reads lines with slug, title, description, keywords and paraphrase, separated by tabs.
func readParaphrases(t testing.TB, name string) (all []paraphrase) {
	t.Helper()
	for _, line := range readLines(t, name) {
		f := strings.Split(line, "\t")
		l := &Lesson{Slug: f[0], Title: f[1], State: Active, Trigger: Trigger{Description: f[2], Keywords: strings.Split(f[3], "|"), ByLikeness: true}}
		all = append(all, paraphrase{l, f[4]})
	}
	return all
}

// capturedTraffic returns sessions that are unrelated to the lessons in the tests. WithLikeness computes the thresholds
// from these sessions.
func capturedTraffic(t testing.TB, sessions int) *Traffic {
	t.Helper()
	requests, traffic := readLines(t, "likeness_requests.txt"), NewTraffic()
	for i := range sessions {
		traffic.Add([]Query{{Words: []string{requests[i%len(requests)]}}, {Words: []string{requests[(i*7+3)%len(requests)]}}})
	}
	return traffic
}

// likeBook returns the paraphrases in likeness.tsv, and a book with their lessons. The book matches by likeness: a text
// matches a lesson that it resembles, even if it contains no keyword.
func likeBook(t testing.TB, sessions int) (*Book, []paraphrase) {
	t.Helper()
	all := paraphrases(t)
	lessons := make([]*Lesson, 0, len(all))
	for _, p := range all {
		lessons = append(lessons, p.lesson)
	}
	return NewBook(lessons).WithLikeness(capturedTraffic(t, sessions), matchRate), all
}

// Each half of likeness.tsv must reach the limits, so that the weights in like.go are not overfitted to one half.
func TestSimilarityMatchesParaphrases(t *testing.T) {
	b, all := likeBook(t, enoughSessions)
	for name, half := range map[string][]paraphrase{"first": all[:len(all)/2], "second": all[len(all)/2:]} {
		found, others := 0, 0
		for _, p := range half {
			for _, h := range b.Match(&Query{Words: []string{p.text}}) {
				if h.Lesson == p.lesson {
					found++
				} else {
					others++
				}
			}
		}
		if 10*found < 4*len(half) || 10*others > len(half) {
			t.Errorf("%s half: %d of %d paraphrases match the right lesson, want at least 40%%; %d match another lesson, want at most 10%%", name, found, len(half), others)
		}
	}
}

func TestSimilarityRarelyMatchesUnrelatedRequests(t *testing.T) {
	b, _ := likeBook(t, enoughSessions)
	requests, fired := readLines(t, "likeness_requests.txt"), []string(nil)
	for _, r := range requests {
		for _, h := range b.Match(&Query{Words: []string{r}}) {
			if h.Resemblance != nil {
				fired = append(fired, h.Lesson.Slug+": "+r)
			}
		}
	}
	if 100*len(fired) > 8*len(requests) {
		t.Errorf("%d similarity matches in %d unrelated requests, want at most 8%%: %q", len(fired), len(requests), fired)
	}
}

func TestSimilarityNeeds200Sessions(t *testing.T) {
	const words = "We want the orders endpoint to be called purchases, rename it please."
	for sessions, want := range map[int]int{199: 0, 200: 1} {
		b, _ := likeBook(t, sessions)
		if hits := b.Match(&Query{Words: []string{words}}); len(hits) != want {
			t.Errorf("%d captured sessions: got %d matches, want %d", sessions, len(hits), want)
		}
	}
}

// A window is a sentence or a line in a text. A lesson's threshold is so high that at most the given share of the
// captured windows reaches it.
func TestThresholdLimitsMatchingWindows(t *testing.T) {
	for _, rate := range []float64{0, 0.005, 0.02, 0.2} {
		lessons := make([]*Lesson, 0, 40)
		for _, p := range paraphrases(t) {
			lessons = append(lessons, p.lesson)
		}
		traffic := capturedTraffic(t, 400)
		x := NewBook(lessons).WithLikeness(traffic, rate).like
		reached := make([]int, len(lessons))
		s := x.newScratch()
		for key, w := range traffic.windows[fromWords] {
			s.budget = maxLikeWork
			for _, r := range x.score(s, strings.Fields(key), fromWords) {
				if r.score >= x.thresholds[r.lesson] {
					reached[r.lesson] += w.count
				}
			}
		}
		for i, n := range reached {
			if float64(n) > rate*float64(traffic.Windows()) {
				t.Errorf("rate %v: %d of %d windows reach the threshold of lesson %s, want at most %v",
					rate, n, traffic.Windows(), lessons[i].Slug, rate*float64(traffic.Windows()))
			}
		}
	}
}

func TestSimilarityMatchObeysLessonConditions(t *testing.T) {
	const words = "we want the orders endpoint to be called purchases, rename it please"
	cases := map[string]struct {
		change func(l *Lesson)
		query  Query
		want   int
	}{
		"no condition":     {func(*Lesson) {}, Query{}, 1},
		"not_keywords":     {func(l *Lesson) { l.Trigger.NotKeywords = []string{"purchases"} }, Query{}, 0},
		"another tenant":   {func(l *Lesson) { l.Scope.Tenant = "a" }, Query{Tenant: "b"}, 0},
		"another model":    {func(l *Lesson) { l.Trigger.Models = []string{"m1"} }, Query{Model: "m2"}, 0},
		"tool not offered": {func(l *Lesson) { l.Trigger.Tools = []string{"bash"} }, Query{Tools: []string{"edit"}}, 0},
		"tool offered":     {func(l *Lesson) { l.Trigger.Tools = []string{"bash"} }, Query{Tools: []string{"bash"}}, 1},
		"quarantined":      {func(l *Lesson) { l.State = Quarantined }, Query{}, 0},
		"exact match too":  {func(l *Lesson) { l.Trigger.Keywords = append(l.Trigger.Keywords, "rename it please") }, Query{}, 1},
		"only error patterns": {func(l *Lesson) {
			*l = Lesson{Slug: l.Slug, Title: "x", State: Active, Trigger: Trigger{ErrorPatterns: []string{"want orders endpoint called purchases rename"}}}
		}, Query{}, 0},
		"tag not in the text": {func(l *Lesson) { l.Trigger.Tags = []string{"http-api"} }, Query{}, 1},
	}
	for name, tc := range cases {
		all := paraphrases(t)
		var lessons []*Lesson
		for _, p := range all {
			if p.lesson.Slug == "keep-public-api" {
				tc.change(p.lesson)
			}
			lessons = append(lessons, p.lesson)
		}
		tc.query.Words = []string{words}
		hits := slices.DeleteFunc(NewBook(lessons).WithLikeness(capturedTraffic(t, enoughSessions), matchRate).Match(&tc.query), func(h Hit) bool {
			return h.Lesson.Slug != "keep-public-api"
		})
		if len(hits) != tc.want {
			t.Errorf("%s: got %d matches, want %d", name, len(hits), tc.want)
		}
	}
}

func TestSimilarityMatchReportsWindowAndWords(t *testing.T) {
	b, _ := likeBook(t, enoughSessions)
	hits := b.Match(&Query{Words: []string{"Good morning! We want the orders endpoint to be called purchases, rename it please. Thanks."}})
	if len(hits) != 1 || hits[0].Resemblance == nil {
		t.Fatalf("matches = %+v, want 1 similarity match", hits)
	}
	r := hits[0].Resemblance
	if r.Window != "We want the orders endpoint to be called purchases, rename it please." || !slices.Contains(r.Words, "endpoint") || r.Score < r.Threshold {
		t.Errorf(`resemblance = %+v, want the second sentence, the shared word "endpoint" and a score of at least the threshold`, r)
	}
}

func TestWordFormsShareOneStem(t *testing.T) {
	for _, forms := range [][]string{
		{"install", "installs", "installed", "installing", "installation"},
		{"dependency", "dependencies"},
		{"migrate", "migrates", "migration", "migrations"},
		{"commit", "commits", "committed", "committing"},
		{"test", "tests", "tested", "testing"},
		{"generate", "generated", "generates", "generating", "generator"},
		{"cache", "caches", "cached", "caching"},
		{"fail", "fails", "failing", "failure"},
		{"delete", "deleted", "removing"},
		{"regex", "regexp"},
	} {
		for _, f := range forms[1:] {
			if got, want := likeStem(f), likeStem(forms[0]); got != want {
				t.Errorf("likeStem(%s) = %q, want %[4]q, like likeStem(%[3]s)", f, got, forms[0], want)
			}
		}
	}
	for _, pair := range [][2]string{{"port", "portal"}, {"test", "text"}, {"log", "login"}, {"user", "usage"}} {
		if likeStem(pair[0]) == likeStem(pair[1]) {
			t.Errorf("%s and %s have the same stem %q", pair[0], pair[1], likeStem(pair[0]))
		}
	}
}

func TestWindowsEndAtSentencesAndLines(t *testing.T) {
	var got []string
	for w := range splitWindows("Open src/main.go. Then run version 1.2 of it!\nthe third line\n\n?") {
		got = append(got, strings.TrimSpace(w.text))
	}
	if want := []string{"Open src/main.go.", "Then run version 1.2 of it!", "the third line"}; !slices.Equal(got, want) {
		t.Errorf("windows = %q, want %q", got, want)
	}
}

func TestSimilarityStopsAtWorkLimit(t *testing.T) {
	lessons := make([]*Lesson, 0, 10_000)
	for i := range 10_000 {
		lessons = append(lessons, &Lesson{
			Slug: fmt.Sprintf("lesson-%d", i), Title: fmt.Sprintf("Check topic%d before release %d.", i, i), State: Active,
			Trigger: Trigger{Description: "The user asks to release a topic.", Keywords: []string{fmt.Sprintf("release topic%d", i), fmt.Sprintf("topic%d release notes", i)}},
		})
	}
	b := NewBook(lessons).WithLikeness(capturedTraffic(t, 200), matchRate)
	s := b.like.newScratch()
	s.budget = maxLikeWork
	for range 64 {
		b.like.score(s, []string{"releas", "topic7", "check"}, fromWords)
	}
	if s.budget > 0 {
		t.Errorf("64 windows with frequent words left %d of the work limit %d, want none left", s.budget, maxLikeWork)
	}
	if hits := b.Match(&Query{Words: []string{"please release whatever topic7 has"}}); len(hits) != 1 || hits[0].Lesson.Slug != "lesson-7" {
		t.Errorf("matches = %+v, want only lesson-7", hits)
	}
}

func BenchmarkLikeness(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		all := paraphrases(b)
		lessons := make([]*Lesson, 0, n)
		for i := range n {
			p := all[i%len(all)]
			l := p.lesson.Clone()
			l.Slug, l.Title = fmt.Sprintf("%s-%d", l.Slug, i), fmt.Sprintf("%s Topic%d.", l.Title, i)
			lessons = append(lessons, l)
		}
		book := NewBook(lessons).WithLikeness(capturedTraffic(b, enoughSessions), matchRate)
		var text strings.Builder
		for _, p := range all {
			text.WriteString(p.text + ".\n")
		}
		for name, words := range map[string]string{"request": all[21].text, "page": text.String()} {
			b.Run(fmt.Sprintf("%d/%s", n, name), func(b *testing.B) {
				for b.Loop() {
					book.like.bestMatches(&Query{Words: []string{words}})
				}
			})
		}
	}
}

func TestExactMatchesDoNotRaiseTheThreshold(t *testing.T) {
	all, traffic := paraphrases(t), capturedTraffic(t, 190)
	i := slices.IndexFunc(all, func(p paraphrase) bool { return p.lesson.Slug == "keep-public-api" })
	l := all[i].lesson
	for range 20 {
		traffic.Add([]Query{{Words: []string{"Please " + l.Trigger.Keywords[0] + "."}}})
	}
	b := NewBook([]*Lesson{l}).WithLikeness(traffic, matchRate)
	if hits := b.Match(&Query{Words: []string{all[i].text}}); len(hits) != 1 {
		t.Errorf("%q: got %d matches, want 1", all[i].text, len(hits))
	}
}

// A lesson's error pattern also matches errors of the same kind in other words, if the error shares a word with the
// lesson.
func TestErrorPatternMatchesSameKindWordings(t *testing.T) {
	port := &Lesson{
		Slug: "free-the-port", Title: "Find the process that holds the port.", State: Active,
		Trigger: Trigger{Description: "A server does not start.", ErrorPatterns: []string{"address already in use"}, ByLikeness: true},
	}
	matchError := func(traffic *Traffic, l *Lesson, text string) []Hit {
		kinds := detect.Kinds(text, detect.Judgement{Outcome: detect.Error})
		return NewBook([]*Lesson{l}).WithLikeness(traffic, matchRate).Match(&Query{Errors: []ErrorText{{CallID: "c", Text: text, Kinds: kinds}}})
	}
	const other = "Something is already running on port 3000."
	if hits := matchError(capturedTraffic(t, enoughSessions), port, other); len(hits) != 1 || hits[0].Resemblance == nil || !slices.Contains(hits[0].Resemblance.Words, "port") || hits[0].CallID != "c" {
		t.Errorf("%q: matches = %+v, want a similarity match", other, hits)
	}
	frequent := capturedTraffic(t, 180)
	for range 30 {
		frequent.Add([]Query{{Errors: []ErrorText{{Text: "bind failed", Kinds: []detect.Kind{"port-in-use"}}}}})
	}
	if hits := matchError(frequent, port, "EADDRINUSE on a port"); len(hits) != 0 {
		t.Errorf("error kind that is frequent in the traffic: matches = %+v, want none", hits)
	}
	if hits := matchError(capturedTraffic(t, enoughSessions), port, "Error: bind: EADDRINUSE"); len(hits) != 0 {
		t.Errorf("error without a word from the lesson: matches = %+v, want none", hits)
	}
	named := port.Clone()
	named.Trigger.ErrorKinds = []string{"dns"}
	if hits := matchError(capturedTraffic(t, enoughSessions), named, other); len(hits) != 0 {
		t.Errorf("error whose kind differs from the lesson's kind, dns: matches = %+v, want none", hits)
	}
}

func TestErrorLessonIgnoresUserText(t *testing.T) {
	l := &Lesson{Slug: "start-docker", Title: "Start the daemon of docker.", State: Active, Trigger: Trigger{Description: "Docker does not run.", ErrorPatterns: []string{"cannot connect to the docker daemon"}}}
	b := NewBook([]*Lesson{l}).WithLikeness(capturedTraffic(t, enoughSessions), matchRate)
	if hits := b.Match(&Query{Words: []string{"start the docker daemon of this service"}}); len(hits) != 0 {
		t.Errorf("user text: matches = %+v, want none", hits)
	}
	if hits := b.Match(&Query{Errors: []ErrorText{{CallID: "c", Text: "the docker daemon did not start"}}}); len(hits) != 1 {
		t.Errorf("tool error: got %d matches, want 1", len(hits))
	}
}

func TestIdentifiersAreSplitIntoWords(t *testing.T) {
	for name, want := range map[string][]string{
		"LockedFlagError": {"Locked", "Flag", "Error"}, "tenant_id": {"tenant", "id"}, "GitHub": {"GitHub"}, "HTTPServer": {"HTTPServer"}, "plain": {"plain"},
	} {
		var got []string
		for field := range strings.SplitSeq(name, "_") {
			got = slices.AppendSeq(got, nameParts(field))
		}
		if !slices.Equal(got, want) {
			t.Errorf("nameParts(%s) = %q, want %q", name, got, want)
		}
	}
	for _, same := range [][2]string{{"tenant_id", "tenant"}, {"LockedFlagError", "locked"}} {
		if stems := textStems(same[0]); !slices.Contains(stems, likeStem(same[1])) {
			t.Errorf("textStems(%s) = %q, want %q among them", same[0], stems, likeStem(same[1]))
		}
	}
}

func TestWordPairHasSynonymStem(t *testing.T) {
	for pair, word := range map[string]string{"I want my money back": "refund", "open a Pull Request": "pr", "sign in": "login"} {
		if stems := textStems(pair); !slices.Contains(stems, likeStem(word)) {
			t.Errorf("textStems(%q) = %q, want %q's stem among them", pair, stems, word)
		}
	}
}

func TestProhibitionsAndTagsAreNotSimilarityMatches(t *testing.T) {
	b, all := likeBook(t, enoughSessions)
	i := slices.IndexFunc(all, func(p paraphrase) bool { return p.lesson.Slug == "keep-public-api" })
	words := strings.ToLower(all[i].text)
	for text, want := range map[string]int{
		words: 1, "Please do not " + words: 0, "Don't " + words: 0, "- Never " + words: 0, "<" + strings.ReplaceAll(words, " ", "_") + ">": 0,
	} {
		n := 0
		for _, h := range b.Match(&Query{Words: []string{text}}) {
			if h.Lesson.Slug == "keep-public-api" {
				n++
			}
		}
		if n != want {
			t.Errorf("%q: the lesson matches %d times, want %d", text, n, want)
		}
	}
}

func TestNotKeywordPreventsMatchByMeaning(t *testing.T) {
	l := &Lesson{Slug: "moor-first", Title: "Moor the boat first.", State: Active, Trigger: Trigger{Keywords: []string{"rent a boat"}, NotKeywords: []string{"toy"}, ByLikeness: true}}
	b := NewBook([]*Lesson{l})
	for text, want := range map[string]bool{"the other one please": true, "it is a toy after all": false} {
		if _, ok := b.MatchByMeaning(&Query{Words: []string{text}}, Resemblance{Lesson: l}); ok != want {
			t.Errorf("%q: match = %v, want %v", text, ok, want)
		}
	}
}

func TestSimilarityMatchesOutsideProgramming(t *testing.T) {
	all := readParaphrases(t, "likeness_domains.tsv")
	lessons := make([]*Lesson, 0, len(all))
	for _, p := range all {
		lessons = append(lessons, p.lesson)
	}
	b := NewBook(lessons).WithLikeness(capturedTraffic(t, enoughSessions), matchRate)
	found, others := 0, []string(nil)
	for _, p := range all {
		for _, h := range b.Match(&Query{Words: []string{p.text}}) {
			if h.Lesson == p.lesson {
				found++
			} else {
				others = append(others, h.Lesson.Slug+": "+p.text)
			}
		}
	}
	t.Logf("%d of %d paraphrases match the right lesson, %d match other lessons: %q", found, len(all), len(others), others)
	if found < 10 || len(others) > 8 {
		t.Errorf("%d of %d sentences match the right lesson, want at least 10; matches with other lessons = %q, want at most 8", found, len(all), others)
	}
}
