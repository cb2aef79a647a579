package bandit

import "precept/bandit/trial"

const (
	Damping      = matchDamping
	MaxShared    = maxUnitMatches
	MaxSnapshots = maxSnapshots
)

var (
	GammaDraw = gammaDraw
	Spent     = usedPicks
)

// Snapshots returns for each snapshot of an arm the number of injected sessions and the day.
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
