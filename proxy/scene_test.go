package proxy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
)

// scene sends requests through a proxy, and records the last request that the upstream received.
type scene struct {
	*fixture
	t       *testing.T
	path    string
	reply   string            // model's next response
	session string            // session name in the last response
	sent    []json.RawMessage // messages in the last request that the upstream received
}

func newScene(t *testing.T, lessons []string, extra map[string]string) *scene {
	t.Helper()
	s := &scene{t: t, path: chatPath}
	up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, s.reply)
	})
	flags := injectAll()
	maps.Copy(flags, extra)
	s.fixture = newFixture(t, up, "", newBook(t, lessons...), flags)
	return s
}

// ask sends a chat request with the messages in list and other body members, and returns the messages that the upstream
// receives.
func (s *scene) ask(reply string, list []obj, members ...obj) []string {
	s.t.Helper()
	s.reply = reply
	body := obj{"model": "m", "messages": list}
	for _, m := range members {
		maps.Copy(body, m)
	}
	text, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	res, got := s.send(s.t, "POST", s.path, http.Header{"Content-Type": {"application/json"}}, string(text))
	if res.StatusCode != http.StatusOK {
		s.t.Fatalf("got status %d, body %s, want status 200", res.StatusCode, got)
	}
	s.session = res.Header.Get("Precept-Session")
	var upstream struct{ Messages []json.RawMessage }
	if err := json.Unmarshal(s.up.lastRequest(s.t).body, &upstream); err != nil {
		s.t.Fatal(err)
	}
	s.sent = upstream.Messages
	out := make([]string, 0, len(upstream.Messages))
	for _, m := range upstream.Messages {
		out = append(out, string(m))
	}
	return out
}

// callReply returns a reply with tool calls, given as pairs of an id and arguments.
func callReply(idsAndArgs ...string) string {
	var list []obj
	for i := 0; i+1 < len(idsAndArgs); i += 2 {
		list = append(list, obj{"id": idsAndArgs[i], "type": "function", "index": i / 2, "function": obj{"name": "f", "arguments": idsAndArgs[i+1]}})
	}
	text, _ := json.Marshal(obj{"id": "chatcmpl-c", "object": "chat.completion", "model": "m", "choices": []obj{{
		"index": 0, "finish_reason": "tool_calls", "message": obj{"role": "assistant", "content": nil, "tool_calls": list},
	}}})
	return string(text)
}

func callMessage(id, args string) obj {
	return obj{"role": "assistant", "content": nil, "tool_calls": []obj{{"id": id, "type": "function", "function": obj{"name": "f", "arguments": args}}}}
}

func newMessage(role, text string) obj { return obj{"role": role, "content": text} }

func toolResult(id, text string) obj { return obj{"role": "tool", "tool_call_id": id, "content": text} }

func tools(names ...string) obj {
	var out []obj
	for _, n := range names {
		out = append(out, obj{"type": "function", "function": obj{"name": n}})
	}
	return obj{"tools": out}
}

// checkText checks that exactly the messages with the indices in want contain the text.
func (s *scene) checkText(name string, list []string, text string, want ...int) {
	s.t.Helper()
	var got []int
	for i, m := range list {
		if strings.Contains(m, text) {
			got = append(got, i)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		s.t.Errorf("%s: indices of the messages with %s = %v, want %v; all messages: %s", name, text, got, want, list)
	}
}

func (s *scene) checkPrefix(name string, previous, current []string) {
	s.t.Helper()
	for i, m := range previous {
		if i >= len(current) {
			s.t.Errorf("%s: no message %d, only %d messages", name, i, len(current))
			return
		}
		if current[i] != m {
			s.t.Errorf("%s: message %d = %q, want %q", name, i, current[i], m)
			return
		}
	}
}

// The client's last message is the start of the model's answer. In the next turn, some clients send this start and the
// reply as one message.
func TestPrefilledAnswerKeepsSessionAndBlocks(t *testing.T) {
	for _, merged := range []bool{true, false} {
		t.Run(fmt.Sprint("merged=", merged), func(t *testing.T) {
			s := newScene(t, []string{"one: fix the build", "two: the parser"}, nil)
			first := []obj{newMessage("user", "Please fix the build"), newMessage("assistant", `{"plan": `)}
			firstList := s.ask(chatReply("c1", `"look at the log"}`), first)
			s.checkText("first turn", firstList, "[one]", 0)
			name, answer := s.session, `"look at the log"}`
			if merged {
				answer = `{"plan": ` + answer
			}
			secondList := s.ask(chatReply("c2", `"done"}`), []obj{first[0], newMessage("assistant", answer), newMessage("user", "Now the parser"), newMessage("assistant", `{"plan": `)})
			if s.session != name {
				t.Errorf("second turn: session = %q, want %q", s.session, name)
			}
			s.checkText("second turn", secondList, "[one]", 0)
			s.checkText("second turn", secondList, "[two]", 2)
			s.checkPrefix("second turn", firstList[:1], secondList)
		})
	}
}

// In the first request, a tool call and its result follow the task.
func TestFirstRequestWithHistoryGetsLesson(t *testing.T) {
	s := newScene(t, []string{"one: fix the build", "two: shown before"}, nil)
	list := []obj{newMessage("system", "S"), newMessage("user", "Shown before."), newMessage("assistant", "Yes."), newMessage("user", "Please fix the build"), callMessage("call_4a5b6c7d8e9fa0", `{"n":1}`), toolResult("call_4a5b6c7d8e9fa0", "a file")}
	firstList := s.ask(callReply("call_9a5b6c7d8e9fa1", `{"n":2}`), list, tools("f"))
	s.checkText("first turn", firstList, "[one]", 5)
	s.checkText("first turn", firstList, "[two]")
	name := s.session
	secondList := s.ask(chatReply("c2", "Done."), append(list, callMessage("call_9a5b6c7d8e9fa1", `{"n":2}`), toolResult("call_9a5b6c7d8e9fa1", "two files")), tools("f"))
	s.checkPrefix("second turn", firstList, secondList)
	s.checkText("second turn", secondList, "[one]", 5)
	if s.session != name {
		t.Errorf("second turn: session = %q, want %q", s.session, name)
	}

	// Messages before the last user message can belong to an example, so precept does not match lessons against these
	// messages.
	exampleList := s.ask(chatReply("c3", "Fine."), []obj{newMessage("user", "Please fix the build"), newMessage("assistant", "I did."), newMessage("user", "Which day is it?")})
	s.checkText("request with an example conversation", exampleList, "[one]")
}

// The framework smolagents inserts a plan and another user message after the task.
func TestTaskBeforePlanIsMatched(t *testing.T) {
	s := newScene(t, []string{"one: fix the build"}, nil)
	part := func(role, text string) obj {
		return obj{"role": role, "content": []obj{{"type": "text", "text": text}}}
	}
	plan := "Here are the facts I know and the plan of action that I will follow to solve the task:\n```\n1. Look at the log of the build.\n```"
	list := []obj{part("system", "You are an expert assistant who can solve any task using code blobs."), part("user", "New task:\nPlease fix the build"), part("assistant", plan), part("user", "Now proceed and carry out this plan.")}
	firstList := s.ask(chatReply("c1", "Thought: I look.\n<code>\nprint(1)\n</code>"), list)
	s.checkText("after the plan", firstList, "[one]", 3)
	name := s.session
	secondList := s.ask(chatReply("c2", "ok"), append(list, part("assistant", "Thought: I look.\n<code>\nprint(1)\n</code>"), part("user", "Observation:\nExecution logs:\n1\nLast output from code snippet:\nNone")))
	s.checkPrefix("next step", firstList, secondList)
	if s.session != name {
		t.Errorf("next step: session = %q, want %q", s.session, name)
	}
}

// Only the system prompt contains the task.
func TestMatchSystemSetting(t *testing.T) {
	list := []obj{newMessage("system", "You are a builder. Your task: fix the build of the shop."), newMessage("user", "Begin!")}
	for setting, want := range map[string][]int{"false": nil, "true": {1}, "crew-*": {1}, "other": nil} {
		t.Run(setting, func(t *testing.T) {
			s := newScene(t, []string{"one: fix the build"}, map[string]string{"match.system": setting})
			s.path = "/p/agent=crew-a/v1/chat/completions"
			firstList := s.ask(callReply("call_9a5b6c7d8e9fa1", `{"n":2}`), list, tools("f"))
			s.checkText("first turn", firstList, "[one]", want...)
			secondList := s.ask(chatReply("c2", "Done."), append(list, callMessage("call_9a5b6c7d8e9fa1", `{"n":2}`), toolResult("call_9a5b6c7d8e9fa1", "two files")), tools("f"))
			s.checkPrefix("second turn", firstList, secondList)
		})
	}
	s := newScene(t, []string{"one: fix the build"}, map[string]string{"match.system": "true"})
	firstList := s.ask(chatReply("c1", "I begin to fix the build of the shop, and tell you of each step that I take."), list[:1])
	s.checkText("only a system prompt, first turn", firstList, "[one]", 0)
	secondList := s.ask(chatReply("c2", "Done."), append(list[:1:1], newMessage("assistant", "I begin to fix the build of the shop, and tell you of each step that I take."), newMessage("user", "Go on.")))
	s.checkPrefix("only a system prompt, second turn", firstList, secondList)
}

// Some model servers send tool calls without ids, and some agents then invent an id for each call.
func TestCallsWithoutIDsKeepSession(t *testing.T) {
	for _, agentID := range []string{"", "call_%d_0f1e2d3c4b5a"} {
		t.Run(fmt.Sprintf("agent's ids %q", agentID), func(t *testing.T) {
			s := newScene(t, []string{"one: fix the build", "two: no such module"}, nil)
			list := []obj{newMessage("system", "S"), newMessage("user", "Please fix the build")}
			args := `{"command":"make","comment":"a longer comment of what is done here, in words"}`
			var before []string
			name := ""
			for i := range 5 {
				got := s.ask(callReply("", args), list, tools("f"))
				s.checkPrefix(fmt.Sprint("turn ", i), before, got)
				s.checkText(fmt.Sprint("turn ", i), got, "[one]", 1)
				if before = got; name != "" && s.session != name {
					t.Errorf("turn %d: session = %q, want %q", i, s.session, name)
				}
				name = s.session
				id := agentID
				if id != "" {
					id = fmt.Sprintf(agentID, i)
				}
				list = append(list, callMessage(id, strings.ReplaceAll(args, `":"`, `": "`)), toolResult(id, "Error: no such module: shop\nexit code 1"))
			}
			s.checkText("last turn", before, "[two]", 3)
			s.checkText("last turn", before, "[LOOP DETECTED]", 5, 9) // two more equal results cause the second warning
		})
	}
}

// Some programs insert retrieved documents into the first message of each request. precept then finds the session by
// texts or calls from earlier replies.
func TestRewrittenFirstMessageKeepsSession(t *testing.T) {
	answerText := func(i int) string {
		return fmt.Sprintf("The answer to question number %d is a long text that is written for this conversation alone.", i)
	}
	for _, identity := range []string{"text", "calls"} {
		t.Run(identity, func(t *testing.T) {
			s := newScene(t, []string{"one: fix the build", "two: question 3"}, nil)
			var rest []obj
			name := ""
			for i := range 5 {
				first := newMessage("user", fmt.Sprintf("Documents:\nabout thing number %d\n\nPlease fix the build.", i))
				reply := chatReply("c", answerText(i))
				if identity == "calls" {
					reply = callReply(fmt.Sprintf("call_%02d_0f1e2d3c4b5a69", i), "{}")
				}
				got := s.ask(reply, append([]obj{newMessage("system", "S"), first}, rest...))
				s.checkText(fmt.Sprint("turn ", i), got, "[one]", 1)
				if !strings.HasPrefix(got[1], `{"content":"Lessons from past experience:`) {
					t.Errorf("turn %d: first user message = %s, want it to begin with the block", i, got[1])
				}
				if name != "" && s.session != name {
					t.Errorf("turn %d: session = %q, want %q", i, s.session, name)
				}
				name = s.session
				if identity == "calls" {
					rest = append(rest, callMessage(fmt.Sprintf("call_%02d_0f1e2d3c4b5a69", i), "{}"), toolResult(fmt.Sprintf("call_%02d_0f1e2d3c4b5a69", i), "fine"))
				} else {
					rest = append(rest, newMessage("assistant", answerText(i)), newMessage("user", fmt.Sprint("Then question ", i+1)))
				}
			}
			if identity == "text" {
				s.checkText("turn with question 3", []string{string(s.sent[2*3+1])}, "[two]", 0)
			}
		})
	}
}
