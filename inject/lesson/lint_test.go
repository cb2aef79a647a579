package lesson_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"precept/inject/lesson"
)

// findingsAbout checks a book with the lesson the-one, whose text is file, and other lessons. It returns the findings
// about the-one as "code field".
func findingsAbout(t *testing.T, c lesson.Checker, file string, others ...string) []string {
	t.Helper()
	texts := map[string][]byte{"the-one.md": []byte(file)}
	for i, text := range others {
		texts[string(rune('a'+i))+".md"] = []byte(text)
	}
	book, _, _ := lesson.NewTexts("bank").Load(texts)
	var out []string
	for _, f := range c.CheckBook(book) {
		if f.File != "bank/the-one.md" {
			continue
		}
		if f.Slug != "the-one" || f.Message == "" || !strings.HasPrefix(f.String(), "bank/the-one.md: "+string(f.Severity)+": "+string(f.Code)+": ") {
			t.Errorf("finding = %q, want it to have file, slug, severity, code and message", f)
		}
		out = append(out, strings.TrimSpace(string(f.Code)+" "+strings.TrimPrefix(f.Field, "trigger.metadata.precept.")))
	}
	return out
}

func TestChecksReportHitsButNotNearMisses(t *testing.T) {
	t.Parallel()
	noon := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	one := func(replaced ...string) string { return lessonFile("the-one", replaced...) }
	keywords := func(list string) string { return one("[load more]", "["+list+"]") }
	backtest := func(fired, sessions int) lesson.Checker {
		return lesson.Checker{Backtest: func(*lesson.Lesson) (int, int) { return fired, sessions }}
	}
	blob := strings.Repeat("aB3x", 16) // looks like encoded data
	for _, tc := range []struct {
		name                      string
		want                      string         // finding
		hit, nearMiss             string         // lesson with the finding, lesson that barely avoids it
		hitChecks, nearMissChecks lesson.Checker // if nearMissChecks has no Backtest, hitChecks apply to both lessons
		others                    []string
	}{
		{name: "stop word", want: "trigger_overbroad keywords[0]", hit: keywords("please"), nearMiss: keywords("please sir")},
		{name: "two letters", want: "trigger_overbroad keywords[0]", hit: keywords("ci"), nearMiss: keywords("cis")},
		{name: "two letters and a star", want: "trigger_overbroad keywords[0]", hit: keywords("ci*"), nearMiss: keywords("cis*")},
		{name: "two Cyrillic letters, not two Chinese characters", want: "trigger_overbroad keywords[0]", hit: keywords("да"), nearMiss: keywords("测试")},
		{name: "no trigger", want: "trigger_overbroad trigger", hit: keywords(""), nearMiss: one("  description", "  tags: [web]\n  description", "[load more]", "[]")},
		{name: "no letter", want: "dead_keyword keywords[0]", hit: keywords(`"=>"`), nearMiss: keywords(`"=> x"`)},
		{name: "one letter", want: "dead_keyword keywords[0]", hit: keywords("q"), nearMiss: keywords("q1x")},
		{name: "encoded data", want: "dead_keyword keywords[0]", hit: keywords(blob), nearMiss: keywords(blob[1:])},
		{name: "keyword that contains a not_keyword", want: "dead_keyword keywords[0]", hit: one("[load more]", "[load more]\n      not_keywords: [load]"), nearMiss: one("[load more]", "[load more]\n      not_keywords: [loads]")},
		{name: "keyword in its own title", want: "self_match keywords[0]", hit: keywords("before clicking"), nearMiss: keywords("before click")},
		{name: "keyword in its own advice", want: "self_match keywords[0]", hit: keywords("page id again"), nearMiss: keywords("page ids again")},
		// The advice may contain the error pattern, because an agent that quotes the advice causes no tool error.
		{name: "error pattern in its own title", hit: one("keywords: [load more]", "error_patterns: [before clicking]"), nearMiss: one()},
		{name: "keyword in advice beyond the shown part", hit: one("Read the page", strings.Repeat("Look at each of them. ", 40)+"Load more. Read the page"), nearMiss: one()},
		{name: "empty advice", want: "no_advice", hit: one("Read the page id again.", "  "), nearMiss: one("Read the page id again.", ".")},
		{name: "expired", want: "expired expires_at", hit: one("outcome", "expires_at: 2030-01-01T12:00:00Z\noutcome"), nearMiss: one("outcome", "expires_at: 2030-01-01T12:00:01Z\noutcome"), hitChecks: lesson.Checker{Now: noon}},
		{name: "matches most sessions", want: "trigger_overbroad trigger", hit: one(), nearMiss: one(), hitChecks: backtest(13, 20), nearMissChecks: backtest(12, 20)},
		{name: "few sessions, most match", want: "trigger_overbroad trigger", hit: one(), nearMiss: one(), hitChecks: backtest(20, 20), nearMissChecks: backtest(19, 19)},
		{name: "matches no session", want: "dead_trigger trigger", hit: one(), nearMiss: one(), hitChecks: backtest(0, 1000), nearMissChecks: backtest(0, 999)},
		{name: "supersedes an unknown lesson", want: "supersedes_missing supersedes[0]", hit: one("outcome", "supersedes: [old-a]\noutcome"), nearMiss: one("outcome", "supersedes: [other]\noutcome"), others: []string{lessonFile("other", "load more", "other words")}},
		{name: "supersedes itself", want: "lesson_invalid supersedes", hit: one("outcome", "supersedes: [the-one]\noutcome"), nearMiss: one()},
		{name: "unknown evidence", want: "evidence_unresolvable evidence", hit: one(), nearMiss: one("ref: r1", "ref: r2"), hitChecks: lesson.Checker{Resolve: func(e lesson.Evidence) bool { return e.Ref == "r2" }}},
		{name: "another lesson with the opposite outcome", want: "contradiction trigger", hit: keywords("Other  WORDS"), nearMiss: keywords("other word"), others: []string{lessonFile("z-other", "load more", "other words", "success", "failure")}},
		{name: "another lesson with a mixed outcome", hit: keywords("other words"), nearMiss: one(), others: []string{lessonFile("z-other", "load more", "other words", "success", "mixed")}},
	} {
		want := []string{tc.want}
		if tc.want == "" {
			want = nil
		}
		if got := findingsAbout(t, tc.hitChecks, tc.hit, tc.others...); !slices.Equal(got, want) {
			t.Errorf("%s: findings = %q, want %q", tc.name, got, want)
		}
		if tc.nearMissChecks.Backtest == nil {
			tc.nearMissChecks = tc.hitChecks
		}
		if got := findingsAbout(t, tc.nearMissChecks, tc.nearMiss, tc.others...); len(got) > 0 {
			t.Errorf("%s, near miss: findings = %q, want none", tc.name, got)
		}
	}
}

func TestFileNameMustMatchTheSlug(t *testing.T) {
	t.Parallel()
	for name, matches := range map[string]bool{
		"the-one.md": true, "web/the-one.md": true, "the-one.MD": true, "The One.md": true, "the_one.md": true, "web/LESSON.md": true,
		"the-two.md": false, "lesson.md": false, "the-one.old.md": false,
	} {
		book, problems, _ := lesson.NewTexts("bank").Load(map[string][]byte{name: []byte(lessonFile("the-one"))})
		if got := (lesson.Checker{}).CheckBook(book); len(problems) > 0 || matches != (len(got) == 0) {
			t.Errorf("%s matches the slug: %v; findings = %v, problems = %v, want no problem, and a finding only for a name that does not match", name, matches, got, problems)
		}
	}
}

func TestContradictionNeedsCommonAudience(t *testing.T) {
	t.Parallel()
	scoped := func(tenant, agent string) string {
		return "metadata: {precept: {source: api, tenant: " + tenant + ", agent: " + agent + ", state: active, content_hash: HASH}}\noutcome"
	}
	targets := func(list string) string { return "  targets: [" + list + "]\n  description" }
	for _, tc := range []struct {
		name      string
		yes, no   []string // replacements in the two contradicting lessons
		different bool     // the lessons have no common audience, so they do not contradict each other
	}{
		{name: "anyone"},
		{name: "one tenant", yes: []string{"outcome", scoped("acme", "coder")}, no: []string{"outcome", scoped("acme", "coder")}},
		{name: "two tenants", yes: []string{"outcome", scoped("acme", "coder")}, no: []string{"outcome", scoped("other", "coder")}, different: true},
		{name: "two agents", yes: []string{"outcome", scoped("acme", "coder")}, no: []string{"outcome", scoped("acme", "writer")}, different: true},
		{name: "anyone and one agent", no: []string{"outcome", scoped("acme", "coder")}},
		{name: "two roles", yes: []string{"  description", targets("{role: writer}")}, no: []string{"  description", targets("{role: reviewer}")}, different: true},
		{name: "a role and a skill", yes: []string{"  description", targets("{role: writer}")}, no: []string{"  description", targets("{skill: go}")}},
		{name: "a role and anyone", yes: []string{"  description", targets("{role: writer}")}},
		{name: "a glob that includes the other role", yes: []string{"  description", targets("{role: w*}")}, no: []string{"  description", targets("{role: writer}")}},
		{name: "a common second target", yes: []string{"  description", targets("{role: x1}, {role: writer}")}, no: []string{"  description", targets("{role: y1}, {role: writer}")}},
		{name: "one supersedes the other", yes: []string{"outcome", "supersedes: [no-lesson]\noutcome"}, different: true},
		{name: "one is rejected", yes: []string{"outcome", "metadata: {precept: {state: rejected}}\noutcome"}, different: true},
	} {
		parse := func(slug, outcome string, replaced []string) *lesson.Lesson {
			file := strings.Replace(lessonFile(slug, replaced...), "outcome: success", "outcome: "+outcome, 1)
			draft, err := lesson.Parse(slug+".md", []byte(file))
			if err != nil {
				t.Fatalf("%s: Parse(%s) without the hash: %v", tc.name, slug, err)
			}
			l, err := lesson.Parse(slug+".md", []byte(strings.Replace(file, "HASH", `"`+draft.ContentHash+`"`, 1)))
			if err != nil {
				t.Fatalf("%s: Parse(%s): %v", tc.name, slug, err)
			}
			return l
		}
		yes, no := parse("yes-lesson", "success", tc.yes), parse("no-lesson", "failure", tc.no)
		book := lesson.NewBook([]*lesson.Lesson{yes, no})
		for _, l := range []*lesson.Lesson{yes, no} {
			if got := len(book.Contradicting(l)); got != 0 == tc.different {
				t.Errorf("%s: %s contradicts %d lessons, want none: %t", tc.name, l.Slug, got, tc.different)
			}
		}
	}
}
