package proxy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// newModel returns a model that replies with a tool call. The header X-Call contains the call's id. As in a real API, a
// call's result must directly follow the call.
func newModel(t *testing.T) http.HandlerFunc {
	t.Helper()
	var n atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if fault := orderProblem(b); fault != "" {
			t.Errorf("invalid order of calls and results: %s: %s", fault, b)
		}
		var req struct{ Stream bool }
		_ = json.Unmarshal(b, &req)
		i := n.Add(1)
		id := randomCallID(i)
		w.Header().Set("X-Call", id)
		if req.Stream {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, streamedReply(r.URL.Path, i, id))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, jsonReply(r.URL.Path, i, id))
	}
}

// randomCallID returns an id that looks random, because precept does not identify sessions by sequential ids.
func randomCallID(n int64) string { return fmt.Sprintf("call_%024x", uint64(n)*0x9e3779b97f4a7c15) }

func jsonReply(path string, i int64, id string) string {
	switch {
	case strings.HasSuffix(path, "/responses"):
		return fmt.Sprintf(`{"id":"resp_%024x","object":"response","status":"completed","model":"vendor-1","output":[{"type":"function_call","id":"fc_%024x","call_id":%q,"name":"bash","arguments":"{\"command\":\"make x\"}","status":"completed"}],"usage":{"input_tokens":7,"output_tokens":2,"input_tokens_details":{"cached_tokens":4}}}`, i, i, id)
	case strings.HasSuffix(path, "/messages"):
		return fmt.Sprintf(`{"id":"msg_%024x","type":"message","role":"assistant","model":"vendor-1","content":[{"type":"tool_use","id":%q,"name":"bash","input":{"command":"make x"}}],"stop_reason":"tool_use","usage":{"input_tokens":3,"cache_read_input_tokens":4,"output_tokens":2}}`, i, id)
	}
	return fmt.Sprintf(`{"id":"chatcmpl-%024x","model":"vendor-1","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":null,"tool_calls":[{"id":%q,"type":"function","function":{"name":"bash","arguments":"{\"command\":\"make x\"}"}}]}}],"usage":{"prompt_tokens":7,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}`, i, id)
}

// streamedReply returns reply i as a stream with a text, one tool call, comments and unknown events.
func streamedReply(path string, i int64, id string) string {
	switch {
	case strings.HasSuffix(path, "/responses"):
		return fmt.Sprintf(`: hello

event: response.created
data: {"type":"response.created","response":{"id":"resp_%024[1]x","model":"vendor-1","status":"in_progress"}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","item_id":"msg_%[1]d","output_index":0,"delta":"Let me "}

event: response.output_text.delta
data: {"type":"response.output_text.delta","item_id":"msg_%[1]d","output_index":0,"delta":"see – ok"}

event: response.output_item.done
data: {"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"msg_%[1]d","role":"assistant","content":[{"type":"output_text","text":"Let me see – ok"}]}}

event: response.output_item.added
data: {"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","id":"fc_%[1]d","call_id":%[2]q,"name":"bash","arguments":""}}

event: response.function_call_arguments.delta
data: {"type":"response.function_call_arguments.delta","item_id":"fc_%[1]d","output_index":1,"delta":"{\"command\":"}

event: response.function_call_arguments.done
data: {"type":"response.function_call_arguments.done","item_id":"fc_%[1]d","output_index":1,"arguments":"{\"command\":\"make x\"}"}

event: response.output_item.done
data: {"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","id":"fc_%[1]d","call_id":%[2]q,"name":"bash","arguments":"{\"command\":\"make x\"}","status":"completed"}}

event: response.brand_new
data: {"type":"response.brand_new","x":[1,2]}

event: response.completed
data: {"type":"response.completed","response":{"id":"resp_%024[1]x","status":"completed","usage":{"input_tokens":7,"output_tokens":2,"input_tokens_details":{"cached_tokens":4}}}}

`, i, id)
	case strings.HasSuffix(path, "/messages"):
		return fmt.Sprintf(`event: message_start
data: {"type":"message_start","message":{"id":"msg_%024[1]x","type":"message","role":"assistant","model":"vendor-1","content":[],"usage":{"input_tokens":3,"cache_read_input_tokens":4,"output_tokens":1}}}

event: ping
data: {"type":"ping"}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Let me see – "}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"ok"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":%[2]q,"name":"bash","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"command\":"}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"\"make x\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":2}}

event: message_stop
data: {"type":"message_stop"}

`, i, id)
	}
	return fmt.Sprintf(`: hello

data: {"id":"chatcmpl-%024[1]x","model":"vendor-1","choices":[{"index":0,"delta":{"role":"assistant","content":"Let me see – "}}]}

data: {"id":"chatcmpl-%024[1]x","choices":[{"index":0,"delta":{"content":"ok"}}],"novelty":{"a":1}}

data: {"id":"chatcmpl-%024[1]x","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":%[2]q,"type":"function","function":{"name":"bash","arguments":""}}]}}]}

data: {"id":"chatcmpl-%024[1]x","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"command\":"}}]}}]}

data: {"id":"chatcmpl-%024[1]x","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"make x\"}"}}]}}]}

data: {"id":"chatcmpl-%024[1]x","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

data: {"id":"chatcmpl-%024[1]x","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}

data: [DONE]

`, i, id)
}

// orderProblem returns the first fault in the order of calls and results, or "".
func orderProblem(body []byte) string {
	var b struct {
		Messages []struct {
			Role       string
			ToolCallID string                `json:"tool_call_id"`
			Content    json.RawMessage       `json:"content"`
			ToolCalls  []struct{ ID string } `json:"tool_calls"`
		}
	}
	if json.Unmarshal(body, &b) != nil {
		return ""
	}
	open := map[string]bool{}
	for i, m := range b.Messages {
		var parts []struct {
			Type      string
			ID        string
			ToolUseID string `json:"tool_use_id"`
		}
		_ = json.Unmarshal(m.Content, &parts)
		if m.Role == "tool" {
			if !open[m.ToolCallID] {
				return fmt.Sprintf("message %d has a result without an open call", i)
			}
			delete(open, m.ToolCallID)
			continue
		}
		hasText := false
		for _, p := range parts {
			if p.Type == "tool_result" && (hasText || !open[p.ToolUseID]) {
				return fmt.Sprintf("message %d has a result after a text, or a result without an open call", i)
			}
			hasText = hasText || p.Type == "text"
			delete(open, p.ToolUseID)
		}
		if len(open) > 0 {
			return fmt.Sprintf("message %d is between a call and the result", i)
		}
		for _, c := range m.ToolCalls {
			open[c.ID] = true
		}
		for _, p := range parts {
			if p.Type == "tool_use" {
				open[p.ID] = true
			}
		}
	}
	return ""
}
