package bandit

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

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

// Config is what an operator sets.
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

// Validate reports every fault of the configuration at once; each says what to write instead.
func (c Config) Validate() error {
	return errors.Join(
		probability("epsilon", "share of picks withheld", c.Epsilon, 0.2),
		probability("control", "share of sessions without lessons", c.Control, 0.05),
		c.validateRest(),
	)
}

func (c Config) validateRest() error {
	var errs []error
	if c.K < 0 {
		errs = append(errs, fmt.Errorf(
			"bandit: k is %d: set inject.k to 3, which is usual, or to 0 to inject nothing", c.K,
		))
	}
	if math.IsNaN(c.TokenCost) || math.IsInf(c.TokenCost, 0) || c.TokenCost < 0 {
		errs = append(errs, fmt.Errorf(
			"bandit: token_cost is %v: set it to 0 or to the reward that one token is worth, e.g. 0.00001",
			c.TokenCost,
		))
	}
	switch c.Objective {
	case "", Uplift, Raw, Random, All:
	default:
		errs = append(errs, fmt.Errorf(
			"bandit: objective %q is unknown: use uplift, raw, random or all", c.Objective,
		))
	}
	switch c.Holdout {
	case "", Prove, Earn, Fixed:
	default:
		errs = append(errs, fmt.Errorf(
			"bandit: holdout %q is unknown: use prove, earn or fixed", c.Holdout,
		))
	}
	if strings.ContainsRune(c.Salt, 0) {
		errs = append(errs, errors.New(
			"bandit: salt holds a zero byte, which separates the parts of a coin: use printable text",
		))
	}
	return errors.Join(errs...)
}

// probability refuses what is no probability. NaN fails every comparison, so it is asked for by
// name: a coin compared with NaN would silently inject always.
func probability(name, what string, p, usual float64) error {
	if math.IsNaN(p) || math.IsInf(p, 0) || p < 0 || p > 1 {
		return fmt.Errorf(
			"bandit: %s (%s) is %v: set it to a number from 0 to 1 (%v is usual)", name, what, p,
			usual,
		)
	}
	return nil
}
