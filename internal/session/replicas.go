package session

import (
	"maps"

	"precept/bandit/trial"
	"precept/internal/wire"
)

// WasServedElsewhere reports whether another replica has probably served some turns. This is the case if the request
// does not continue this record's list, if it has several answers after the list, or if it has one answer although this
// replica has seen no reply.
func (r *Record) WasServedElsewhere(req *wire.Request) bool {
	if r.Thread.Turns == 0 || r.Thread.ListHash == req.ListHash {
		return false
	}
	if req.Delta {
		return r.lacksAnsweredCall(req)
	}
	if req.Len() < r.Thread.Items || len(r.Thread.LastTurn.Items) > 0 && !r.continues(req) {
		return true
	}
	answers := 0
	for i := r.Thread.Items; i < req.Len(); i++ {
		if req.Role(i) == wire.RoleAssistant && (i == r.Thread.Items || req.Role(i-1) != wire.RoleAssistant) {
			answers++
		}
	}
	return answers > 1 || answers == 1 && !r.Thread.Replied
}

func (r *Record) lacksAnsweredCall(req *wire.Request) bool {
	for i := range min(req.Len(), maxSearchedItems) {
		for _, res := range req.Item(i).Results {
			if _, known := r.Thread.Calls[res.CallID]; !known && res.CallID != "" {
				return true
			}
		}
	}
	return false
}

// Adopt replaces the record with n, another replica's newer record. Fields for this process only, such as
// OptOut.PendingTurns and State.Dirty, keep their values. The ID and the tenant are not written, because other
// goroutines read them without the lock.
func (r *Record) Adopt(n *Record) {
	if r.IsShared() || n.IsShared() {
		r.mergePicks(n)
		n.Thread.mergeCounts(&r.Thread)
	} else {
		r.Assignment = n.Assignment
	}
	n.Unit.Members = r.Unit.Members
	replica := r.Unit.Replica
	r.Unit, r.Thread, r.Agents, r.Lessons, r.Mailbox = n.Unit, n.Thread, n.Agents, n.Lessons, n.Mailbox
	r.Unit.Replica = replica
	if n.Facts.Turns > r.Facts.Turns {
		r.Facts = n.Facts
	}
	identity := &r.Identity
	identity.Agent, identity.Name, identity.Method = n.Identity.Agent, n.Identity.Name, n.Identity.Method
	identity.Started, identity.Seen, identity.Model, identity.Dialect = n.Identity.Started, n.Identity.Seen, n.Identity.Model, n.Identity.Dialect
	r.OptOut.NoLearn, r.OptOut.Turns = n.OptOut.NoLearn, n.OptOut.Turns
	r.State = r.State.adopt(n.State)
	if r.State.Ambiguous {
		r.Assignment.Exclude(trial.ExcludedTwin)
	}
}

func (s State) adopt(n State) State {
	n.Closed = s.Closed || n.Closed
	n.Ambiguous = s.Ambiguous || n.Ambiguous
	n.OverLimit = s.OverLimit || n.OverLimit
	n.Answered = s.Answered || n.Answered
	highest := maps.Clone(s.LastPlaceholder)
	for kind, number := range n.LastPlaceholder {
		if highest == nil {
			highest = make(map[string]int)
		}
		highest[kind] = max(highest[kind], number)
	}
	n.LastPlaceholder, n.Dirty = highest, s.Dirty
	return n
}

// mergePicks adds the coins (random decisions) and picks (chosen lessons) from another replica's record.
func (r *Record) mergePicks(n *Record) {
	r.Assignment.Merge(&n.Assignment, r.startedBefore(n))
	r.Unit.Members = max(r.Unit.Members, n.Unit.Members)
}

// startedBefore reports whether r began before n. The earlier record determines the expected reward, and whether the
// unit (the run or session) gets no lessons at all (control).
func (r *Record) startedBefore(n *Record) bool {
	if !r.Identity.Started.Equal(n.Identity.Started) {
		return r.Identity.Started.Before(n.Identity.Started)
	}
	return r.Assignment.Category <= n.Assignment.Category
}

// MergeUnit merges a unit's record with another replica's, and keeps the new turns from both.
func (r *Record) MergeUnit(n *Record) {
	r.State.Answered = r.State.Answered || n.State.Answered
	if !r.Unit.IsRun { // a conversation has one newest state
		if n.Thread.Turns > r.Thread.Turns || n.Thread.Turns == r.Thread.Turns && n.Identity.Seen.After(r.Identity.Seen) {
			r.Adopt(n)
			return
		}
		r.mergePicks(n)
		if r.IsShared() {
			r.Thread.mergeCounts(&n.Thread)
		}
		return
	}
	r.mergePicks(n)
	if n.Identity.Started.Before(r.Identity.Started) {
		r.Identity.Started, r.Identity.Agent = n.Identity.Started, n.Identity.Agent
	}
	if n.Identity.Seen.After(r.Identity.Seen) {
		r.Identity.Seen = n.Identity.Seen
	}
	r.Thread.Turns = max(r.Thread.Turns, n.Thread.Turns)
	r.Thread.mergeCounts(&n.Thread)
	r.State.Closed, r.OptOut.HasStorableSession = r.State.Closed || n.State.Closed, true
}

// MergeRows returns the row that replaces old if a replica writes row without having read old. Both rows belong to the
// same unit.
func MergeRows(old, row Row) (Row, error) {
	stored, err := Decode(old.ID, old.Data)
	if err != nil {
		return row, err
	}
	rec, err := Decode(row.ID, row.Data)
	if err != nil {
		return row, err
	}
	switch {
	case old.StartedOffline && !row.StartedOffline:
		return row, nil
	case row.StartedOffline && !old.StartedOffline:
		return old, nil
	}
	rec.MergeUnit(stored)
	if rec.Identity.Seen.Before(old.Seen) {
		rec.Identity.Seen = old.Seen
	}
	data, err := rec.Encode()
	if err != nil {
		return row, err
	}
	row.Started, row.Seen, row.Closed, row.Data = rec.Identity.Started, rec.Identity.Seen, row.Closed || old.Closed, data
	return row, nil
}
