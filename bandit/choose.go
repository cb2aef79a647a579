package bandit

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"

	"precept/bandit/trial"
)

// temper shrinks the posterior's spread in the draw. Full Thompson sampling explores far more than
// a session's few slots can pay for; without any draw a lesson with a slightly negative start would
// never be tried.
const temper = 0.25

// ranking is the temper of the order among those that may be picked. A session's slots are few:
// where many lessons match, noise in the order costs more than what is learned from it, while who
// may be picked at all has to stay open to chance.
const ranking = 0.15

// seasoned is how many picks a lesson has had when luck at the beginning is no excuse any more.
const seasoned = 200

// benched says that a lesson is expected to harm: of one with few picks, by more than the draw's
// own spread. A line at 0 for all was tried and lost three points of the attainable gain, because
// helpful lessons that began unluckily came back through the probe budget only; no line at all
// injected a tenth more harmful lessons.
func (b belief) benched() bool {
	if b.picks >= seasoned {
		return b.m < 0
	}
	return b.m < -temper*math.Sqrt(b.v)
}

// leaningPicks is how many picks a lesson needs before its holdout may shrink at all: before, the
// prior speaks.
const leaningPicks = 50

// leaning says that a lesson is believed to help, by more than a standard deviation.
func (b belief) leaning() bool { return b.picks >= leaningPicks && b.m > math.Sqrt(b.v) }

// trustedSpread is by how many standard deviations a seasoned lesson must be believed to help for
// the smallest holdout.
const trustedSpread = 1.7

// trusted says that a lesson is withheld as seldom as if it were proven: what is paid for its proof
// is paid more slowly. It ends with the belief: a lesson that was lucky must be found out, and
// cannot be while it is hardly ever withheld.
func (b belief) trusted() bool { return b.picks >= seasoned && b.m > trustedSpread*math.Sqrt(b.v) }

// choose ranks the fresh actions by the objective and returns the best that fit into the slots
// left. Of the benched ones the probe budget tries the one that a full draw of the posterior says
// is the best: those that are least known, and least likely to harm, come back first.
func choose(cfg Config, b Beliefs, session string, fresh []considered, slots int) []considered {
	if slots <= 0 || len(fresh) == 0 {
		return nil
	}
	out := make([]considered, 0, len(fresh))
	var probe considered
	best := math.Inf(-1)
	for _, k := range fresh {
		if cfg.eligible(b, session, &k) {
			out = append(out, k)
		} else if k.Probe {
			if z := k.Mean + math.Sqrt(max(k.Var, 0))*trial.Normal(trial.Coin(cfg.Salt, trial.ForProbe, session, k.Slug)); z > best {
				probe, best = k, z
			}
		}
	}
	slices.SortFunc(out, func(x, y considered) int {
		return cmp.Or(cmp.Compare(y.score, x.score), cmp.Compare(x.Slug, y.Slug))
	})
	if !math.IsInf(best, -1) && trial.Coin(cfg.Salt, trial.ForProbe, session, "") < ProbeShare {
		probe.probe = true
		out = append(out[:min(len(out), slots-1)], probe)
	}
	return out[:min(len(out), slots)]
}

// eligible scores an action and says whether it may be picked at all. "No lesson" is always a
// possible answer of Uplift.
func (c Config) eligible(b Beliefs, session string, k *considered) bool {
	switch c.Objective {
	case All:
		k.score = k.Confidence
		return true
	case Random:
		k.score = trial.Coin(c.Salt, trial.ForDraw, session, k.Slug)
		return true
	case Raw:
		s, f := b.RawCounts(k.Arm)
		h := trial.Hash(c.Salt, trial.ForDraw, session, k.Slug)
		seeded := rand.New(rand.NewPCG(binary.BigEndian.Uint64(h[:8]), binary.BigEndian.Uint64(h[8:16]))) //nolint:gosec // a draw that can be replayed, no secret
		k.score = betaDraw(seeded, 1+max(s, 0), 1+max(f, 0))
		return true
	default: // Uplift
	}
	z := math.Sqrt(max(k.Var, 0)) * trial.Normal(trial.Coin(c.Salt, trial.ForDraw, session, k.Slug))
	k.score = k.Mean + ranking*z
	if k.onTrial() { // a trial: the operator asked for data, so neither the threshold nor the bench applies
		return true
	}
	return !k.Probe && k.Mean+temper*z > float64(k.Tokens)*c.TokenCost
}

// betaDraw draws from Beta(a, b), both at least 1.
func betaDraw(r *rand.Rand, a, b float64) float64 {
	x, y := gammaDraw(r, a), gammaDraw(r, b)
	return x / (x + y)
}

// gammaDraw draws from Gamma(a, 1), a >= 1 (Marsaglia and Tsang, A simple method for generating
// gamma variables, 2000).
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

// considered is an action on its way to being picked.
type considered struct {
	Action
	Posterior
	score float64
	probe bool // picked out of the probe budget
}

// onTrial says that the operator wants data of the lesson, and has not got them all.
func (k *considered) onTrial() bool { return k.Epsilon > 0 && !k.Reached }

// Beliefs is what Decide reads: posteriors from discounted counters and the baseline of a category.
type Beliefs interface {
	Posterior(c Action) Posterior
	Baseline(category string) (n, sum float64) // cn, cs in sessions and reward
	RawCounts(a trial.Arm) (successes, failures float64)
}

// Posterior is what the chooser believes of an arm.
type Posterior struct {
	Mean, Var float64 // effect
	Match     float64 // del: what the match itself says of the session
	Leaning   bool    // it is believed to help, by more than a standard deviation; Earn halves its holdout
	Trusted   bool    // the same after 200 picks by more than 1.7; Earn makes its holdout 0.05
	Proven    bool    // E+ once reached 20; Earn makes its holdout 0.05 whatever lessons are chosen by
	Settled   bool    // its interval once lay above 0, or within what matters; Prove makes its holdout 0.05
	Reached   bool    // its trial has come to the width that was asked for
	Probe     bool    // benched: expected to harm, only the probe budget tries it
}
