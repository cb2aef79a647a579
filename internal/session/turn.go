package session

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"precept/internal/wire"
)

// TurnKind is a kind of main request. A main request is part of the conversation, unlike a side request.
type TurnKind uint8

// Kinds of main requests.
const (
	NewTurn TurnKind = iota // the message list is new
	Retry                   // the same list again, without a complete reply in between; not a new turn
	Repeat                  // the same list again, after a complete reply; a turn without new content
)

// Begin adds a main request to the record, and returns the kind. A retry does not change the turn count.
func (r *Record) Begin(req *wire.Request, now time.Time) TurnKind {
	if now = now.UTC(); now.Before(r.Identity.Seen) { // the clock was set back
		now = r.Identity.Seen.Add(time.Microsecond)
	}
	r.Identity.Seen, r.State.Dirty = now, true
	if req.Model != "" {
		r.Identity.Model = req.Model
	}
	r.Identity.Dialect = req.Dialect
	isEqual := r.Thread.Turns > 0 && r.Thread.ListHash == req.ListHash
	if isEqual && !r.Thread.Replied {
		return Retry
	}
	if isEqual && !appendsToConversation(req) {
		r.Thread.Turns++
		r.Thread.Replied = false
		return Repeat
	}
	r.addAgent(req)
	if req.Delta && r.Thread.Replied { // the API stores the answered items, so all items are new
		r.Thread.LastTurn.Items, r.Thread.LastTurn.AnsweredCalls = nil, nil
	}
	if !req.Delta {
		r.Thread.Calls, r.Thread.CallOrder = nil, nil // the request contains the calls
	}
	if r.Thread.Turns == 0 {
		r.Thread.FirstWords = OpeningHash(req)
	}
	r.Thread.Turns++
	r.Thread.ItemsBefore = r.Thread.Items
	r.Thread.ListHash, r.Thread.Items, r.Thread.Replied = req.ListHash, req.Len(), false
	return NewTurn
}

// appendsToConversation reports whether the API appends the list to the conversation object. If so, a list equal to the
// last answered list is new content, such as a second "continue".
func appendsToConversation(req *wire.Request) bool { return req.Delta && req.Hints.PreviousID == "" }

// KeepsIndices reports whether req has the previous turn's items at the old indices. This is the case if the previous
// reply follows them, if the previous turn's new items have the old indices, or if the list still has a single message.
// Call KeepsIndices after Begin and before SetLastTurn.
func (r *Record) KeepsIndices(req *wire.Request) bool {
	if req.Delta || r.Thread.Turns <= 1 || r.Thread.ItemsBefore > req.Len() {
		return false
	}
	if r.Thread.ItemsBefore == req.Len() && onlyText(req) != "" {
		return true
	}
	for i := max(r.Thread.ItemsBefore-1, 0); i < min(r.Thread.ItemsBefore+maxReplyItems, req.Len()); i++ {
		if req.Role(i) != wire.RoleAssistant {
			continue
		}
		for _, k := range req.EchoKeys(i) {
			if slices.Contains(r.Thread.LastTurn.Reply, hashText(k)) {
				return true
			}
		}
	}
	return r.continues(req)
}

const (
	maxReplyKeys  = 8 // keys per reply
	maxReplyItems = 4 // items searched for a reply; a Responses API reply has several
)

const (
	maxCalls     = 512
	maxCallArgs  = 512      // bytes; longer arguments are stored as a hash
	maxCallBytes = 12 << 10 // bytes for all calls
)

// AddReply adds the reply to a main request, with the calls (see Thread.Calls).
func (r *Record) AddReply(rep *wire.Reply) {
	r.State.Dirty, r.State.Answered = true, true
	r.Thread.Replied = r.Thread.Replied || rep.Complete
	r.Thread.LastTurn.Reply = r.Thread.LastTurn.Reply[:0]
	echoes := wire.ReplyEchoKeys(rep, "")
	for _, k := range echoes[:min(len(echoes), maxReplyKeys)] {
		r.Thread.LastTurn.Reply = append(r.Thread.LastTurn.Reply, hashText(k))
	}
	r.countUsage(r.Identity.Model, rep.Usage)
	for _, c := range rep.Calls {
		if c.ID == "" || len(c.ID) > MaxName {
			continue
		}
		if len(c.Args) > maxCallArgs { // equal arguments stay equal, and the value stays JSON
			sum := sha256.Sum256([]byte(c.Args))
			c.Args = hashedArgsPrefix + hex.EncodeToString(sum[:16]) + `"}`
		}
		if r.Thread.Calls == nil {
			r.Thread.Calls = make(map[string]wire.Call)
		}
		if _, ok := r.Thread.Calls[c.ID]; !ok {
			r.Thread.CallOrder = append(r.Thread.CallOrder, c.ID)
		}
		r.Thread.Calls[c.ID] = c
	}
	r.dropOldCalls()
}

const hashedArgsPrefix = `{"sha256":"`

// HasHashedArgs reports whether a hash replaces the call's arguments.
func HasHashedArgs(c wire.Call) bool { return strings.HasPrefix(c.Args, hashedArgsPrefix) }

// dropOldCalls drops the oldest calls beyond maxCalls and maxCallBytes.
func (r *Record) dropOldCalls() {
	sum := 0
	for i, id := range slices.Backward(r.Thread.CallOrder) {
		c := r.Thread.Calls[id]
		sum += 2*len(id) + len(c.ID) + len(c.Name) + len(c.Args) + 40
		if len(r.Thread.CallOrder)-i <= maxCalls && sum <= maxCallBytes {
			continue
		}
		for _, old := range r.Thread.CallOrder[:i+1] {
			delete(r.Thread.Calls, old)
		}
		r.Thread.CallOrder = slices.Clone(r.Thread.CallOrder[i+1:])
		return
	}
}

// IsNewItem reports whether item i is sent for the first time, as far as the record knows: the index is at least
// req.FirstNew, and the item was not new in the previous request. Call IsNewItem before SetLastTurn.
func (r *Record) IsNewItem(req *wire.Request, i int) bool {
	if i < req.FirstNew() {
		return false
	}
	position := i - r.Thread.LastTurn.FirstNew
	if r.Thread.Turns <= 1 || position < 0 || position >= len(r.Thread.LastTurn.Items) {
		return true
	}
	return r.Thread.LastTurn.Items[position] != itemKey(req, i)
}

// IsNewResult is like IsNewItem, for a tool result in item i. If an agent adds words after an old result, the item is
// new, but the result is not.
func (r *Record) IsNewResult(req *wire.Request, i int, callID string) bool {
	from := req.FirstNew()
	if i < from {
		return false
	}
	if r.Thread.Turns <= 1 || from >= r.Thread.LastTurn.FirstNew+len(r.Thread.LastTurn.Items) {
		return true // there was a reply in between; a server that counts call ids may repeat an id
	}
	return len(r.Thread.LastTurn.AnsweredCalls) < maxNewItems && !slices.Contains(r.Thread.LastTurn.AnsweredCalls, hashText(callID)) // a full list may have dropped the call
}

const maxNewItems = 64 // bound for LastTurn.Items; a first request may contain a long history

// SetLastTurn stores the request's new part as LastTurn.
func (r *Record) SetLastTurn(req *wire.Request) {
	end := req.End()
	from := max(min(req.FirstNew(), end), end-maxNewItems)
	r.Thread.LastTurn = LastTurn{FirstNew: from, Items: make([]uint64, 0, end-from)}
	for i := from; i < end; i++ {
		r.Thread.LastTurn.Items = append(r.Thread.LastTurn.Items, itemKey(req, i))
		for _, res := range req.Item(i).Results {
			if len(r.Thread.LastTurn.AnsweredCalls) < maxNewItems {
				r.Thread.LastTurn.AnsweredCalls = append(r.Thread.LastTurn.AnsweredCalls, hashText(res.CallID))
			}
		}
	}
	r.State.Dirty = true
}
