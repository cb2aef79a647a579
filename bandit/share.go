package bandit

import "slices"

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
func Share(cfg Config, b Beliefs, a *Assignment, unit string, cands []Candidate, spent int) (given, fresh []Pick) {
	a.open(cfg, b, unit)
	slots := max(0, min(cfg.K, 2*cfg.K-spent))
	given = a.again(&cfg, cands, slots)
	news, forced := a.match(b, a.unknown(cands))
	if a.Control || len(news)+len(forced) == 0 {
		return given, nil
	}
	turn := 1 // one for each decision: only those of the first one are compared with nothing at all
	for i := range a.Picks {
		turn = max(turn, a.Picks[i].Turn+1)
	}
	chosen := cfg.fit(choose(cfg, b, unit, news, slots-len(given)))
	return given, a.flip(cfg, unit, append(chosen, forced...), turn)
}

// unknown are the candidates that the unit has not met; once it has met too many, none.
func (a *Assignment) unknown(cands []Candidate) []Candidate {
	room := maxShared - len(a.Matched)
	out := make([]Candidate, 0, len(cands))
	for _, c := range cands {
		if a.known(c.Slug) || !c.Forced && room <= 0 {
			continue
		}
		if !c.Forced {
			room--
		}
		out = append(out, c)
	}
	return out
}

// again finds the unit's picks among the candidates, as many as there are slots and room for.
// Withheld ones take theirs, too.
func (a *Assignment) again(cfg *Config, cands []Candidate, slots int) (given []Pick) {
	for i := range a.Picks {
		p := &a.Picks[i]
		at := slices.IndexFunc(cands, func(c Candidate) bool { return c.Arm == p.Arm })
		if at < 0 {
			continue
		}
		if cands[at].Forced {
			given = append(given, *p)
			continue
		}
		if slots == 0 || cfg.Room != 0 && cands[at].Size > cfg.Room {
			continue
		}
		slots--
		if cfg.Room > 0 {
			if cfg.Room -= cands[at].Size; cfg.Room == 0 {
				cfg.Room = NoRoom
			}
		}
		given = append(given, *p)
	}
	return given
}

// Merge joins two copies of one unit's assignment that went on apart, at replicas that did not know
// of each other: the coins are the unit's, so they agree, and what either has decided is decided.
// first says that a's copy is the one that began first.
func (a *Assignment) Merge(b *Assignment, first bool) {
	head, other := a, b
	if !a.Decided || b.Decided && !first {
		head, other = b, a
	}
	out := head.Clone()
	out.Matched, out.Picks = unionOf(head, other)
	if out.Category == "" {
		out.Category, out.Day, out.At = other.Category, other.Day, other.At
	}
	out.Excluded, out.Refused = a.Excluded || b.Excluded, a.Refused || b.Refused
	*a = out
}

// unionOf is what either has matched and picked; of the same lesson, first's.
func unionOf(first, second *Assignment) (matched []Match, picks []Pick) {
	matched, picks = slices.Clone(first.Matched), slices.Clone(first.Picks)
	for _, m := range second.Matched {
		same := func(x Match) bool { return x.Arm.Slug() == m.Arm.Slug() }
		if !slices.ContainsFunc(matched, same) {
			matched = append(matched, m)
		}
	}
	for _, p := range second.Picks {
		same := func(x Pick) bool { return x.Slug == p.Slug }
		if !slices.ContainsFunc(picks, same) {
			picks = append(picks, p)
		}
	}
	return matched, picks
}
