package session

import (
	"slices"

	"precept/wire"
)

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

// Shares says whether the request goes on with what the record holds. Lock the record.
func (r *Record) Shares(req *wire.Request) bool {
	if r.Turns == 0 || req.Delta || len(r.LastTurn.Items) == 0 || r.ListHash == req.ListHash {
		return true
	}
	for i := req.Len() - 1; i >= max(0, req.Len()-maxLook); i-- {
		if slices.Contains(r.LastTurn.Items, itemKey(req, i)) && req.Role(i) != wire.RoleSystem {
			return true
		}
	}
	return false
}

// Begins says whether the request begins a conversation with the words that the record's began
// with, which were answered: under a name that may stand for several it is another one. Lock the
// record.
func (r *Record) Begins(req *wire.Request) bool {
	return r.Turns > 0 && r.Replied && r.ListHash == req.ListHash
}

// Shows says whether a request with other tools shows something of the conversation, as a memory
// keeper's does. A sub-agent's does not. Lock the record.
func (r *Record) Shows(req *wire.Request) bool {
	if r.Shares(req) {
		return true
	}
	if r.FirstWords == 0 || firstWords(req) != r.FirstWords {
		return false
	}
	for i := range min(req.Len(), maxLook) {
		if req.Role(i) == wire.RoleAssistant {
			return true
		}
	}
	return false
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
