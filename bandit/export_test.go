package bandit

import "precept/trial"

// What tests of the public face need to know of the inside: constants that their figures follow
// from, and two functions that no caller sees.
const (
	Damping   = damping
	MaxShared = maxShared
	MaxMarks  = maxMarks
)

// GammaDraw and Spent are functions of the chooser that its tests look at by themselves.
var (
	GammaDraw = gammaDraw
	Spent     = spent
)

// Standings are how many sessions had an arm when its evidence was marked, and on which days.
func (c *Chooser) Standings(k trial.Arm) (injected []float64, days []int32) {
	for _, s := range c.arms[k].marks.list {
		injected, days = append(injected, real64(s.v[iN1])), append(days, s.day)
	}
	return injected, days
}
