package session

import (
	"slices"

	"precept/internal/wire"
)

// SharesItemsWith reports whether the request contains an item that was new in the last turn, or has the list
// of the last turn. The result is also true if nothing can be compared: the record has no turn or no item,
// or the request is a delta request. The caller locks the record.
func (r *Record) SharesItemsWith(req *wire.Request) bool {
	if r.Thread.Turns == 0 || req.Delta || len(r.Thread.LastTurn.Items) == 0 || r.Thread.ListHash == req.ListHash {
		return true
	}
	for i := req.Len() - 1; i >= max(0, req.Len()-maxSearchedItems); i-- {
		if slices.Contains(r.Thread.LastTurn.Items, itemKey(req, i)) && req.Role(i) != wire.RoleSystem {
			return true
		}
	}
	return false
}

// RepeatsAnsweredList reports whether the request repeats the newest list of the record after its answer. Under a
// shared name, such a request begins another conversation, unless the request is the next one of a conversation object.
// The caller locks the record.
func (r *Record) RepeatsAnsweredList(req *wire.Request) bool {
	return r.Thread.Turns > 0 && r.Thread.Replied && r.Thread.ListHash == req.ListHash && !appendsToConversation(req)
}

// ShowsConversation reports whether a request with different tools contains a part of the conversation. The
// request of an agent that keeps memories does, the request of a sub-agent does not. The caller locks
// the record.
func (r *Record) ShowsConversation(req *wire.Request) bool {
	if r.SharesItemsWith(req) {
		return true
	}
	if r.Thread.FirstWords == 0 || OpeningHash(req) != r.Thread.FirstWords {
		return false
	}
	for i := range min(req.Len(), maxSearchedItems) {
		if req.Role(i) == wire.RoleAssistant {
			return true
		}
	}
	return false
}

// ContinuesWithSystemPrompt reports whether a side request contains the conversation and has the system
// prompt of one of its agents. Such a request contains the anchors of the blocks. The caller locks the
// record.
func (r *Record) ContinuesWithSystemPrompt(req *wire.Request) bool {
	known := req.SystemHash == r.Agents.SystemHash || slices.Contains(r.Agents.PreviousPrompts, req.SystemHash)
	return known && !req.Delta && r.continues(req)
}

// continues reports whether the request contains the items that were new in the last turn, at their old
// indices.
func (r *Record) continues(req *wire.Request) bool {
	for i, k := range r.Thread.LastTurn.Items {
		if at := r.Thread.LastTurn.FirstNew + i; at >= req.Len() || itemKey(req, at) != k {
			return false
		}
	}
	return len(r.Thread.LastTurn.Items) > 0
}

// answersCall reports whether a new item of the request is the result of a call of the session's newest
// reply. Such a request continues the session whatever its tools and system prompt are, because an agent that
// keeps memories answers only its own calls.
func (r *Record) answersCall(req *wire.Request) bool {
	if len(r.Thread.Calls) == 0 {
		return false
	}
	for i := max(req.FirstNew(), 0); i < req.Len(); i++ {
		for _, res := range req.Item(i).Results {
			if _, ok := r.Thread.Calls[res.CallID]; ok {
				return true
			}
		}
	}
	return false
}
