package bandit

// What tests of the public face need to know of the inside: constants that their figures follow
// from, and two functions that no caller sees.
const (
	Damping   = damping
	MaxShared = maxShared
)

// GammaDraw and Spent are functions of the chooser that its tests look at by themselves.
var (
	GammaDraw = gammaDraw
	Spent     = spent
)
