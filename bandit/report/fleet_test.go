package report_test

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"testing"

	"precept/bandit"
	"precept/bandit/report"
	"precept/bandit/trial"
)

// simulate simulates sessions with the chooser and the counters, and calls onReport with a report after every
// reportInterval sessions. The sessions differ in difficulty, which the chooser does not know. Lessons with an even
// index match hard sessions more often.
func simulate(seed string, effects []float64, sessions, reportInterval int, onReport func(report.Report)) {
	r, c := seededRand(seed), bandit.New()
	cfg := bandit.Config{K: 2, Epsilon: 0.2, Control: 0.1, Salt: seed}
	var all []report.Lesson
	truth := map[string]float64{}
	for j, e := range effects {
		l := report.Lesson{Slug: fmt.Sprintf("l%02d", j), State: "active", Confidence: 0.5}
		l.Arm = trial.Arm(l.Slug + "@1")
		all = append(all, l)
		truth[l.Slug] = e
	}
	for i := range sessions {
		difficulty := r.NormFloat64()
		var actions []bandit.Action
		for j, l := range all {
			chance := 3 / float64(len(all))
			if j%2 == 0 {
				chance *= math.Exp(0.6*difficulty - 0.18)
			}
			if r.Float64() < chance {
				actions = append(actions, bandit.Action{Slug: l.Slug, Arm: l.Arm, Confidence: 0.5})
			}
		}
		a := trial.Assignment{Category: "x", Day: today() - int32((sessions-i)/400)}
		successRate := 0.5 - 0.12*difficulty
		for _, k := range bandit.Decide(cfg, c, &a, fmt.Sprint("s", i), actions, 1) {
			if k.Injected {
				successRate += truth[k.Slug]
			}
		}
		outcome := 0.0
		if r.Float64() < math.Max(0.02, math.Min(0.98, successRate)) {
			outcome = 1
		}
		c.Add(a.ClosingDeltas())
		if r.Float64() < 0.8 {
			c.Add(bandit.Contribution(&a, outcome, 1+i%2))
		}
		if i%bandit.RefitEvery == 0 {
			c.SetPriors(c.Refit())
		}
		if i%reportInterval == reportInterval-1 {
			c.RaiseMaxima(noon)
			onReport(report.Build(withChooser(report.Input{Now: noon, Lessons: all}, c, cfg)))
		}
	}
}

// No lesson has an effect, so at most 6% of the intervals may ever exclude 0.
func TestNoVerdictWithoutEffect(t *testing.T) {
	claims, excludedZero, withInterval := map[string]report.Verdict{}, map[string]bool{}, map[string]bool{}
	for run := range 15 {
		simulate(fmt.Sprint("null", run), make([]float64, 16), 2000, 200, func(r report.Report) {
			for _, l := range r.Lessons {
				id := fmt.Sprint(run, l.Slug)
				switch l.Verdict {
				case report.ProvenHelps, report.ProvenHarms, report.Invalid:
					claims[id] = l.Verdict
				default:
				}
				if l.Effect != nil {
					withInterval[id] = true
					excludedZero[id] = excludedZero[id] || *l.Lo > 0 || *l.Hi < 0
				}
			}
			if !r.SRM.OK || !r.Reporting.OK {
				t.Errorf("run %d: SRM = %+v, Reporting = %+v, want both OK", run, r.SRM, r.Reporting)
			}
			if r.Global.Verdict == report.Helps || r.Global.Verdict == report.Harms {
				t.Errorf("run %d: global verdict = %s, want neither helps nor harms", run, r.Global.Verdict)
			}
		})
	}
	falsePositives := 0
	for _, m := range excludedZero {
		if m {
			falsePositives++
		}
	}
	t.Logf("%d/%d intervals ever excluded 0", falsePositives, len(withInterval))
	if len(withInterval) < 200 {
		t.Errorf("intervals in all reports: got %d, want at least 200", len(withInterval))
	}
	if float64(falsePositives) > 0.06*float64(len(withInterval)) {
		t.Errorf("intervals that ever excluded 0: got %d of %d, want at most 6%%", falsePositives, len(withInterval))
	}
	if len(claims) > 0 {
		t.Errorf("proven or invalid lessons: got %v, want none", claims)
	}
}

// The report finds the helpful lesson although it matches hard sessions. The harmful lesson must be picked less often
// than the helpful one.
func TestReportFindsRealEffects(t *testing.T) {
	effects := []float64{0.25, -0.25, 0, 0}
	var lastReport report.Report
	simulate("found", effects, 6000, 3000, func(r report.Report) { lastReport = r })
	helps, harms := lastReport.Lessons[0], lastReport.Lessons[1]
	if helps.Verdict != report.ProvenHelps || harms.Verdict == report.ProvenHelps || harms.Verdict == report.Helps {
		t.Errorf("verdicts: got %q for the helpful lesson and %q for the harmful one, want %q for the helpful lesson, and a verdict without help for the harmful one", helps.Verdict, harms.Verdict, report.ProvenHelps)
	}
	if math.Abs(*helps.Effect-0.25) > (*helps.Hi-*helps.Lo)/2 || *helps.LOODelta > *helps.Effect {
		t.Errorf("helpful lesson: Effect = %v in [%v, %v], LOODelta = %v, want 0.25 within half a width from the effect, and LOODelta at most the effect", *helps.Effect, *helps.Lo, *helps.Hi, *helps.LOODelta)
	}
	if harms.Posterior > 0 || harms.Picked > helps.Picked/2 {
		t.Errorf("harmful lesson: Posterior = %v, Picked = %d, want at most 0, and at most half the helpful lesson's %d picks", harms.Posterior, harms.Picked, helps.Picked)
	}
	if g := lastReport.Global; g.Verdict != report.Helps || *g.Lo > 0.25 {
		t.Errorf("global verdict = %q, lower bound = %v, want %q and at most 0.25", g.Verdict, *g.Lo, report.Helps)
	}
	for _, l := range lastReport.Lessons[2:] {
		if l.Verdict == report.ProvenHelps || l.Verdict == report.ProvenHarms {
			t.Errorf("lesson %s without an effect: Verdict = %s, want no proof", l.Slug, l.Verdict)
		}
	}
}

func seededRand(text string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(text))
	return rand.New(rand.NewPCG(h.Sum64(), 7)) //nolint:gosec // the tests need repeatable numbers
}
