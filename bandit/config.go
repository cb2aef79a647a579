package bandit

// Objective is the rule by which lessons are chosen.
type Objective string

// The objectives. Only Uplift uses the effect of a lesson. Raw uses the rewards of the sessions
// with the lesson, which mostly measure how easy the sessions were, and exists for fleets without a
// holdout.
const (
	Uplift Objective = "uplift" // effect by the holdout
	Raw    Objective = "raw"    // Beta sampling on the raw reward; biased by difficulty
	Random Objective = "random" // K random matches
	All    Objective = "all"    // every match, by confidence and slug; no draw, no bench
)

// Holdout is the rule for how long a lesson keeps the full share of withheld picks.
type Holdout string

// The holdouts. Each is a rule over counters that merge, so that every replica withholds
// identically, also after a restart.
const (
	Prove Holdout = "prove" // until the interval shows a positive effect or no material effect
	Earn  Holdout = "earn"  // less as soon as the lesson is believed to help: more gain, less proof
	Fixed Holdout = "fixed" // always the full share
)

// Config is the operator's configuration. Package configs has validated the values.
type Config struct {
	K         int       // picks per decision; 2K over a session
	Epsilon   float64   // holdout propensity (0.20)
	Holdout   Holdout   // empty: Prove
	Control   float64   // share of sessions without lessons (0.05)
	Objective Objective // empty: Uplift
	Salt      string    // of the coins; shared by replicas
	Room      int       // maximum bytes of the picks of one decision; 0: no maximum, NoRoom: none
	TokenCost float64   // price of one token in units of reward (0)
}

// NoRoom is the room of a session that has reached its limit.
const NoRoom = -1

// ProbeShare is the share of the sessions in which one benched lesson may be tried.
const ProbeShare = 0.02

// Fixed propensities.
const (
	leastEpsilon = 0.05 // after the verdict, withholding has little left to show
	probeEpsilon = 0.50 // an even split learns most from a benched lesson's few picks
)

// uplift reports whether lessons are chosen by their effect.
func (c Config) uplift() bool { return c.Objective == "" || c.Objective == Uplift }
