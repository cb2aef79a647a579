package report_test

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"precept/bandit"
	"precept/bandit/report"
	"precept/bandit/trial"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a test constant

func today() int32 { return trial.Day(noon) }

// armSessions describes two groups of sessions: in one the lesson was injected, in the other it was withheld at random.
type armSessions struct {
	epsilon                                float64 // probability that the lesson is withheld
	injected, withheld                     int     // sessions with a reward
	injectedRate, withheldRate             float64 // success rates
	unrewardedInjected, unrewardedWithheld int     // sessions closed without a reward
	day                                    int32   // 0 means today
	injectedTier                           int     // reward tier in injected sessions; 0 means 1
	controlled                             bool    // control sessions, in which every lesson is withheld
}

// addArmSessions adds the counts for the sessions to the chooser. Sessions of one kind (for example, withheld and not
// rewarded) have equal deltas, which are computed only once.
func addArmSessions(c *bandit.Chooser, slug string, a armSessions) {
	if a.day == 0 {
		a.day = today()
	}
	if a.injectedTier == 0 {
		a.injectedTier = 1
	}
	var all []trial.Delta // added in one call, because an effect that changes between calls is detected
	add := func(ds []trial.Delta, times int) {
		multiplied := slices.Clone(ds)
		for i := range multiplied {
			multiplied[i].Value *= int64(times)
		}
		all = append(all, multiplied...)
	}
	addGroup := func(injected bool, rewarded, unrewarded int, successRate float64, tier int) {
		x := trial.Assignment{
			ControlP: 0.05, Control: a.controlled, Centre: 0.5, Category: "x", Base: 0.5, Decided: true, Graded: true, Day: a.day,
			Matched: []trial.Match{{Arm: trial.Arm(slug + "@abc")}},
		}
		if !a.controlled {
			x.Picks = []trial.Pick{{Slug: slug, Arm: trial.Arm(slug + "@abc"), Eps: a.epsilon, Injected: injected, MeanEffect: 0.01, Offset: 0.5, Centre: 0.5, Tokens: 40}}
		}
		successes := int(math.Round(float64(rewarded) * successRate))
		add(x.ClosingDeltas(), unrewarded)
		x.RewardAtClose = &trial.RewardAtClose{Tier: tier}
		add(x.ClosingDeltas(), rewarded)
		add(bandit.Contribution(&x, 1, tier), successes)
		add(bandit.Contribution(&x, 0, tier), rewarded-successes)
	}
	addGroup(true, a.injected, a.unrewardedInjected, a.injectedRate, a.injectedTier)
	addGroup(false, a.withheld, a.unrewardedWithheld, a.withheldRate, 1)
	c.Add(all)
}

func newLessons(slugs ...string) (out []report.Lesson) {
	for _, s := range slugs {
		out = append(out, report.Lesson{Slug: s, Arm: trial.Arm(s + "@abc"), ContentHash: "abcdef", State: "active", Outcome: "success", Confidence: 0.5, Tokens: 33})
	}
	return out
}

func newInput(c *bandit.Chooser, slugs ...string) report.Input {
	c.RaiseMaxima(noon)
	return withChooser(report.Input{Now: noon, Lessons: newLessons(slugs...), RewardDefinition: "user, verifier, implicit"}, c, bandit.Config{K: 3, Epsilon: 0.2, Control: 0.05})
}

// lessonRow applies the edits to the report input, builds a report on c, and returns the row for the lesson "a".
func lessonRow(t *testing.T, c *bandit.Chooser, edits ...func(*report.Input)) report.Row {
	t.Helper()
	in := newInput(c, "a")
	for _, edit := range edits {
		edit(&in)
	}
	for _, r := range report.Build(in).Lessons {
		if r.Slug == "a" {
			return r
		}
	}
	t.Fatal(`report has no row for the lesson "a"`)
	return report.Row{}
}

// NeedsPicks is the number of additional picks (sessions for which the lesson is chosen) after which a verdict is
// likely.
func TestVerdictDependsOnData(t *testing.T) {
	for name, tc := range map[string]struct {
		a    armSessions
		want report.Verdict
	}{
		"no sessions":                 {armSessions{epsilon: 0.2}, report.Unproven},
		"helps a lot":                 {armSessions{epsilon: 0.2, injected: 1600, withheld: 400, injectedRate: 0.8, withheldRate: 0.5}, report.ProvenHelps},
		"harms a lot":                 {armSessions{epsilon: 0.2, injected: 1600, withheld: 400, injectedRate: 0.4, withheldRate: 0.7}, report.ProvenHarms},
		"no effect":                   {armSessions{epsilon: 0.5, injected: 20000, withheld: 20000, injectedRate: 0.5, withheldRate: 0.5}, report.NoEffect},
		"no effect, too few sessions": {armSessions{epsilon: 0.5, injected: 400, withheld: 400, injectedRate: 0.5, withheldRate: 0.5}, report.Unproven},
		"little data":                 {armSessions{epsilon: 0.2, injected: 35, withheld: 9, injectedRate: 0.6, withheldRate: 0.5}, report.Unproven},
		"too many withheld":           {armSessions{epsilon: 0.2, injected: 1600, withheld: 700, injectedRate: 0.8, withheldRate: 0.5}, report.Invalid},
		"fewer rewards if withheld":   {armSessions{epsilon: 0.2, injected: 1600, withheld: 200, injectedRate: 0.8, withheldRate: 0.5, unrewardedWithheld: 200}, report.Invalid},
		"another tier if injected":    {armSessions{epsilon: 0.2, injected: 1600, withheld: 400, injectedRate: 0.8, withheldRate: 0.5, injectedTier: 3}, report.Invalid},
		"expected to harm":            {armSessions{epsilon: 0.2, injected: 80, withheld: 20, injectedRate: 0.4, withheldRate: 0.55}, report.Benched},
	} {
		t.Run(name, func(t *testing.T) {
			counters := bandit.New()
			addArmSessions(counters, "a", tc.a)
			r := lessonRow(t, counters)
			if r.Verdict != tc.want {
				t.Errorf("Verdict = %s, want %s; SRM = %+v, Reporting = %+v", r.Verdict, tc.want, r.SRM, r.Reporting)
			}
			if (r.Verdict == report.Invalid) != (r.WorstLo != nil) {
				t.Errorf("verdict %s: row has worst-case bounds = %t, want true only for an invalid row", r.Verdict, r.WorstLo != nil)
			}
			if undecided := tc.want == report.Unproven || tc.want == report.Benched; undecided != (r.NeedsPicks > 0) {
				t.Errorf("verdict %s: NeedsPicks = %d, want a number above 0: %t", r.Verdict, r.NeedsPicks, undecided)
			}
		})
	}
}

// With fewer withheld sessions, the interval widens until it contains 0.
func TestProvenVerdictStaysIfIntervalWidens(t *testing.T) {
	c := bandit.New()
	addArmSessions(c, "a", armSessions{epsilon: 0.2, injected: 1600, withheld: 400, injectedRate: 0.6, withheldRate: 0.49})
	if r := lessonRow(t, c); r.Verdict != report.ProvenHelps || r.ZeroNote() != "" || r.Note != "" {
		t.Fatalf("Verdict = %s, ZeroNote = %q, Note = %q, want %s without notes", r.Verdict, r.ZeroNote(), r.Note, report.ProvenHelps)
	}
	addArmSessions(c, "a", armSessions{epsilon: 0.05, injected: 950, withheld: 50, injectedRate: 0.58, withheldRate: 0.53})
	if r := lessonRow(t, c); r.Verdict != report.ProvenHelps || r.ZeroNote() == "" || !strings.Contains(r.Note, "the proof comes from a more sensitive test") {
		t.Errorf("wider interval: Verdict = %s, ZeroNote = %q, Note = %q, want %s, a ZeroNote because the interval contains 0, and a Note about the earlier proof", r.Verdict, r.ZeroNote(), r.Note, report.ProvenHelps)
	}
}

func TestNoEffectVerdictStaysIfIntervalWidens(t *testing.T) {
	c := bandit.New()
	addArmSessions(c, "a", armSessions{epsilon: 0.5, injected: 10_000, withheld: 10_000, injectedRate: 0.5, withheldRate: 0.5})
	if r := lessonRow(t, c); r.Verdict != report.NoEffect {
		t.Fatalf("Verdict = %s, interval [%v, %v], want %s", r.Verdict, *r.Lo, *r.Hi, report.NoEffect)
	}
	addArmSessions(c, "a", armSessions{epsilon: 0.05, injected: 19_000, withheld: 1_000, injectedRate: 0.5, withheldRate: 0.5})
	if r := lessonRow(t, c); r.Verdict != report.NoEffect || *r.Lo > -trial.MaterialEffect {
		t.Errorf("smaller holdout: Verdict = %s, lower bound %v, want %s and at most %v", r.Verdict, *r.Lo, report.NoEffect, -trial.MaterialEffect)
	}
}

// The more lessons are tested, the higher is the e-value that a lesson needs for the verdict "proven".
func TestManyLessonsWeakenProofToHelps(t *testing.T) {
	c := bandit.New()
	addArmSessions(c, "a", armSessions{epsilon: 0.5, injected: 1100, withheld: 1100, injectedRate: 0.583, withheldRate: 0.5})
	r := lessonRow(t, c)
	if r.Verdict != report.ProvenHelps {
		t.Fatalf("single lesson: Verdict = %s, interval [%v, %v], e-value %v, want %s", r.Verdict, *r.Lo, *r.Hi, r.EHelps, report.ProvenHelps)
	}
	for i := range 20 { // with 20 other lessons, the evidence for lesson a is too weak for a proof
		addArmSessions(c, "other-"+string(rune('a'+i)), armSessions{epsilon: 0.5, injected: 30, withheld: 30, injectedRate: 0.5, withheldRate: 0.5})
	}
	if r = lessonRow(t, c); r.Verdict != report.Helps || !strings.Contains(r.Note, "one in ten such rows") {
		t.Errorf(`among 21 lessons: Verdict = %s, Note = %q, want %s and "one in ten such rows"`, r.Verdict, r.Note, report.Helps)
	}
}

// If many lessons are tested, the intervals of a few lessons exclude 0 by chance alone.
func TestHelpsNeedsMoreThanIntervalAboveZero(t *testing.T) {
	c := bandit.New()
	addArmSessions(c, "a", armSessions{epsilon: 0.5, injected: 620, withheld: 620, injectedRate: 0.59, withheldRate: 0.5})
	r := lessonRow(t, c)
	if r.Verdict != report.Helps && r.Verdict != report.ProvenHelps || *r.Lo <= 0 {
		t.Fatalf("single lesson: Verdict = %s, interval [%v, %v], want %s or %s and an interval above 0", r.Verdict, *r.Lo, *r.Hi, report.Helps, report.ProvenHelps)
	}
	for i := range 20 {
		addArmSessions(c, "other-"+string(rune('a'+i)), armSessions{epsilon: 0.5, injected: 60, withheld: 60, injectedRate: 0.5, withheldRate: 0.5})
	}
	r = lessonRow(t, c)
	if r.Verdict == report.Helps || r.Verdict == report.ProvenHelps || *r.Lo <= 0 || r.NeedsPicks <= 0 {
		t.Errorf("among 21 lessons: Verdict = %s, interval [%v, %v], NeedsPicks = %d, want an interval above 0, NeedsPicks above 0, and neither %s nor %s as the verdict", r.Verdict, *r.Lo, *r.Hi, r.NeedsPicks, report.Helps, report.ProvenHelps)
	}
	if r.Verdict == report.Unproven && !strings.Contains(r.Note, "by chance") {
		t.Errorf(`among 21 lessons: Verdict = %s, Note = %q, want a note with "by chance"`, r.Verdict, r.Note)
	}
}

// The verdict "helps" needs 50 rewarded sessions with the lesson and 50 without. After the holdout becomes smaller, the
// interval can widen until it contains 0. The verdict is still "helps", because the narrower interval excluded 0.
func TestHelpsVerdictStaysUntilEffectChangesSign(t *testing.T) {
	few := bandit.New()
	addArmSessions(few, "a", armSessions{epsilon: 0.2, injected: 160, withheld: 40, injectedRate: 0.9, withheldRate: 0.4})
	early := lessonRow(t, few)
	if *early.Lo <= 0 || early.Verdict == report.Helps {
		t.Errorf(`40 withheld sessions: Verdict = %s, lower bound %v, want a bound above 0, but not the verdict "helps"`, early.Verdict, *early.Lo)
	}
	if early.Verdict == report.Unproven && !strings.Contains(early.Note, "50 rewarded sessions") {
		t.Errorf(`40 withheld sessions: Note = %q, want "50 rewarded sessions" in the note`, early.Note)
	}
	c := bandit.New()
	for i := range 20 {
		addArmSessions(c, "other-"+string(rune('a'+i)), armSessions{epsilon: 0.5, injected: 30, withheld: 30, injectedRate: 0.5, withheldRate: 0.5})
	}
	addArmSessions(c, "a", armSessions{epsilon: 0.2, injected: 1280, withheld: 320, injectedRate: 0.6, withheldRate: 0.497})
	r := lessonRow(t, c)
	if r.Verdict != report.Helps || *r.Lo <= 0 {
		t.Fatalf("Verdict = %s, lower bound %v, want %s and above 0", r.Verdict, *r.Lo, report.Helps)
	}
	addArmSessions(c, "a", armSessions{epsilon: 0.05, injected: 760, withheld: 40, injectedRate: 0.58, withheldRate: 0.53})
	if r = lessonRow(t, c); r.Verdict != report.Helps || *r.Lo > 0 || !strings.Contains(r.Note, "excluded 0 earlier") {
		t.Errorf(`wider interval: Verdict = %s, lower bound %v, Note = %q, want %s, a lower bound of at most 0, and a note with "excluded 0 earlier"`, r.Verdict, *r.Lo, r.Note, report.Helps)
	}
	addArmSessions(c, "a", armSessions{epsilon: 0.05, injected: 7600, withheld: 400, injectedRate: 0.5, withheldRate: 0.6})
	if r = lessonRow(t, c); r.Verdict == report.Helps || *r.Effect >= 0 {
		t.Errorf("after many failures: Verdict = %s, Effect = %v, want a negative effect and a verdict other than helps", r.Verdict, *r.Effect)
	}
}

// The interval, from withheld and injected sessions alone, contains 0. The model also uses the control sessions, and
// finds a likely effect.
func TestLikelyHelpsVerdictComesFromModel(t *testing.T) {
	c := bandit.New()
	addArmSessions(c, "a", armSessions{epsilon: 0.2, injected: 380, withheld: 95, injectedRate: 0.68, withheldRate: 0.55})
	addArmSessions(c, "a", armSessions{controlled: true, withheld: 3000, withheldRate: 0.5})
	r := lessonRow(t, c)
	if r.Verdict != report.LikelyHelps || !strings.Contains(r.Note, "model") || r.NeedsPicks <= 0 {
		t.Errorf("Verdict = %s, Note = %q, NeedsPicks = %d, want %s, a note with the word model, and NeedsPicks above 0", r.Verdict, r.Note, r.NeedsPicks, report.LikelyHelps)
	}
}

func TestEffectNeedsEnoughSessions(t *testing.T) {
	for name, a := range map[string]armSessions{
		"49 sessions":     {epsilon: 0.2, injected: 40, withheld: 9, injectedRate: 1},
		"4 withheld":      {epsilon: 0.05, injected: 80, withheld: 4, injectedRate: 1},
		"4 injected":      {epsilon: 0.95, injected: 4, withheld: 76, injectedRate: 1},
		"never withheld":  {epsilon: 0, injected: 500, injectedRate: 1},
		"always withheld": {epsilon: 1, withheld: 500, injectedRate: 1},
		"no rewards":      {epsilon: 0.2, unrewardedInjected: 400, unrewardedWithheld: 100},
		"no sessions":     {epsilon: 0.2},
	} {
		c := bandit.New()
		addArmSessions(c, "a", a)
		r := lessonRow(t, c)
		if r.Effect != nil || r.Lo != nil || r.Hi != nil {
			t.Errorf("%s: row has an effect, want none", name)
		}
		if r.NeedsPicks < 1 {
			t.Errorf("%s: NeedsPicks = %d, want at least 1", name, r.NeedsPicks)
		}
	}
	c := bandit.New()
	addArmSessions(c, "a", armSessions{epsilon: 0.2, injected: 45, withheld: 5, injectedRate: 0.5, withheldRate: 0.4})
	if r := lessonRow(t, c); r.Effect == nil {
		t.Error("50 sessions with 5 withheld: row has no effect, want one")
	}
}

// A value that the report cannot compute is null in JSON.
func TestReportJSONHasDocumentedNames(t *testing.T) {
	c := bandit.New()
	addArmSessions(c, "a", armSessions{epsilon: 0.2, injected: 20, withheld: 4, injectedRate: 0.5, withheldRate: 0.5})
	b, err := json.Marshal(report.Build(newInput(c, "a")))
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Global, SRM, Reporting map[string]any
		Lessons                []map[string]any
	}
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	checkKeys := func(where string, m map[string]any, names ...string) {
		for _, n := range names {
			if _, ok := m[n]; !ok {
				t.Errorf("%s lacks the key %s: %v", where, n, m)
			}
		}
	}
	checkKeys("global", r.Global, "n_treated", "n_control", "effect", "lo", "hi", "verdict")
	checkKeys("srm", r.SRM, "e_value", "ok")
	checkKeys("reporting", r.Reporting, "told_treated", "told_control", "ok")
	row := r.Lessons[0]
	checkKeys("row", row, "slug", "content_hash", "state", "matched", "picked", "n_injected", "n_withheld", "told", "mean_injected", "mean_withheld",
		"effect", "lo", "hi", "posterior_mean", "p_helps", "loo_delta", "success_count", "failure_count", "tokens", "verdict", "needs_picks", "srm")
	for _, m := range []map[string]any{row, r.Global} {
		if m["effect"] != nil || m["lo"] != -1.0 || m["hi"] != 1.0 {
			t.Errorf("row without an effect: got effect %v, lo %v, hi %v, want null, -1 and 1", m["effect"], m["lo"], m["hi"])
		}
	}
	if row["n_injected"] != 20.0 || row["n_withheld"] != 4.0 || row["told"] != 24.0 || row["success_count"] != 10.0 || row["tokens"] != 40.0 {
		t.Errorf(`row = %v, want n_injected 20, n_withheld 4, told 24, success_count 10 and tokens 40`, row)
	}
	// A client may decode null as the number 0. The interval shows such a client that the effect is unknown, and not
	// exactly 0.
	var plain struct {
		Lessons []struct{ Lo, Hi float64 }
	}
	if err := json.Unmarshal(b, &plain); err != nil || plain.Lessons[0].Hi-plain.Lessons[0].Lo < 1.99 {
		t.Errorf("decoded as numbers: err = %v, intervals = %+v, want no error and an interval from -1 to 1", err, plain.Lessons)
	}
	if b, _ = json.Marshal(report.Build(report.Input{Now: noon})); !strings.Contains(string(b), `"lessons":[]`) {
		t.Errorf("empty report = %s, want lessons as an empty list", b)
	}
}

func TestReportJSONRoundTrip(t *testing.T) {
	in := allRowsInput()
	in.Bands, in.WhatIf, in.Window = true, 0.4, 14*24*time.Hour
	for _, r := range []report.Report{report.Build(in), report.Build(report.Input{Now: noon})} {
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var decoded report.Report
		if err := json.Unmarshal(b, &decoded); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(r, decoded) {
			t.Errorf("decoded report = %+v, want %+v", decoded, r)
		}
	}
	var r report.Report
	for _, bad := range []string{`{"global":{"n_treated":"x"}}`, `{"lessons":[{"told":"x"}]}`} {
		if err := json.Unmarshal([]byte(bad), &r); err == nil || !strings.Contains(err.Error(), "report") {
			t.Errorf(`decoding %s: err = %v, want an error with "report"`, bad, err)
		}
	}
}

// With the lesson, 80% of the sessions succeed, and without the lesson 60%.
func TestEffectIsMeanDifference(t *testing.T) {
	c := bandit.New()
	addArmSessions(c, "a", armSessions{epsilon: 0.2, injected: 4000, withheld: 1000, injectedRate: 0.8, withheldRate: 0.6})
	r := lessonRow(t, c)
	if math.Abs(*r.Effect-0.2) > 1e-4 || math.Abs(*r.MeanInjected-0.8) > 1e-9 || math.Abs(*r.MeanWithheld-0.6) > 1e-9 {
		t.Errorf("Effect = %v, means = %v and %v, want 0.2, 0.8 and 0.6", *r.Effect, *r.MeanInjected, *r.MeanWithheld)
	}
	if *r.Lo > *r.Effect || *r.Hi < *r.Effect || r.PHelps < 0.99 {
		t.Errorf("interval [%v, %v], PHelps = %v, want effect %v within the interval and PHelps >= 0.99", *r.Lo, *r.Hi, r.PHelps, *r.Effect)
	}
}

// LOODelta compares the sessions that a lesson matches with all other sessions, so a helpful lesson for hard tasks has
// a negative LOODelta. LOOGap is LOODelta minus the effect from the randomized sessions.
func TestLOOGapExposesConfounding(t *testing.T) {
	c := bandit.New()
	addArmSessions(c, "a", armSessions{epsilon: 0.2, injected: 400, withheld: 100, injectedRate: 0.4, withheldRate: 0.3})
	addArmSessions(c, "easy", armSessions{epsilon: 0.2, injected: 1600, withheld: 400, injectedRate: 0.9, withheldRate: 0.9})
	r := lessonRow(t, c)
	others := (0.3*100 + 0.9*2000) / 2100
	if math.Abs(*r.LOODelta-(0.4-others)) > 1e-9 || math.Abs(*r.LOOGap-(*r.LOODelta-*r.Effect)) > 1e-12 || *r.LOODelta > 0 || *r.Effect < 0 {
		t.Errorf("LOODelta = %v, LOOGap = %v, Effect = %v, want LOODelta %v, LOOGap = LOODelta - Effect, and a positive effect", *r.LOODelta, *r.LOOGap, *r.Effect, 0.4-others)
	}
}

func TestGlobalComparesTreatedAndControl(t *testing.T) {
	c := bandit.New()
	addArmSessions(c, "a", armSessions{epsilon: 0.2, injected: 3040, withheld: 760, injectedRate: 0.75, withheldRate: 0.75})
	addArmSessions(c, "a", armSessions{controlled: true, withheld: 200, withheldRate: 0.25})
	g := report.Build(newInput(c, "a"))
	if g.Global.NTreated != 3800 || g.Global.NControl != 200 || math.Abs(*g.Global.Effect-0.5) > 1e-4 || g.Global.Verdict != report.Helps {
		t.Errorf("Global = %+v, want NTreated = 3800, NControl = 200, effect 0.5 and verdict %q", g.Global, report.Helps)
	}
	if len(g.Global.Days) != 1 || g.Global.Days[0].Date != "2026-03-01" || *g.Global.Days[0].MeanControl != 0.25 || *g.Global.MeanTreated != 0.75 {
		t.Errorf("Global.Days = %+v, MeanTreated = %v, want one day, 2026-03-01, with the control mean 0.25, and MeanTreated = 0.75", g.Global.Days, *g.Global.MeanTreated)
	}
	if !g.SRM.OK || !g.Reporting.OK || g.Reporting.RewardedControl != 200 || g.Reporting.AssignedTreated != 3800 {
		t.Errorf("SRM = %+v, Reporting = %+v, want both OK, RewardedControl = 200 and AssignedTreated = 3800", g.SRM, g.Reporting)
	}
	addArmSessions(c, "a", armSessions{controlled: true, withheld: 400, withheldRate: 0.25})
	if g = report.Build(newInput(c, "a")); g.SRM.OK || g.Global.Verdict != report.Invalid || g.Lessons[0].Verdict == report.Invalid {
		t.Errorf("too many control sessions: SRM = %+v, global verdict = %s, lesson verdict = %s, want a failed check, %s and a different verdict", g.SRM, g.Global.Verdict, g.Lessons[0].Verdict, report.Invalid)
	}
}

// A report on the last week takes its numbers from this week, but the verdicts from all sessions.
func TestWindowLimitsNumbersNotVerdicts(t *testing.T) {
	c := bandit.New()
	addArmSessions(c, "a", armSessions{epsilon: 0.2, injected: 1600, withheld: 400, injectedRate: 0.8, withheldRate: 0.5, day: today() - 40})
	addArmSessions(c, "a", armSessions{epsilon: 0.2, injected: 80, withheld: 20, injectedRate: 0.5, withheldRate: 0.5, day: today() - 2})
	all := lessonRow(t, c)
	week := lessonRow(t, c, func(in *report.Input) { in.Window = 7 * 24 * time.Hour })
	if week.NInjected != 80 || week.NWithheld != 20 || math.Abs(*week.Effect) > 1e-6 || *week.Hi-*week.Lo < *all.Hi-*all.Lo {
		t.Errorf("last week: row = %+v, want NInjected = 80, NWithheld = 20, effect 0 and an interval at least %v wide", week, *all.Hi-*all.Lo)
	}
	if week.Verdict != all.Verdict || all.Verdict != report.ProvenHelps || all.NInjected != 1680 {
		t.Errorf("Verdict = %s for the last week and %s for all %d injected sessions, want %s for both and 1680 sessions", week.Verdict, all.Verdict, all.NInjected, report.ProvenHelps)
	}
	if empty := lessonRow(t, c, func(in *report.Input) { in.Window = time.Hour }); empty.Effect != nil || empty.Rewarded != 0 {
		t.Errorf("last hour: row = %+v, want no effect and Rewarded = 0", empty)
	}
}

func TestBandsNarrowOverTheDays(t *testing.T) {
	c := bandit.New()
	for d := int32(30); d > 0; d-- {
		addArmSessions(c, "a", armSessions{epsilon: 0.2, injected: 80, withheld: 20, injectedRate: 0.7, withheldRate: 0.5, day: today() - d})
	}
	r := lessonRow(t, c, func(in *report.Input) { in.Bands = true })
	if len(r.Days) != 30 || r.Days[0].Date != "2026-01-30" {
		t.Fatalf("Days = %+v, want 30 days from 2026-01-30 on", r.Days)
	}
	for i, d := range r.Days[1:] {
		if d.Hi-d.Lo >= r.Days[i].Hi-r.Days[i].Lo {
			t.Errorf("%s: interval width: got %v, want less than on the day before, %v", d.Date, d.Hi-d.Lo, r.Days[i].Hi-r.Days[i].Lo)
		}
	}
	if last := r.Days[29]; last.Effect != *r.Effect || last.Lo != *r.Lo {
		t.Errorf("last day = %+v, want the row's effect %v and lower bound %v", last, *r.Effect, *r.Lo)
	}
	if math.Abs(r.PerWeek-7*100*27/28.0) > 1 {
		t.Errorf("PerWeek = %v, want %v", r.PerWeek, 7*100*27/28.0)
	}
}

// An arm is unlisted if it is an older text of a listed lesson, a removed lesson or the loop warning. An unlisted arm
// that matched a session but was never picked has no row.
func TestUnlistedArmsHaveRowsAfterAPick(t *testing.T) {
	c := bandit.New()
	for _, s := range []string{"a", "gone", "loop-warning"} {
		addArmSessions(c, s, armSessions{epsilon: 0.2, injected: 8, withheld: 2, injectedRate: 1})
	}
	x := trial.Assignment{Decided: true, ControlP: 0.05, Matched: []trial.Match{{Arm: "matched-only@1"}, {Arm: "a@old"}}, Picks: []trial.Pick{{Slug: "a", Arm: "a@old", Eps: 0.2, Injected: true}}}
	x.Picks = append(x.Picks, trial.Pick{Slug: "loop-warning", Arm: trial.LoopArm, Eps: 0.2, Injected: true})
	c.Add(x.ClosingDeltas())
	c.Add(bandit.Contribution(&x, 1, 1))
	var got []string
	for _, r := range report.Build(newInput(c, "a", "new")).Lessons {
		got = append(got, r.Slug+" "+r.ContentHash+" "+r.State)
	}
	want := []string{"a abcdef active", "a old edited", "gone abc removed", "loop-warning 1 active", "loop-warning abc removed", "new abcdef active"}
	if !slices.Equal(got, want) {
		t.Errorf("rows = %q, want %q", got, want)
	}
}

// Caution compares two sums about the sessions with the lesson: how far their rewards were above the expected rewards
// (better), and how far below (worse).
func TestCautionNeedsMoreFailuresThanExpected(t *testing.T) {
	for _, tc := range []struct {
		outcome       string
		better, worse float64
		want          bool
	}{{"failure", 5, 0, true}, {"success", 0, 0, false}, {"mixed", 3, 2, false}, {"success", 2, 3, true}} {
		if got := report.Caution(tc.outcome, tc.better, tc.worse); got != tc.want {
			t.Errorf("Caution(%s, %v, %v) = %v, want %v", tc.outcome, tc.better, tc.worse, got, tc.want)
		}
	}
	c := bandit.New()
	addArmSessions(c, "a", armSessions{epsilon: 0.2, injected: 60, withheld: 15, withheldRate: 0.8})
	if r := lessonRow(t, c); !r.Caution || r.Failure != 60 || r.Success != 0 {
		t.Errorf("60 failures with the lesson, 80%% success without: Caution = %v, Failure = %d, Success = %d, want true, 60 and 0", r.Caution, r.Failure, r.Success)
	}
	c = bandit.New()
	addArmSessions(c, "a", armSessions{epsilon: 0.2, injected: 60, withheld: 15})
	if r := lessonRow(t, c); r.Caution || r.Failure != 60 {
		t.Errorf("60 failures with the lesson, no success without: Caution = %v, Failure = %d, want false and 60", r.Caution, r.Failure)
	}
	c = bandit.New()
	addArmSessions(c, "a", armSessions{epsilon: 0.2, injected: 50, withheld: 10, injectedRate: 0.48})
	if r := lessonRow(t, c); r.Caution || r.Failure <= r.Success {
		t.Errorf("24 successes in 50, expected reward 0.5: Caution = %v, Failure = %d, Success = %d, want false and more failures than successes", r.Caution, r.Failure, r.Success)
	}
}

// A benched lesson is expected to harm, and is therefore injected only rarely.
func TestRetireReason(t *testing.T) {
	long := bandit.New()
	addArmSessions(long, "a", armSessions{epsilon: 0.2, injected: 200, withheld: 50, injectedRate: 0.42, withheldRate: 0.5, day: today() - 80})
	short := bandit.New()
	addArmSessions(short, "a", armSessions{epsilon: 0.2, injected: 200, withheld: 50, injectedRate: 0.42, withheldRate: 0.5, day: today() - 3})
	harmful := bandit.New()
	addArmSessions(harmful, "a", armSessions{epsilon: 0.5, injected: 1000, withheld: 1000, injectedRate: 0.3, withheldRate: 0.6, day: today()})
	for name, tc := range map[string]struct {
		c      *bandit.Chooser
		change func(*report.Input)
		want   string // part of RetireReason
	}{
		"low traffic":         {bandit.New(), func(*report.Input) {}, ""},
		"expired":             {bandit.New(), func(in *report.Input) { in.Lessons[0].Expired = true }, "expired"},
		"superseded":          {bandit.New(), func(in *report.Input) { in.Lessons[0].Superseded = true }, "superseded"},
		"benched for 80 days": {long, func(*report.Input) {}, "60 days"},
		"harmful":             {harmful, func(*report.Input) {}, "the whole interval is below 1 point"},
		"removed":             {harmful, func(in *report.Input) { in.Lessons[0].State = "removed" }, ""},
	} {
		if got := lessonRow(t, tc.c, tc.change).RetireReason; (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: RetireReason = %q, want a reason that contains %q (if empty: no reason)", name, got, tc.want)
		}
	}
	if got := lessonRow(t, short).RetireReason; strings.Contains(got, "60 days") {
		t.Errorf("benched for three days: RetireReason = %q, want no mention of 60 days", got)
	}
}

func TestNeededPicksDependOnDataAndWhatIf(t *testing.T) {
	c := bandit.New()
	newLesson := lessonRow(t, c)
	if newLesson.NeedsPicks != 50 || newLesson.Weeks != nil || newLesson.Needs3Points < 10_000 {
		t.Errorf("new lesson: row = %+v, want NeedsPicks = 50, no Weeks and Needs3Points >= 10,000", newLesson)
	}
	addArmSessions(c, "a", armSessions{epsilon: 0.2, injected: 80, withheld: 20, injectedRate: 0.6, withheldRate: 0.5})
	r := lessonRow(t, c, func(in *report.Input) { in.WhatIf = 0.5 })
	if r.NeedsPicks < 500 || r.NeedsPicks > 3000 || r.Weeks == nil || math.Abs(*r.Weeks-float64(r.NeedsPicks)/(r.PerWeek*r.PickShare)) > 1e-9 {
		t.Errorf("row = %+v, want NeedsPicks from 500 to 3000, and Weeks = NeedsPicks / (PerWeek * PickShare)", r)
	}
	if r.WhatIf.Epsilon != 0.5 || r.WhatIf.NeedsPicks >= r.NeedsPicks || r.WhatIf.Needs3Points >= r.Needs3Points || r.WhatIf.HalfWidth >= (*r.Hi-*r.Lo)/2 {
		t.Errorf("epsilon 0.5: WhatIf = %+v, want fewer needed picks and a narrower interval than in the row %+v", r.WhatIf, r)
	}
	if less := lessonRow(t, c, func(in *report.Input) { in.WhatIf = 0.05 }); less.WhatIf.NeedsPicks <= r.NeedsPicks {
		t.Errorf("epsilon 0.05: WhatIf = %+v, want more needed picks than %d", less.WhatIf, r.NeedsPicks)
	}
	for _, nonsense := range []float64{0, 1, -3, math.NaN()} {
		if got := lessonRow(t, c, func(in *report.Input) { in.WhatIf = nonsense }); got.WhatIf != nil {
			t.Errorf("epsilon %v: WhatIf = %+v, want none", nonsense, got.WhatIf)
		}
	}
	off := lessonRow(t, c, func(in *report.Input) { in.Chooser = fixedChooser{c, bandit.Config{}} })
	if off.NeedsPicks != 0 || !strings.Contains(off.Note, "never withheld") {
		t.Errorf("without a holdout: NeedsPicks = %d, Note = %q, want 0 and a note with \"never withheld\"", off.NeedsPicks, off.Note)
	}
}

// For random counters, two reports from the same input are equal, a report can be printed, and each effect is within
// the row's interval.
func TestReportFromRandomCounters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := bandit.New()
		fields := []string{
			"n1", "s1", "n0", "s0", "nu", "su", "n", "z", "zz", "m1", "y1", "m0", "y0", "matched", "picked", "tokens", "success", "better",
			"worse", "told", "sumy", "a0@200000", "a1@200000", "a1@0", "a0@0", "told0.1@200000", "told1.2@200000", "told1.0@1000000", "w+1", "w-6", "emax+", "emax-",
		}
		for range rapid.IntRange(0, 60).Draw(t, "counters") {
			c.Add([]trial.Delta{{
				Key:   trial.Key{Scope: rapid.SampledFrom([]string{"", "a@abc", "b@1", string(trial.LoopArm)}).Draw(t, "scope"), Field: rapid.SampledFrom(fields).Draw(t, "field"), Day: rapid.Int32Range(0, 3).Draw(t, "day") + today()},
				Value: rapid.Int64Range(-1e10, 1e12).Draw(t, "value"),
			}})
		}
		in := newInput(c, "a")
		in.Bands, in.WhatIf = true, 0.3
		r := report.Build(in)
		if !reflect.DeepEqual(r, report.Build(in)) {
			t.Fatal("two reports from the same input differ")
		}
		if _, err := json.Marshal(r); err != nil {
			t.Fatal(err)
		}
		for _, l := range r.Lessons {
			if l.Lo != nil && !(*l.Lo <= *l.Effect && *l.Effect <= *l.Hi) {
				t.Fatalf("%s: effect %v is not within the interval [%v, %v]", l.Slug, *l.Effect, *l.Lo, *l.Hi)
			}
		}
		if err := r.Table(new(strings.Builder), report.FullWidth); err != nil {
			t.Fatal(err)
		}
	})
}

func BenchmarkBuild(b *testing.B) {
	c := bandit.New()
	var slugs []string
	for i := range 500 {
		s := "lesson-" + string(rune('a'+i%26)) + string(rune('a'+i/26))
		slugs = append(slugs, s)
		addArmSessions(c, s, armSessions{epsilon: 0.2, injected: 60, withheld: 15, injectedRate: 0.6, withheldRate: 0.5})
	}
	in := newInput(c, slugs...)
	for b.Loop() {
		report.Build(in)
	}
}

func TestRowComparesTokensWithAndWithoutLesson(t *testing.T) {
	c := bandit.New()
	addArmSessions(c, "a", armSessions{epsilon: 0.5, injected: 20, withheld: 20, injectedRate: 0.5, withheldRate: 0.5})
	r := lessonRow(t, c)
	if r.InputWith != nil || r.InputWithout != nil || r.CachedWith != nil || r.CachedChange != nil || r.Cost != 0 {
		t.Errorf("without token usage: row = %+v, want no input tokens, cached share or cost", r)
	}
	for _, injected := range []bool{true, false, false} {
		x := trial.Assignment{Picks: []trial.Pick{{Slug: "a", Arm: "a@abc", Eps: 0.5, Injected: injected}}}
		u := trial.Usage{Input: 1000, Cached: 600}
		if injected {
			u = trial.Usage{Input: 500, Cached: 200}
		}
		c.Add(x.CostDeltas(u))
	}
	r = lessonRow(t, c)
	if *r.InputWith != 500 || *r.InputWithout != 1000 || math.Abs(*r.CachedWith-0.4) > 1e-9 || math.Abs(*r.CachedChange+0.2) > 1e-9 {
		t.Errorf("InputWith = %v, InputWithout = %v, CachedWith = %v, CachedChange = %v, want 500, 1000, 0.4, -0.2", *r.InputWith, *r.InputWithout, *r.CachedWith, *r.CachedChange)
	}
}
