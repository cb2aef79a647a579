package bandit

import "precept/bandit/trial"

// Names of unexported constants and functions for tests of the public interface.
const (
	Damping      = damping
	MaxShared    = maxUnitMatches
	MaxSnapshots = maxSnapshots
)

// GammaDraw and Spent are unexported functions of the chooser that have their own tests.
var (
	GammaDraw = gammaDraw
	Spent     = usedPicks
)

// Snapshots returns the number of sessions of an arm at each of its snapshots, and the days of the snapshots.
func (c *Chooser) Snapshots(k trial.Arm) (injected []float64, days []int32) {
	a := c.find(k)
	if a.local == nil {
		return nil, nil
	}
	for _, s := range a.local.snapshots.list {
		injected, days = append(injected, fromFixed(s.v[iN1])), append(days, s.day)
	}
	return injected, days
}
