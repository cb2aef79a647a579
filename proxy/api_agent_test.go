package proxy_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"
)

type historyItem struct {
	kind     string // system, user, text, call, result
	text, id string
	failed   bool
}

// apiAgent is a scripted agent for any API. Like a real agent, it never sees the text that precept inserts.
type apiAgent struct {
	api     string // chat, responses, messages
	claude  bool   // whether formatAsClaudeCode formats the body
	stream  bool
	extra   obj // additional body members
	history []historyItem
}

func newAPIAgent(api, task string) *apiAgent {
	return &apiAgent{api: api, history: []historyItem{{kind: "system", text: "You build things."}, {kind: "user", text: task}}}
}

func (a *apiAgent) path() string {
	return map[string]string{"chat": chatPath, "responses": "/v1/responses", "messages": "/v1/messages"}[a.api]
}

func (a *apiAgent) addUserMessage(text string) {
	a.history = append(a.history, historyItem{kind: "user", text: text})
}

func (a *apiAgent) addCall(id, command, result string, failed bool) {
	a.history = append(a.history, historyItem{kind: "call", text: `{"command":` + jsonString(command) + `}`, id: id}, historyItem{kind: "result", text: result, id: id, failed: failed})
}

func (a *apiAgent) item(e historyItem) obj {
	switch a.api + " " + e.kind {
	case "chat call":
		return obj{"role": "assistant", "content": nil, "tool_calls": []obj{{"id": e.id, "type": "function", "function": obj{"name": "bash", "arguments": e.text}}}}
	case "chat result":
		return obj{"role": "tool", "tool_call_id": e.id, "content": e.text}
	case "responses system":
		return obj{"type": "message", "role": "developer", "content": []obj{{"type": "input_text", "text": e.text}}}
	case "responses user":
		return obj{"type": "message", "role": "user", "content": []obj{{"type": "input_text", "text": e.text}}}
	case "responses text":
		return obj{"type": "message", "role": "assistant", "content": []obj{{"type": "output_text", "text": e.text}}}
	case "responses call":
		return obj{"type": "function_call", "call_id": e.id, "name": "bash", "arguments": e.text}
	case "responses result":
		return obj{"type": "function_call_output", "call_id": e.id, "output": e.text}
	case "messages user":
		return obj{"role": "user", "content": []obj{{"type": "text", "text": e.text}}}
	case "messages text":
		return obj{"role": "assistant", "content": []obj{{"type": "text", "text": e.text}}}
	case "messages call":
		return obj{"role": "assistant", "content": []obj{{"type": "tool_use", "id": e.id, "name": "bash", "input": json.RawMessage(e.text)}}}
	case "messages result":
		return obj{"role": "user", "content": []obj{{"type": "tool_result", "tool_use_id": e.id, "content": e.text, "is_error": e.failed}}}
	}
	return obj{"role": map[string]string{"system": "system", "user": "user", "text": "assistant"}[e.kind], "content": e.text}
}

func (a *apiAgent) body() string {
	b := obj{"model": "vendor-1", "stream": a.stream}
	var list []obj
	for _, e := range a.history {
		if a.api == "messages" && e.kind == "system" {
			b["system"] = []obj{{"type": "text", "text": e.text, "cache_control": obj{"type": "ephemeral"}}}
			continue
		}
		list = append(list, a.item(e))
	}
	if a.claude {
		formatAsClaudeCode(list)
	}
	switch a.api {
	case "chat":
		b["messages"], b["tools"] = list, []obj{{"type": "function", "function": obj{"name": "bash", "parameters": obj{}}}}
	case "responses":
		b["input"], b["tools"] = list, []obj{{"type": "function", "name": "bash", "parameters": obj{}}}
	case "messages":
		b["messages"], b["max_tokens"], b["tools"] = list, 100, []obj{{"name": "bash", "input_schema": obj{}}}
	}
	maps.Copy(b, a.extra)
	out, err := json.Marshal(b)
	if err != nil {
		panic(err)
	}
	return string(out)
}

// formatAsClaudeCode sets cache_control on the newest part, and turns older user messages with one text part into
// strings.
func formatAsClaudeCode(list []obj) {
	for i, m := range list {
		parts, _ := m["content"].([]obj)
		if len(parts) == 0 {
			continue
		}
		if i == len(list)-1 {
			parts[len(parts)-1]["cache_control"] = obj{"type": "ephemeral"}
		} else if len(parts) == 1 && parts[0]["type"] == "text" && m["role"] == "user" {
			m["content"] = parts[0]["text"]
		}
	}
}

// sendNext sends the history. call is the id of the call in the response, and list is the normalizedList of the body
// that the upstream receives.
func (a *apiAgent) sendNext(t *testing.T, f *fixture, h http.Header) (res *http.Response, call, list string) {
	t.Helper()
	res, body := f.send(t, "POST", a.path(), h, a.body())
	if res.StatusCode != http.StatusOK {
		t.Fatalf("got status %d, body %s, want status 200", res.StatusCode, body)
	}
	return res, res.Header.Get("X-Call"), normalizedList(t, f.up.lastRequest(t).body)
}

// normalizedList returns the messages in a normal form, so that a later list begins with an earlier one: a string
// becomes a text part, adjacent text parts are joined, and cache_control, refusal, members with the prefix __ and the
// closing bracket are removed.
func normalizedList(t *testing.T, body []byte) string {
	t.Helper()
	var b struct{ Messages, Input []any }
	if err := json.Unmarshal(body, &b); err != nil {
		t.Fatalf("decode the body that the upstream received: %v: %s", err, body)
	}
	list := append(b.Messages, b.Input...)
	for _, item := range list {
		m, _ := item.(obj)
		maps.DeleteFunc(m, func(k string, _ any) bool { return k == "refusal" || strings.HasPrefix(k, "__") })
		if text, ok := m["content"].(string); ok {
			m["content"] = []any{obj{"type": "text", "text": text}}
		}
		parts, _ := m["content"].([]any)
		var joined []any
		for _, p := range parts {
			part, _ := p.(obj)
			delete(part, "cache_control")
			if n := len(joined); n > 0 && part["type"] == "text" && joined[n-1].(obj)["type"] == "text" {
				joined[n-1] = obj{"type": "text", "text": joined[n-1].(obj)["text"].(string) + part["text"].(string)}
				continue
			}
			joined = append(joined, p)
		}
		if parts != nil {
			m["content"] = joined
		}
	}
	out, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(string(out), "]")
}
