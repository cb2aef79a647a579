package bandit

import (
	"slices"

	"precept/bandit/trial"
)

// Decide makes one turn's decisions and returns the new picks, both injected and withheld, ordered by rank. A caller
// can pass all matches at every turn, because earlier decisions do not change.
//
// A withheld pick keeps its slot. If another lesson took the slot, the experiment would compare two lessons.
func Decide(
	cfg Config, b Beliefs, a *trial.Assignment, session string, actions []Action, turn int,
) []trial.Pick {
	startAssignment(a, cfg, b, session)
	added, forced := recordMatches(a, b, actions)
	if a.Control || len(added)+len(forced) == 0 {
		return nil
	}
	best := choose(cfg, b, session, added, min(cfg.K, 2*cfg.K-usedPicks(a)))
	chosen := cfg.fitRoom(slices.Clone(best))
	recordPassReasons(a, cfg, b, session, added, best, chosen)
	return flipPicks(a, cfg, b, session, append(chosen, forced...), turn)
}

// recordPassReasons records why matching lessons were not picked. best holds the picks before fitRoom dropped any, and
// chosen holds the picks that remain.
func recordPassReasons(a *trial.Assignment, cfg Config, b Beliefs, session string, fresh, best, chosen []candidate) {
	includes := func(list []candidate, slug string) bool {
		return slices.ContainsFunc(list, func(c candidate) bool { return c.action.Slug == slug })
	}
	for i := range fresh {
		c := fresh[i]
		pos := slices.IndexFunc(a.Matched, func(m trial.Match) bool { return m.Arm == c.action.Arm })
		switch {
		case pos < 0 || includes(chosen, c.action.Slug):
		case includes(best, c.action.Slug):
			a.Matched[pos].PassReason = trial.PassedRoom
		case cfg.scoreEligible(b, session, &c):
			a.Matched[pos].PassReason = trial.PassedSlots
		default:
			a.Matched[pos].PassReason = trial.PassedRank
		}
	}
}

// fitRoom drops each pick that is larger than the remaining room in bytes. It runs before lessons are withheld at
// random, because a withheld pick also uses room.
func (c Config) fitRoom(chosen []candidate) []candidate {
	if c.Room == 0 {
		return chosen
	}
	left := c.Room
	return slices.DeleteFunc(chosen, func(pick candidate) bool {
		if pick.action.Size > left {
			return true
		}
		left -= pick.action.Size
		return false
	})
}

// startAssignment does nothing after the first call for a session. The first call decides whether the session is a
// control session, and freezes the expected reward without a lesson.
func startAssignment(a *trial.Assignment, cfg Config, b Beliefs, session string) {
	if !a.FlipControl(cfg.Salt, session, cfg.Control) {
		return
	}
	y, ok := b.Expected(a)
	if !ok {
		n, sum := b.Baseline(a.Category)
		if !(n > 0) {
			n, sum = 0, 0
		}
		y = (sum + startBase*baseWeight) / (n + baseWeight)
	}
	a.Base = trial.Round(clip(y, 0, 1))
}

// startBase is the assumed mean reward in a category without sessions. It has the weight of baseWeight sessions.
const startBase, baseWeight = 0.5, 10

// matchDamping is the part of a match effect (how much harder or easier sessions with the match are) that enters a
// session's expected reward. Several lessons often match because of the same difficulty. With the full effects, the
// difficulty would count several times, later residuals would overshoot, and the oscillation would grow until the
// chooser is no better than chance.
//
// The report is unaffected: an effect is unbiased for any centre fixed before the random decision.
const matchDamping = 0.65

// recordMatches returns the actions that are new to the session, and records them as matches. A forced action is not a
// match.
func recordMatches(a *trial.Assignment, b Beliefs, actions []Action) (fresh, forced []candidate) {
	isFirst := !a.HasMatchOrLoop()
	for _, c := range actions {
		if wasConsidered(a, c.Slug) {
			continue
		}
		k := candidate{action: c, posterior: b.Posterior(c)}
		if c.Forced {
			if !slices.ContainsFunc(forced, func(f candidate) bool { return f.action.Slug == c.Slug }) {
				forced = append(forced, k)
			}
			continue
		}
		if fresh == nil {
			fresh = make([]candidate, 0, len(actions))
		}
		fresh = append(fresh, k)
		a.Matched = append(a.Matched, trial.Match{Arm: c.Arm, MatchEffect: trial.Round(matchDamping * k.posterior.MatchEffect)})
	}
	if isFirst && len(fresh)+len(forced) > 0 {
		// The centre is frozen at the first match or loop, because an injection may cause a later match.
		a.Looped = len(fresh) == 0
		matchEffects, _ := expectedEffects(a)
		a.Centre = trial.Round(clip(a.Base+matchEffects, minCentre, maxCentre))
	}
	return fresh, forced
}

// usedPicks returns how many picks use a slot. The loop warning uses none.
func usedPicks(a *trial.Assignment) int {
	n := 0
	for i := range a.Picks {
		if _, ok := a.Match(a.Picks[i].Arm); ok {
			n++
		}
	}
	return n
}

// flipPicks decides at random whether each chosen lesson is withheld. It freezes each pick's offset (the expected
// reward without the lesson) and centre (the expected reward before the random decision).
func flipPicks(
	a *trial.Assignment, cfg Config, b Beliefs, session string, chosen []candidate, turn int,
) []trial.Pick {
	from := len(a.Picks)
	for i := range chosen {
		k := &chosen[i]
		k.modelUnseen = cfg.Retest && cfg.holdoutEpsilon(&k.posterior) < cfg.Epsilon && b.IsModelUnseen(k.action.Arm, a.Model)
		a.Flip(cfg.Salt, session, trial.Pick{
			Slug: k.action.Slug, Arm: k.action.Arm, Eps: cfg.epsilon(k), MeanEffect: trial.Round(k.posterior.Mean), Tokens: k.action.Tokens,
			Turn: turn, Trial: cfg.trialName(k),
		})
	}
	matchEffects, injectedEffects := expectedEffects(a)
	for i := range chosen {
		p := &a.Picks[from+i]
		m, matched := a.Match(p.Arm)
		matchEffect := m.MatchEffect
		offset := a.Base + matchEffects + injectedEffects - matchEffect
		if matched && p.Injected {
			offset -= p.MeanEffect
		}
		if !matched {
			matchEffect = chosen[i].posterior.MatchEffect
		}
		p.Offset = trial.Round(offset)
		// The centre eps m1 + (1-eps) m0, with m1 = m0 + m, gives z the smallest variance.
		p.Centre = trial.Round(clip(offset+matchEffect+p.Eps*chosen[i].posterior.Mean, minCentre, maxCentre))
	}
	return a.Picks[from:len(a.Picks):len(a.Picks)]
}

func (c Config) epsilon(k *candidate) float64 {
	switch {
	case c.Objective == All: // trials and probes do not change the share
		return c.Epsilon
	case k.onTrial():
		return min(k.action.Epsilon, 1)
	case c.Epsilon == 0: // the operator wants nothing withheld
		return 0
	case k.isProbe:
		return probeEpsilon
	case k.modelUnseen:
		return c.Epsilon
	}
	return c.holdoutEpsilon(&k.posterior)
}

func (c Config) holdoutEpsilon(p *Posterior) float64 {
	minProbability := min(minEpsilon, c.Epsilon)
	switch c.Holdout {
	case Fixed:
	case Earn:
		switch {
		case p.Proven || p.Trusted && c.choosesByEffect(): // other objectives withhold the full share until the proof
			return minProbability
		case p.Leaning && c.choosesByEffect():
			return c.Epsilon / 2
		}
	default:
		if p.Concluded {
			return minProbability
		}
	}
	return c.Epsilon
}

// trialName returns the pick's planned trial. Under All a pick belongs to no trial, because it is withheld with
// Config.Epsilon.
func (c Config) trialName(k *candidate) string {
	if !k.onTrial() || c.Objective == All {
		return ""
	}
	return k.action.Trial
}

// NextEpsilon returns the probability of withholding an action's next picks.
func (c Config) NextEpsilon(action Action, p Posterior) float64 {
	return c.epsilon(&candidate{
		action: action, posterior: p, isProbe: p.Benched && c.choosesByEffect() && !action.Forced,
	})
}

// minCentre and maxCentre bound a reward's centre. Within these bounds, the factors 1 + lambda z in an e-value are
// positive.
const minCentre, maxCentre = 0.05, 0.95
