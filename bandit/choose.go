package bandit

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"

	"precept/bandit/trial"
)

// drawTemperature scales the posterior's spread in the random draw that makes a lesson eligible. The full spread
// (Thompson sampling) would fill too many of a session's few slots with uncertain lessons. Without a draw, a lesson
// with a slightly negative mean would never be tried again.
const drawTemperature = 0.25

// rankingTemperature is like drawTemperature, but for the order among eligible lessons. If many lessons match, noise in
// the order costs more than exploration gains.
const rankingTemperature = 0.15

// seasonedPicks is the number of picks after which bad luck at the start no longer explains a negative mean.
const seasonedPicks = 200

// isBenched reports whether a lesson is expected to harm. In simulations, a threshold at 0 for all lessons lost three
// points of the attainable gain, because helpful lessons with an unlucky start were rarely tried. Without a threshold,
// harmful lessons were injected 10% more often.
func (b belief) isBenched() bool {
	if b.picks >= seasonedPicks {
		return b.mean < 0
	}
	return b.mean < -drawTemperature*math.Sqrt(b.variance)
}

// leaningPicks is the minimum number of picks for isLeaning. With fewer picks, the belief depends mainly on the prior.
const leaningPicks = 50

// isLeaning reports whether a lesson probably helps: its mean effect is more than one standard deviation above 0. Such
// a lesson can be withheld less often.
func (b belief) isLeaning() bool { return b.picks >= leaningPicks && b.mean > math.Sqrt(b.variance) }

// trustedSpread is the number of standard deviations by which a trusted lesson's mean effect must exceed 0.
const trustedSpread = 1.7

// isTrusted reports whether a lesson may be withheld as rarely as a proven lesson. If later sessions show that early
// successes were luck, isTrusted becomes false and the lesson is withheld more often again.
func (b belief) isTrusted() bool {
	return b.picks >= seasonedPicks && b.mean > trustedSpread*math.Sqrt(b.variance)
}

// choose returns the best fresh actions for the remaining slots. In a share ProbeShare of the sessions, the last slot
// goes to the benched action with the best draw from its full posterior. Such a draw favours actions with little
// expected harm.
func choose(cfg Config, b Beliefs, session string, fresh []candidate, slots int) []candidate {
	if slots <= 0 || len(fresh) == 0 {
		return nil
	}
	out := make([]candidate, 0, len(fresh))
	var probe candidate
	best := math.Inf(-1)
	for _, c := range fresh {
		if cfg.scoreEligible(b, session, &c) {
			out = append(out, c)
		} else if c.posterior.Benched {
			if z := c.posterior.Mean + math.Sqrt(max(c.posterior.Var, 0))*trial.NormalQuantile(trial.Coin(cfg.Salt, trial.ForProbe, session, c.action.Slug)); z > best {
				probe, best = c, z
			}
		}
	}
	slices.SortFunc(out, func(x, y candidate) int {
		return cmp.Or(cmp.Compare(y.score, x.score), cmp.Compare(x.action.Slug, y.action.Slug))
	})
	if !math.IsInf(best, -1) && trial.Coin(cfg.Salt, trial.ForProbe, session, "") < ProbeShare {
		probe.isProbe = true
		out = append(out[:min(len(out), slots-1)], probe)
	}
	return out[:min(len(out), slots)]
}

// scoreEligible scores an action and reports whether it may be picked. Under Uplift a lesson must be worth more than it
// costs, so a session may get no lesson.
func (c Config) scoreEligible(b Beliefs, session string, k *candidate) bool {
	switch c.Objective {
	case All:
		k.score = k.action.Confidence
		return true
	case Random:
		k.score = trial.Coin(c.Salt, trial.ForDraw, session, k.action.Slug)
		return true
	case Raw:
		s, f := b.RawCounts(k.action.Arm)
		h := trial.CoinHash(c.Salt, trial.ForDraw, session, k.action.Slug)
		seeded := rand.New(rand.NewPCG(binary.BigEndian.Uint64(h[:8]), binary.BigEndian.Uint64(h[8:16]))) //nolint:gosec // a draw that can be replayed, no secret
		k.score = betaDraw(seeded, 1+max(s, 0), 1+max(f, 0))
		return true
	default: // Uplift
	}
	z := math.Sqrt(max(k.posterior.Var, 0)) * trial.NormalQuantile(trial.Coin(c.Salt, trial.ForDraw, session, k.action.Slug))
	k.score = k.posterior.Mean + rankingTemperature*z
	if k.onTrial() { // the operator asked for data
		return true
	}
	return !k.posterior.Benched && k.posterior.Mean+drawTemperature*z > float64(k.action.Tokens)*c.TokenCost
}

// PickProbability returns the probability that choose picks an action in a session with a match and a free slot. For a
// benched action, the probability is lower if other benched actions match as well.
func (c Config) PickProbability(a Action, p Posterior) float64 {
	k := candidate{action: a, posterior: p}
	switch {
	case !c.choosesByEffect() || a.Forced || k.onTrial():
		return 1
	case p.Benched:
		return ProbeShare
	}
	spread := drawTemperature * math.Sqrt(max(p.Var, 1e-12))
	return 0.5 * math.Erfc((float64(a.Tokens)*c.TokenCost-p.Mean)/(spread*math.Sqrt2))
}

func betaDraw(r *rand.Rand, a, b float64) float64 {
	x, y := gammaDraw(r, a), gammaDraw(r, b)
	return x / (x + y)
}

// gammaDraw draws from Gamma(a, 1), a >= 1 (Marsaglia and Tsang, A simple method for generating gamma variables, 2000).
func gammaDraw(r *rand.Rand, a float64) float64 {
	d := a - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := r.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		if math.Log(1-r.Float64()) < 0.5*x*x+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}

type candidate struct {
	action      Action
	posterior   Posterior
	score       float64
	isProbe     bool // the lesson is benched, and the session is one of the few that try such lessons
	modelUnseen bool // the evidence comes from other models only, and Config.Retest withholds the full share
}

func (c *candidate) onTrial() bool { return c.action.Epsilon > 0 && !c.posterior.TrialEnded }

// Beliefs is the input to Decide: posteriors from counters weighted by age, and expected rewards without lessons.
type Beliefs interface {
	Posterior(c Action) Posterior
	Expected(a *trial.Assignment) (y float64, ok bool) // expected reward without a lesson, before random decisions
	Baseline(category string) (n, sum float64)         // session count, and the sum of rewards minus lesson effects
	RawCounts(a trial.Arm) (successes, failures float64)
	IsModelUnseen(a trial.Arm, model string) bool // see trial.Counters
}

// Posterior is the belief about an arm. Earn, Prove and All are settings in config.go.
type Posterior struct {
	Mean, Var   float64 // effect
	MatchEffect float64 // change in expected reward given the match
	Leaning     bool    // more than one standard deviation above 0; Earn halves the withheld share
	Trusted     bool    // more than 1.7 standard deviations above 0 after 200 picks; Earn withholds only 0.05
	Proven      bool    // the e-value for help reached 20; Earn withholds only 0.05, with every objective except All
	Concluded   bool    // see trial.Progress.Concluded; Prove withholds only 0.05
	TrialEnded  bool    // the trial has reached its width or its planned number of picks
	Benched     bool    // the lesson is expected to harm, and is tried only in a share ProbeShare of the sessions
}
