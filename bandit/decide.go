package bandit

import (
	"slices"

	"precept/bandit/trial"
)

// Decide does what is to be decided at one turn, and returns the picks that are new: injected and
// withheld ones, in the order in which they were ranked. It may be called at every turn with
// whatever matched; what was decided before stays.
//
// A control session records its matches and picks nothing. A withheld pick keeps its slot: the
// caller inserts nothing in its place, because a lesson measured against its substitute is not
// measured.
func Decide(
	cfg Config, b Beliefs, a *trial.Assignment, session string, actions []Action, turn int,
) []trial.Pick {
	open(a, cfg, b, session)
	fresh, forced := match(a, b, actions)
	if a.Control || len(fresh)+len(forced) == 0 {
		return nil
	}
	chosen := cfg.fit(choose(cfg, b, session, fresh, min(cfg.K, 2*cfg.K-spent(a))))
	return flip(a, cfg, session, append(chosen, forced...), turn)
}

// fit leaves out what does not fit into the room any more, by rank, before any coin is flipped:
// what is withheld takes its room.
func (c Config) fit(chosen []considered) []considered {
	if c.Room == 0 {
		return chosen
	}
	left := c.Room
	return slices.DeleteFunc(chosen, func(k considered) bool {
		if k.Size > left {
			return true
		}
		left -= k.Size
		return false
	})
}

// open flips the control coin and freezes the baseline, once.
func open(a *trial.Assignment, cfg Config, b Beliefs, session string) {
	if !a.Open(cfg.Salt, session, cfg.Control) {
		return
	}
	n, sum := b.Baseline(a.Category)
	if !(n > 0) {
		n, sum = 0, 0
	}
	a.Base = trial.Round(clip((sum+startBase*baseWeight)/(n+baseWeight), 0, 1))
}

// A category's baseline starts as ten sessions of which half succeeded.
const startBase, baseWeight = 0.5, 10

// damping is the part of a match effect that is taken off a session. Lessons that match together
// explain the same difficulty, each of them in full: taken off in full, they explain it several
// times over, the next sessions' residuals swing back, and where rewards come in late (a tenth of
// all sessions still open is late enough) the swing grows until the chooser is no better than
// chance. The report does not mind: its centre may be anything that is fixed before the coin.
const damping = 0.65

// match records the actions that are new to the session and returns them, the forced ones apart.
func match(a *trial.Assignment, b Beliefs, actions []Action) (fresh, forced []considered) {
	first := !a.Enters()
	for _, c := range actions {
		if known(a, c.Slug) {
			continue
		}
		k := considered{Action: c, Posterior: b.Posterior(c)}
		if c.Forced {
			if !slices.ContainsFunc(forced, func(f considered) bool { return f.Slug == c.Slug }) {
				forced = append(forced, k)
			}
			continue
		}
		if fresh == nil {
			fresh = make([]considered, 0, len(actions))
		}
		fresh = append(fresh, k)
		a.Matched = append(a.Matched, trial.Match{Arm: c.Arm, Del: trial.Round(damping * k.Match)})
	}
	if first && len(fresh)+len(forced) > 0 {
		// Frozen at the first match, or at the first loop: what matches later may be a consequence
		// of what was injected, and a centre that depends on the treatment would shift the
		// comparison of treated and control.
		a.Looped = len(fresh) == 0
		del, _ := expected(a)
		a.C = trial.Round(clip(a.Base+del, clipLo, clipHi))
	}
	return fresh, forced
}

// spent counts the picks that used up the session's 2K.
func spent(a *trial.Assignment) int {
	n := 0
	for i := range a.Picks {
		if _, ok := a.Match(a.Picks[i].Arm); ok {
			n++
		}
	}
	return n
}

// flip flips the holdout coin of each chosen lesson and freezes its offset.
func flip(
	a *trial.Assignment, cfg Config, session string, chosen []considered, turn int,
) []trial.Pick {
	from := len(a.Picks)
	for i := range chosen {
		k := &chosen[i]
		a.Flip(cfg.Salt, session, trial.Pick{
			Slug: k.Slug, Arm: k.Arm, Eps: cfg.epsilon(k), M: trial.Round(k.Mean), Tokens: k.Tokens,
			Turn: turn, Trial: cfg.trial(k),
		})
	}
	del, inj := expected(a)
	for i := range chosen {
		p := &a.Picks[from+i]
		m, inside := a.Match(p.Arm)
		own := m.Del
		off := a.Base + del + inj - own
		if inside && p.Injected {
			off -= p.M
		}
		if !inside {
			own = chosen[i].Match
		}
		p.Off = trial.Round(off)
		p.C = trial.Round(clip(off+own, clipLo, clipHi))
	}
	return a.Picks[from:len(a.Picks):len(a.Picks)]
}

// epsilon is the chance that a pick is withheld.
func (c Config) epsilon(k *considered) float64 {
	switch {
	case c.Objective == All: // certain injection must be possible, whatever else is in force
		return c.Epsilon
	case k.onTrial():
		return min(k.Epsilon, 1)
	case c.Epsilon == 0: // the operator wants nothing withheld
		return 0
	case k.probe:
		return probeEpsilon
	}
	return c.held(&k.Posterior)
}

// held is the chance that a pick is withheld by the rule of the configured holdout.
func (c Config) held(p *Posterior) float64 {
	least := min(leastEpsilon, c.Epsilon)
	switch c.Holdout {
	case Fixed:
	case Earn:
		switch {
		case p.Proven || p.Trusted && c.uplift(): // a pure experiment goes on as it was set up
			return least
		case p.Leaning && c.uplift():
			return c.Epsilon / 2
		}
	default:
		if p.Settled {
			return least
		}
	}
	return c.Epsilon
}

// trial is the planned trial that a pick belongs to. Certain injection belongs to none: its coin is
// not the trial's.
func (c Config) trial(k *considered) string {
	if !k.onTrial() || c.Objective == All {
		return ""
	}
	return k.Trial
}

// NextEpsilon is the chance of being withheld that an action's next picks will have: what more
// data will cost.
func (c Config) NextEpsilon(k Action, p Posterior) float64 {
	return c.epsilon(&considered{
		Action: k, Posterior: p, probe: p.Probe && c.uplift() && !k.Forced,
	})
}

// The report centres rewards inside these bounds, which keeps 1 + lambda z away from zero.
const clipLo, clipHi = 0.05, 0.95
