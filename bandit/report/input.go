package report

import (
	"math"
	"time"

	"precept/bandit/trial"
)

// Input is the input of Build.
type Input struct {
	Now              time.Time
	Tenant           string
	RewardDefinition string
	OtherDefinitions []DefinitionCount
	Counters         *trial.Counters // nil: no evidence; a provisional report gets a Clone with the open sessions
	Chooser          Chooser         // nil: no chooser
	Policy           Policy
	Lessons          []Lesson // current and removed lessons; a tested arm that is not listed also gets a row
	// Archived reports whether the bank's archive has a lesson of the slug, and may be nil.
	Archived    func(slug string) bool
	Window      time.Duration // effects of sessions that started in the window; 0: all sessions
	Provisional bool
	WhatIf      float64  // epsilon for which the report projects the picks; 0: no projection
	Bands       bool     // include the effect over time
	Explain     string   // slug of the lesson whose rows are explained; may be empty
	Guardrails  []string // outcomes whose rise the report shows next to the verdict
}

// Policy is the rule by which lessons are chosen at the time of the report.
type Policy struct {
	Objective string // empty: uplift
	Holdout   string // empty: prove
	Control   float64
	TokenCost float64 // cost of one token in units of reward
	// NoCautions means that no counts turn a lesson into a caution.
	NoCautions bool
	// ProbeShare is the share of the sessions in which a benched lesson is tried.
	ProbeShare float64
}

// Lesson is the report's view of a lesson.
type Lesson struct {
	Slug        string
	Arm         trial.Arm
	ContentHash string // empty: the hash of the arm
	State       string
	Outcome     string // success | failure | mixed
	Caution     bool   // presented as a caution
	Confidence  float64
	Tokens      int
	Epsilon     float64   // holdout of a trial; 0 means that the holdout rule decides
	Until       float64   // half-width at which the trial ends; 0 means no limit by width
	Trial       string    // name of a planned trial (trial.PlannedName); empty: none
	Share       float64   // probability of cutting a section of a rules file
	Parent      trial.Arm // arm of the superseded lesson or text; empty: none
	Expired     bool
	Superseded  bool
}

// Chooser is the chooser of the lessons. The report shows the chooser's beliefs in separate fields and verdicts.
type Chooser interface {
	Belief(l Lesson) Belief                 // belief about the arm, today
	BelievedAt(l Lesson, day int32) float64 // expected effect from the sessions that started before a day
	Sigma2() float64                        // variance of a reward around the model, the start of forecasts
}

// Belief is the chooser's belief about an arm.
type Belief struct {
	Mean, Var     float64 // effect
	Benched       bool    // expected to harm
	Epsilon       float64 // holdout of the next picks
	Better, Worse float64 // reward of the sessions with the lesson, above and below those without it; both 0 while the difference is within chance
}

type noChooser struct{}

func (noChooser) Belief(Lesson) Belief { return Belief{} }

func (noChooser) BelievedAt(Lesson, int32) float64 { return 0 }

// Sigma2 returns the variance of a binary reward, which forecasts use before any measurement.
func (noChooser) Sigma2() float64 { return 0.24 }

func probabilityAbove(x float64, p Belief) float64 {
	if !(p.Var > 0) {
		return 0.5
	}
	return 0.5 * math.Erfc((x-p.Mean)/math.Sqrt(2*p.Var))
}
