package report_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"precept/bandit"
	"precept/bandit/report"
	"precept/bandit/trial"
)

func withChooser(input report.Input, c *bandit.Chooser, cfg bandit.Config) report.Input {
	input.Counters, input.Chooser = c.TrialCounters(), fixedChooser{c, cfg}
	input.Policy = report.Policy{
		Objective: string(cfg.Objective), Holdout: string(cfg.Holdout), Control: cfg.Control, TokenCost: cfg.TokenCost,
	}
	return input
}

type fixedChooser struct {
	c   *bandit.Chooser
	cfg bandit.Config
}

func (c fixedChooser) action(l report.Lesson) bandit.Action {
	return bandit.Action{Slug: l.Slug, Arm: l.Arm, Confidence: l.Confidence, Parent: l.Parent, Epsilon: l.Epsilon, Until: l.Until, Trial: l.Trial, Tokens: l.Tokens, Forced: l.Arm == trial.LoopArm}
}

func (c fixedChooser) Belief(l report.Lesson) report.Belief {
	p := c.c.PosteriorFromCounters(c.action(l))
	better, worse := c.c.CautionEvidence(l.Arm)
	return report.Belief{Mean: p.Mean, Var: p.Var, Benched: p.Benched, Epsilon: c.cfg.NextEpsilon(c.action(l), p), PassOver: 1 - c.cfg.PickProbability(c.action(l), p), Better: better, Worse: worse}
}

func (c fixedChooser) BelievedAt(l report.Lesson, day int32) float64 {
	return c.c.MeanBefore(c.action(l), day)
}
func (c fixedChooser) Sigma2() float64 { return c.c.Priors().RewardVariance }

// constantChooser is a chooser that has the same belief about every lesson.
type constantChooser struct{ belief report.Belief }

func (c constantChooser) Belief(report.Lesson) report.Belief      { return c.belief }
func (c constantChooser) BelievedAt(report.Lesson, int32) float64 { return c.belief.Mean }
func (c constantChooser) Sigma2() float64                         { return 0.25 }

// The beliefs of the chooser may change only the belief fields of a row and the verdicts "likely ..." and "benched",
// but no measured number.
func TestBeliefsChangeNoMeasuredField(t *testing.T) {
	c := bandit.New()
	addArmSessions(c, "a", armSessions{epsilon: 0.2, injected: 1600, withheld: 400, injectedRate: 0.8, withheldRate: 0.5})
	addArmSessions(c, "b", armSessions{epsilon: 0.2, injected: 160, withheld: 40, injectedRate: 0.5, withheldRate: 0.5})
	addArmSessions(c, "off", armSessions{epsilon: 0.2, injected: 1600, withheld: 700, injectedRate: 0.8, withheldRate: 0.5})
	in := newInput(c, "a", "b", "off")
	in.Bands = true
	measuredFields := func(x report.Chooser) (rows []map[string]any, rest report.Report) {
		in.Chooser = x
		r := report.Build(in)
		for i := range r.Lessons {
			text, err := json.Marshal(r.Lessons[i])
			if err != nil {
				t.Fatal(err)
			}
			row := map[string]any{}
			if err := json.Unmarshal(text, &row); err != nil {
				t.Fatal(err)
			}
			if v := report.Verdict(row["verdict"].(string)); v == report.LikelyHelps || v == report.LikelyHarms || v == report.Benched {
				row["verdict"] = string(report.Unproven)
			}
			for _, believed := range []string{
				"posterior_mean", "p_helps", "caution", "advice", "epsilon", "pick_share", "note", "needs_picks", "needs_picks_unclear", "needs_3_points", "weeks_to_verdict", "retire", "verdict_expected", "needs_sessions", "sooner",
			} {
				delete(row, believed)
			}
			rows = append(rows, row)
		}
		r.Lessons = nil
		return rows, r
	}
	want, whole := measuredFields(nil)
	for _, x := range []report.Chooser{
		fixedChooser{c, bandit.Config{Epsilon: 0.2}}, constantChooser{report.Belief{Mean: 9, Var: 1e-9, Epsilon: 0.9, Worse: 5}}, constantChooser{report.Belief{Mean: -9, Var: 1e-9, Benched: true, Epsilon: 0.01, Better: 5}},
	} {
		got, rest := measuredFields(x)
		if !reflect.DeepEqual(rest, whole) {
			t.Errorf("chooser %+v: report without its rows =\n%+v\nwant\n%+v", x, rest, whole)
		}
		for i := range got {
			if !reflect.DeepEqual(got[i], want[i]) {
				t.Errorf("chooser %+v: measured fields for %v =\n%v\nwant\n%v", x, got[i]["slug"], got[i], want[i])
			}
		}
	}
}
