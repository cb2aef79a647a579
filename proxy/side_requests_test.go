package proxy_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// The side requests (agent housekeeping) in this file quote this conversation.
const (
	quotedTask   = "Please fix the failing parser test."
	quotedResult = "--- FAIL: TestParse (0.00s) parse_test.go:12"
	quotedAnswer = "The parser test passes now: a comma was missing, and \"go test\" is green."
)

// sideRequests returns side requests that precept can recognize only by the quotation.
func sideRequests() map[string][]obj {
	turns := []obj{{"role": "user", "content": quotedTask}, {"role": "assistant", "content": quotedAnswer}}
	dumped, _ := json.Marshal(turns)
	lines := "user: " + quotedTask + "\nassistant: " + quotedAnswer + "\n"
	buffer := "Human: " + quotedTask + "\nAI: \nTool: " + quotedResult + "\nAI: " + quotedAnswer
	return map[string][]obj{
		"mem0 2 (additive extraction)": {
			{"role": "system", "content": "# ROLE\n\nYou are a Memory Extractor, a precise, evidence-bound processor."},
			{"role": "user", "content": "## Summary\n\n\n## Last k Messages\n\n\n## Existing Memories\n[]\n\n## New Messages\n" + string(dumped) + "\n\n# Output:"},
		},
		"mem0 1 (fact retrieval)": {
			{"role": "system", "content": "You are a Personal Information Organizer, specialized in accurately storing facts."},
			{"role": "user", "content": "Input:\n" + lines},
		},
		"langchain, deepagents (one message)": {
			{"role": "user", "content": "<role>\nContext Extraction Helper\n</role>\n\n<messages>\nMessages:\n" + buffer + "\n</messages>"},
		},
		"langmem (conversation in tags)": {
			{"role": "system", "content": "You are a long-term store manager."},
			{"role": "user", "content": "<conversation>\n" + buffer + "\n</conversation>\n\nEnrich, prune, and organize."},
		},
		"judge of the answer": {
			{"role": "user", "content": "You are an expert data labeler.\n\n<input>\n" + quotedTask + "\n</input>\n\n<output>\n" + quotedAnswer + "\n</output>"},
		},
		"task and tool result, no answer yet": {
			{"role": "system", "content": "You keep what matters."},
			{"role": "user", "content": "Task: " + quotedTask + "\nObservation: " + quotedResult},
		},
	}
}

// sendConversation sends two turns, and returns the first turn's session name. If the conversation has tools, the
// second turn must continue the first turn's session.
func sendConversation(t *testing.T, f *fixture, header http.Header, tools bool) (name string) {
	t.Helper()
	list := []obj{{"role": "system", "content": "You build things."}, {"role": "user", "content": quotedTask}}
	sendList := func() string {
		body := obj{"messages": list}
		if tools {
			body["tools"] = []obj{{"type": "function", "function": obj{"name": "bash"}}}
		}
		b, _ := json.Marshal(body)
		res, _ := f.send(t, "POST", chatPath, header, string(b))
		if got := string(f.up.lastRequest(t).body); strings.Count(got, "[one]") != 1 {
			t.Fatalf("quoted conversation: the upstream got %s (Precept-Skip %q), want [one] exactly once", got, res.Header.Get("Precept-Skip"))
		}
		return res.Header.Get("Precept-Session")
	}
	first := sendList()
	list = append(list, obj{"role": "assistant", "content": "", "tool_calls": []obj{{"id": "call_7d3fe0a1b2c4", "type": "function", "function": obj{"name": "bash", "arguments": `{"command":"go test"}`}}}},
		obj{"role": "tool", "tool_call_id": "call_7d3fe0a1b2c4", "content": quotedResult})
	if second := sendList(); tools && second != first {
		t.Fatalf("quoted conversation, second turn: session = %s, want %s", second, first)
	}
	return first
}

// newAnsweringUpstream returns an upstream that replies to the task with a tool call, and to all other requests with
// text.
func newAnsweringUpstream(t *testing.T) *upstream {
	t.Helper()
	var n atomic.Int64
	up := newUpstream(t, nil)
	up.reply = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if body := string(up.lastRequest(t).body); strings.Contains(body, `"role":"tool"`) || !strings.Contains(body, quotedTask) {
			_, _ = fmt.Fprint(w, chatReply(fmt.Sprint("c", n.Add(1)), quotedAnswer))
			return
		}
		_, _ = fmt.Fprintf(w, `{"id":"c%d","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_7d3fe0a1b2c4","type":"function","function":{"name":"bash","arguments":"{\"command\":\"go test\"}"}}]}}]}`, n.Add(1))
	}
	return up
}

func TestFrameworkSideRequestsAreForwardedUnchanged(t *testing.T) {
	for name, messages := range sideRequests() {
		t.Run(name, func(t *testing.T) {
			flags := injectAll()
			flags["debug_headers"] = "true"
			f := newFixture(t, newAnsweringUpstream(t), "", newBook(t, "one: parser test"), flags)
			sendConversation(t, f, bearerHeader("k"), true)
			b, _ := json.Marshal(obj{"messages": messages})
			for range 2 { // a framework repeats the request after each turn
				res, _ := f.send(t, "POST", chatPath, bearerHeader("k"), string(b))
				if got := string(f.up.lastRequest(t).body); got != string(b) {
					t.Errorf("body = %q, want %q", got, string(b))
				} else if res.Header.Get("Precept-Skip") != "side:quotes" {
					t.Errorf(`Precept-Skip = %q, want "side:quotes"`, res.Header.Get("Precept-Skip"))
				}
			}
			if n := f.counter("side", "quotes"); n != 2 {
				t.Errorf("side_requests_total{reason=quotes} = %v, want 2", n)
			}
			if n := f.counter("sessions", "new"); n != 1 {
				t.Errorf("sessions_total = %v, want 1 for the quoted conversation", n)
			}
		})
	}
}

// In a side request, a framework requires JSON, or a tool call that stores facts. A second side request can quote only
// the reply to the first side request.
func TestStructuredSideRequestsAreForwardedUnchanged(t *testing.T) {
	buffer := "==== Human Message ====\n\n" + quotedTask + "\n\n==== Tool Message ====\n\n" + quotedResult + "\n\n===== Ai Message =====\n\n" + quotedAnswer
	user := func(text string) []obj { return []obj{{"role": "user", "content": text}} }
	memory := []obj{{"type": "function", "function": obj{"name": "Memory"}}}
	jsonObject := obj{"type": "json_object"}
	fact := "A comma was missing in the parser test of this project"
	for name, requests := range map[string][]obj{
		"langmem, memory manager":     {{"messages": user("Keep what matters.\n\n<session_1>\n" + buffer + "\n</session_1>"), "tools": memory}},
		"langmem, summary":            {{"messages": user("Call the tool.\n" + buffer + "\n\nThink of the parser test first, then tell."), "tools": memory, "tool_choice": "required"}},
		"judge of the answer, JSON":   {{"messages": user(quotedAnswer), "response_format": obj{"type": "json_schema", "json_schema": obj{"name": "verdict"}}}},
		"guard of the question, JSON": {{"messages": user("Is this allowed? " + quotedTask), "response_format": jsonObject}},
		"mem0 1, two requests": {
			{"messages": user("Input:\nuser: " + quotedTask + "\nassistant: " + quotedAnswer), "response_format": jsonObject},
			{"messages": user("Update the memory on the parser test with:\n```\n['" + fact + "']\n```"), "response_format": jsonObject},
		},
		"prompt optimizer, two requests": {
			{"messages": user("Review:\n" + buffer), "tools": memory},
			{"messages": user("Rewrite the prompt of the parser test for these reasons:\n" + fact), "tools": memory, "tool_choice": obj{"type": "function", "function": obj{"name": "Memory"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			flags := injectAll()
			flags["debug_headers"] = "true"
			up := newAnsweringUpstream(t)
			f := newFixture(t, up, "", newBook(t, "one: parser test"), flags)
			sendConversation(t, f, bearerHeader("k"), true)
			up.reply = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = fmt.Fprint(w, chatReply("c9", `{\"facts\":[\"`+fact+`\"]}`))
			}
			for i, request := range requests {
				b, _ := json.Marshal(request)
				res, _ := f.send(t, "POST", chatPath, bearerHeader("k"), string(b))
				if got := string(f.up.lastRequest(t).body); got != string(b) {
					t.Errorf("side request %d: body = %q, want %q", i, got, string(b))
				} else if res.Header.Get("Precept-Skip") != "side:quotes" {
					t.Errorf(`side request %d: Precept-Skip = %q, want "side:quotes"`, i, res.Header.Get("Precept-Skip"))
				}
			}
		})
	}
}

// The quoted conversation has no tools.
func TestSideRequestAboutPlainChatIsRecognized(t *testing.T) {
	flags := injectAll()
	flags["debug_headers"] = "true"
	f := newFixture(t, newAnsweringUpstream(t), "", newBook(t, "one: parser test"), flags)
	sendConversation(t, f, bearerHeader("k"), false)
	b, _ := json.Marshal(obj{"messages": []obj{{"role": "user", "content": "Extract facts.\nuser: " + quotedTask + "\nassistant: " + quotedAnswer + "\nFacts:"}}})
	res, _ := f.send(t, "POST", chatPath, bearerHeader("k"), string(b))
	if got := string(f.up.lastRequest(t).body); got != string(b) {
		t.Errorf("body = %q, want %q", got, string(b))
	} else if res.Header.Get("Precept-Skip") != "side:quotes" {
		t.Errorf(`Precept-Skip = %q, want "side:quotes"`, res.Header.Get("Precept-Skip"))
	}
}

// A framework asks for a summary in a side request, and then replaces the history with the summary.
func TestSessionContinuesFromSideRequestSummary(t *testing.T) {
	up := newAnsweringUpstream(t)
	f := newFixture(t, up, "", newBook(t, "one: parser test"), injectAll())
	first := sendConversation(t, f, bearerHeader("k"), true)
	sessionFor := func(body obj) string {
		b, _ := json.Marshal(body)
		res, _ := f.send(t, "POST", chatPath, bearerHeader("k"), string(b))
		return res.Header.Get("Precept-Session")
	}
	const summary = "The failing parser test of the project is to be fixed, and a comma seems to be missing somewhere in it."
	tools := []obj{{"type": "function", "function": obj{"name": "bash"}}}
	summarized := func(summary string) obj {
		return obj{"tools": tools, "messages": []obj{{"role": "system", "content": "You build things."}, {"role": "user", "content": "This is a summary of what came before:\n\n" + summary}, {"role": "user", "content": "And now fix the other one."}}}
	}
	up.reply = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, chatReply("c7", summary))
	}
	sessionFor(obj{"messages": sideRequests()["langchain, deepagents (one message)"]})
	if got := sessionFor(summarized("Something else was done, which nobody here has ever summarised in words like these, in one line.")); got == first {
		t.Errorf("different summary: session = %s, want a new one", got)
	}
	if got := sessionFor(summarized(summary)); got != first {
		t.Errorf("session summary = %s, want %s", got, first)
	}
}

// After a restart, precept recognizes a quoted conversation only once the agent has sent the conversation's next turn.
func TestSideRequestIsRecognizedAfterRestart(t *testing.T) {
	flags := injectAll()
	flags["debug_headers"] = "true"
	up, dir, book := newAnsweringUpstream(t), t.TempDir(), newBook(t, "one: parser test")
	f := newFixture(t, up, dir, book, flags)
	sendConversation(t, f, bearerHeader("k"), true)
	f.stop()
	f = newFixture(t, up, dir, book, flags)
	b, _ := json.Marshal(obj{"tools": []obj{{"type": "function", "function": obj{"name": "bash"}}}, "messages": []obj{
		{"role": "system", "content": "You build things."},
		{"role": "user", "content": quotedTask},
		{"role": "assistant", "content": "", "tool_calls": []obj{{"id": "call_7d3fe0a1b2c4", "type": "function", "function": obj{"name": "bash", "arguments": `{"command":"go test"}`}}}},
		{"role": "tool", "tool_call_id": "call_7d3fe0a1b2c4", "content": quotedResult},
		{"role": "assistant", "content": quotedAnswer},
		{"role": "user", "content": "Thank you, and what now?"},
	}})
	f.send(t, "POST", chatPath, bearerHeader("k"), string(b))
	side, _ := json.Marshal(obj{"messages": sideRequests()["mem0 1 (fact retrieval)"]})
	if res, _ := f.send(t, "POST", chatPath, bearerHeader("k"), string(side)); res.Header.Get("Precept-Skip") != "side:quotes" {
		t.Errorf("side request after a restart: Precept-Skip = %q, want side:quotes", res.Header.Get("Precept-Skip"))
	}
}

func TestQuotingAgentRequestsGetLessons(t *testing.T) {
	judge := sideRequests()["judge of the answer"]
	user := func(text string) []obj { return []obj{{"role": "user", "content": text}} }
	system := func(text string, list []obj) []obj {
		return append([]obj{{"role": "system", "content": text}}, list...)
	}
	for name, tc := range map[string]struct {
		chat   bool // the quoted conversation has no tools
		key    string
		header http.Header
		list   []obj // messages
		tools  bool  // the request has tools
	}{
		"different credential":       {key: "other", list: judge},
		"same system prompt":         {key: "k", list: system("You build things.", judge)},
		"quotes only the task":       {key: "k", list: system("You plan.", user("Plan this: "+quotedTask))},
		"quotes only the answer":     {key: "k", list: system("You write.", user("Use this for the parser test: "+quotedAnswer))},
		"tools and separate task":    {key: "k", list: user("Earlier:\nuser: " + quotedTask + "\nassistant: " + quotedAnswer + "\n\nNow see to it that the parser test is documented, in the style of the other tests of this package."), tools: true},
		"tools and a short task":     {key: "k", list: user("The user asked: " + quotedTask + "\nThe worker said: " + quotedAnswer + "\nPlease check it by a run of your own."), tools: true},
		"quoted chat without tools":  {chat: true, key: "k", list: user("Asked for this: " + quotedTask + " we have this answer to work on. " + quotedAnswer)},
		"quotes the task twice":      {key: "k", list: user("Plan it. I said: " + quotedTask + " Mind: " + quotedTask)},
		"separate session name":      {key: "k", list: judge, header: http.Header{"Precept-Session": {"a judge that learns"}}},
		"different application user": {key: "k", list: system("You help Ann.", user("My parser test fails, what now?"))},
	} {
		t.Run(name, func(t *testing.T) {
			flags := injectAll()
			flags["debug_headers"] = "true"
			f := newFixture(t, newAnsweringUpstream(t), "", newBook(t, "one: parser test"), flags)
			sendConversation(t, f, bearerHeader("k"), !tc.chat)
			body := obj{"messages": tc.list}
			if tc.tools {
				body["tools"] = []obj{{"type": "function", "function": obj{"name": "grade"}}}
			}
			b, _ := json.Marshal(body)
			header := bearerHeader(tc.key)
			maps.Copy(header, tc.header)
			res, _ := f.send(t, "POST", chatPath, header, string(b))
			if got := string(f.up.lastRequest(t).body); strings.Count(got, "[one]") != 1 {
				t.Errorf("the upstream got %s (Precept-Skip %q), want lesson one exactly once", got, res.Header.Get("Precept-Skip"))
			}
		})
	}
}
