package session

import (
	"maps"
	"slices"

	"precept/internal/wire"
)

// SharesItemsWith reports whether the request contains an item that was new in the last turn, or has the last turn's
// list. The result is also true if nothing can be compared: no turn, no item, or a delta request.
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

// RepeatsAnsweredList reports whether the request repeats the newest list after a complete reply. Under a shared name,
// such a request begins a different conversation, except in an API conversation object.
func (r *Record) RepeatsAnsweredList(req *wire.Request) bool {
	return r.Thread.Turns > 0 && r.Thread.Replied && r.Thread.ListHash == req.ListHash && !appendsToConversation(req)
}

// ShowsConversation reports whether a request with different tools contains a part of the conversation. By this test, a
// sub-agent is distinguished from an agent that extracts memories.
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

// InheritBlocks copies the parent's blocks into a new sub-agent's record if the request continues the parent's history.
// The provider may have cached this history with the blocks. The caller holds the parent's lock.
func (r *Record) InheritBlocks(parent *Record, req *wire.Request) {
	if parent.Thread.Turns == 0 || req.Delta || !parent.ShowsConversation(req) {
		return
	}
	for _, b := range parent.Lessons.Blocks {
		if _, _, ok := req.Find(b.Anchor); !ok {
			continue
		}
		b.Turn, b.AnchorRemoved = r.Thread.Turns+1, false
		r.Lessons.Blocks = append(r.Lessons.Blocks, b)
		r.Lessons.BlockBytes += len(b.Text)
		r.Lessons.Matched = append(r.Lessons.Matched, b.Slugs...)
	}
	r.Lessons.Loops.WarnedCalls = maps.Clone(parent.Lessons.Loops.WarnedCalls)
}

// ContinuesWithSystemPrompt reports whether a side request contains the conversation, under the system prompt of one of
// the conversation's agents. If so, the caller must insert the earlier blocks again, because the agent resends the
// messages without them.
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
// with different tools, because another agent answers only its own calls.
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
