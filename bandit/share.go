package bandit

import (
	"slices"

	"precept/bandit/trial"
)

// maxUnitMatches is the maximum number of matches in a run. A run can have many sessions, and the size of a
// contribution is linear in the matches.
const maxUnitMatches = 512

// DecideShared decides like Decide, for one of several sessions that share an assignment (a run and its agents).
// earlier holds the run's earlier picks for lessons that match again, and fresh holds the new picks. The limits are per
// session, so ownPicks is how many picks this session has.
//
// A lesson that matched before but was not picked is not picked now. An earlier pick with a different lesson text is
// not in earlier, because that pick's arm does not measure the text to insert.
func DecideShared(
	cfg Config, b Beliefs, a *trial.Assignment, unit string, actions []Action, ownPicks int,
) (earlier, fresh []trial.Pick) {
	startAssignment(a, cfg, b, unit)
	slots := max(0, min(cfg.K, 2*cfg.K-ownPicks))
	earlier = earlierPicks(a, &cfg, actions, slots)
	added, forced := recordMatches(a, b, newActions(a, actions))
	if a.Control || len(added)+len(forced) == 0 {
		return earlier, nil
	}
	// Each decision gets a separate turn number, because only the first decision's picks are compared with sessions
	// without a lesson.
	turn := 1
	for i := range a.Picks {
		turn = max(turn, a.Picks[i].Turn+1)
	}
	best := choose(cfg, b, unit, added, slots-len(earlier))
	chosen := cfg.fitRoom(slices.Clone(best))
	recordPassReasons(a, cfg, b, unit, added, best, chosen)
	return earlier, flipPicks(a, cfg, b, unit, append(chosen, forced...), turn)
}

// newActions returns the actions that are new to the run. Once the run has maxUnitMatches matches, it returns only
// forced actions.
func newActions(a *trial.Assignment, actions []Action) []Action {
	room := maxUnitMatches - len(a.Matched)
	out := make([]Action, 0, len(actions))
	for _, c := range actions {
		if wasConsidered(a, c.Slug) || !c.Forced && room <= 0 {
			continue
		}
		if !c.Forced {
			room--
		}
		out = append(out, c)
	}
	return out
}

// earlierPicks returns the actions' picks from an earlier session in the run. A returned pick takes a slot and room,
// even if its lesson is withheld. A forced pick takes neither.
func earlierPicks(a *trial.Assignment, cfg *Config, actions []Action, slots int) (earlier []trial.Pick) {
	for i := range a.Picks {
		p := &a.Picks[i]
		pos := slices.IndexFunc(actions, func(c Action) bool { return c.Arm == p.Arm })
		if pos < 0 {
			continue
		}
		if actions[pos].Forced {
			earlier = append(earlier, *p)
			continue
		}
		if slots == 0 || cfg.Room != 0 && actions[pos].Size > cfg.Room {
			continue
		}
		slots--
		if cfg.Room > 0 {
			if cfg.Room -= actions[pos].Size; cfg.Room == 0 {
				cfg.Room = NoRoom
			}
		}
		earlier = append(earlier, *p)
	}
	return earlier
}
