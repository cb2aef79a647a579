package bandit

import (
	"slices"

	"precept/bandit/trial"
)

// Action is a lesson that the chooser can pick because the lesson's trigger fired.
type Action struct {
	Slug       string
	Arm        trial.Arm
	Confidence float64
	Tokens     int
	Size       int       // bytes, for Config.Room
	Epsilon    float64   // withheld share in a trial requested by an operator; 0 means that Config.Holdout decides
	Until      float64   // half-width that ends the trial; 0 means no limit by width
	Trial      string    // planned trial name (trial.PlannedName), empty for none
	Parent     trial.Arm // arm of the superseded lesson, or of the text before an edit; empty for none
	Forced     bool      // true for the loop warning: always picked, not counted in K, injected at random like a lesson
}

// wasConsidered reports whether the session already has a match or a pick for the lesson. It compares slugs, so a
// lesson that is edited during a session keeps the first decision.
func wasConsidered(a *trial.Assignment, slug string) bool {
	_, picked := a.Pick(slug)
	return picked || slices.ContainsFunc(a.Matched, func(m trial.Match) bool { return m.Arm.Slug() == slug })
}
