package report

import "math"

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

func (nobody) Believes(Lesson) Belief           { return Belief{} }
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
