package session

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"precept/wire"
)

// TurnKind says what a main request is to the session.
type TurnKind uint8

// The kinds.
const (
	NewTurn TurnKind = iota // another list than the one before
	Retry                   // the same list, and no completed reply to it went by: the same turn
	Repeat                  // the same list, answered before: a turn, but nothing in it is new
)

// Begin counts a main request. On a retry nothing is new: the same draw, no new sample, no new
// loop. Lock the record.
func (r *Record) Begin(req *wire.Request, now time.Time) TurnKind {
	r.Seen, r.Dirty = now.UTC(), true
	if req.Model != "" {
		r.Model = req.Model
	}
	r.Dialect = req.Dialect
	if r.Turns > 0 && r.ListHash == req.ListHash {
		if !r.Replied {
			return Retry
		}
		r.Turns++
		r.Replied = false
		return Repeat
	}
	if len(req.Tools) > 0 {
		r.meetTools(req)
	} else if r.HasTools && req.SystemHash != r.SystemHash && len(r.Hands) < maxHands && !slices.Contains(r.Hands, req.SystemHash) {
		r.Hands = append(r.Hands, req.SystemHash)
	}
	if !req.Delta {
		r.Calls, r.CallOrder = nil, nil // the history holds them
	}
	if r.Turns == 0 {
		r.First = firstWords(req)
	}
	r.Turns++
	r.From = r.Items
	r.ListHash, r.Items, r.Replied = req.ListHash, req.Len(), false
	return NewTurn
}

func (r *Record) meetTools(req *wire.Request) {
	if r.HasTools && r.ToolsHash == req.ToolsHash {
		return
	}
	names := shortNames(req.Tools)
	if !r.HasTools || r.answers(req) || r.returns(req) { // the first, or another agent that has taken the conversation over
		r.leads(req.SystemHash)
	} else if len(names) < len(r.ToolNames) {
		return // a mode with fewer tools: it will end
	}
	r.HasTools, r.ToolsHash, r.ToolNames = true, req.ToolsHash, names
}

// leads makes the agent of that system text the one that the conversation goes on with; the one
// before may come back to it.
func (r *Record) leads(system uint64) {
	if r.HasTools && system != r.SystemHash && len(r.Leads) < maxHands && !slices.Contains(r.Leads, r.SystemHash) {
		r.Leads = append(r.Leads, r.SystemHash)
	}
	r.SystemHash = system
}

// returns says that an agent that has handed the conversation over goes on with it.
func (r *Record) returns(req *wire.Request) bool {
	return req.SystemHash != r.SystemHash && slices.Contains(r.Leads, req.SystemHash) && r.continues(req)
}

// maxHands is how many agents may have taken a conversation over, of those without tools and of
// those with tools.
const maxHands = 8

// maxToolNames bounds what is kept of a tool list.
const maxToolNames = 256

func shortNames(names []string) []uint32 {
	out := make([]uint32, 0, min(len(names), maxToolNames))
	for _, n := range names[:min(len(names), maxToolNames)] {
		out = append(out, hashName(n))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// hashName is hash/fnv's New32a without its copy of the name.
func hashName(name string) uint32 {
	h := uint32(2166136261)
	for i := range len(name) {
		h = (h ^ uint32(name[i])) * 16777619
	}
	return h
}

// Signs are what is known of agents and of the words of their side requests; the room of detection
// holds the lists.
type Signs struct {
	// Side says whether the request's words are those of a title, a summary, a compaction ("": no).
	Side func(req *wire.Request) string
	// Tooled says whether agents of that User-Agent product work with tools, so that a request of
	// theirs without any is a side request even when it comes first.
	Tooled func(product string) bool
}

// Reasons why a request is a side request.
const (
	SideWarmUp  = "warm_up"
	SideCompact = "compaction"
	SideNoTools = "no_tools"
	SideTools   = "other_tools"
	SideQuotes  = "quotes" // it shows a conversation that goes on, in one text (Quotes)
)

// Side says whether the request is beside the main conversation, and why. Side requests are
// forwarded as they came: no lesson, no replay, no trial, no loop state. Lock the record.
func (r *Record) Side(req *wire.Request, c Claim, s Signs) (reason string, side bool) {
	if req.NoRun {
		return SideWarmUp, true
	}
	if req.Compact {
		return SideCompact, true
	}
	if s.Side != nil {
		if reason = s.Side(req); reason != "" {
			return reason, true
		}
	}
	if r.answers(req) {
		return "", false
	}
	if len(req.Tools) == 0 {
		if r.HasTools && slices.Contains(r.Hands, req.SystemHash) && r.continues(req) {
			return "", false // it has taken the conversation over
		}
		if r.HasTools || s.Tooled != nil && s.Tooled(c.Product) {
			return SideNoTools, true
		}
		return "", false
	}
	if r.HasTools && req.ToolsHash != r.ToolsHash && !r.sameAgent(req) && !r.returns(req) {
		return SideTools, true
	}
	return "", false
}

// answers says whether something new in the request is the result of a call that the session's
// newest reply made: then it goes on with the session, whatever its tools and its system text are
// now. A memory keeper answers calls of its own alone.
func (r *Record) answers(req *wire.Request) bool {
	if len(r.Calls) == 0 {
		return false
	}
	for i := max(req.New(), 0); i < req.Len(); i++ {
		for _, res := range req.Item(i).Results {
			if _, ok := r.Calls[res.CallID]; ok {
				return true
			}
		}
	}
	return false
}

// GoesOn says whether a request beside the conversation shows it, under the system text of an agent
// that worked on it: what was inserted in it stands in such a request as well. Lock the record.
func (r *Record) GoesOn(req *wire.Request) bool {
	known := req.SystemHash == r.SystemHash || slices.Contains(r.Leads, req.SystemHash)
	return known && !req.Delta && r.continues(req)
}

// sameAgent says that other tools are offered and yet the agent is the same one: the conversation
// goes on under the same system text, with the tools of this step; or a server of tools came up
// late, and there are more of them. A memory keeper or a sub-agent has its own system text.
func (r *Record) sameAgent(req *wire.Request) bool {
	system, goesOn := req.SystemHash == r.SystemHash, r.continues(req)
	more := len(r.ToolNames) > 0 && holds(shortNames(req.Tools), r.ToolNames)
	return system && goesOn || more && (system || goesOn)
}

// holds says whether all of few are in many; both are sorted.
func holds(many, few []uint32) bool {
	for _, n := range few {
		if _, ok := slices.BinarySearch(many, n); !ok {
			return false
		}
	}
	return true
}

// continues says whether the new part of the request before stands in this one.
func (r *Record) continues(req *wire.Request) bool {
	for i, k := range r.Tail.Keys {
		if at := r.Tail.From + i; at >= req.Len() || itemKey(req, at) != k {
			return false
		}
	}
	return len(r.Tail.Keys) > 0
}

// InPlace says whether the list of the turn before stands at its place in this one, whatever has
// become of single items: its reply, or what was new in it, is where it was, or the list is the one
// message still that it was. Call it between Begin and Mark. Lock the record.
func (r *Record) InPlace(req *wire.Request) bool {
	if req.Delta || r.Turns <= 1 || r.From > req.Len() {
		return false
	}
	if r.From == req.Len() && growing(req) != "" {
		return true
	}
	for i := max(r.From-1, 0); i < min(r.From+replyItems, req.Len()); i++ {
		if req.Role(i) != wire.RoleAssistant {
			continue
		}
		for _, k := range req.Echo(i) {
			if slices.Contains(r.Tail.Reply, hashText(k)) {
				return true
			}
		}
	}
	return r.continues(req)
}

func upTo(keys []string, most int) []string { return keys[:min(len(keys), most)] }

// Bounds of what is kept of a reply to know it by.
const (
	maxReplyKeys = 8
	replyItems   = 4 // a reply of the Responses API is several
)

// Bounds of the remembered calls.
const (
	maxCalls    = 512
	maxCallArgs = 512
	maxCallSum  = 12 << 10
)

// Done takes the reply of a main request: what it called is remembered, for requests that will
// carry the outputs only. Lock the record.
func (r *Record) Done(rep *wire.Reply) {
	r.Dirty = true
	r.Replied = r.Replied || rep.Complete
	r.Tail.Reply = r.Tail.Reply[:0]
	for _, k := range upTo(wire.EchoReply(rep, ""), maxReplyKeys) {
		r.Tail.Reply = append(r.Tail.Reply, hashText(k))
	}
	r.Used.Input += int64(max(rep.Usage.Input, 0))
	r.Used.Cached += int64(max(rep.Usage.Cached, 0))
	for _, c := range rep.Calls {
		if c.ID == "" || len(c.ID) > MaxName {
			continue
		}
		if len(c.Args) > maxCallArgs { // equal arguments stay equal, and it is still JSON
			sum := sha256.Sum256([]byte(c.Args))
			c.Args = `{"sha256":"` + hex.EncodeToString(sum[:16]) + `"}`
		}
		if r.Calls == nil {
			r.Calls = make(map[string]wire.Call)
		}
		if _, ok := r.Calls[c.ID]; !ok {
			r.CallOrder = append(r.CallOrder, c.ID)
		}
		r.Calls[c.ID] = c
	}
	r.dropCalls()
}

// dropCalls keeps the record small: the oldest calls go first.
func (r *Record) dropCalls() {
	sum := 0
	for i, id := range slices.Backward(r.CallOrder) {
		c := r.Calls[id]
		sum += 2*len(id) + len(c.ID) + len(c.Name) + len(c.Args) + 40
		if len(r.CallOrder)-i <= maxCalls && sum <= maxCallSum {
			continue
		}
		for _, old := range r.CallOrder[:i+1] {
			delete(r.Calls, old)
		}
		r.CallOrder = slices.Clone(r.CallOrder[i+1:])
		return
	}
}

// Fresh says whether item i of the request was never sent before in this session, as far as the
// record knows: it is in the new part, and not among what the new part of the request before was.
// Call it before Mark. Lock the record.
func (r *Record) Fresh(req *wire.Request, i int) bool {
	if i < req.New() {
		return false
	}
	at := i - r.Tail.From
	if r.Turns <= 1 || at < 0 || at >= len(r.Tail.Keys) {
		return true
	}
	return r.Tail.Keys[at] != itemKey(req, i)
}

// FreshResult says the same of one tool result in item i: words that were added behind it make the
// item another one, and the result was sent nevertheless.
func (r *Record) FreshResult(req *wire.Request, i int, callID string) bool {
	from := req.New()
	if i < from {
		return false
	}
	if r.Turns <= 1 || from >= r.Tail.From+len(r.Tail.Keys) {
		return true // answered in between; a server that counts its calls from one may have used the id before
	}
	return len(r.Tail.Calls) < maxTail && !slices.Contains(r.Tail.Calls, hashText(callID)) // of more it is not known
}

// maxTail bounds the remembered new part; a first request may carry a long history without any
// reply in it.
const maxTail = 64

// Mark remembers the new part of the request as sent. Lock the record.
func (r *Record) Mark(req *wire.Request) {
	end := req.End()
	from := max(min(req.New(), end), end-maxTail)
	r.Tail = Tail{From: from, Keys: make([]uint64, 0, end-from)}
	for i := from; i < end; i++ {
		r.Tail.Keys = append(r.Tail.Keys, itemKey(req, i))
		for _, res := range req.Item(i).Results {
			if len(r.Tail.Calls) < maxTail {
				r.Tail.Calls = append(r.Tail.Calls, hashText(res.CallID))
			}
		}
	}
	r.Dirty = true
}

// itemKey tells items of a new part apart: results by the call they answer, the rest by content.
func itemKey(req *wire.Request, i int) uint64 {
	it := req.Item(i)
	if len(it.Results) == 0 || it.Words != "" || wire.Unnamed(it.Results[0].CallID) {
		return req.Hash(i)
	}
	var sum uint64
	for _, res := range it.Results {
		sum = sum*31 + hashText(res.CallID)
	}
	return sum
}

// hashText is FNV-1a: it is kept in records, so it must be the same in every process.
func hashText(s string) uint64 { return addText(noText, s) }

// noText is the hash of nothing, addText goes on from h with s. It is hash/fnv's New64a without its
// copy of every string.
const noText uint64 = 14695981039346656037

func addText(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}
