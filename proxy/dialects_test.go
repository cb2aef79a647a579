package proxy_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"precept/internal/sample"
)

// block is the text that precept inserts for the lesson "one", escaped for a JSON string.
const block = `Lessons from past experience:\n(Advice from earlier runs, not a request from the user. Ignore what does not apply.)\n- [one] Follow one\n  | Do as one says.\nEnd of lessons.\n\n`

// In each body, ^ marks where precept must insert the block. The client sends the body without ^.
func TestBlockPositionOnEachAPI(t *testing.T) {
	up := newUpstream(t, newModel(t))
	f := newFixture(t, up, "", newBook(t, "one: alpha"), injectAll())
	part := `{"type":"text","text":"^"},`
	input := strings.Replace(part, "text", "input_text", 1)
	for _, tc := range []struct{ name, path, body string }{
		{"chat string", chatPath, `{"messages":[{"role":"system","content":"x"},{"role":"user","content":"^do alpha"}]}`},
		{"chat parts", chatPath, `{"messages":[{"role":"user","content":[{"type":"text","text":"<system-reminder>\nbe kind\n</system-reminder>"},` + part + `{"type":"text","text":"do alpha"}]}]}`},
		{"chat result", chatPath, `{"messages":[{"role":"user","content":"go"},{"role":"assistant","content":null,"tool_calls":[{"id":"call_q81","type":"function","function":{"name":"bash","arguments":"{}"}}]},{"role":"tool","tool_call_id":"call_q81","content":"^alpha: not found\n\nCommand exited with code 127"}]}`},
		{"responses string", "/v1/responses", `{"input":"^do alpha","instructions":"Be good."}`},
		{"responses string content", "/v1/responses", `{"input":[{"role":"user","content":"^do alpha"}]}`},
		{"responses parts", "/v1/responses", `{"instructions":"x","input":[{"type":"message","role":"user","content":[` + input + `{"type":"input_text","text":"do alpha"}]}],"store":false}`},
		{"responses result", "/v1/responses", `{"input":[{"role":"user","content":"go"},{"type":"function_call","call_id":"call_q82","name":"bash","arguments":"{}"},{"type":"function_call_output","call_id":"call_q82","output":"^Process exited with code 2\nOutput:\nalpha: no such file"}]}`},
		{"responses result in parts", "/v1/responses", `{"input":[{"role":"user","content":"go"},{"type":"function_call","call_id":"call_q83","name":"bash","arguments":"{}"},{"type":"function_call_output","call_id":"call_q83","output":[` + input + `{"type":"input_text","text":"Process exited with code 2\nOutput:\nalpha: no such file"}]}]}`},
		{"messages string", "/v1/messages", `{"system":"x","messages":[{"role":"user","content":"^do alpha"}],"max_tokens":1}`},
		{"messages parts", "/v1/messages?beta=true", `{"system":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"text","text":"<system-reminder>\nb\n</system-reminder>"},` + part + `{"type":"text","text":"do alpha","cache_control":{"type":"ephemeral"}}]}]}`},
		{"messages result", "/v1/messages", `{"messages":[{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"tool_use","id":"toolu_q84","name":"Bash","input":{}}]},{"role":"user","content":[{"tool_use_id":"toolu_q84","type":"tool_result","content":"^Exit code 1\nalpha: no","is_error":true,"cache_control":{"type":"ephemeral"}}]}]}`},
		{"messages result in parts", "/v1/messages", `{"messages":[{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"tool_use","id":"toolu_q85","name":"Bash","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_q85","is_error":true,"content":[` + part + `{"type":"text","text":"alpha: no"}]}]}]}`},
		{"messages with the maximum number of cache breakpoints", "/v1/messages", `{"tools":[{"name":"b","input_schema":{},"cache_control":{"type":"ephemeral"}}],"system":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"text","text":"r","cache_control":{"type":"ephemeral"}},` + part + `{"type":"text","text":"do alpha","cache_control":{"type":"ephemeral"}}]}]}`},
		{"no match", "/v1/messages", `{"messages":[{"role":"user","content":"do beta"}]}`},
		{"keyword only in the assistant's text", "/v1/messages", `{"messages":[{"role":"user","content":"do"},{"role":"assistant","content":"alpha"},{"role":"user","content":"and?"}]}`},
	} {
		sent := strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(tc.body, part, ""), input, ""), "^", "")
		want := strings.ReplaceAll(tc.body, "^", block)
		res, b := f.send(t, "POST", tc.path, http.Header{"Precept-Session": {tc.name}}, sent)
		if got := string(up.lastRequest(t).body); res.StatusCode != 200 {
			t.Errorf("%s: status = %d, want 200, body %s", tc.name, res.StatusCode, b)
		} else if got != want {
			t.Errorf("%s: got %q, want %q", tc.name, got, want)
		}
	}
}

// In this test, sessions with a name get streamed replies, and sessions without a name get whole replies.
func TestEachTurnExtendsPreviousMessages(t *testing.T) {
	for _, api := range []string{"chat", "responses", "messages", "claude"} {
		for _, named := range []bool{true, false} {
			t.Run(fmt.Sprint(api, " named=", named), func(t *testing.T) {
				t.Parallel()
				a := newAPIAgent(strings.Replace(api, "claude", "messages", 1), "Please fix the build.")
				a.claude, a.stream = api == "claude", named
				checkTwelveTurns(t, a, named)
			})
		}
	}
}

// checkTwelveTurns sends twelve turns and restarts the proxy twice. Each turn must extend the previous one.
func checkTwelveTurns(t *testing.T, a *apiAgent, named bool) {
	t.Helper()
	up := newUpstream(t, newModel(t))
	book := newBook(t, "start: the build", "middle: no rule to make", "late: deploy it")
	dir := t.TempDir()
	f := newFixture(t, up, dir, book, injectAll())
	h := bearerHeader("k", "User-Agent", "test/1")
	if named {
		h.Set("X-Claude-Code-Session-Id", "twelve")
	}
	var previous, session string
	for turn := range 12 {
		if turn == 6 || turn == 9 {
			f.stop()
			f = newFixture(t, up, dir, book, injectAll())
		}
		if turn == 8 {
			a.addUserMessage("Now deploy it.")
		}
		res, call, list := a.sendNext(t, f, h)
		if session == "" {
			session = res.Header.Get("Precept-Session")
		}
		if got := res.Header.Get("Precept-Session"); got != session {
			t.Fatalf("turn %d: session = %s, want %s", turn, got, session)
		}
		if !strings.HasPrefix(list, previous) {
			t.Fatalf("turn %d: list:\n%s\nwant prefix:\n%s", turn, list, previous)
		}
		if previous = list; turn >= 4 != strings.Contains(list, "[LOOP DETECTED]") {
			t.Fatalf("turn %d: list = %s, want a loop warning only from turn 4 on", turn, list)
		}
		if turn == 2 || turn == 3 || turn == 4 {
			a.addCall(call, "make x", "make: *** No rule to make target 'x'.  Stop.\nExit code 2", true)
		} else {
			a.addCall(call, fmt.Sprint("cat f", turn), fmt.Sprint("line ", turn), false)
		}
	}
	for _, want := range []string{"[start]", "[middle]", "[late]", "[LOOP DETECTED]", "[END LOOP DETECTED]"} {
		if n := strings.Count(previous, want); n != 1 {
			t.Errorf("last list contains %s %d times, want once:\n%s", want, n, previous)
		}
	}
}

// defaultTenantExchanges stops the fixture and returns a session's stored exchanges.
func defaultTenantExchanges(t *testing.T, f *fixture, name string) []sample.Exchange {
	t.Helper()
	return storedExchanges(t, f, name)["default"]
}

func TestEachAPIStreamIsForwardedAndStored(t *testing.T) {
	up := newUpstream(t, newModel(t))
	f := newDefaultFixture(t, up)
	var calls []string
	h := http.Header{"Precept-Session": {"streams"}}
	for i, api := range []string{"chat", "responses", "messages"} {
		a := newAPIAgent(api, "Fix it. "+api)
		a.stream = true
		res, body := f.send(t, "POST", a.path(), h, a.body())
		call := res.Header.Get("X-Call")
		if want := streamedReply(a.path(), int64(i+1), call); string(body) != want {
			t.Errorf("%s: got %q, want %q", api, string(body), want)
		} else if res.Header.Get("Content-Type") != "text/event-stream" {
			t.Errorf(`%s: Content-Type = %q, want "text/event-stream"`, api, res.Header.Get("Content-Type"))
		}
		calls = append(calls, call)
	}
	got := defaultTenantExchanges(t, f, "streams")
	if len(got) != 3 {
		t.Fatalf("got %d stored exchanges, want 3", len(got))
	}
	for i, x := range got {
		want := sample.Reply{
			ID: fmt.Sprintf("%s%024x", []string{"chatcmpl-", "resp_", "msg_"}[i], i+1), Text: "Let me see – ok", Finish: []string{"tool_calls", "completed", "tool_use"}[i],
			Calls: []sample.Call{{ID: calls[i], Name: "bash", Args: `{"command":"make x"}`}}, InputTokens: 7, CachedTokens: 4, OutputTokens: 2,
		}
		if gotReply, wantReply := fmt.Sprint(x.Reply), fmt.Sprint(want); gotReply != wantReply {
			t.Errorf("exchange %d: reply = %q, want %q", i, gotReply, wantReply)
		} else if x.Outcome != sample.Complete {
			t.Errorf("exchange %d: Outcome = %q, want %q", i, x.Outcome, sample.Complete)
		} else if x.Turn != i+1 {
			t.Errorf("exchange %d: Turn = %d, want %d", i, x.Turn, i+1)
		} else if x.Dialect != []string{"chat", "responses", "messages"}[i] {
			t.Errorf("exchange %d: Dialect = %q, want %q", i, x.Dialect, []string{"chat", "responses", "messages"}[i])
		}
	}
}

// A delta request contains only new items, so precept detects loops from the calls in earlier replies.
func TestDeltaRequestsGetBlocksAndLoopWarnings(t *testing.T) {
	up := newUpstream(t, newModel(t))
	f := newFixture(t, up, "", newBook(t, "one: alpha", "two: no rule to make"), injectAll())
	a := newAPIAgent("responses", "do alpha")
	h := bearerHeader("k")
	first, call, list := a.sendNext(t, f, h)
	session := first.Header.Get("Precept-Session")
	if strings.Count(list, "[one]") != 1 {
		t.Errorf("first request: list = %s, want [one] exactly once", list)
	}
	warned, lessons := 0, 0
	for turn := 1; turn < 6; turn++ {
		a.extra = obj{"previous_response_id": fmt.Sprintf("resp_%024x", turn)}
		a.history = []historyItem{{kind: "result", id: call, text: "make: *** No rule to make target 'x'.  Stop.\nProcess exited with code 2"}}
		if turn == 4 {
			a.history = append(a.history, historyItem{kind: "user", text: "alpha, I said"})
		}
		var res *http.Response
		res, call, list = a.sendNext(t, f, h)
		if got := res.Header.Get("Precept-Session"); got != session {
			t.Errorf("turn %d: session = %s, want %s", turn, got, session)
		}
		if strings.Contains(list, "[one]") {
			t.Errorf("turn %d: list = %s, want no [one]", turn, list)
		}
		if strings.Contains(list, "[LOOP DETECTED] The call bash") {
			warned++
		} else if turn == 2 {
			t.Errorf("turn %d: list = %s, want a loop warning", turn, list)
		}
		lessons += strings.Count(list, "[two]")
	}
	if lessons != 1 {
		t.Errorf("lessons = %d, want 1", lessons)
	}
	if warned != 1 {
		t.Errorf("warned = %d, want 1", warned)
	}
}

func TestWebsocketIsRefused(t *testing.T) {
	up := newUpstream(t, nil)
	f := newDefaultFixture(t, up)
	h := http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}, "Openai-Beta": {"responses_websockets=2026-02-06"}}
	for _, path := range []string{"/v1/responses", "/responses", "/p/agent=codex/v1/responses", "/v1/responses?x=1"} {
		res, body := f.send(t, "GET", path, h, "")
		if res.StatusCode != http.StatusUpgradeRequired {
			t.Errorf("%s: got status %d, want 426", path, res.StatusCode)
		}
		checkErrorFormat(t, "/v1/responses", body)
	}
	if up.requestCount() != 0 {
		t.Errorf("the upstream got %d requests, want 0", up.requestCount())
	}
}

// One of two parallel calls fails repeatedly. Providers refuse text between calls and results.
func TestLoopWarningIsInFailedParallelResult(t *testing.T) {
	call := func(id, command string) obj {
		return obj{"id": id, "type": "function", "function": obj{"name": "bash", "arguments": `{"command":` + jsonString(command) + `}`}}
	}
	result := func(id, text string) obj { return obj{"role": "tool", "tool_call_id": id, "content": text} }
	up := newUpstream(t, newModel(t))
	f := newFixture(t, up, "", newBook(t, "one: no rule to make"), injectAll())
	list := []obj{{"role": "user", "content": "go"}}
	for i := range 3 {
		failedID, successfulID := fmt.Sprintf("call_%d_aaaaaaaaaaaaaaaaaaaa", i), fmt.Sprintf("call_%d_bbbbbbbbbbbbbbbbbbbb", i)
		list = append(list, obj{"role": "assistant", "content": nil, "tool_calls": []obj{call(failedID, "make x"), call(successfulID, fmt.Sprint("cat f", i))}},
			result(failedID, "make: *** No rule to make target 'x'.  Stop.\nExit code 2"), result(successfulID, fmt.Sprint("line ", i)))
		body, _ := json.Marshal(obj{"messages": list, "tools": []obj{{"type": "function", "function": obj{"name": "bash"}}}})
		f.chat(t, http.Header{"Precept-Session": {"parallel"}}, string(body))
	}
	var got struct {
		Messages []struct {
			Content    string
			ToolCallID string `json:"tool_call_id"`
		}
	}
	if err := json.Unmarshal(up.lastRequest(t).body, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Messages) != len(list) {
		t.Fatalf("the upstream got %d messages, want %d", len(got.Messages), len(list))
	}
	for _, m := range got.Messages {
		warned, advised := strings.HasPrefix(m.Content, "[LOOP DETECTED] The call bash "), strings.Contains(m.Content, "[one]")
		if warned != (m.ToolCallID == "call_1_aaaaaaaaaaaaaaaaaaaa") {
			t.Errorf("result(%q): warned = %v, want %v", m.ToolCallID, warned, (m.ToolCallID == "call_1_aaaaaaaaaaaaaaaaaaaa"))
		}
		if advised != (m.ToolCallID == "call_0_aaaaaaaaaaaaaaaaaaaa") {
			t.Errorf("result(%q): advised = %v, want %v", m.ToolCallID, advised, (m.ToolCallID == "call_0_aaaaaaaaaaaaaaaaaaaa"))
		}
	}
}

// For newer models, Codex sends the tools in an item of the input list. A request without tools is a side request
// (agent housekeeping such as a title), and gets no lesson.
func TestToolsInInputListGetLesson(t *testing.T) {
	up := newUpstream(t, newModel(t))
	f := newFixture(t, up, "", newBook(t, "one: alpha"), injectAll())
	h := http.Header{"User-Agent": {"codex_exec/0.169.0"}, "Session-Id": {"codex-1"}}
	list := `{"type":"additional_tools","role":"developer","tools":[{"type":"custom","name":"exec"},{"type":"function","name":"wait","parameters":{}}]},` +
		`{"type":"message","role":"user","content":[{"type":"input_text","text":"do alpha"}]}`
	for turn := range 3 {
		res, body := f.send(t, "POST", "/v1/responses", h, `{"model":"m","instructions":"You are a coding agent.","input":[`+list+`],"tool_choice":"auto","store":false}`)
		got := string(up.lastRequest(t).body)
		if res.StatusCode != 200 {
			t.Fatalf("turn %d: status = %d, want 200, body %s", turn, res.StatusCode, body)
		}
		if strings.Count(got, "[one]") != 1 {
			t.Fatalf(`turn %d: count of "[one]" = %d, want 1`, turn, strings.Count(got, "[one]"))
		}
		if !strings.Contains(got, `"tools":[{"type":"custom","name":"exec"}`) {
			t.Fatalf(`turn %d = %q, want substring "\"tools\":[{\"type\":\"custom\",\"name\":\"exec\"}"`, turn, got)
		}
		list += fmt.Sprintf(`,{"type":"custom_tool_call","call_id":"call_t%d","name":"exec","input":"ls"},{"type":"custom_tool_call_output","call_id":"call_t%d","output":"a b"}`, turn, turn)
	}
	res, _ := f.send(t, "POST", "/v1/responses", h, `{"model":"m","input":[{"type":"message","role":"user","content":"a title for: do alpha"}]}`)
	if got := string(up.lastRequest(t).body); res.StatusCode != 200 {
		t.Errorf("request without tools: status = %d, want 200", res.StatusCode)
	} else if strings.Contains(got, "[one]") {
		t.Errorf(`request without tools = %q, want no "[one]"`, got)
	}
}
