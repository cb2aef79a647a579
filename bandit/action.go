package bandit

import (
	"slices"

	"precept/bandit/trial"
)

// Action is a possible decision of the chooser: a lesson whose trigger fired.
type Action struct {
	Slug       string
	Arm        trial.Arm
	Confidence float64
	Tokens     int
	Size       int       // bytes, for Config.Room
	Epsilon    float64   // holdout of a trial that an operator requested; 0 means that the holdout rule decides
	Until      float64   // half-width at which the trial ends; 0 means no limit by width
	Trial      string    // name of a planned trial (trial.PlannedName), empty for none
	Parent     trial.Arm // arm of the superseded lesson, or of the text before an edit; empty for none
	Forced     bool      // true for the loop warning: always picked, not counted in K, injected at random like a lesson
}

// wasConsidered compares slugs, because a lesson that is edited during a session keeps its first text and coin.
func wasConsidered(a *trial.Assignment, slug string) bool {
	_, picked := a.Pick(slug)
	return picked || slices.ContainsFunc(a.Matched, func(m trial.Match) bool { return m.Arm.Slug() == slug })
}
