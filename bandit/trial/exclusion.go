package trial

import "slices"

// ExclusionReason is why a session is outside the experiment.
type ExclusionReason string

// The reasons. A tenant's counters hold the first four.
const (
	ExcludedTwin    ExclusionReason = "twin"    // another session has an equal history
	ExcludedLate    ExclusionReason = "late"    // the store did not return the earlier decision in time
	ExcludedKeys    ExclusionReason = "secret"  // the replica does not know the fleet's keys
	ExcludedUnknown ExclusionReason = "unknown" // the record, from an earlier release, has no reason

	ExcludedImport ExclusionReason = "import" // an imported conversation, whose requests could not get a lesson
	ExcludedMember ExclusionReason = "member" // the run or the parent session counts once for all its sessions
)

// exclusionReasons is the number of reasons with counters.
const exclusionReasons = 4

// ExclusionReasons returns the reasons with counters.
func ExclusionReasons() [exclusionReasons]ExclusionReason {
	return [exclusionReasons]ExclusionReason{ExcludedTwin, ExcludedLate, ExcludedKeys, ExcludedUnknown}
}

// Exclude takes the session out of the experiment. If Exclude is called again, the first reason stays. A reason that
// only treated sessions can have would bias the comparison.
func (a *Assignment) Exclude(why ExclusionReason) {
	if !a.Excluded {
		a.Excluded, a.ExcludedFor = true, why
	}
}

// MemberAssignment returns the assignment for a session in a unit (a run, or a session with sub-agents). Only the unit
// has random decisions and is counted.
func MemberAssignment() Assignment { return Assignment{Excluded: true, ExcludedFor: ExcludedMember} }

// exclusionDeltas counts the reason. A reason from a newer release counts as unknown.
func (a *Assignment) exclusionDeltas() []Delta {
	why, counted := a.ExcludedFor, ExclusionReasons()
	if why != ExcludedMember && !slices.Contains(counted[:], why) {
		why = ExcludedUnknown
	}
	var d Deltas
	d.Add("", fExcluded+string(why), 0, 1)
	return d
}
