//go:build !race

package report_test

import (
	"fmt"
	"math"
	"testing"

	"precept/bandit"
	"precept/report"
	"precept/trial"
)

// tally is what a holdout brought in some worlds.
type tally struct {
	gained, possible float64
	helpers, found   int
	claims, falsely  int
}

// hold plays one world of known effects through chooser, counters and report, with a report every
// 250 sessions: a fifth of the lessons help, a fifth harm, and half of all fire on hard sessions.
func hold(t *tally, rule bandit.Holdout, seed string, sessions int) {
	r, c := seeded(seed), bandit.New()
	cfg := bandit.Config{K: 3, Epsilon: 0.2, Control: 0.05, Holdout: rule, Salt: seed}
	effects := make([]float64, 20)
	for j := range 4 {
		effects[j], effects[19-j] = 0.06+0.02*float64(j), -0.08
	}
	called := make([]report.Verdict, len(effects))
	lessons := listed()
	for j := range effects {
		lessons = append(lessons, listed(fmt.Sprintf("l%02d", j))...)
	}
	for i := range sessions {
		d := r.NormFloat64()
		a := trial.Assignment{Category: "x", Day: today() - int32((sessions-i)/1000)}
		var cs []bandit.Action
		best, p := 0.0, 0.5-0.12*d
		for j, l := range lessons {
			if r.Float64() < 0.2*math.Exp(float64(j%2)*(0.6*d-0.18)) {
				cs = append(cs, bandit.Action{Slug: l.Slug, Arm: l.Arm, Confidence: 0.5})
				best += math.Max(0, effects[j])
			}
		}
		gain := 0.0
		for _, k := range bandit.Decide(cfg, c, &a, fmt.Sprint("s", i), cs, 1) {
			var j int
			if _, err := fmt.Sscanf(k.Slug, "l%d", &j); err == nil && k.Injected {
				gain += effects[j]
			}
		}
		t.gained, t.possible = t.gained+gain, t.possible+best
		y := 0.0
		if r.Float64() < p+gain {
			y = 1
		}
		c.Add(a.Closing())
		c.Add(bandit.Contribution(&a, y, 1))
		if i%250 == 249 {
			c.Maxima(noon)
			c.SetPriors(c.Refit())
			for j, row := range report.Build(with(report.Input{Now: noon, Lessons: lessons}, c, cfg)).Lessons {
				if v := row.Verdict; v == report.Helps || v == report.ProvenHelps || v == report.Harms || v == report.ProvenHarms {
					called[j] = v
				}
			}
		}
	}
	for j, v := range called {
		helps := v == report.Helps || v == report.ProvenHelps
		if effects[j] > 0 {
			t.helpers++
		}
		switch {
		case v == "":
		case helps == (effects[j] > 0) && effects[j] != 0:
			t.claims++
			if helps {
				t.found++
			}
		default:
			t.claims++
			t.falsely++
		}
	}
}

// What the holdouts promise, in worlds whose truth is known: Prove finds more of what helps than
// Earn, Earn gains more than Prove, Fixed gains least, and few claims of any are false.
func TestHoldoutsKeepTheirPromises(t *testing.T) {
	if testing.Short() {
		t.Skip("plays 180,000 sessions")
	}
	got := map[bandit.Holdout]*tally{}
	for _, rule := range []bandit.Holdout{bandit.Prove, bandit.Earn, bandit.Fixed} {
		got[rule] = &tally{}
		for world := range 6 {
			hold(got[rule], rule, fmt.Sprint("hold", world), 10_000)
		}
		x := got[rule]
		t.Logf("%s: gained %.0f%%, found %d of %d, %d claims, %d false", rule, 100*x.gained/x.possible, x.found, x.helpers, x.claims, x.falsely)
		if x.falsely > 1+x.claims/10 {
			t.Errorf("%s: %d of %d claims are false", rule, x.falsely, x.claims)
		}
	}
	prove, earn, fixed := got[bandit.Prove], got[bandit.Earn], got[bandit.Fixed]
	if prove.found <= earn.found || earn.gained <= prove.gained || prove.gained <= fixed.gained {
		t.Error("the holdouts do not keep their order")
	}
}
