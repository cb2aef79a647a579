package bandit

import "precept/bandit/trial"

// Unexported constants that the external tests use.
const (
	Damping      = damping
	MaxShared    = maxUnitMatches
	MaxSnapshots = maxSnapshots
)

// Unexported functions that the external tests use.
var (
	GammaDraw = gammaDraw
	Spent     = usedPicks
)

// Snapshots returns the number of injected sessions of an arm at each of its snapshots, and the days of the snapshots.
func (c *Chooser) Snapshots(k trial.Arm) (injected []float64, days []int32) {
	a := c.find(k)
	if a.local == nil {
		return nil, nil
	}
	for _, s := range a.local.snapshots.list {
		injected, days = append(injected, fromFixed(s.sums[iN1])), append(days, s.day)
	}
	return injected, days
}
