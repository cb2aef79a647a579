package report_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"precept/bandit"
	"precept/bandit/report"
	"precept/bandit/trial"
)

// If a verdict takes long, the row lists remedies. A trial or more feedback is listed if it would shorten the time by
// at least a quarter. The last remedy is wider triggers if the lesson is picked rarely, and more traffic otherwise.
func TestSpeedupsListRemediesForLateVerdict(t *testing.T) {
	usual := armSessions{epsilon: 0.2, injected: 400, withheld: 100, injectedRate: 0.55, withheldRate: 0.5, day: today() - 6}
	withoutRewards := func(injected, withheld int) armSessions {
		a := usual
		a.unrewardedInjected, a.unrewardedWithheld = injected, withheld
		return a
	}
	for name, tc := range map[string]struct {
		sessions armSessions
		others   int // rewarded sessions with other lessons
		epsilon  float64
		want     []string
	}{
		"all picks rewarded":      {sessions: usual, epsilon: 0.45, want: []string{"more traffic"}},
		"74% rewarded":            {sessions: withoutRewards(134, 33), epsilon: 0.45, want: []string{"more feedback: only 74% of picks have a reward", "more traffic"}},
		"75% rewarded":            {sessions: withoutRewards(132, 33), epsilon: 0.45, want: []string{"more traffic"}},
		"picked in 5%":            {sessions: usual, others: 9500, epsilon: 0.45, want: []string{"more traffic"}},
		"picked in just below 5%": {sessions: usual, others: 9600, epsilon: 0.45, want: []string{"wider triggers: the lesson is picked in only 5.0% of rewarded sessions"}},
		"picked in 1%":            {sessions: usual, others: 49_500, epsilon: 0.45, want: []string{"wider triggers: the lesson is picked in only 1.0% of rewarded sessions"}},
		"small holdout":           {sessions: armSessions{epsilon: 0.05, injected: 950, withheld: 50, injectedRate: 0.55, withheldRate: 0.5, day: today() - 6}, epsilon: 0.05, want: []string{"a trial", "more traffic"}},
	} {
		counters := bandit.New()
		addArmSessions(counters, "a", tc.sessions)
		if tc.others > 0 {
			addArmSessions(counters, "others", armSessions{epsilon: 0.5, injected: tc.others / 2, withheld: tc.others / 2, injectedRate: 0.5, withheldRate: 0.5})
		}
		r := lessonRow(t, counters, func(in *report.Input) { in.Chooser = constantChooser{report.Belief{Var: 1, Epsilon: tc.epsilon}} })
		if !slices.Equal(r.Speedups, tc.want) {
			t.Errorf("%s: Speedups = %q, want %q", name, r.Speedups, tc.want)
		}
		want := math.Ceil(float64(r.NeedsPicks) * float64(int(r.Rewarded)+tc.others) / float64(r.Rewarded))
		if math.Abs(float64(r.NeedsSessions)-want) > 1 {
			t.Errorf("%s: NeedsSessions = %d for %d needed picks, want %v", name, r.NeedsSessions, r.NeedsPicks, want)
		}
	}
	old := bandit.New()
	addArmSessions(old, "a", armSessions{epsilon: 0.05, injected: 475, withheld: 25, injectedRate: 0.55, withheldRate: 0.5, day: today() - 60})
	r := lessonRow(t, old, func(in *report.Input) { in.Chooser = constantChooser{report.Belief{Var: 1, Epsilon: 0.05}} })
	if r.Weeks != nil || r.Expected != "" || !slices.Equal(r.Speedups, []string{"more traffic"}) {
		t.Errorf("without recent sessions: Weeks = %v, Expected = %q, Speedups = %q, want nil, no date and the remedy \"more traffic\"", r.Weeks, r.Expected, r.Speedups)
	}
}

// If a verdict takes more than 520 weeks, the row has no expected date.
func TestVerdictBeyondTenYearsHasNoDate(t *testing.T) {
	for rewarded, want := range map[int]bool{400: true, 4: false} {
		c := bandit.New()
		addArmSessions(c, "a", armSessions{epsilon: 0.5, injected: rewarded, withheld: rewarded, injectedRate: 0.5, withheldRate: 0.5, day: today() - 13})
		addArmSessions(c, "a", armSessions{epsilon: 0.5, injected: 100, withheld: 100, injectedRate: 0.5, withheldRate: 0.5, day: today() - 90})
		r := lessonRow(t, c, func(in *report.Input) { in.Chooser = constantChooser{report.Belief{Var: 1, Epsilon: 0.5}} })
		if (r.Expected != "") != want || r.Weeks == nil || (*r.Weeks < 520) != want {
			t.Errorf("%d recent rewards with the lesson and as many without: Expected = %q, want a date: %v", rewarded, r.Expected, want)
		}
	}
}

// The cost of an injection is computed from the average number of injected tokens. Before the first injection, it is
// computed from the size of the lesson.
func TestInjectionCostUsesAverageTokens(t *testing.T) {
	withTokenCost := func(in *report.Input) { in.Policy.TokenCost = 0.0001 }
	c := bandit.New()
	if r := lessonRow(t, c, withTokenCost); r.Tokens != 33 || math.Abs(r.Cost-0.0033) > 1e-12 {
		t.Errorf("never injected: Tokens = %d, Cost = %v, want 33 and 0.0033", r.Tokens, r.Cost)
	}
	addArmSessions(c, "a", armSessions{epsilon: 0.2, injected: 20, withheld: 5, unrewardedInjected: 10})
	if r := lessonRow(t, c, withTokenCost); r.Tokens != 40 || r.TokensTotal != 1200 || math.Abs(r.Cost-0.004) > 1e-12 {
		t.Errorf("30 injections: Tokens = %d, TokensTotal = %d, Cost = %v, want 40, 1200 and 0.004", r.Tokens, r.TokensTotal, r.Cost)
	}
	withoutTokens := trial.Assignment{
		Decided: true,
		Picks:   []trial.Pick{{Slug: "b", Arm: "b@abc", Eps: 0.2, Injected: true}},
	}
	c.Add(withoutTokens.ClosingDeltas())
	for _, r := range report.Build(newInput(c, "a", "b")).Lessons {
		if r.Slug == "b" && r.Tokens != 33 {
			t.Errorf("injection without a token count: Tokens = %d, want the lesson's size, 33", r.Tokens)
		}
	}
}

// LOODelta compares the sessions with the lesson with all other sessions. If there are no others, the row has no
// LOODelta.
func TestLOODeltaNeedsOtherSessions(t *testing.T) {
	c := bandit.New()
	addArmSessions(c, "a", armSessions{epsilon: 0, injected: 10, injectedRate: 0.5})
	if r := lessonRow(t, c); r.LOODelta != nil || r.LOOGap != nil || *r.MeanInjected != 0.5 || r.MeanWithheld != nil {
		t.Errorf("injected in every session: LOODelta = %v, LOOGap = %v, means = %v and %v, want only the mean 0.5 with the lesson", r.LOODelta, r.LOOGap, *r.MeanInjected, r.MeanWithheld)
	}
	addArmSessions(c, "a", armSessions{epsilon: 0.2, withheld: 1, withheldRate: 1})
	if r := lessonRow(t, c); r.LOODelta == nil || math.Abs(*r.LOODelta+0.5) > 1e-9 || r.LOOGap != nil {
		t.Errorf("withheld once: LOODelta = %v, LOOGap = %v, want -0.5 and nil", r.LOODelta, r.LOOGap)
	}
}

func TestWindowIncludesWholeFirstDay(t *testing.T) {
	c := bandit.New()
	for back, n := range []int{10, 20, 40, 80} { // injected and withheld sessions today, yesterday, and so on
		addArmSessions(c, "a", armSessions{epsilon: 0.5, injected: n, withheld: n, injectedRate: 0.5, withheldRate: 0.5, day: today() - int32(back)})
	}
	for window, want := range map[time.Duration]int64{11 * time.Hour: 10, 13 * time.Hour: 30, 24 * time.Hour: 30, 36*time.Hour + time.Second: 70, 90 * 24 * time.Hour: 150} {
		r := lessonRow(t, c, func(in *report.Input) { in.Window = window })
		if r.NInjected != want || r.NWithheld != want || r.Rewarded != 2*want {
			t.Errorf("window %v: NInjected = %d, NWithheld = %d, Rewarded = %d, want %d, %d, %d", window, r.NInjected, r.NWithheld, r.Rewarded, want, want, 2*want)
		}
		if r.MeanInjected != nil || r.LOODelta != nil || r.LOOGap != nil {
			t.Errorf("window %v: MeanInjected = %v, LOODelta = %v, LOOGap = %v, want nil for all three in a window", window, r.MeanInjected, r.LOODelta, r.LOOGap)
		}
		if (r.Effect != nil) != (2*want >= 50) {
			t.Errorf("window %v: row with %d rewarded sessions has an effect = %t, want an effect from 50 rewarded sessions on", window, r.Rewarded, r.Effect != nil)
		}
	}
	for window, want := range map[time.Duration]string{0: "", 24 * time.Hour: "1d", 30 * 24 * time.Hour: "30d", 36 * time.Hour: "36h0m0s", time.Minute: "1m0s"} {
		in := newInput(c, "a")
		in.Window = window
		if got := report.Build(in).Window; got != want {
			t.Errorf("window %v: Window = %q, want %q", window, got, want)
		}
	}
}

// In a report on one lesson, a check fails if the e-value is at least 1,000. In a report on 200 lessons, there are 402
// checks, and the threshold is 8,040.
func TestAlarmThresholdGrowsWithCheckCount(t *testing.T) {
	// 122 of 400 picks are withheld instead of 80, so the e-value is about 5,000.
	c := bandit.New()
	addArmSessions(c, "a", armSessions{epsilon: 0.2, injected: 278, withheld: 122, injectedRate: 0.5, withheldRate: 0.5})
	// The number of control sessions is as expected, so only the lesson's check fails.
	addArmSessions(c, "a", armSessions{controlled: true, withheld: 21, withheldRate: 0.5})
	single := lessonRow(t, c)
	if single.SRM.Alarm != 1000 || single.SRM.EValue < 1000 || single.SRM.EValue > 8040 || single.SRM.OK || single.Verdict != report.Invalid {
		t.Fatalf("single lesson: SRM = %+v, Verdict = %q, want a failed check with threshold 1000 and an e-value from 1000 to 8040, and %q", single.SRM, single.Verdict, report.Invalid)
	}
	var slugs []string
	for i := range 199 {
		slug := "other-" + string(rune('a'+i%26)) + string(rune('a'+i/26))
		addArmSessions(c, slug, armSessions{epsilon: 0.2, injected: 8, withheld: 2, injectedRate: 0.5, withheldRate: 0.5})
		slugs = append(slugs, slug)
	}
	addArmSessions(c, "a", armSessions{controlled: true, withheld: 105, withheldRate: 0.5})
	if r := lessonRow(t, c); r.SRM.Alarm != 8040 || r.SRM.EValue != single.SRM.EValue || !r.SRM.OK || r.Verdict == report.Invalid {
		t.Errorf("among 200 lessons: SRM = %+v, Verdict = %q, want a passed check with threshold 8040 and e-value %v", r.SRM, r.Verdict, single.SRM.EValue)
	}
	if r := report.Build(newInput(c, append(slugs, "a", "never")...)); r.SRM.Alarm != 8040 || r.Reporting.Alarm != 8040 {
		t.Errorf("with one more lesson, which was never picked: thresholds = %v and %v, want 8040 for both", r.SRM.Alarm, r.Reporting.Alarm)
	}
}

// A lesson that is no longer in the list keeps its row if it was ever picked. If it only matched, it has no row.
func TestPickedUnlistedLessonKeepsRow(t *testing.T) {
	c := bandit.New()
	addArmSessions(c, "rewarded", armSessions{epsilon: 0.2, injected: 1})
	addArmSessions(c, "unrewarded", armSessions{epsilon: 0.2, unrewardedWithheld: 1})
	addArmSessions(c, "matched", armSessions{controlled: true, withheld: 5})
	var got []string
	for _, r := range report.Build(newInput(c)).Lessons {
		got = append(got, r.Slug+" "+r.State)
	}
	if want := []string{"rewarded removed", "unrewarded removed"}; !slices.Equal(got, want) {
		t.Errorf("rows = %q, want %q", got, want)
	}
}
