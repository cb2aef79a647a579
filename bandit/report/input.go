package report

import (
	"math"
	"time"

	"precept/bandit/trial"
)

// Input is the input to Build.
type Input struct {
	Now              time.Time
	Tenant           string
	RewardDefinition string
	OtherDefinitions []DefinitionCount
	Counters         *trial.Counters // nil: no evidence; a provisional report gets a Clone with the open sessions
	Chooser          Chooser         // nil: no chooser
	Policy           Policy
	Lessons          []Lesson // current and removed lessons; a tested arm that is not listed also gets a row
	// Archived, if not nil, reports whether the bank's archive has a lesson with this slug.
	Archived    func(slug string) bool
	Window      time.Duration // limits the effects to sessions that started in the window; 0: all sessions
	Provisional bool
	WhatIf      float64  // other probability of withholding, to project the needed picks; 0: no projection
	Bands       bool     // include the effect over time
	Explain     string   // slug of the lesson to explain; may be empty
	Guardrails  []string // outcomes in report.guardrails; a row names those that the lesson raises
}

// Policy describes how lessons are chosen at the time of the report.
type Policy struct {
	Objective string  // empty: uplift
	Holdout   string  // empty: prove
	Control   float64 // share of sessions without lessons
	TokenCost float64 // cost per token in reward units
	// NoCautions means that a lesson's counts never turn the lesson into a caution.
	NoCautions bool
}

// Lesson is the report's view of a lesson.
type Lesson struct {
	Slug        string
	Arm         trial.Arm
	ContentHash string // empty: the arm's hash
	State       string
	Outcome     string // success | failure | mixed
	Caution     bool   // presented as a caution
	Confidence  float64
	Tokens      int
	Epsilon     float64   // withheld share in a trial; 0 means that Policy.Holdout decides
	Until       float64   // half-width that ends the trial; 0 means no limit by width
	Trial       string    // planned trial name (trial.PlannedName); empty: none
	Share       float64   // probability of cutting a rules file section
	Parent      trial.Arm // arm for the superseded lesson or text; empty: none
	Expired     bool
	Superseded  bool
}

// Chooser returns the chooser's beliefs, which the report shows in separate fields and verdicts.
type Chooser interface {
	Belief(l Lesson) Belief                 // belief about the arm, today
	BelievedAt(l Lesson, day int32) float64 // effect expected from the sessions that started before a day
	Sigma2() float64                        // reward variance around the model, for forecasts before any measurement
}

// Belief is the chooser's belief about an arm.
type Belief struct {
	Mean, Var     float64 // mean and variance of the effect
	Benched       bool    // expected to harm
	Epsilon       float64 // probability of withholding the next picks
	PassOver      float64 // probability of no pick in a session with a match and a free slot
	Better, Worse float64 // sums of gains and losses with the lesson; both are 0 as long as chance explains the difference
}

type noChooser struct{}

func (noChooser) Belief(Lesson) Belief { return Belief{} }

func (noChooser) BelievedAt(Lesson, int32) float64 { return 0 }

// Sigma2 returns a binary reward's variance, used in forecasts before any measurement.
func (noChooser) Sigma2() float64 { return 0.24 }

func probabilityAbove(x float64, belief Belief) float64 {
	if !(belief.Var > 0) {
		return 0.5
	}
	return 0.5 * math.Erfc((x-belief.Mean)/math.Sqrt(2*belief.Var))
}
