package session

import (
	"maps"

	"precept/bandit/trial"
)

// Counted is the part of the sums of a unit (a run, or a session with sub-agents) that one replica counted. Two
// replicas may serve sessions of a unit at the same time. If a merge of their copies took the larger sum, the turns of
// one replica would be lost. If a merge added the sums, the turns that both copies contain would count twice. A part
// never shrinks, and only its replica adds to the part.
type Counted struct {
	Tally trial.Tally `json:"t,omitzero"`
	Used  trial.Usage `json:"u,omitzero"`
}

// pastParts is the key of the part that belongs to no replica. This part holds the turns of a session before
// its first sub-agent, when the sums had no parts.
const pastParts = ""

// count adds to the sums of the session and, for a unit, to the part of this replica. The caller locks
// the record.
func (r *Record) count(more Counted) {
	t := &r.Thread
	if r.IsShared() {
		t.Counted = t.parts()
		part := t.Counted[r.Unit.Replica]
		part.add(more)
		t.Counted[r.Unit.Replica] = part
	}
	t.Tally.Add(more.Tally)
	t.Used.Input, t.Used.Cached = t.Used.Input+more.Used.Input, t.Used.Cached+more.Used.Cached
}

func (c *Counted) add(o Counted) {
	c.Tally.Add(o.Tally)
	c.Used.Input, c.Used.Cached = c.Used.Input+o.Used.Input, c.Used.Cached+o.Used.Cached
}

// minus returns c minus o; a negative difference becomes 0.
func (c Counted) minus(o Counted) Counted {
	rest := func(have, other int64) int64 { return max(have-other, 0) }
	return Counted{
		Tally: trial.Tally{
			Errors: rest(c.Tally.Errors, o.Tally.Errors), Loops: rest(c.Tally.Loops, o.Tally.Loops), Corrections: rest(c.Tally.Corrections, o.Tally.Corrections),
			Turns: rest(c.Tally.Turns, o.Tally.Turns), Tokens: rest(c.Tally.Tokens, o.Tally.Tokens),
		},
		Used: trial.Usage{Input: rest(c.Used.Input, o.Used.Input), Cached: rest(c.Used.Cached, o.Used.Cached)},
	}
}

// parts returns the parts of the sums by replica. If the sums have no parts, they are returned as one part
// under the key pastParts.
func (t *Thread) parts() map[string]Counted {
	if t.Counted != nil {
		return t.Counted
	}
	past := t.Tally
	past.At = 0
	return map[string]Counted{pastParts: {past, t.Used}}
}

// partsForMerge returns the parts of t, a copy of the unit, for a merge with the other copy. A replica of
// an earlier release writes the sums without parts. The part of such a replica is its sums minus the
// named parts of the other copy.
func (t *Thread) partsForMerge(other *Thread) map[string]Counted {
	if t.Counted != nil || other.Counted == nil {
		return t.parts()
	}
	named := Counted{}
	for replica, part := range other.Counted {
		if replica != pastParts {
			named.add(part)
		}
	}
	return map[string]Counted{pastParts: t.parts()[pastParts].minus(named)}
}

// joinCounts merges the sums with the sums of other, the copy of the unit at another replica. Of each part, the
// larger copy counts. The caller locks the record.
func (t *Thread) joinCounts(other *Thread) {
	all := maps.Clone(t.partsForMerge(other))
	for replica, part := range other.partsForMerge(t) {
		own := all[replica]
		own.Tally.Join(part.Tally)
		if part.Used.Input > own.Used.Input {
			own.Used = part.Used
		}
		all[replica] = own
	}
	sum := Counted{Tally: trial.Tally{At: max(t.Tally.At, other.Tally.At)}}
	for _, part := range all {
		sum.add(part)
	}
	t.Tally, t.Used, t.Counted = sum.Tally, sum.Used, all
}
