package report

import (
	"math"
	"time"

	"precept/bandit/trial"
)

// Input is what a report is made of.
type Input struct {
	Now              time.Time
	Tenant           string
	RewardDefinition string
	Elsewhere        []Counted
	Counters         *trial.Counters // nil reads as empty; for a provisional report a Clone to which open sessions were added
	Chooser          Chooser         // nil: nobody chooses
	Policy           Policy
	Lessons          []Lesson      // in force or not; arms in the counters that are not listed get a row when they were tested
	Window           time.Duration // effects of sessions that started in it; 0 all
	Provisional      bool
	WhatIf           float64 // an epsilon between 0 and 1 to project for; 0 none
	Bands            bool    // with the effect over time
	Explain          string  // a slug whose rows are to say how they came about; "" none
}

// Policy is how lessons are chosen when the report is made.
type Policy struct {
	Objective string // "" is uplift
	Holdout   string // "" is prove
	Control   float64
	TokenCost float64 // of one token, in units of reward
	// ProbeShare is the share of the sessions in which a lesson is tried that is expected to harm.
	ProbeShare float64
}

// Lesson is what the report needs to know of a lesson.
type Lesson struct {
	Slug        string
	Arm         trial.Arm
	ContentHash string // "" takes the arm's
	State       string
	Outcome     string // success | failure | mixed
	Caution     bool   // it is presented as one
	Confidence  float64
	Tokens      int
	Epsilon     float64   // of a trial; 0 by rule
	Until       float64   // the half-width at which the trial ends; 0: not by width
	Trial       string    // the name of a planned trial (trial.Name); "" none
	Parent      trial.Arm // the arm it is heir of; "" none
	Expired     bool
	Superseded  bool
}

// Chooser is what chose the lessons. What it believes of them is shown beside what was measured, in
// fields and verdicts that say so, and stands in no effect, interval or proof.
type Chooser interface {
	Believes(l Lesson) Belief               // of its arm, today
	BelievedAt(l Lesson, day int32) float64 // the effect that it expected by the sessions that began before a day
	Sigma2() float64                        // the variance of a reward around its model: what forecasts begin with
}

// Belief is what the chooser believes of an arm.
type Belief struct {
	Mean, Var     float64 // effect
	Benched       bool    // expected to harm
	Epsilon       float64 // that its next picks will have
	Better, Worse float64 // what its sessions did beyond those without it, both 0 while that may be chance
}

// nobody chooses: what was measured stands alone.
type nobody struct{}

func (nobody) Believes(Lesson) Belief { return Belief{} }

func (nobody) BelievedAt(Lesson, int32) float64 { return 0 }

// Sigma2 is that of a reward which is 0 or 1, as forecasts take it before anything is measured.
func (nobody) Sigma2() float64 { return 0.24 }

// above is P(effect > x), by the chooser's model.
func above(x float64, p Belief) float64 {
	if !(p.Var > 0) {
		return 0.5
	}
	return 0.5 * math.Erfc((x-p.Mean)/math.Sqrt(2*p.Var))
}
