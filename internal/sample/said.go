package sample

import (
	"strings"

	"precept/internal/wire"
)

// Said is one thing of a turn, as a person reads it: somebody's words, a call, or the answer to
// one.
type Said struct {
	Role    string // system, user, assistant, call or result
	Text    string // what was said; of a result, the tool's answer
	Words   string // of a user: their own words in it, without the blocks that agents put around them
	Call    Call   // of a call; of a result, the call that it answers as far as it is known
	IsError int8   // of a result: +1 the wire says error, -1 it says none, 0 it does not say
}

// The further roles of what was said, beside those of an Event.
const (
	SaidSystem = "system"
	SaidResult = "result"
)

// Reading follows a session from exchange to exchange, in their order, and tells what each of them
// brought.
type Reading struct {
	calls map[string]Call // by id
	last  *Reply
}

// NewReading begins at a session's first exchange.
func NewReading() *Reading { return &Reading{calls: map[string]Call{}} }

// Request lists what the agent sent anew. What it gives back of the reply before is left out,
// because Reply has listed it. Items that carry neither words nor calls are listed as they came.
func (r *Reading) Request(e *Exchange) []Said {
	var out []Said
	for i, it := range e.items(r.last) {
		if isUnread(it) {
			out = append(out, Said{Role: "other", Text: strings.TrimSpace(string(e.New[i]))})
			continue
		}
		for _, res := range spokenResults(it) {
			out = append(out, Said{Role: SaidResult, Text: res.Text, Call: r.call(res.CallID), IsError: res.IsError})
		}
		out = append(out, r.message(it)...)
	}
	return out
}

// message lists what a message says, without its results.
func (r *Reading) message(it *wire.Item) []Said {
	var out []Said
	switch text := spokenText(it); {
	case text == "":
	case it.Role == wire.RoleUser:
		out = append(out, Said{Role: EventUser, Text: text, Words: it.Words})
	case it.Role == wire.RoleSystem:
		out = append(out, Said{Role: SaidSystem, Text: text})
	case it.Role == wire.RoleAssistant && (r.last == nil || strings.TrimSpace(text) != strings.TrimSpace(r.last.Text)):
		out = append(out, Said{Role: EventAssistant, Text: text})
	}
	for _, c := range spokenCalls(it) {
		if known, ok := r.calls[c.ID]; ok && c.ID != "" && known.Name == c.Name && sameArgs(known.Args, c.Args) {
			continue
		}
		r.calls[c.ID] = c
		out = append(out, Said{Role: EventCall, Call: c})
	}
	return out
}

// Reply lists what the model answered.
func (r *Reading) Reply(e *Exchange) []Said {
	r.last = &e.Reply
	var out []Said
	if e.Reply.Text != "" {
		out = append(out, Said{Role: EventAssistant, Text: e.Reply.Text})
	}
	for _, c := range e.calls() {
		r.calls[c.ID] = c
		out = append(out, Said{Role: EventCall, Call: c})
	}
	return out
}

func (r *Reading) call(id string) Call {
	if c, ok := r.calls[id]; ok {
		return c
	}
	return Call{ID: id}
}

// isUnread says that nothing is known of an item but its type. One that only points at something
// that went by, and the model's own thinking, which nobody else reads, are not of these.
func isUnread(it *wire.Item) bool {
	switch it.Kind {
	case "", "message", "item_reference", "reasoning":
		return false
	}
	return it.Text == "" && len(it.Calls) == 0 && len(it.Results) == 0
}
