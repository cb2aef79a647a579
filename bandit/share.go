package bandit

import (
	"slices"

	"precept/bandit/trial"
)

// maxShared bounds what one unit of many sessions may have matched: its contribution is linear in
// it.
const maxShared = 512

// Share is Decide for one session of a unit that has several (a run and its agents): they share the
// unit's assignment, and what was decided for one of them holds for all. given are the earlier
// picks of lessons that match here again, in their order; fresh are new ones. A lesson that matched
// before and was not picked stays so. spent is how many picks this session has had: the bounds of a
// decision and of a session are the session's own, and who is beyond them is, whatever the coins
// said.
//
// An earlier pick of another text of the lesson (it was edited, or is presented otherwise by now)
// is not given: the arm that the unit has is not what would be inserted.
func Share(
	cfg Config, b Beliefs, a *trial.Assignment, unit string, actions []Action, spent int,
) (given, fresh []trial.Pick) {
	open(a, cfg, b, unit)
	slots := max(0, min(cfg.K, 2*cfg.K-spent))
	given = again(a, &cfg, actions, slots)
	news, forced := match(a, b, unknown(a, actions))
	if a.Control || len(news)+len(forced) == 0 {
		return given, nil
	}
	turn := 1 // one for each decision: only those of the first one are compared with nothing at all
	for i := range a.Picks {
		turn = max(turn, a.Picks[i].Turn+1)
	}
	chosen := cfg.fit(choose(cfg, b, unit, news, slots-len(given)))
	return given, flip(a, cfg, unit, append(chosen, forced...), turn)
}

// unknown are the actions that the unit has not met; once it has met too many, none.
func unknown(a *trial.Assignment, actions []Action) []Action {
	room := maxShared - len(a.Matched)
	out := make([]Action, 0, len(actions))
	for _, c := range actions {
		if known(a, c.Slug) || !c.Forced && room <= 0 {
			continue
		}
		if !c.Forced {
			room--
		}
		out = append(out, c)
	}
	return out
}

// again finds the unit's picks among the actions, as many as there are slots and room for.
// Withheld ones take theirs, too.
func again(a *trial.Assignment, cfg *Config, actions []Action, slots int) (given []trial.Pick) {
	for i := range a.Picks {
		p := &a.Picks[i]
		at := slices.IndexFunc(actions, func(c Action) bool { return c.Arm == p.Arm })
		if at < 0 {
			continue
		}
		if actions[at].Forced {
			given = append(given, *p)
			continue
		}
		if slots == 0 || cfg.Room != 0 && actions[at].Size > cfg.Room {
			continue
		}
		slots--
		if cfg.Room > 0 {
			if cfg.Room -= actions[at].Size; cfg.Room == 0 {
				cfg.Room = NoRoom
			}
		}
		given = append(given, *p)
	}
	return given
}
