package demo

import (
	"fmt"
	"strings"
)

// message is a message in a chat completions request or reply.
type message struct {
	Role       string `json:"role"`
	Content    string `json:"content"`
	ToolCalls  []call `json:"tool_calls,omitempty"`
	ToolCallID string `json:"tool_call_id,omitempty"`
}

type call struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

func userMessage(text string) message { return message{Role: "user", Content: text} }

func toolCall(tool, args string, id uint64) message {
	k := call{ID: fmt.Sprintf("call_%08x", id), Type: "function"}
	k.Function.Name, k.Function.Arguments = tool, args
	return message{Role: "assistant", ToolCalls: []call{k}}
}

func succeeded(m message) bool { return strings.Contains(m.Content, "success") }
