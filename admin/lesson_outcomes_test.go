package admin

import (
	"html"
	"net/http"
	"strings"
	"testing"

	"precept/bandit/report"
)

func TestLessonPageShowsOutcomes(t *testing.T) {
	f, _, _ := newLessonFixture(t, nil)
	row := &f.reports.report.Lessons[2]
	row.Guardrail = "dearer"
	row.Outcomes = []report.Outcome{
		{Name: "recurrence", Unit: "share", Verdict: report.Prevents, NInjected: 300, NWithheld: 80, MeanInjected: new(0.21), MeanWithheld: new(0.62), Effect: new(-0.4), Lo: new(-0.5), Hi: new(-0.3)},
		{Name: "tokens", Unit: "percent", Verdict: "proven: " + report.Longer, MeanInjected: new(14_000.0), MeanWithheld: new(10_000.0), Effect: new(40.0), Lo: new(10.0), Hi: new(70.0)},
		{Name: "turns", Unit: "percent", Verdict: report.NotProven, MeanInjected: new(3.0), MeanWithheld: new(4.0), Effect: new(-93.0), Lo: new(-100.0), Hi: new(14669.0)},
		{Name: "loops", Unit: "share", Verdict: report.NotProven, NInjected: 20, NWithheld: 4, NeedsPicks: 26},
	}
	cookie, _ := f.logIn(t)
	page := func(path string) string {
		return html.UnescapeString(body(t, f.do(t, "GET", path, func(r *http.Request) { r.AddCookie(cookie) })))
	}
	got := page("/lessons/helpful")
	for _, want := range []string{
		`<strong class="good">proven: prevents its error</strong>`, "the error occurs less often with the lesson", "21% with the lesson, 62% without; 300 injected picks, 80 withheld",
		"−40.0 [−50.0, −30.0] points", `aria-label="recurrence: −40.0 [−50.0, −30.0] points"`, `<svg class="forest good"`,
		`<strong class="bad">proven: dearer</strong>`, "+40.0 [+10.0, +70.0]%", `<svg class="forest bad"`,
		"needs more picks (- with the lesson, - without; 20 injected picks, 4 withheld; needs about 26 more picks)", "no effect yet", "Guardrail: dearer.", "/help/EXPERIMENT#outcomes",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the lesson page lacks %s", want)
		}
	}
	if !strings.Contains(got, "turns: the interval is still too wide") {
		t.Errorf(`the outcome turns = %q, want substring "turns: the interval is still too wide"`, got)
	}
	if strings.Contains(got, "14669") {
		t.Errorf(`the outcome turns = %q, want no "14669"`, got)
	}
	// Each unit has an axis of its own, so that points, calls and per cent are never compared.
	for _, want := range []string{"Share of sessions, change in points", "Length of a session, change in per cent", `aria-label="scale in points"`, `aria-label="scale in per cent"`} {
		if !strings.Contains(got, want) {
			t.Errorf("the lesson page lacks %s", want)
		}
	}
	if strings.Contains(got, "Failed calls per session, change in calls") || strings.Contains(got, "Points, or per cent") {
		t.Error("the lesson page has an axis for a unit without an outcome, or an axis for two units")
	}
	if got := page("/lessons"); !strings.Contains(got, "guardrail: dearer") {
		t.Error("lessons page: got no text \"guardrail: dearer\", want this text")
	}
	if got := page("/lessons"); !strings.Contains(got, `<strong class="good">recurrence proven: prevents its error</strong>`) {
		t.Error("lessons page: got no proven outcome recurrence, want one")
	}
	row.ExplainedShare, row.PicksSaved, row.Late = new(0.12), 30, 7
	row.AllSessions = &report.AllSessions{Sessions: 900, Rewarded: 200, OffReason: "the lesson changes which sessions have a reward"}
	got = page("/lessons/helpful")
	for _, want := range []string{
		"Facts known before the random assignment explain 12.0% of the variance and save 30 picks.", "rewards arrived after the session had closed.",
		"All sessions: 900 closed picks, 200 rewarded; no estimate: the lesson changes which sessions have a reward.", "/help/EXPERIMENT#narrower-intervals",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the lesson page lacks %s", want)
		}
	}
	row.Outcomes, row.Guardrail = nil, ""
	if got := page("/lessons/helpful"); strings.Contains(got, "Outcomes in every session") {
		t.Error("page of a lesson without outcomes: got the section \"Outcomes in every session\", want no such section")
	}
}

// A verdict that is still open covers no model, so the page states only which models have enough picks.
func TestModelTableOfOpenVerdict(t *testing.T) {
	f, _, _ := newLessonFixture(t, nil)
	row := &f.reports.report.Lessons[2]
	row.Models = report.Models{WithVerdict: []string{"small"}, WithoutVerdict: []string{"large"}, Effects: []report.ModelEffect{{Model: "small", Picks: 80}, {Model: "large", Picks: 3}}}
	cookie, _ := f.logIn(t)
	for verdict, want := range map[report.Verdict][2]string{
		report.Unproven:    {"Enough picks", "Covered by the verdict"},
		report.Benched:     {"Enough picks", "Covered by the verdict"},
		report.ProvenHelps: {"Covered by the verdict", "Enough picks"},
	} {
		row.Verdict = verdict
		got := body(t, f.do(t, "GET", "/lessons/helpful", func(r *http.Request) { r.AddCookie(cookie) }))
		if !strings.Contains(got, ">"+want[0]+"<") || strings.Contains(got, want[1]) {
			t.Errorf("verdict %s: the page lacks the column %q, or has %q", verdict, want[0], want[1])
		}
	}
}
