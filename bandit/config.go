package bandit

// Objective is the rule by which lessons are chosen.
type Objective string

// The objectives. Raw uses the rewards of the sessions with the lesson, which mostly measure how easy the sessions
// were, and exists for fleets without a holdout.
const (
	Uplift Objective = "uplift" // Thompson sampling on the effect that the holdout measures
	Raw    Objective = "raw"    // Beta sampling on the raw reward; biased by difficulty
	Random Objective = "random" // K matches, drawn at random
	All    Objective = "all"    // every match may be picked, ordered by confidence and slug; no draw, no bench
)

// Holdout is the rule for how long a lesson keeps the full share of withheld picks.
type Holdout string

// The holdout rules. They read only counters that replicas merge, so that every replica withholds identically.
const (
	Prove Holdout = "prove" // full share until the interval shows a positive effect or no material effect
	Earn  Holdout = "earn"  // smaller share as soon as the model expects a positive effect: more reward, but wider intervals
	Fixed Holdout = "fixed" // always the full share
)

// Config is the operator's configuration. Package configs has validated the values.
type Config struct {
	K         int       // picks per decision; 2K over a session
	Epsilon   float64   // share of picks that are withheld (0.20)
	Holdout   Holdout   // empty: Prove
	Retest    bool      // full share for the sessions of a model that the evidence does not include
	Control   float64   // share of sessions without lessons (0.05)
	Objective Objective // empty: Uplift
	Salt      string    // salt of the coins; equal on all replicas
	Room      int       // maximum bytes of the picks of one decision; 0 means no maximum, NoRoom means that no pick fits
	TokenCost float64   // price of one token in units of reward (0)
}

// NoRoom is the value of Config.Room for a session that has reached its limit.
const NoRoom = -1

// ProbeShare is the share of the sessions in which one benched lesson may be tried.
const ProbeShare = 0.02

// Probabilities of withholding that are fixed.
const (
	minEpsilon   = 0.05 // holdout after the verdict, when more data changes little
	probeEpsilon = 0.50 // holdout of a benched lesson: an even split gives the narrowest interval per pick
)

func (c Config) choosesByEffect() bool { return c.Objective == "" || c.Objective == Uplift }
