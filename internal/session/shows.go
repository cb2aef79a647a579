package session

import (
	"slices"

	"precept/internal/wire"
)

// Shares reports whether the request shows new content of the last turn, or whether the record has
// no such content to compare. Lock the record.
func (r *Record) Shares(req *wire.Request) bool {
	if r.Thread.Turns == 0 || req.Delta || len(r.Thread.LastTurn.Items) == 0 || r.Thread.ListHash == req.ListHash {
		return true
	}
	for i := req.Len() - 1; i >= max(0, req.Len()-maxLook); i-- {
		if slices.Contains(r.Thread.LastTurn.Items, itemKey(req, i)) && req.Role(i) != wire.RoleSystem {
			return true
		}
	}
	return false
}

// Begins reports whether the request repeats the first list of the record, which was answered.
// Under a name that several conversations share, such a request begins another conversation. Lock
// the record.
func (r *Record) Begins(req *wire.Request) bool {
	return r.Thread.Turns > 0 && r.Thread.Replied && r.Thread.ListHash == req.ListHash
}

// Shows reports whether a request with other tools shows part of the conversation, as the request
// of a memory keeper does. The request of a sub-agent does not. Lock the record.
func (r *Record) Shows(req *wire.Request) bool {
	if r.Shares(req) {
		return true
	}
	if r.Thread.FirstWords == 0 || firstWords(req) != r.Thread.FirstWords {
		return false
	}
	for i := range min(req.Len(), maxLook) {
		if req.Role(i) == wire.RoleAssistant {
			return true
		}
	}
	return false
}

// GoesOn says whether a request beside the conversation shows it, under the system text of an agent
// that worked on it: what was inserted in it stands in such a request as well. Lock the record.
func (r *Record) GoesOn(req *wire.Request) bool {
	known := req.SystemHash == r.Agents.SystemHash || slices.Contains(r.Agents.Former, req.SystemHash)
	return known && !req.Delta && r.continues(req)
}

// continues says whether the new part of the request before stands in this one.
func (r *Record) continues(req *wire.Request) bool {
	for i, k := range r.Thread.LastTurn.Items {
		if at := r.Thread.LastTurn.From + i; at >= req.Len() || itemKey(req, at) != k {
			return false
		}
	}
	return len(r.Thread.LastTurn.Items) > 0
}

// answers says whether something new in the request is the result of a call that the session's
// newest reply made: then it goes on with the session, whatever its tools and its system text are
// now. A memory keeper answers calls of its own alone.
func (r *Record) answers(req *wire.Request) bool {
	if len(r.Thread.Calls) == 0 {
		return false
	}
	for i := max(req.New(), 0); i < req.Len(); i++ {
		for _, res := range req.Item(i).Results {
			if _, ok := r.Thread.Calls[res.CallID]; ok {
				return true
			}
		}
	}
	return false
}
