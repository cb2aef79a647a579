package distill_test

import (
	"strings"
	"testing"

	"precept/bandit/report"
	"precept/distill"
	"precept/internal/sample"
)

// Opinions are counted for each text of a lesson. Only the newest opinion from a session counts, and a dry run does not
// change the counts.
func TestOpinionsAreCountedByLessonText(t *testing.T) {
	f := newFixture(t)
	writeLesson(t, f, "old-advice")
	injected := []sample.Lesson{{Slug: "old-advice", Arm: "old-advice@0123456789ab.c", State: "injected"}, {Slug: "gone", Arm: "gone@0123456789ab", State: "injected"}}
	addSession := func(name string, turns int) {
		f.addTenantSession("default", name, injected, []event{user("Run the benchmark."), call("bash", `{"command":"make bench"}`, "ok"), agent("Well."), user("And again.")}[:turns]...)
	}
	judgeOpinion := func(opinion string, change ...func(*distill.Options)) {
		t.Helper()
		answer := validJudge("success", noLessons)
		s := &scriptedJudge{answer: func(_ int, a judgeRequest) (int, map[string]string, string) {
			return 200, nil, strings.ReplaceAll(answer(a), `\"followed\"`, `\"`+opinion+`\"`)
		}}
		if _, _, err := runJudge(t, f, s, change...); err != nil {
			t.Fatal(err)
		}
	}
	checkOpinions := func(want map[string]report.Opinions) {
		t.Helper()
		got, err := distill.ReadOpinions(t.Context(), f.store, "default")
		if err != nil {
			t.Fatal(err)
		}
		checkEqual(t, "opinions", got, want)
	}
	addSession("one", 2)
	judgeOpinion("ignored", func(o *distill.Options) { o.DryRun = true })
	checkOpinions(map[string]report.Opinions{})
	addSession("two", 2)
	judgeOpinion("ignored")
	judgeOpinion("followed") // no request, because the sessions are unchanged
	checkOpinions(map[string]report.Opinions{"old-advice@0123456789ab": {Ignored: 2}})
	addSession("one", 4)
	judgeOpinion("contradicted")
	checkOpinions(map[string]report.Opinions{"old-advice@0123456789ab": {Ignored: 1, Contradicted: 1}})
}
