package report_test

import (
	"math"
	"strings"
	"testing"

	"precept/bandit"
	"precept/bandit/report"
)

// The report predicts the time of a verdict, and names the change that would bring the verdict
// sooner.
func TestExpectPredictsTheVerdict(t *testing.T) {
	c := bandit.New()
	addArm(c, "a", arm{eps: 0.2, n1: 400, n0: 100, y1: 0.55, y0: 0.5, day: today() - 6})
	r := only(t, c)
	if r.Verdict != report.Unproven || r.NeedsPicks <= 0 || r.Weeks == nil {
		t.Fatalf("got %s with %d needed picks, want %s and some", r.Verdict, r.NeedsPicks, report.Unproven)
	}
	day := noon.AddDate(0, 0, int(*r.Weeks*7)).Format("2006-01-02")
	if next := noon.AddDate(0, 0, int(*r.Weeks*7)+1).Format("2006-01-02"); r.Expected != day && r.Expected != next {
		t.Errorf("in %v weeks: got the date %q, want %s", r.Weeks, r.Expected, day)
	}
	if r.NeedsSessions < r.NeedsPicks || len(r.Sooner) != 2 || !strings.HasPrefix(r.Sooner[0], "a trial, in ") || r.Sooner[1] != "more traffic" {
		t.Errorf("got %d needed sessions and the advice %q, want at least the picks, a trial and more traffic", r.NeedsSessions, r.Sooner)
	}
	trial := only(t, c, func(in *report.Input) { in.Lessons[0].Epsilon = 0.5 })
	if trial.NeedsPicks >= r.NeedsPicks || len(trial.Sooner) != 1 {
		t.Errorf("in a trial the row needs %d picks and has the advice %q, want fewer than %d picks and one advice", trial.NeedsPicks, trial.Sooner, r.NeedsPicks)
	}
	if never := only(t, bandit.New()); never.Expected != "" || !strings.Contains(strings.Join(never.Sooner, "; "), "no closed session has matched") {
		t.Errorf("a lesson without a match: got date %q, advice %q, want no date and the reason", never.Expected, never.Sooner)
	}
	mute := bandit.New()
	addArm(mute, "a", arm{eps: 0.2, n1: 400, n0: 100, y1: 0.55, y0: 0.5, mute1: 800, mute0: 200})
	if r := only(t, mute); !strings.Contains(strings.Join(r.Sooner, "; "), "more feedback: 33%") {
		t.Errorf("a third of the sessions rewarded: got the advice %q, want more feedback: 33%%", r.Sooner)
	}
	helps := bandit.New()
	addArm(helps, "a", arm{eps: 0.2, n1: 1600, n0: 400, y1: 0.8, y0: 0.5})
	if r := only(t, helps); r.Expected != "" || r.NeedsSessions != 0 || r.Sooner != nil {
		t.Errorf("a row with the verdict %s has the date %q, %d needed sessions and the advice %q, want none", r.Verdict, r.Expected, r.NeedsSessions, r.Sooner)
	}
}

// A benched lesson is picked in two sessions of a hundred: its earlier picks do not predict the time to a verdict.
func TestExpectUsesTheRateOfABenchedLesson(t *testing.T) {
	c := bandit.New()
	addArm(c, "a", arm{eps: 0.2, n1: 400, n0: 100, y1: 0.45, y0: 0.5, day: today() - 6})
	r := only(t, c)
	if r.Verdict != report.Benched || r.Epsilon != 0.5 || r.Weeks == nil || *r.Weeks < 10*float64(r.NeedsPicks)/r.PerWeek {
		t.Errorf("the row has the verdict %s at epsilon %v and needs %d picks in %v weeks at %v a week, want benched at 0.5 and at least ten times as long", r.Verdict, r.Epsilon, r.NeedsPicks, *r.Weeks, r.PerWeek)
	}
	if len(r.Sooner) == 0 || !strings.HasPrefix(r.Sooner[0], "a trial") {
		t.Errorf(`got %q, want non-empty Sooner and Sooner[0] with the prefix "a trial"`, r.Sooner)
	}
	if rate := float64(r.NeedsPicks) / *r.Weeks; float64(r.NeedsSessions) < float64(r.NeedsPicks)*r.PerWeek/rate {
		t.Errorf("the row needs %d sessions for %d picks at %v picks a week, want at least %v", r.NeedsSessions, r.NeedsPicks, rate, float64(r.NeedsPicks)*r.PerWeek/rate)
	}
	// A lesson in a trial is picked at each match, so the past rate is that of its trial.
	r = only(t, c, func(in *report.Input) { in.Lessons[0].Epsilon = 0.5 })
	if r.Verdict != report.Benched || r.Weeks == nil || math.Abs(*r.Weeks-float64(r.NeedsPicks)/r.PerWeek) > 0.01 || strings.Contains(r.Note, "only probes") {
		t.Errorf("in a trial the row has the verdict %s and needs %d picks in %v weeks at %v a week, want benched and the quotient; note %q, want no probes", r.Verdict, r.NeedsPicks, *r.Weeks, r.PerWeek, r.Note)
	}
}

// A planned trial has its verdict at its planned evaluation, for any width of the row's interval.
func TestExpectNamesThePlannedEvaluation(t *testing.T) {
	c := bandit.New()
	addArm(c, "a", arm{eps: 0.2, n1: 400, n0: 100, y1: 0.55, y0: 0.5, day: today() - 6})
	planned := func(in *report.Input) { in.Lessons[0].Epsilon, in.Lessons[0].Trial = 0.5, "1700000000.300" }
	if r := only(t, c, planned); r.Trial != "running" || r.NeedsPicks != 300 {
		t.Errorf("trial %s: got %d picks to its evaluation, want 300 in a running trial", r.Trial, r.NeedsPicks)
	}
	if r := only(t, c, func(in *report.Input) { planned(in); in.Lessons[0].Trial = "1700000000.900000" }); r.NeedsPicks >= 900_000 {
		t.Errorf("the row's own verdict comes after %d picks, want fewer than 900000", r.NeedsPicks)
	}
}
