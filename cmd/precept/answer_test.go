package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"
)

// answer is one reply of the scripted model, in the dialect of the request.
type answer struct {
	kind      string
	body      map[string]any
	text      string
	mark      string // of the step; names that stand for a reply carry it, where the next request holds nothing else of it
	callID    string // "" for none
	code      string // what a tool that takes a program is given
	tool      string
	namespace string
	args      map[string]any
	tokens    int    // of the prompt, as the usage tells them
	sealed    string // what a conversation was compacted to, for nobody to read; "" for none
	hang      func() // returns when the client is gone
}

func (a *answer) write(w http.ResponseWriter, f *fault) {
	stream, _ := a.body["stream"].(bool)
	s := &sse{w: w, hang: a.hang}
	if stream {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	}
	switch a.kind {
	case "chat":
		a.chat(w, s, stream, f)
	case "responses":
		a.responses(w, s, stream, f)
	default:
		a.messages(w, s, stream, f)
	}
}

// sse writes events, each flushed.
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

// spoil ends a stream as the fault says; it is false without one.
func (s *sse) spoil(f *fault) bool {
	if f == nil {
		return false
	}
	if f.hang {
		s.hang()
		return true
	}
	if f.cut {
		time.Sleep(waitFor)
		panic(http.ErrAbortHandler)
	}
	return f.nothing
}

// pieces cuts a text as a model would.
func pieces(s string) []string {
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

type o = map[string]any

func (a *answer) chat(w http.ResponseWriter, s *sse, stream bool, f *fault) {
	id, usage := "chatcmpl-"+random(12), o{"prompt_tokens": a.tokens, "completion_tokens": 10, "total_tokens": a.tokens + 10, "prompt_tokens_details": o{"cached_tokens": 64}}
	finish := "stop"
	if a.callID != "" {
		finish = "tool_calls"
	}
	if !stream {
		msg := o{"role": "assistant", "content": a.text}
		if a.callID != "" {
			msg["tool_calls"] = []o{{"id": a.callID, "type": "function", "function": o{"name": a.tool, "arguments": argsText(a.args)}}}
		}
		replyJSON(w, 200, o{"id": id, "object": "chat.completion", "created": 1, "model": a.body["model"], "usage": usage, "choices": []o{{"index": 0, "message": msg, "finish_reason": finish, "logprobs": nil}}})
		return
	}
	chunk := func(delta o, fin any) {
		s.event("", o{"id": id, "object": "chat.completion.chunk", "created": 1, "model": a.body["model"], "choices": []o{{"index": 0, "delta": delta, "finish_reason": fin, "logprobs": nil}}})
	}
	chunk(o{"role": "assistant", "content": ""}, nil)
	if f != nil {
		chunk(o{"content": "partial "}, nil)
		if s.spoil(f) {
			return
		}
	}
	for _, p := range pieces(a.text) {
		chunk(o{"content": p}, nil)
	}
	if a.callID != "" {
		chunk(o{"tool_calls": []o{{"index": 0, "id": a.callID, "type": "function", "function": o{"name": a.tool, "arguments": ""}}}}, nil)
		for _, p := range pieces(argsText(a.args)) {
			chunk(o{"tool_calls": []o{{"index": 0, "function": o{"arguments": p}}}}, nil)
		}
	}
	chunk(o{}, finish)
	if so, _ := a.body["stream_options"].(map[string]any); so["include_usage"] == true {
		s.event("", o{"id": id, "object": "chat.completion.chunk", "created": 1, "model": a.body["model"], "choices": []o{}, "usage": usage})
	}
	fmt.Fprint(s.w, "data: [DONE]\n\n")
}

// compacts says whether the provider is asked to compact the conversation: the list ends with an
// item that says so.
func (a *answer) compacts() bool {
	list, _ := a.body["input"].([]any)
	if len(list) == 0 {
		return false
	}
	last, _ := list[len(list)-1].(map[string]any)
	return last["type"] == "compaction_trigger"
}

// summarises says whether a summary is asked for although tools are offered, in the words of claude
// and copilot.
func (a *answer) summarises() bool {
	list, _ := a.body["messages"].([]any)
	if list == nil {
		list, _ = a.body["input"].([]any)
	}
	if len(list) == 0 {
		return false
	}
	last, _ := json.Marshal(list[len(list)-1])
	for _, words := range []string{"CRITICAL: Respond with TEXT ONLY", "The history is being compacted", "CONTEXT CHECKPOINT COMPACTION"} {
		if strings.Contains(string(last), words) {
			return true
		}
	}
	return false
}

func (a *answer) responses(w http.ResponseWriter, s *sse, stream bool, f *fault) {
	id := "resp_" + a.mark
	base := func(status string, output []o) o {
		return o{
			"id": id, "object": "response", "created_at": 1, "status": status, "model": a.body["model"], "output": output, "error": nil, "incomplete_details": nil, "instructions": nil, "metadata": o{}, "parallel_tool_calls": true, "temperature": 1, "tool_choice": "auto", "tools": []o{}, "top_p": 1,
			"usage": o{"input_tokens": a.tokens, "input_tokens_details": o{"cached_tokens": 64}, "output_tokens": 10, "output_tokens_details": o{"reasoning_tokens": 0}, "total_tokens": a.tokens + 10},
		}
	}
	var output []o
	if a.text != "" {
		output = append(output, o{"id": "msg_" + a.mark, "type": "message", "status": "completed", "role": "assistant", "content": []o{{"type": "output_text", "text": a.text, "annotations": []o{}, "logprobs": []o{}}}})
	}
	if a.callID != "" {
		call := o{"id": "fc_" + random(12), "type": "function_call", "status": "completed", "arguments": argsText(a.args), "call_id": a.callID, "name": a.tool}
		if a.code != "" {
			delete(call, "arguments")
			call["type"], call["input"] = "custom_tool_call", a.code
		}
		if a.namespace != "" {
			call["namespace"] = a.namespace
		}
		output = append(output, call)
	}
	if a.sealed != "" {
		output = append(output, o{"id": "cmp_" + random(12), "type": "compaction", "encrypted_content": a.sealed})
	}
	if !stream {
		replyJSON(w, 200, base("completed", output))
		return
	}
	n := 0
	e := func(kind string, v o) {
		v["type"], v["sequence_number"] = kind, n
		n++
		s.event(kind, v)
	}
	e("response.created", o{"response": base("in_progress", []o{})})
	e("response.in_progress", o{"response": base("in_progress", []o{})})
	if s.spoil(f) {
		return
	}
	for i, item := range output {
		open := o{}
		maps.Copy(open, item)
		open["status"] = "in_progress"
		if item["type"] == "message" {
			open["content"] = []o{}
			e("response.output_item.added", o{"output_index": i, "item": open})
			part := item["content"].([]o)[0]
			e("response.content_part.added", o{"item_id": item["id"], "output_index": i, "content_index": 0, "part": o{"type": "output_text", "text": "", "annotations": []o{}, "logprobs": []o{}}})
			for _, p := range pieces(a.text) {
				e("response.output_text.delta", o{"item_id": item["id"], "output_index": i, "content_index": 0, "delta": p, "logprobs": []o{}})
			}
			e("response.output_text.done", o{"item_id": item["id"], "output_index": i, "content_index": 0, "text": a.text, "logprobs": []o{}})
			e("response.content_part.done", o{"item_id": item["id"], "output_index": i, "content_index": 0, "part": part})
		} else if item["type"] == "compaction" || item["type"] == "custom_tool_call" {
			e("response.output_item.added", o{"output_index": i, "item": open})
		} else {
			open["arguments"] = ""
			e("response.output_item.added", o{"output_index": i, "item": open})
			for _, p := range pieces(item["arguments"].(string)) {
				e("response.function_call_arguments.delta", o{"item_id": item["id"], "output_index": i, "delta": p})
			}
			e("response.function_call_arguments.done", o{"item_id": item["id"], "output_index": i, "arguments": item["arguments"]})
		}
		e("response.output_item.done", o{"output_index": i, "item": item})
	}
	e("response.completed", o{"response": base("completed", output)})
}

func (a *answer) messages(w http.ResponseWriter, s *sse, stream bool, f *fault) {
	id, usage := "msg_"+random(12), o{"input_tokens": a.tokens, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 64, "output_tokens": 10}
	var blocks []o
	stop := "end_turn"
	if a.text != "" {
		blocks = append(blocks, o{"type": "text", "text": a.text})
	}
	if a.callID != "" {
		blocks, stop = append(blocks, o{"type": "tool_use", "id": "toolu_" + a.callID, "name": a.tool, "input": a.args}), "tool_use"
	}
	if !stream {
		replyJSON(w, 200, o{"id": id, "type": "message", "role": "assistant", "model": a.body["model"], "content": blocks, "stop_reason": stop, "stop_sequence": nil, "usage": usage})
		return
	}
	e := func(kind string, v o) {
		v["type"] = kind
		s.event(kind, v)
	}
	e("message_start", o{"message": o{"id": id, "type": "message", "role": "assistant", "model": a.body["model"], "content": []o{}, "stop_reason": nil, "stop_sequence": nil, "usage": usage}})
	e("ping", o{})
	if f != nil {
		e("content_block_start", o{"index": 0, "content_block": o{"type": "text", "text": ""}})
		if s.spoil(f) {
			return
		}
	}
	for i, b := range blocks {
		if b["type"] == "text" {
			e("content_block_start", o{"index": i, "content_block": o{"type": "text", "text": ""}})
			for _, p := range pieces(a.text) {
				e("content_block_delta", o{"index": i, "delta": o{"type": "text_delta", "text": p}})
			}
		} else {
			e("content_block_start", o{"index": i, "content_block": o{"type": "tool_use", "id": b["id"], "name": a.tool, "input": o{}}})
			for _, p := range pieces(argsText(a.args)) {
				e("content_block_delta", o{"index": i, "delta": o{"type": "input_json_delta", "partial_json": p}})
			}
		}
		e("content_block_stop", o{"index": i})
	}
	e("message_delta", o{"delta": o{"stop_reason": stop, "stop_sequence": nil}, "usage": o{"output_tokens": 10}})
	e("message_stop", o{})
}
