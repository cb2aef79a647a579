package session

import "precept/internal/wire"

// Elsewhere says that the conversation seems to have gone on without this record: another replica
// served turns of it. Then more than one answer stands behind the list that was seen last, or an
// answer where none went by here, or the list does not go on from there at all (a history that was
// compacted looks like that, too). Lock the record.
func (r *Record) Elsewhere(req *wire.Request) bool {
	if r.Turns == 0 || req.Delta || r.ListHash == req.ListHash {
		return false
	}
	if req.Len() < r.Items || len(r.LastTurn.Items) > 0 && !r.continues(req) {
		return true
	}
	answers := 0
	for i := r.Items; i < req.Len(); i++ {
		if req.Role(i) == wire.RoleAssistant && (i == r.Items || req.Role(i-1) != wire.RoleAssistant) {
			answers++
		}
	}
	return answers > 1 || answers == 1 && !r.Replied
}

// Adopt takes over what another replica has made of the session since. What is this process' own
// stays. Lock the record.
func (r *Record) Adopt(n *Record) {
	if r.Shared() || n.Shared() {
		r.merge(n)
	} else {
		r.Assignment = n.Assignment
	}
	r.Tenant, r.Agent, r.Name, r.Method = n.Tenant, n.Agent, n.Name, n.Method
	r.Started, r.Seen, r.Model, r.Dialect = n.Started, n.Seen, n.Model, n.Dialect
	r.Turns, r.ListHash, r.Items, r.ItemsBefore, r.LastTurn, r.Replied = n.Turns, n.ListHash, n.Items, n.ItemsBefore, n.LastTurn, n.Replied
	r.HasTools, r.SystemHash, r.ToolsHash, r.ToolNames = n.HasTools, n.SystemHash, n.ToolsHash, n.ToolNames
	r.ToollessAgents, r.FormerAgents = n.ToollessAgents, n.FormerAgents
	r.Matched, r.Blocks, r.BlockBytes = n.Matched, n.Blocks, n.BlockBytes
	r.Unit, r.RunName, r.MemberNo, r.IsRun, r.Spent, r.FirstWords = n.Unit, n.RunName, n.MemberNo, n.IsRun, n.Spent, n.FirstWords
	r.Loops, r.Calls, r.CallOrder, r.Used = n.Loops, n.Calls, n.CallOrder, n.Used
	r.NoLearn, r.Refused, r.Closed, r.OptedOut, r.StandIn = n.NoLearn, n.Refused, r.Closed || n.Closed, n.OptedOut, n.StandIn
	r.Answers, r.Owed, r.WritOffered = n.Answers, n.Owed, n.WritOffered
	r.Doubted = r.Doubted || n.Doubted
	r.Assignment.Excluded = r.Assignment.Excluded || r.Doubted
}

// merge takes over what was drawn at another replica. Lock the record.
func (r *Record) merge(n *Record) {
	r.Assignment.Merge(&n.Assignment, r.before(n))
	r.Members = max(r.Members, n.Members)
}

// before says whose beginning stands: the earlier one's.
func (r *Record) before(n *Record) bool {
	if !r.Started.Equal(n.Started) {
		return r.Started.Before(n.Started)
	}
	return r.Assignment.Category <= n.Assignment.Category
}

// Join takes over what another replica knows of a unit. Each of them may have gone on: nothing of
// either is lost. Lock the record.
func (r *Record) Join(n *Record) {
	if !r.IsRun { // a conversation has one newest state
		if n.Turns > r.Turns || n.Turns == r.Turns && n.Seen.After(r.Seen) {
			r.Adopt(n)
			return
		}
		r.merge(n)
		return
	}
	r.merge(n)
	if n.Started.Before(r.Started) {
		r.Started, r.Agent = n.Started, n.Agent
	}
	if n.Seen.After(r.Seen) {
		r.Seen = n.Seen
	}
	r.Turns = max(r.Turns, n.Turns)
	if n.Used.Input > r.Used.Input {
		r.Used = n.Used
	}
	r.Closed, r.Kept = r.Closed || n.Closed, true
}

// Merged is what stands where a unit's row is written over another one that this replica may not
// have seen.
func Merged(old, row Row) (Row, error) {
	was, err := Decode(old.ID, old.Data)
	if err != nil {
		return row, err
	}
	rec, err := Decode(row.ID, row.Data)
	if err != nil {
		return row, err
	}
	switch {
	case old.StandIn && !row.StandIn:
		return row, nil
	case row.StandIn && !old.StandIn:
		return old, nil
	}
	rec.Join(was)
	if rec.Seen.Before(old.Seen) {
		rec.Seen = old.Seen
	}
	data, err := rec.Encode()
	if err != nil {
		return row, err
	}
	row.Started, row.Seen, row.Closed, row.Data = rec.Started, rec.Seen, row.Closed || old.Closed, data
	return row, nil
}
