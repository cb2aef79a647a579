package sample

import (
	"bytes"
	"encoding/json"
	"slices"
)

// ChatMessage is a message in the form of OpenAI's chat and fine-tuning files.
type ChatMessage struct {
	Role       string     `json:"role"`
	Content    *string    `json:"content"` // null for an assistant that only calls tools
	ToolCalls  []ChatCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

// ChatCall is a tool call in that form.
type ChatCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"` // function
	Function ChatFunction `json:"function"`
}

// ChatFunction names the tool and its arguments, JSON in a string.
type ChatFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Conversation puts the session together again from the new parts of its turns, whatever dialect it
// was spoken in.
func (s *Session) Conversation() []ChatMessage {
	return s.lay().conversation(-1)
}

// conversation is the list up to exchange n's request, without its reply; n < 0 takes everything.
func (h *history) conversation(n int) []ChatMessage {
	var list []ChatMessage
	var raw []json.RawMessage // the agent's list as far as it is known
	for i, e := range h.kept {
		from, goesOn := e.NewFrom, i > 0
		switch {
		case from > 0 && from < len(raw): // the agent edited or compacted its history
			raw = raw[:from]
			list, goesOn = fold(raw), false
		case from == 0 && len(raw) > 0 && len(e.New) > 0 && bytes.Equal(raw[0], e.New[0]): // it sent the list anew
			raw, list, goesOn = nil, nil, false
		}
		raw = append(raw, e.New...)
		if goesOn && !echoes(h.items[i]) {
			list = appendReply(list, h.kept[i-1])
		}
		for _, m := range h.items[i] {
			list = appendMessage(list, m)
		}
		if i == n {
			return list
		}
	}
	if len(h.kept) > 0 {
		list = appendReply(list, h.kept[len(h.kept)-1])
	}
	return list
}

// echoes reports whether the agent itself sent the last reply back; where the provider keeps the
// history, it does not.
func echoes(items []message) bool {
	return slices.ContainsFunc(items, func(m message) bool { return m.role == "assistant" })
}

func fold(raw []json.RawMessage) []ChatMessage {
	var list []ChatMessage
	for _, r := range raw {
		if m, ok := decodeItem(r); ok {
			list = appendMessage(list, m)
		}
	}
	return list
}

// appendMessage adds a message, and folds calls that follow each other (each an item of its own in
// the responses dialect) into one assistant message, as chat has it.
func appendMessage(list []ChatMessage, m message) []ChatMessage {
	for _, r := range m.results {
		list = append(list, ChatMessage{Role: "tool", Content: &r.text, ToolCallID: r.callID})
	}
	switch m.role {
	case "assistant":
		if n := len(list); n > 0 && list[n-1].Role == "assistant" && len(m.calls) > 0 && m.text == "" {
			list[n-1].ToolCalls = append(list[n-1].ToolCalls, chatCalls(m.calls)...)
			return list
		}
		if m.text == "" && len(m.calls) == 0 {
			return list
		}
		out := ChatMessage{Role: "assistant", ToolCalls: chatCalls(m.calls)}
		if m.text != "" {
			out.Content = &m.text
		}
		return append(list, out)
	case "user", "system":
		if m.text != "" {
			list = append(list, ChatMessage{Role: m.role, Content: &m.text})
		}
	}
	return list
}

func appendReply(list []ChatMessage, e *Exchange) []ChatMessage {
	return appendMessage(list, message{role: "assistant", text: e.Reply.Text, calls: e.Reply.Calls})
}

func chatCalls(calls []Call) []ChatCall {
	var out []ChatCall
	for _, c := range calls {
		out = append(out, ChatCall{ID: c.ID, Type: "function", Function: ChatFunction{Name: c.Name, Arguments: c.Args}})
	}
	return out
}

// Preferences returns the pairs of a better and a worse answer that people's feedback allows: a
// correction against what it corrects, and an approved answer against a rejected one to the same
// words.
func (s *Session) Preferences() []Preference {
	h := s.lay()
	var out []Preference
	for i := range h.Ratings {
		r := &h.Ratings[i]
		if r.Source != "user" {
			continue
		}
		at := h.rated(r)
		if at < 0 {
			continue
		}
		var chosen []ChatMessage
		switch {
		case r.Type == "correction":
			chosen = correctionMessage(r.Correction)
		case r.human() == Rejected:
			chosen = h.approvedTwin(at)
		}
		rejected := appendReply(nil, h.kept[at])
		if len(chosen) > 0 && len(rejected) > 0 {
			out = append(out, Preference{Prompt: h.conversation(at), Chosen: chosen, Rejected: rejected, Session: h.ID, Turn: h.kept[at].Turn})
		}
	}
	return out
}

// rated is the index of the exchange that a rating speaks of: its turn's, or the last of the
// session.
func (h *history) rated(r *Rating) int {
	if r.Turn == 0 {
		return len(h.kept) - 1
	}
	return slices.IndexFunc(h.kept, func(e *Exchange) bool { return e.Turn == r.Turn })
}

// correctionMessage reads a correction: a text, or a message, or whatever JSON it is.
func correctionMessage(raw json.RawMessage) []ChatMessage {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
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

// approvedTwin is an approved answer to the same words as those of the exchange: the user asked
// again.
func (h *history) approvedTwin(at int) []ChatMessage {
	words := lastWords(h.items[at])
	if words == "" {
		return nil
	}
	for i := range h.Ratings {
		r := &h.Ratings[i]
		if r.Source != "user" || r.Turn == 0 || r.human() != Approved {
			continue
		}
		if twin := h.rated(r); twin >= 0 && twin != at && lastWords(h.items[twin]) == words {
			return appendReply(nil, h.kept[twin])
		}
	}
	return nil
}

func lastWords(items []message) (words string) {
	for _, m := range items {
		if m.words != "" {
			words = m.words
		}
	}
	return words
}
