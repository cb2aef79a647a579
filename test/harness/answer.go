package harness

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"
)

// answer is one reply of the model, together with the properties of the request that determine the reply.
type answer struct {
	kind             string         // the API: "chat", "responses" or "messages"
	body             map[string]any // decoded request
	text             string
	stepMark         string // mark with the step number, part of each id in the reply
	callID           string // "" for none
	code             string // program for a tool that runs code; "" for other tools
	tool             string
	namespace        string
	args             map[string]any
	tokens           int    // prompt tokens, for usage
	encryptedSummary string // opaque result of a compaction; "" for none
	hang             func() // waits until the client has disconnected
}

// write writes the answer in the request's API, as a stream if the request asks for one.
func (a *answer) write(w http.ResponseWriter, f *Fault) {
	stream, _ := a.body["stream"].(bool)
	s := &sse{w: w, hang: a.hang}
	if stream {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	}
	switch a.kind {
	case "chat":
		a.writeChat(w, s, stream, f)
	case "responses":
		a.writeResponses(w, s, stream, f)
	default:
		a.writeMessages(w, s, stream, f)
	}
}

type sse struct {
	w    http.ResponseWriter
	hang func()
}

func (s *sse) event(name string, v any) {
	if name != "" {
		fmt.Fprintf(s.w, "event: %s\n", name)
	}
	b, _ := json.Marshal(v)
	fmt.Fprintf(s.w, "data: %s\n\n", b)
	if f, ok := s.w.(http.Flusher); ok {
		f.Flush()
	}
}

// writeFault makes the stream hang or break if the fault f asks for it. It reports whether the stream has ended.
func (s *sse) writeFault(f *Fault) bool {
	if f == nil {
		return false
	}
	if f.Hang {
		s.hang()
		return true
	}
	if f.Cut {
		time.Sleep(CutDelay)
		panic(http.ErrAbortHandler)
	}
	return f.Unfinished
}

// splitChunks splits s into stream chunks with at most 12 bytes.
func splitChunks(s string) []string {
	var out []string
	for len(s) > 12 {
		out = append(out, s[:12])
		s = s[12:]
	}
	return append(out, s)
}

func argsText(args map[string]any) string {
	b, _ := json.Marshal(args)
	return string(b)
}

// Object is a JSON object in a request or a reply.
type Object = map[string]any

func (a *answer) writeChat(w http.ResponseWriter, s *sse, stream bool, f *Fault) {
	id, usage := "chatcmpl-"+RandomHex(12), Object{"prompt_tokens": a.tokens, "completion_tokens": 10, "total_tokens": a.tokens + 10, "prompt_tokens_details": Object{"cached_tokens": 64}}
	finish := "stop"
	if a.callID != "" {
		finish = "tool_calls"
	}
	if !stream {
		msg := Object{"role": "assistant", "content": a.text}
		if a.callID != "" {
			msg["tool_calls"] = []Object{{"id": a.callID, "type": "function", "function": Object{"name": a.tool, "arguments": argsText(a.args)}}}
		}
		ReplyJSON(w, 200, Object{"id": id, "object": "chat.completion", "created": 1, "model": a.body["model"], "usage": usage, "choices": []Object{{"index": 0, "message": msg, "finish_reason": finish, "logprobs": nil}}})
		return
	}
	chunk := func(delta Object, fin any) {
		s.event("", Object{"id": id, "object": "chat.completion.chunk", "created": 1, "model": a.body["model"], "choices": []Object{{"index": 0, "delta": delta, "finish_reason": fin, "logprobs": nil}}})
	}
	chunk(Object{"role": "assistant", "content": ""}, nil)
	if f != nil {
		chunk(Object{"content": "partial "}, nil)
		if s.writeFault(f) {
			return
		}
	}
	for _, p := range splitChunks(a.text) {
		chunk(Object{"content": p}, nil)
	}
	if a.callID != "" {
		chunk(Object{"tool_calls": []Object{{"index": 0, "id": a.callID, "type": "function", "function": Object{"name": a.tool, "arguments": ""}}}}, nil)
		for _, p := range splitChunks(argsText(a.args)) {
			chunk(Object{"tool_calls": []Object{{"index": 0, "function": Object{"arguments": p}}}}, nil)
		}
	}
	chunk(Object{}, finish)
	if so, _ := a.body["stream_options"].(map[string]any); so["include_usage"] == true {
		s.event("", Object{"id": id, "object": "chat.completion.chunk", "created": 1, "model": a.body["model"], "choices": []Object{}, "usage": usage})
	}
	fmt.Fprint(s.w, "data: [DONE]\n\n")
}

// asksForCompaction reports whether the last input item asks the responses API to compact the history.
func (a *answer) asksForCompaction() bool {
	list, _ := a.body["input"].([]any)
	if len(list) == 0 {
		return false
	}
	last, _ := list[len(list)-1].(map[string]any)
	return last["type"] == "compaction_trigger"
}

// asksForSummary reports whether the last message or item is the prompt with which a known agent asks for a summary.
func (a *answer) asksForSummary() bool {
	list, _ := a.body["messages"].([]any)
	if list == nil {
		list, _ = a.body["input"].([]any)
	}
	if len(list) == 0 {
		return false
	}
	last, _ := json.Marshal(list[len(list)-1])
	for _, text := range []string{"CRITICAL: Respond with TEXT ONLY", "The history is being compacted", "CONTEXT CHECKPOINT COMPACTION"} {
		if strings.Contains(string(last), text) {
			return true
		}
	}
	return false
}

func (a *answer) writeResponses(w http.ResponseWriter, s *sse, stream bool, f *Fault) {
	id := "resp_" + a.stepMark
	response := func(status string, output []Object) Object {
		return Object{
			"id": id, "object": "response", "created_at": 1, "status": status, "model": a.body["model"], "output": output, "error": nil, "incomplete_details": nil, "instructions": nil, "metadata": Object{}, "parallel_tool_calls": true, "temperature": 1, "tool_choice": "auto", "tools": []Object{}, "top_p": 1,
			"usage": Object{"input_tokens": a.tokens, "input_tokens_details": Object{"cached_tokens": 64}, "output_tokens": 10, "output_tokens_details": Object{"reasoning_tokens": 0}, "total_tokens": a.tokens + 10},
		}
	}
	var output []Object
	if a.text != "" {
		output = append(output, Object{"id": "msg_" + a.stepMark, "type": "message", "status": "completed", "role": "assistant", "content": []Object{{"type": "output_text", "text": a.text, "annotations": []Object{}, "logprobs": []Object{}}}})
	}
	if a.callID != "" {
		call := Object{"id": "fc_" + RandomHex(12), "type": "function_call", "status": "completed", "arguments": argsText(a.args), "call_id": a.callID, "name": a.tool}
		if a.code != "" {
			delete(call, "arguments")
			call["type"], call["input"] = "custom_tool_call", a.code
		}
		if a.namespace != "" {
			call["namespace"] = a.namespace
		}
		output = append(output, call)
	}
	if a.encryptedSummary != "" {
		output = append(output, Object{"id": "cmp_" + RandomHex(12), "type": "compaction", "encrypted_content": a.encryptedSummary})
	}
	if !stream {
		ReplyJSON(w, 200, response("completed", output))
		return
	}
	sequence := 0
	send := func(kind string, v Object) {
		v["type"], v["sequence_number"] = kind, sequence
		sequence++
		s.event(kind, v)
	}
	send("response.created", Object{"response": response("in_progress", []Object{})})
	send("response.in_progress", Object{"response": response("in_progress", []Object{})})
	if s.writeFault(f) {
		return
	}
	for i, item := range output {
		started := Object{}
		maps.Copy(started, item)
		started["status"] = "in_progress"
		if item["type"] == "message" {
			started["content"] = []Object{}
			send("response.output_item.added", Object{"output_index": i, "item": started})
			part := item["content"].([]Object)[0]
			send("response.content_part.added", Object{"item_id": item["id"], "output_index": i, "content_index": 0, "part": Object{"type": "output_text", "text": "", "annotations": []Object{}, "logprobs": []Object{}}})
			for _, p := range splitChunks(a.text) {
				send("response.output_text.delta", Object{"item_id": item["id"], "output_index": i, "content_index": 0, "delta": p, "logprobs": []Object{}})
			}
			send("response.output_text.done", Object{"item_id": item["id"], "output_index": i, "content_index": 0, "text": a.text, "logprobs": []Object{}})
			send("response.content_part.done", Object{"item_id": item["id"], "output_index": i, "content_index": 0, "part": part})
		} else if item["type"] == "compaction" || item["type"] == "custom_tool_call" {
			send("response.output_item.added", Object{"output_index": i, "item": started})
		} else {
			started["arguments"] = ""
			send("response.output_item.added", Object{"output_index": i, "item": started})
			for _, p := range splitChunks(item["arguments"].(string)) {
				send("response.function_call_arguments.delta", Object{"item_id": item["id"], "output_index": i, "delta": p})
			}
			send("response.function_call_arguments.done", Object{"item_id": item["id"], "output_index": i, "arguments": item["arguments"]})
		}
		send("response.output_item.done", Object{"output_index": i, "item": item})
	}
	send("response.completed", Object{"response": response("completed", output)})
}

func (a *answer) writeMessages(w http.ResponseWriter, s *sse, stream bool, f *Fault) {
	id, usage := "msg_"+RandomHex(12), Object{"input_tokens": a.tokens, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 64, "output_tokens": 10}
	var blocks []Object
	stop := "end_turn"
	if a.text != "" {
		blocks = append(blocks, Object{"type": "text", "text": a.text})
	}
	if a.callID != "" {
		blocks, stop = append(blocks, Object{"type": "tool_use", "id": "toolu_" + a.callID, "name": a.tool, "input": a.args}), "tool_use"
	}
	if !stream {
		ReplyJSON(w, 200, Object{"id": id, "type": "message", "role": "assistant", "model": a.body["model"], "content": blocks, "stop_reason": stop, "stop_sequence": nil, "usage": usage})
		return
	}
	send := func(kind string, v Object) {
		v["type"] = kind
		s.event(kind, v)
	}
	send("message_start", Object{"message": Object{"id": id, "type": "message", "role": "assistant", "model": a.body["model"], "content": []Object{}, "stop_reason": nil, "stop_sequence": nil, "usage": usage}})
	send("ping", Object{})
	if f != nil {
		send("content_block_start", Object{"index": 0, "content_block": Object{"type": "text", "text": ""}})
		if s.writeFault(f) {
			return
		}
	}
	for i, b := range blocks {
		if b["type"] == "text" {
			send("content_block_start", Object{"index": i, "content_block": Object{"type": "text", "text": ""}})
			for _, p := range splitChunks(a.text) {
				send("content_block_delta", Object{"index": i, "delta": Object{"type": "text_delta", "text": p}})
			}
		} else {
			send("content_block_start", Object{"index": i, "content_block": Object{"type": "tool_use", "id": b["id"], "name": a.tool, "input": Object{}}})
			for _, p := range splitChunks(argsText(a.args)) {
				send("content_block_delta", Object{"index": i, "delta": Object{"type": "input_json_delta", "partial_json": p}})
			}
		}
		send("content_block_stop", Object{"index": i})
	}
	send("message_delta", Object{"delta": Object{"stop_reason": stop, "stop_sequence": nil}, "usage": Object{"output_tokens": 10}})
	send("message_stop", Object{})
}
