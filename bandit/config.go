package bandit

// Objective is the rule for choosing lessons.
type Objective string

// The objectives. Raw uses the rewards with the lesson, which mostly measure how easy the sessions were. It exists for
// operators who withhold no lessons.
const (
	Uplift Objective = "uplift" // Thompson sampling on the effect measured with withheld picks
	Raw    Objective = "raw"    // Beta sampling on the raw reward; biased by the sessions' difficulty
	Random Objective = "random" // K matches, drawn at random
	All    Objective = "all"    // every match may be picked, even with expected harm; ordered by confidence and slug
)

// Holdout is the rule for how long a lesson keeps the full withheld share.
type Holdout string

// The holdout rules. They read only counters that replicas merge, so that every replica withholds identically.
const (
	Prove Holdout = "prove" // withhold Config.Epsilon until the interval shows a positive effect or no material effect
	Earn  Holdout = "earn"  // withhold less once the model expects a positive effect: more reward, wider intervals
	Fixed Holdout = "fixed" // always withhold Config.Epsilon
)

// Config is the operator's configuration, as validated by package configs.
type Config struct {
	K         int       // maximum picks per decision; a session has at most 2K
	Epsilon   float64   // withheld share of picks; the default is 0.20
	Holdout   Holdout   // empty: Prove
	Retest    bool      // withhold Epsilon in sessions with a model on which a lesson has no evidence
	Control   float64   // share of sessions without lessons; the default is 0.05
	Objective Objective // empty: Uplift
	Salt      string    // secret for the random decisions; equal on all replicas
	Room      int       // maximum bytes for one decision's picks; 0 means no maximum, NoRoom means that no pick fits
	TokenCost float64   // price per token in reward units; the default is 0
}

// NoRoom is the Config.Room for a session that has no bytes left for picks.
const NoRoom = -1

// ProbeShare is the share of sessions that may try one benched lesson (one with expected harm).
const ProbeShare = 0.02

// Fixed withholding probabilities.
const (
	minEpsilon   = 0.05 // once there is a verdict, and more data changes little
	probeEpsilon = 0.50 // for a benched lesson: groups of equal size show the effect with the fewest picks
)

func (c Config) choosesByEffect() bool { return c.Objective == "" || c.Objective == Uplift }
