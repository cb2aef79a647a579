package bandit

import "precept/bandit/trial"

// What tests of the public face need to know of the inside: constants that their figures follow
// from, and two functions that no caller sees.
const (
	Damping      = damping
	MaxShared    = maxShared
	MaxSnapshots = maxSnapshots
)

// GammaDraw and Spent are functions of the chooser that its tests look at by themselves.
var (
	GammaDraw = gammaDraw
	Spent     = spent
)

// Snapshots are how many sessions had an arm when its evidence was marked, and on which days.
func (c *Chooser) Snapshots(k trial.Arm) (injected []float64, days []int32) {
	for _, s := range c.arms[k].snapshots.list {
		injected, days = append(injected, real64(s.v[iN1])), append(days, s.day)
	}
	return injected, days
}
