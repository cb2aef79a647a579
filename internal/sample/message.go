package sample

import (
	"bytes"
	"encoding/json"
	"strings"

	"precept/internal/wire"
)

// Message is one part of a turn in a form for people.
type Message struct {
	Role     string // system, tools, user, assistant, call or result
	Text     string // text of the part; for a result, the text that the tool returned
	UserText string // for a user: the person's own words, without the blocks that agents add
	Call     Call   // the call; for a result, the call that returned it, or only the id of this call
	IsError  int8   // for a result: error flag of the API: +1 error, -1 success, 0 no flag
}

// Further roles of a Message, in addition to the roles of an Event.
const (
	MessageSystem = "system"
	MessageTools  = "tools" // the tools that the agent offers: a line of names, then their JSON
	MessageResult = "result"
)

// MessageReader converts the exchanges of a session to messages for a person. Call Request and then Reply for
// each exchange, in the order of the session.
type MessageReader struct {
	calls map[string]Call // by id
	last  *Reply          // reply of the previous exchange
}

// NewMessageReader returns a Reader for the exchanges of one session.
func NewMessageReader() *MessageReader { return &MessageReader{calls: map[string]Call{}} }

// Request returns the messages of the exchange's request, which are the tools and the system prompt, if the exchange
// has them, and the new items. The content of the last reply is left out, because Reply has already returned it. An
// item that cannot be read becomes a message with its JSON.
func (r *MessageReader) Request(e *Exchange) []Message {
	var out []Message
	if len(e.Tools) > 0 {
		out = append(out, Message{Role: MessageTools, Text: e.toolsText()})
	}
	if text := contentText(e.System); text != "" {
		out = append(out, Message{Role: MessageSystem, Text: text})
	}
	for i, it := range e.items(r.last) {
		if isUnreadable(it) {
			out = append(out, Message{Role: "other", Text: strings.TrimSpace(string(e.New[i]))})
			continue
		}
		for _, res := range nativeResults(it) {
			out = append(out, Message{Role: MessageResult, Text: res.Text, Call: r.callOf(res.CallID), IsError: res.IsError})
		}
		out = append(out, r.message(it)...)
	}
	return out
}

// toolsText returns the names of the tools, and their indented JSON.
func (e *Exchange) toolsText() string {
	tools := e.tools()
	names := make([]string, len(tools))
	for i := range tools {
		names[i] = tools[i].Function.Name
	}
	var text bytes.Buffer
	text.WriteString(strings.Join(names, ", ") + "\n")
	if json.Indent(&text, e.Tools, "", "  ") != nil {
		text.Write(e.Tools)
	}
	return text.String()
}

// message returns the words and the calls of an item, without its results.
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
		if known, ok := r.calls[c.ID]; ok && c.ID != "" && known.Name == c.Name && sameArgs(known.Args, c.Args) {
			continue
		}
		r.calls[c.ID] = c
		out = append(out, Message{Role: EventCall, Call: c})
	}
	return out
}

// Reply returns the messages of the model's answer.
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

func (r *MessageReader) callOf(id string) Call {
	if c, ok := r.calls[id]; ok {
		return c
	}
	return Call{ID: id}
}

// isUnreadable reports whether package wire could read nothing but the type of the item. The result is false for items
// that never have readable content: references to earlier items and reasoning.
func isUnreadable(it *wire.Item) bool {
	switch it.Kind {
	case "", "message", "item_reference", "reasoning":
		return false
	}
	return it.Text == "" && len(it.Calls) == 0 && len(it.Results) == 0
}
