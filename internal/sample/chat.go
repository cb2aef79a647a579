package sample

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"precept/internal/wire"
)

// ChatMessage is a message in OpenAI's chat and fine-tuning files.
type ChatMessage struct {
	Role       string     `json:"role"`
	Content    *string    `json:"content"` // null for an assistant message with tool calls only
	ToolCalls  []ChatCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

// ChatCall is a tool call in OpenAI's chat form.
type ChatCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"` // function
	Function ChatFunction `json:"function"`
}

// ChatFunction holds a tool's name, and the arguments as a JSON string.
type ChatFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// ChatTool is a tool in OpenAI's chat form.
type ChatTool struct {
	Type     string         `json:"type"` // function
	Function ToolDefinition `json:"function"`
}

// ToolDefinition describes a tool, with the JSON schema for the arguments.
type ToolDefinition struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

// Conversation returns the system prompt and the messages in the chat form. They are assembled from the turns' new
// items, whatever the dialect.
func (s *Session) Conversation() []ChatMessage {
	return s.history().conversation(-1)
}

func (h *history) tools() []ChatTool {
	for _, e := range h.exchanges {
		if lists := e.toolLists(); len(lists) > 0 {
			return namedTools(lists...)
		}
	}
	return nil
}

// toolLists returns the lists of tools in the request and in new items. Codex sends the tools in an item.
func (e *Exchange) toolLists() (lists []json.RawMessage) {
	if len(e.Tools) > 0 {
		lists = append(lists, e.Tools)
	}
	for _, item := range e.New {
		if tools := toolsInItem(item); len(tools) > 0 {
			lists = append(lists, tools)
		}
	}
	return lists
}

// toolsInItem returns the list of tools in an additional_tools item.
func toolsInItem(item json.RawMessage) json.RawMessage {
	var it struct {
		Type  string          `json:"type"`
		Tools json.RawMessage `json:"tools"`
	}
	if !bytes.Contains(item, []byte("additional_tools")) || json.Unmarshal(item, &it) != nil || it.Type != "additional_tools" {
		return nil
	}
	return it.Tools
}

// namedTools returns the tools with a name, including the members of namespaces. Tools that the provider runs, such as
// a web search, have no name.
func namedTools(lists ...json.RawMessage) (out []ChatTool) {
	for _, raw := range lists {
		var list []struct {
			ToolDefinition
			Type     string          `json:"type"`
			Members  json.RawMessage `json:"tools"`        // the tools in a namespace
			Input    json.RawMessage `json:"input_schema"` // the schema, in the messages dialect
			Function ToolDefinition  `json:"function"`     // the tool, in the chat dialect
		}
		if json.Unmarshal(raw, &list) != nil {
			continue
		}
		for i := range list {
			t := &list[i]
			if t.Type == "namespace" {
				out = append(out, namedTools(t.Members)...)
				continue
			}
			if t.Function.Name == "" {
				t.Function = t.ToolDefinition
			}
			if len(t.Function.Parameters) == 0 {
				t.Function.Parameters = t.Input
			}
			if t.Function.Name != "" {
				out = append(out, ChatTool{Type: "function", Function: t.Function})
			}
		}
	}
	return out
}

// conversation returns the system prompt and the messages up to exchange n's request. If n is negative, conversation
// returns all messages.
func (h *history) conversation(n int) []ChatMessage {
	list := h.messages(n)
	for _, e := range h.exchanges {
		if text := contentText(e.System); text != "" {
			return append([]ChatMessage{{Role: "system", Content: &text}}, list...)
		}
	}
	return list
}

func (h *history) messages(n int) []ChatMessage {
	var list []ChatMessage
	var raw []json.RawMessage // the known part of the agent's list
	for i, e := range h.exchanges {
		from, continues := e.FirstNew, i > 0
		switch {
		case from > 0 && from < len(raw): // edited or compacted history
			raw = raw[:from]
			list, continues = chatMessages(raw, e.Dialect), false
		case from == 0 && len(raw) > 0 && len(e.New) > 0 && bytes.Equal(raw[0], e.New[0]): // the list was sent again
			raw, list, continues = nil, nil, false
		}
		raw = append(raw, e.New...)
		if continues && h.exchanges[i-1].hasCompleteReply() && !repeatsReply(h.items[i]) {
			list = appendReply(list, h.exchanges[i-1])
		}
		for _, it := range h.items[i] {
			list = appendItem(list, it)
		}
		if i == n {
			return list
		}
	}
	if len(h.exchanges) > 0 {
		list = appendReply(list, h.exchanges[len(h.exchanges)-1])
	}
	return list
}

func (h *history) trainablePart() *history {
	n := 0
	for i, e := range h.exchanges {
		if e.hasCompleteReply() {
			n = i + 1
		}
	}
	part := *h
	part.exchanges, part.items = h.exchanges[:n], h.items[:n]
	return &part
}

func (e *Exchange) hasCompleteReply() bool {
	return !e.Truncated && e.Outcome != Incomplete && e.Outcome != Aborted && e.Outcome != Failed
}

// repeatsReply reports whether the items repeat the last reply. The items do not repeat the reply if the provider
// stores the conversation.
func repeatsReply(items []*wire.Item) bool { return slices.ContainsFunc(items, hasModelOutput) }

func chatMessages(raw []json.RawMessage, dialect string) []ChatMessage {
	var list []ChatMessage
	for _, it := range (&Exchange{Dialect: dialect, New: raw}).items(nil) {
		list = appendItem(list, it)
	}
	return list
}

func appendItem(list []ChatMessage, it *wire.Item) []ChatMessage {
	for _, r := range nativeResults(it) {
		list = append(list, ChatMessage{Role: "tool", Content: &r.Text, ToolCallID: r.CallID})
	}
	text := messageText(it)
	switch {
	case it.Role == wire.RoleAssistant:
		return appendAnswer(list, text, nativeCalls(it))
	case text == "":
	case it.Role == wire.RoleUser:
		list = append(list, ChatMessage{Role: "user", Content: &text})
	case it.Role == wire.RoleSystem:
		list = append(list, ChatMessage{Role: "system", Content: &text})
	}
	return list
}

// appendAnswer appends an answer, and joins successive calls into one message. In the responses dialect, such calls are
// separate items.
func appendAnswer(list []ChatMessage, text string, calls []Call) []ChatMessage {
	if n := len(list); n > 0 && list[n-1].Role == "assistant" && len(calls) > 0 && text == "" {
		list[n-1].ToolCalls = append(list[n-1].ToolCalls, chatCalls(calls)...)
		return list
	}
	if text == "" && len(calls) == 0 {
		return list
	}
	out := ChatMessage{Role: "assistant", ToolCalls: chatCalls(calls)}
	if text != "" {
		out.Content = &text
	}
	return append(list, out)
}

func appendReply(list []ChatMessage, e *Exchange) []ChatMessage {
	return appendAnswer(list, e.Reply.Text, e.calls())
}

func chatCalls(calls []Call) []ChatCall {
	var out []ChatCall
	for _, c := range calls {
		out = append(out, ChatCall{ID: c.ID, Type: "function", Function: ChatFunction{Name: c.Name, Arguments: c.Args}})
	}
	return out
}

// HumanFeedback reports whether a person rated the session, and corrected or rejected an answer.
func (s *Session) HumanFeedback() (rated, judged bool) {
	for i := range s.Ratings {
		r := &s.Ratings[i]
		if r.Source == "user" {
			rated, judged = true, judged || r.Type == "correction" || r.reviewLabel() == Rejected
		}
	}
	return rated, judged
}

// Preferences returns pairs of a better and a worse answer, derived from people's feedback. The better answer corrects
// the worse answer, or was approved for the same user message.
func (s *Session) Preferences() []Preference {
	h := s.history()
	var out []Preference
	tools := h.tools()
	for i := range h.Session.Ratings {
		r := &h.Session.Ratings[i]
		if r.Source != "user" {
			continue
		}
		index := h.ratedIndex(r)
		if index < 0 {
			continue
		}
		var chosen []ChatMessage
		switch {
		case r.Type == "correction":
			chosen = correctionMessage(r.Correction)
		case r.reviewLabel() == Rejected:
			chosen = h.approvedAnswer(index)
		}
		rejected := appendReply(nil, h.exchanges[index])
		if len(chosen) > 0 && len(rejected) > 0 {
			out = append(out, Preference{Prompt: h.conversation(index), Tools: tools, Chosen: chosen, Rejected: rejected, Session: h.Session.ID, Turn: h.exchanges[index].Turn})
		}
	}
	return out
}

func (h *history) ratedIndex(r *Rating) int {
	if r.Turn == 0 {
		return len(h.exchanges) - 1
	}
	return slices.IndexFunc(h.exchanges, func(e *Exchange) bool { return e.Turn == r.Turn })
}

func correctionMessage(raw json.RawMessage) []ChatMessage {
	var m struct {
		Content json.RawMessage `json:"content"`
	}
	text := contentText(raw)
	if json.Unmarshal(raw, &m) == nil && len(m.Content) > 0 {
		text = contentText(m.Content)
	}
	if text == "" {
		return nil
	}
	return []ChatMessage{{Role: "assistant", Content: &text}}
}

func (h *history) approvedAnswer(index int) []ChatMessage {
	words := lastUserText(h.items[index])
	if words == "" {
		return nil
	}
	for i := range h.Session.Ratings {
		r := &h.Session.Ratings[i]
		if r.Source != "user" || r.Turn == 0 || r.reviewLabel() != Approved {
			continue
		}
		if other := h.ratedIndex(r); other >= 0 && other != index && h.exchanges[other].hasCompleteReply() && lastUserText(h.items[other]) == words {
			return appendReply(nil, h.exchanges[other])
		}
	}
	return nil
}

func lastUserText(items []*wire.Item) (words string) {
	for _, it := range items {
		if it.UserText != "" {
			words = it.UserText
		}
	}
	return words
}

// contentText returns the text from a JSON string or a list of parts. Other JSON is returned unchanged, because a
// correction can have any form.
func contentText(raw json.RawMessage) string {
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return string(raw)
	}
	texts := make([]string, 0, len(parts))
	for _, p := range parts {
		if p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}
