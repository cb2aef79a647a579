package sample

import (
	"bytes"
	"encoding/json"
	"strings"

	"precept/internal/wire"
)

// Message is one part of a turn, for display to a person.
type Message struct {
	Role     string // system, tools, user, assistant, call or result
	Text     string // the part's text; for a result, the tool's output
	UserText string // the user's own words, without the blocks that agents add
	Call     Call   // the call; for a result, the answered call, or only the call's id
	IsError  int8   // result: +1 error, -1 success, 0 no flag
}

// Further message roles.
const (
	MessageSystem = "system"
	MessageTools  = "tools" // a line with names, then the tools' JSON
	MessageResult = "result"
)

// MessageReader converts a session's exchanges to messages for a person. Call Request and then Reply for each exchange,
// in order.
type MessageReader struct {
	calls map[string]Call // by id
	last  *Reply          // previous exchange's reply
}

// NewMessageReader returns a reader for one session.
func NewMessageReader() *MessageReader { return &MessageReader{calls: map[string]Call{}} }

// Request returns messages for the tools and the system prompt, if any, and for each new item, except a repetition of
// the previous exchange's reply. An unreadable item becomes a message with the item's JSON.
func (r *MessageReader) Request(e *Exchange) []Message {
	var out []Message
	if len(e.Tools) > 0 {
		out = append(out, Message{Role: MessageTools, Text: toolsText(e.Tools)})
	}
	if text := contentText(e.System); text != "" {
		out = append(out, Message{Role: MessageSystem, Text: text})
	}
	for i, it := range e.items(r.last) {
		if tools := toolsInItem(e.New[i]); len(tools) > 0 {
			out = append(out, Message{Role: MessageTools, Text: toolsText(tools)})
			continue
		}
		if isUnreadable(it) {
			out = append(out, Message{Role: "other", Text: strings.TrimSpace(string(e.New[i]))})
			continue
		}
		for _, res := range nativeResults(it) {
			out = append(out, Message{Role: MessageResult, Text: res.Text, Call: r.findCall(res.CallID), IsError: res.IsError})
		}
		out = append(out, r.message(it)...)
	}
	return out
}

func toolsText(list json.RawMessage) string {
	tools := namedTools(list)
	names := make([]string, len(tools))
	for i := range tools {
		names[i] = tools[i].Function.Name
	}
	var text bytes.Buffer
	text.WriteString(strings.Join(names, ", ") + "\n")
	if json.Indent(&text, list, "", "  ") != nil {
		text.Write(list)
	}
	return text.String()
}

func (r *MessageReader) message(it *wire.Item) []Message {
	var out []Message
	switch text := messageText(it); {
	case text == "":
	case it.Role == wire.RoleUser:
		out = append(out, Message{Role: EventUser, Text: text, UserText: it.UserText})
	case it.Role == wire.RoleSystem:
		out = append(out, Message{Role: MessageSystem, Text: text})
	case it.Role == wire.RoleAssistant && (r.last == nil || strings.TrimSpace(text) != strings.TrimSpace(r.last.Text)):
		out = append(out, Message{Role: EventAssistant, Text: text})
	}
	for _, c := range nativeCalls(it) {
		if earlier, ok := r.calls[c.ID]; ok && c.ID != "" && earlier.Name == c.Name && sameArgs(earlier.Args, c.Args) {
			continue
		}
		r.calls[c.ID] = c
		out = append(out, Message{Role: EventCall, Call: c})
	}
	return out
}

// Reply returns the messages for the model's answer.
func (r *MessageReader) Reply(e *Exchange) []Message {
	r.last = &e.Reply
	var out []Message
	if e.Reply.Text != "" {
		out = append(out, Message{Role: EventAssistant, Text: e.Reply.Text})
	}
	for _, c := range e.calls() {
		r.calls[c.ID] = c
		out = append(out, Message{Role: EventCall, Call: c})
	}
	return out
}

func (r *MessageReader) findCall(id string) Call {
	if c, ok := r.calls[id]; ok {
		return c
	}
	return Call{ID: id}
}

// isUnreadable reports whether only the item's type was readable. References to earlier items and reasoning items never
// have readable content, and do not count as unreadable.
func isUnreadable(it *wire.Item) bool {
	switch it.Kind {
	case "", "message", "item_reference", "reasoning":
		return false
	}
	return it.Text == "" && len(it.Calls) == 0 && len(it.Results) == 0
}
