package session

import (
	"maps"

	"precept/bandit/trial"
)

// Counted is the part of a unit's sums that one replica counted. Two replicas may serve sessions of a
// unit at the same time. The larger of two sums would then lose the turns of one replica, and the sum
// of two sums would count the common past twice. A part only grows, and only its replica adds to it.
type Counted struct {
	Tally trial.Tally `json:"t,omitzero"`
	Used  trial.Usage `json:"u,omitzero"`
}

// pastParts is the name of the part from before a unit had parts: the turns of a session before its
// first sub-agent.
const pastParts = ""

// count adds to the sums of the session, and of a unit also to the part of this replica. Lock the
// record.
func (r *Record) count(more Counted) {
	t := &r.Thread
	if r.Shared() {
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

// parts returns the parts of the sums. Sums without parts are one part.
func (t *Thread) parts() map[string]Counted {
	if t.Counted != nil {
		return t.Counted
	}
	past := t.Tally
	past.At = 0
	return map[string]Counted{pastParts: {past, t.Used}}
}

// joinCounts adds the parts of another replica's copy of the unit to the sums. Lock the record.
func (t *Thread) joinCounts(n *Thread) {
	all := maps.Clone(t.parts())
	for replica, part := range n.parts() {
		own := all[replica]
		own.Tally.Join(part.Tally)
		if part.Used.Input > own.Used.Input {
			own.Used = part.Used
		}
		all[replica] = own
	}
	sum := Counted{Tally: trial.Tally{At: max(t.Tally.At, n.Tally.At)}}
	for _, part := range all {
		sum.add(part)
	}
	t.Tally, t.Used, t.Counted = sum.Tally, sum.Used, all
}
