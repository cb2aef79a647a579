package learn

import (
	"precept/bandit"
	"precept/bandit/report"
	"precept/bandit/trial"
)

// Chooser shows a report what a chooser believes under a configuration, by its counters alone: the
// same on every replica and after a restart.
func Chooser(c *bandit.Chooser, cfg bandit.Config) report.Chooser { return chooser{c, cfg} }

// Policy is what a report says of how lessons are chosen.
func Policy(cfg bandit.Config) report.Policy {
	return report.Policy{
		Objective: string(cfg.Objective), Holdout: string(cfg.Holdout), Control: cfg.Control, TokenCost: cfg.TokenCost,
		ProbeShare: bandit.ProbeShare,
	}
}

type chooser struct {
	of  *bandit.Chooser
	cfg bandit.Config
}

func (c chooser) Believes(l report.Lesson) report.Belief {
	k := action(l)
	p := c.of.Counted(k)
	better, worse := c.of.Published(l.Arm)
	return report.Belief{Mean: p.Mean, Var: p.Var, Benched: p.Probe, Epsilon: c.cfg.NextEpsilon(k, p), Better: better, Worse: worse}
}

func (c chooser) BelievedAt(l report.Lesson, day int32) float64 {
	return c.of.MeanAt(action(l), day)
}

func (c chooser) Sigma2() float64 { return c.of.Priors().Sigma2 }

func action(l report.Lesson) bandit.Action {
	return bandit.Action{
		Slug: l.Slug, Arm: l.Arm, Confidence: l.Confidence, Parent: l.Parent, Epsilon: l.Epsilon, Until: l.Until, Trial: l.Trial,
		Forced: l.Arm == trial.LoopArm,
	}
}
