package session

import (
	"slices"

	"precept/internal/wire"
)

// SharesItemsWith reports whether the request contains an item that was new in the last turn, or has the last turn's
// list. SharesItemsWith returns true if nothing can be compared: no turn, no item, or a delta request.
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

// RepeatsAnsweredList reports whether the request repeats the newest list after the list was answered. Under a shared
// name, such a request begins a different conversation, except in an API conversation object.
func (r *Record) RepeatsAnsweredList(req *wire.Request) bool {
	return r.Thread.Turns > 0 && r.Thread.Replied && r.Thread.ListHash == req.ListHash && !appendsToConversation(req)
}

// ShowsConversation reports whether a request with different tools contains a part of the conversation. Requests from
// an agent that extracts memories contain such a part, and requests from a sub-agent do not.
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

// ContinuesWithSystemPrompt reports whether a side request contains the conversation under a system prompt that one of
// the conversation's agents uses. The agent resends the messages without the blocks that precept inserted before, so
// the caller must insert the blocks again.
func (r *Record) ContinuesWithSystemPrompt(req *wire.Request) bool {
	known := req.SystemHash == r.Agents.SystemHash || slices.Contains(r.Agents.PreviousPrompts, req.SystemHash)
	return known && !req.Delta && r.continues(req)
}

func (r *Record) continues(req *wire.Request) bool {
	for i, k := range r.Thread.LastTurn.Items {
		if at := r.Thread.LastTurn.FirstNew + i; at >= req.Len() || itemKey(req, at) != k {
			return false
		}
	}
	return len(r.Thread.LastTurn.Items) > 0
}

// answersCall reports whether a new item answers a call in the newest reply. Such a request continues the session even
// with different tools. Another agent that reads the conversation, for example to store memories, answers only the
// calls that it made itself.
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
