package bandit

// Objective is how lessons are chosen.
type Objective string

// The objectives. Only Uplift asks what a lesson changes; Raw asks how well sessions go that have
// it, which is mostly a matter of how easy they were, and is there for those who have no holdout.
const (
	Uplift Objective = "uplift" // by the effect that the holdout shows
	Raw    Objective = "raw"    // Beta sampling on the raw reward; biased by difficulty
	Random Objective = "random" // any K of those that matched
	All    Objective = "all"    // whatever matches, by confidence and slug; no draw, no benching
)

// Holdout is how long a lesson goes on being withheld in the full share of its picks.
type Holdout string

// The holdouts. Each is a rule about counters that merge, so that every replica withholds alike,
// also after a restart.
const (
	Prove Holdout = "prove" // until its own interval says that it helps, or that it does nothing that matters
	Earn  Holdout = "earn"  // less as soon as it is believed to help: more is gained, less is proven
	Fixed Holdout = "fixed" // for ever
)

// Config is what an operator sets; package configs has judged it.
type Config struct {
	K         int       // picks per decision; 2K over a session
	Epsilon   float64   // holdout propensity (0.20)
	Holdout   Holdout   // "" is Prove
	Control   float64   // share of sessions that get nothing (0.05)
	Objective Objective // "" is Uplift
	Salt      string    // of the coins; replicas share it
	Room      int       // bytes that the picks of one decision may take; 0: any number, NoRoom: none
	TokenCost float64   // price of one token in units of reward (0)
}

// NoRoom is the room of a session that has had all that it may get.
const NoRoom = -1

// ProbeShare is the share of the sessions in which one benched lesson may be tried.
const ProbeShare = 0.02

// Propensities that are rules, not settings.
const (
	leastEpsilon = 0.05 // once a lesson has its verdict, little is left to learn from withholding it
	probeEpsilon = 0.50 // a benched lesson's few picks must tell as much as they can
)

// uplift says that lessons are chosen by what they change.
func (c Config) uplift() bool { return c.Objective == "" || c.Objective == Uplift }
