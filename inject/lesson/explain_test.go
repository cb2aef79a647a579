package lesson_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"precept/inject/lesson"
)

func explainNow() time.Time { return time.Date(2032, 1, 2, 3, 4, 5, 0, time.UTC) }

func activeLesson(slug string, t lesson.Trigger) *lesson.Lesson {
	return &lesson.Lesson{Slug: slug, Title: slug, State: lesson.Active, Outcome: "success", Trigger: t}
}

func TestExplainReturnsCausesAndObstacles(t *testing.T) {
	build := lesson.Trigger{Keywords: []string{"fix the build"}}
	changed := func(fn func(l *lesson.Lesson)) *lesson.Lesson {
		l := activeLesson("one", build)
		fn(l)
		return l
	}
	words := lesson.Query{Words: []string{"please fix the build"}, Agent: "coder", Role: "reviewer", Model: "m-1", Tenant: "default"}
	for _, tc := range []struct {
		name     string
		lessons  []*lesson.Lesson
		query    lesson.Query
		matches  bool
		causes   string
		obstacle string // prefix of the joined obstacles
	}{
		{"keyword in the user text", []*lesson.Lesson{activeLesson("one", build)}, words, true, "keyword fix the build words", ""},
		{
			"keyword in a tool error",
			[]*lesson.Lesson{activeLesson("one", build)},
			lesson.Query{Errors: []lesson.ErrorText{{CallID: "c1", Text: "fix the build"}}},
			true, "keyword fix the build tool error", "",
		},
		{
			"request tag",
			[]*lesson.Lesson{activeLesson("one", lesson.Trigger{Tags: []string{"golang"}})},
			lesson.Query{Tags: []string{" Golang "}},
			true, "tag golang request", "",
		},
		{
			"error tag",
			[]*lesson.Lesson{activeLesson("one", lesson.Trigger{Tags: []string{"golang"}})},
			lesson.Query{Errors: []lesson.ErrorText{{CallID: "c1", Text: "x", Tags: []string{"golang"}}}},
			true, "tag golang request", "",
		},
		{
			"error pattern in a tool error",
			[]*lesson.Lesson{activeLesson("one", lesson.Trigger{ErrorPatterns: []string{"no such stage"}})},
			lesson.Query{Errors: []lesson.ErrorText{{CallID: "c1", Text: "no such stage"}}},
			true, "error_pattern no such stage tool error", "",
		},
		{
			"error pattern in the user text",
			[]*lesson.Lesson{activeLesson("one", lesson.Trigger{ErrorPatterns: []string{"no such stage"}})},
			lesson.Query{Words: []string{"it says no such stage"}},
			false, "", `the error pattern "no such stage" occurs in the user's message`,
		},
		{
			"offered tool",
			[]*lesson.Lesson{activeLesson("one", lesson.Trigger{Keywords: build.Keywords, Tools: []string{"ba*"}})},
			lesson.Query{Words: words.Words, Tools: []string{"bash"}},
			true, "keyword fix the build words, tool ba* request", "",
		},
		{
			"tool that is not offered",
			[]*lesson.Lesson{activeLesson("one", lesson.Trigger{Keywords: build.Keywords, Tools: []string{"browser", "page"}})},
			lesson.Query{Words: words.Words, Tools: []string{"bash"}},
			false, "keyword fix the build words", "the request offers none of the lesson's tools (browser, page)",
		},
		{
			"keyword in the user text, tool only in the error",
			[]*lesson.Lesson{activeLesson("one", lesson.Trigger{Keywords: build.Keywords, Tools: []string{"bash"}})},
			lesson.Query{Words: words.Words, Errors: []lesson.ErrorText{{CallID: "c1", Tool: "bash", Text: "no such stage"}}},
			false, "keyword fix the build words, tool bash request", "the request with the trigger offers none of the lesson's tools (bash)",
		},
		{"quarantined lesson", []*lesson.Lesson{changed(func(l *lesson.Lesson) { l.State = lesson.Quarantined })}, words, false, "keyword fix the build words", "the lesson is quarantined; only lessons"},
		{
			"expired lesson",
			[]*lesson.Lesson{changed(func(l *lesson.Lesson) { at := explainNow().Add(-time.Hour); l.ExpiresAt = at })},
			words, false, "keyword fix the build words", "the lesson expired at 2032-01-02T02:04:05Z",
		},
		{
			"lesson for another tenant",
			[]*lesson.Lesson{changed(func(l *lesson.Lesson) { l.Scope = lesson.Scope{Tenant: "acme", Agent: "x"} })},
			words, false, "keyword fix the build words", `the lesson is only for tenant "acme" and agent "x"`,
		},
		{
			"not_keyword in the user text",
			[]*lesson.Lesson{activeLesson("one", lesson.Trigger{Keywords: build.Keywords, NotKeywords: []string{"please fix"}})},
			words, false, "keyword fix the build words", `the not_keyword "please fix" occurs in the text`,
		},
		{
			"lesson for other models",
			[]*lesson.Lesson{activeLesson("one", lesson.Trigger{Keywords: build.Keywords, Models: []string{"gpt-*", "o1"}})},
			words, false, "keyword fix the build words", `the lesson is for the models gpt-*, o1, not for "m-1"`,
		},
		{
			"lesson for other targets",
			[]*lesson.Lesson{activeLesson("one", lesson.Trigger{Keywords: build.Keywords, Targets: []lesson.Target{{Operator: "writer", Role: "chief"}, {Skill: "go"}}})},
			words, false, "keyword fix the build words", `the lesson's targets are agent writer and role chief, or skill go; the request has agent coder and role reviewer`,
		},
		{
			"superseded lesson", []*lesson.Lesson{activeLesson("one", build), func() *lesson.Lesson {
				l := activeLesson("two", lesson.Trigger{Keywords: []string{"something else"}})
				l.Supersedes = []string{"one"}
				return l
			}()}, words, false, "keyword fix the build words", "two supersedes the lesson",
		},
	} {
		q := tc.query
		q.Now = explainNow()
		all := lesson.NewBook(tc.lessons).Explain(&q)
		if len(all) != 1 || all[0].Lesson.Slug != "one" || all[0].Matches != tc.matches {
			t.Errorf(`%s: Explain = %+v, want only the lesson "one" with Matches = %v`, tc.name, all, tc.matches)
			continue
		}
		var causes []string
		for _, cause := range all[0].Causes {
			causes = append(causes, strings.Join([]string{cause.Kind, cause.Text, cause.Where}, " "))
		}
		if got := strings.Join(causes, ", "); got != tc.causes {
			t.Errorf("%s: causes = %q, want %q", tc.name, got, tc.causes)
		}
		if got := strings.Join(all[0].Obstacles, "; "); !strings.HasPrefix(got, tc.obstacle) || tc.obstacle == "" && got != "" {
			t.Errorf("%s: obstacles = %q, want them to start with %q", tc.name, got, tc.obstacle)
		}
	}
}

// A lesson that matches has a cause, and a lesson that does not match has an obstacle.
func TestExplainAgreesWithMatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		phrase := rapid.SampledFrom([]string{"fix the build", "golang", "no such stage", "bash", "parser"})
		drawPhrases := func(name string, maxPhrases int) []string {
			return rapid.SliceOfNDistinct(phrase, 0, maxPhrases, rapid.ID[string]).Draw(t, name)
		}
		var lessons []*lesson.Lesson
		for i := range rapid.IntRange(1, 3).Draw(t, "lessons") {
			l := activeLesson("l"+string(rune('a'+i)), lesson.Trigger{
				Keywords: drawPhrases("keywords", 2), Tags: drawPhrases("tags", 1), ErrorPatterns: drawPhrases("patterns", 1), NotKeywords: drawPhrases("vetoes", 1),
				Tools: drawPhrases("tools", 1), Models: rapid.SampledFrom([][]string{nil, nil, {"m*"}, {"n"}}).Draw(t, "models"),
				Targets: rapid.SampledFrom([][]lesson.Target{nil, nil, {{Operator: "coder"}}, {{Role: "chief"}}}).Draw(t, "targets"),
			})
			l.State = rapid.SampledFrom([]lesson.State{lesson.Active, lesson.Active, lesson.Trial, lesson.Quarantined}).Draw(t, "state")
			if rapid.IntRange(0, 5).Draw(t, "expires") == 0 {
				l.ExpiresAt = explainNow().Add(-time.Second)
			}
			if i > 0 && rapid.IntRange(0, 3).Draw(t, "successor") == 0 {
				l.Supersedes = []string{"la"}
			}
			lessons = append(lessons, l)
		}
		q := &lesson.Query{
			Words: drawPhrases("words", 2), Tags: drawPhrases("given", 1), Tools: drawPhrases("offered", 2), Now: explainNow(), Agent: "coder", Model: "m-1",
		}
		for i, text := range drawPhrases("errors", 2) {
			q.Errors = append(q.Errors, lesson.ErrorText{CallID: string(rune('a' + i)), Tool: "bash", Text: "it said: " + text})
		}
		book := lesson.NewBook(lessons)
		var fired []string
		for _, h := range book.Match(q) {
			fired = append(fired, h.Lesson.Slug)
		}
		for _, e := range book.Explain(q) {
			if e.Matches != slices.Contains(fired, e.Lesson.Slug) {
				t.Fatalf("%s: Explain returned Matches = %v, but Match returned %v, want the same result", e.Lesson.Slug, e.Matches, fired)
			}
			if e.Matches && (len(e.Causes) == 0 || len(e.Obstacles) > 0 && !strings.Contains(e.Obstacles[0], "occurs in the user's message")) || !e.Matches && len(e.Obstacles) == 0 {
				t.Fatalf("%s: Matches = %v, causes = %v, obstacles = %q, want a cause if the lesson matches, and an obstacle if not",
					e.Lesson.Slug, e.Matches, e.Causes, e.Obstacles)
			}
			fired = slices.DeleteFunc(fired, func(s string) bool { return s == e.Lesson.Slug })
		}
		if len(fired) > 0 {
			t.Fatalf("Explain lacks the lessons %v, want all lessons that Match returned", fired)
		}
	})
}
