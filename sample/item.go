package sample

import (
	"encoding/json"
	"strings"

	"precept/wire"
)

// message is one list item of an exchange, folded over the three dialects.
type message struct {
	role    string // system | user | assistant | tool
	text    string // all its text
	words   string // user: what a person said in it, see wire.OwnWords
	calls   []Call
	results []result
}

// result is a tool's answer to a call.
type result struct {
	callID  string
	text    string
	isError int8 // +1 the wire says error, -1 it says none, 0 it does not say
}

// wireItem is the union of the item shapes of chat, responses and messages, as far as samples need
// them.
type wireItem struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	ToolCalls []struct {
		ID       string `json:"id"`
		Function struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"function"`
		Custom struct {
			Name  string          `json:"name"`
			Input json.RawMessage `json:"input"`
		} `json:"custom"`
	} `json:"tool_calls"`
	ToolCallID string          `json:"tool_call_id"`
	CallID     string          `json:"call_id"`
	Name       string          `json:"name"`
	Arguments  json.RawMessage `json:"arguments"`
	Input      json.RawMessage `json:"input"`
	Output     json.RawMessage `json:"output"`
}

// wirePart is a part of an item's content.
type wirePart struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   *bool           `json:"is_error"`
}

// decodeItem reads one item; ok is false for what carries neither words nor calls (reasoning,
// references, the unknown).
func decodeItem(raw json.RawMessage) (m message, ok bool) {
	var it wireItem
	if err := json.Unmarshal(raw, &it); err != nil {
		return m, false
	}
	switch {
	case strings.HasSuffix(it.Type, "_call_output"):
		m.role = "tool"
		m.results = []result{{callID: it.CallID, text: contentText(it.Output)}}
		return m, true
	case it.Type == "function_call" || it.Type == "custom_tool_call":
		m.role = "assistant"
		args := it.Arguments
		if len(args) == 0 {
			args = it.Input
		}
		m.calls = []Call{{ID: it.CallID, Name: it.Name, Args: argsText(args)}}
		return m, true
	case it.Type != "" && it.Type != "message" && it.Role == "":
		return m, false
	}
	m.role = it.Role
	if m.role == "developer" {
		m.role = "system"
	}
	if m.role == "tool" || m.role == "function" {
		m.role = "tool"
		m.results = []result{{callID: it.ToolCallID, text: contentText(it.Content)}}
		return m, true
	}
	m.content(it.Content)
	for _, c := range it.ToolCalls {
		name, args := c.Function.Name, c.Function.Arguments
		if name == "" {
			name, args = c.Custom.Name, c.Custom.Input
		}
		m.calls = append(m.calls, Call{ID: c.ID, Name: name, Args: argsText(args)})
	}
	return m, m.role != ""
}

// content reads a string or parts.
func (m *message) content(raw json.RawMessage) {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		m.text = s
		if m.role == "user" {
			m.words = wire.OwnWords(s)
		}
		return
	}
	var parts []wirePart
	if json.Unmarshal(raw, &parts) != nil {
		return
	}
	var texts, words []string
	for _, p := range parts {
		switch p.Type {
		case "tool_use":
			m.calls = append(m.calls, Call{ID: p.ID, Name: p.Name, Args: argsText(p.Input)})
		case "tool_result":
			m.results = append(m.results, result{callID: p.ToolUseID, text: contentText(p.Content), isError: sign(p.IsError)})
		default:
			if p.Text == "" {
				continue
			}
			texts = append(texts, p.Text)
			if m.role != "user" {
				continue
			}
			if w := wire.OwnWords(p.Text); w != "" {
				words = append(words, w)
			}
		}
	}
	m.text, m.words = strings.Join(texts, "\n"), strings.Join(words, "\n")
	if m.role == "user" && len(m.results) > 0 && m.words == "" {
		m.role = "tool"
	}
}

func sign(b *bool) int8 {
	switch {
	case b == nil:
		return 0
	case *b:
		return 1
	default:
		return -1
	}
}

// contentText is the text of a string, of parts, or the JSON itself.
func contentText(raw json.RawMessage) string {
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var parts []wirePart
	if json.Unmarshal(raw, &parts) == nil {
		var texts []string
		for _, p := range parts {
			if p.Text != "" {
				texts = append(texts, p.Text)
			}
		}
		return strings.Join(texts, "\n")
	}
	return string(raw)
}

// argsText is a string's content, or the JSON of an object.
func argsText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}
