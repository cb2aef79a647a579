package session

import (
	"maps"

	"precept/bandit/trial"
)

// ReplicaCounts holds the sums that one replica counted for a unit (a run, or a session with sub-agents). Replicas may
// serve a unit at the same time. With a single sum, a merge could not tell which turns both replicas had counted, so
// each replica has a separate part. A part never shrinks, and only its replica adds to it.
type ReplicaCounts struct {
	Totals trial.Totals `json:"t,omitzero"`
	Used   trial.Usage  `json:"u,omitzero"`
}

const pastParts = "" // for the turns before a session's first sub-agent, when there were no parts

func (r *Record) count(added ReplicaCounts) {
	t := &r.Thread
	if r.IsShared() {
		t.ReplicaCounts = t.parts()
		part := t.ReplicaCounts[r.Unit.Replica]
		part.add(added)
		t.ReplicaCounts[r.Unit.Replica] = part
	}
	t.Totals.Add(added.Totals)
	t.Used.Input, t.Used.Cached = t.Used.Input+added.Used.Input, t.Used.Cached+added.Used.Cached
}

func (c *ReplicaCounts) add(o ReplicaCounts) {
	c.Totals.Add(o.Totals)
	c.Used.Input, c.Used.Cached = c.Used.Input+o.Used.Input, c.Used.Cached+o.Used.Cached
}

func (c ReplicaCounts) minus(o ReplicaCounts) ReplicaCounts {
	difference := func(have, other int64) int64 { return max(have-other, 0) }
	return ReplicaCounts{
		Totals: trial.Totals{
			Errors: difference(c.Totals.Errors, o.Totals.Errors), Loops: difference(c.Totals.Loops, o.Totals.Loops), Corrections: difference(c.Totals.Corrections, o.Totals.Corrections),
			Turns: difference(c.Totals.Turns, o.Totals.Turns), Tokens: difference(c.Totals.Tokens, o.Totals.Tokens),
		},
		Used: trial.Usage{Input: difference(c.Used.Input, o.Used.Input), Cached: difference(c.Used.Cached, o.Used.Cached)},
	}
}

func (t *Thread) parts() map[string]ReplicaCounts {
	if t.ReplicaCounts != nil {
		return t.ReplicaCounts
	}
	past := t.Totals
	past.NewestMillis = 0
	return map[string]ReplicaCounts{pastParts: {past, t.Used}}
}

// partsForMerge returns t's parts for a merge with other. If t has no parts, because a replica with an earlier release
// wrote it, partsForMerge returns one part under pastParts: t's sums minus the parts in other, which the sums include.
func (t *Thread) partsForMerge(other *Thread) map[string]ReplicaCounts {
	if t.ReplicaCounts != nil || other.ReplicaCounts == nil {
		return t.parts()
	}
	named := ReplicaCounts{}
	for replica, part := range other.ReplicaCounts {
		if replica != pastParts {
			named.add(part)
		}
	}
	return map[string]ReplicaCounts{pastParts: t.parts()[pastParts].minus(named)}
}

// mergeCounts merges the sums in other, another replica's record for the unit. If both records have a part, the larger
// one counts. The caller locks the record.
func (t *Thread) mergeCounts(other *Thread) {
	all := maps.Clone(t.partsForMerge(other))
	for replica, part := range other.partsForMerge(t) {
		merged := all[replica]
		merged.Totals.Merge(part.Totals)
		if part.Used.Input > merged.Used.Input {
			merged.Used = part.Used
		}
		all[replica] = merged
	}
	sum := ReplicaCounts{Totals: trial.Totals{NewestMillis: max(t.Totals.NewestMillis, other.Totals.NewestMillis)}}
	for _, part := range all {
		sum.add(part)
	}
	t.Totals, t.Used, t.ReplicaCounts = sum.Totals, sum.Used, all
}
