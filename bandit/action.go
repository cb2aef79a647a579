package bandit

import (
	"slices"

	"precept/bandit/trial"
)

// Action is what the chooser may do: give the session a lesson whose trigger fired.
type Action struct {
	Slug       string
	Arm        trial.Arm
	Confidence float64
	Tokens     int
	Size       int       // bytes, for Config.Room
	Epsilon    float64   // of a trial that an operator asked for; 0: by rule
	Until      float64   // the half-width at which that trial ends; 0: not by width
	Trial      string    // the name of a planned trial (trial.Name), which ends after so many told picks; "" none
	Parent     trial.Arm // the arm this one is heir of (supersedes, or the text before an edit); "" none
	Forced     bool      // the loop warning: always picked, not counted in K, only its coin is flipped
}

// known says whether a lesson was matched (or, forced, picked) before. It compares slugs: a lesson
// edited in the middle of a session keeps the text and the coin that the session began with.
func known(a *trial.Assignment, slug string) bool {
	_, picked := a.Pick(slug)
	return picked || slices.ContainsFunc(a.Matched, func(m trial.Match) bool { return m.Arm.Slug() == slug })
}
