package session_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"precept/internal/session"
	"precept/internal/wire"
)

// jsonRequest returns a request without tools that requires JSON.
func jsonRequest(t *testing.T, messages ...string) *wire.Request {
	t.Helper()
	return constrainedRequest(t, `"response_format":{"type":"json_object"}`, messages)
}

// toolCallRequest returns a request that requires a tool call.
func toolCallRequest(t *testing.T, messages ...string) *wire.Request {
	t.Helper()
	return constrainedRequest(t, `"tools":[{"type":"function","function":{"name":"save"}}],"tool_choice":"required"`, messages)
}

func constrainedRequest(t *testing.T, constraint string, messages []string) *wire.Request {
	t.Helper()
	req, err := wire.Parse(wire.Chat, []byte(`{"model":"m",`+constraint+`,"messages":[`+strings.Join(messages, ",")+`]}`))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// QuotedSession finds the session that a side request quotes. If the side request requires JSON, one quotation is
// enough. If the side request must call a tool, the request must quote a question and an answer with speaker labels.
func TestQuotedSessionFindsQuotesFromEachTurn(t *testing.T) {
	const first, newest = "Please rotate all signing keys", "Now restart the payment service"
	const listed, answerText = "seventeen keys were found in the vault", "I have rotated every one of them"
	history := []string{userMessage(first), callMessage(randomCallID(1)), resultMessage(randomCallID(1), listed)}
	dialogue := userMessage("user: " + first + " assistant: " + answerText + " " + strings.Repeat(". ", 60) + "Save what is worth keeping of it.")
	for name, tc := range map[string]struct {
		tools []string
		req   *wire.Request
		want  bool
	}{
		"JSON required, the first message":              {[]string{"sh"}, jsonRequest(t, userMessage("Judge: "+first)), true},
		"JSON required, the newest message":             {[]string{"sh"}, jsonRequest(t, userMessage("Judge: "+newest)), true},
		"JSON required, a reply":                        {[]string{"sh"}, jsonRequest(t, userMessage("Judge: "+answerText)), true},
		"JSON required, a tool result":                  {[]string{"sh"}, jsonRequest(t, userMessage("Judge: "+listed)), true},
		"JSON required, no quotation":                   {[]string{"sh"}, jsonRequest(t, userMessage("Judge: everything that was done today")), false},
		"JSON required, the first 20 bytes":             {[]string{"sh"}, jsonRequest(t, userMessage("Judge: "+first[:20])), false},
		"JSON required, a chat's first message":         {nil, jsonRequest(t, userMessage("Judge: "+first)), false},
		"a dialogue in a request that must call a tool": {[]string{"sh"}, toolCallRequest(t, dialogue), true},
		"a dialogue in a request that may call a tool":  {[]string{"sh"}, agentRequest(t, "Keep it.", []string{"save"}, dialogue), false},
		"the first message after 128 KiB":               {[]string{"sh"}, jsonRequest(t, userMessage(strings.Repeat("x", 128<<10)), userMessage("Judge: "+first)), false},
		"the first message after 127 KiB":               {[]string{"sh"}, jsonRequest(t, userMessage(strings.Repeat("x", 127<<10)), userMessage("Judge: "+first)), true},
		"a tool from the first turn":                    {[]string{"sh"}, agentRequest(t, "Judge.", []string{"old"}, userMessage("user: "+first+" assistant: "+answerText)), true},
		"a tool from the newest turn":                   {[]string{"sh"}, agentRequest(t, "Judge.", []string{"sh"}, userMessage("user: "+first+" assistant: "+answerText)), false},
		"the question twice, without an answer":         {[]string{"sh"}, agentRequest(t, "Judge.", nil, userMessage(first+" "+first)), false},
	} {
		q := session.NewQuotes()
		firstTools := tc.tools
		if firstTools != nil {
			firstTools = []string{"old"}
		}
		q.AddTurn(testScope, sessionID("one"), agentRequest(t, "You help.", firstTools, userMessage(first)), testStart)
		q.AddReply(testScope, sessionID("one"), &wire.Reply{Complete: true, Calls: []wire.Call{{ID: randomCallID(1), Name: "sh", Args: "{}"}}})
		q.AddTurn(testScope, sessionID("one"), agentRequest(t, "You help.", tc.tools, history...), testStart)
		q.AddReply(testScope, sessionID("one"), &wire.Reply{Complete: true, Text: answerText})
		more := append(append([]string{}, history...), assistantMessage(answerText), userMessage(newest))
		q.AddTurn(testScope, sessionID("one"), agentRequest(t, "You help.", tc.tools, more...), testStart)
		if _, ok := q.QuotedSession(session.Scope{Tenant: "default", Credential: 1, Run: "any"}, tc.req, testStart.Add(time.Minute)); ok != tc.want {
			t.Errorf("%s: got QuotedSession = %v, want %v", name, ok, tc.want)
		}
	}
}

func TestChatAndAgentQuotesAreSeparate(t *testing.T) {
	addExchange := func(q *session.Quotes, kind string, n int, tools []string) {
		id := sessionID(fmt.Sprint(kind, n))
		q.AddTurn(testScope, id, agentRequest(t, "You help.", tools, userMessage(fmt.Sprintf("this is the question of %s %04d", kind, n))), testStart)
		q.AddReply(testScope, id, &wire.Reply{Complete: true, Text: fmt.Sprintf("this is the answer to %s %04d", kind, n)})
	}
	isQuoted := func(q *session.Quotes, kind string, n int) bool {
		text := fmt.Sprintf("user: this is the question of %s %04d assistant: this is the answer to %s %04d", kind, n, kind, n)
		_, ok := q.QuotedSession(testScope, agentRequest(t, "Judge.", nil, userMessage(text)), testStart)
		return ok
	}
	for kind, other := range map[string]string{"agent": "chat", "chat": "agent"} {
		tools := map[string][]string{"agent": {"sh"}}
		q := session.NewQuotes()
		addExchange(q, kind, 0, tools[kind])
		for n := range 200 {
			addExchange(q, other, n, tools[other])
		}
		if !isQuoted(q, kind, 0) || !isQuoted(q, other, 199) || isQuoted(q, other, 0) {
			t.Errorf("after one %s conversation and 200 %s conversations: QuotedSession = %v for the single one, %v for the newest and %v for the oldest of the 200, want true, true, false", kind, other, isQuoted(q, kind, 0), isQuoted(q, other, 199), isQuoted(q, other, 0))
		}
	}
}

func TestQuotedSessionFindsSideReplyArguments(t *testing.T) {
	const fact = "The user rotates the signing keys by hand"
	q := session.NewQuotes()
	q.AddTurn(testScope, sessionID("one"), agentRequest(t, "You help.", []string{"sh"}, userMessage("How do I rotate the keys")), testStart)
	q.AddSideReply(testScope, sessionID("one"), &wire.Reply{Complete: true, Calls: []wire.Call{{Name: "save", Args: `{"fact":"` + fact + `"}`}}}, testStart)
	if _, ok := q.QuotedSession(testScope, toolCallRequest(t, userMessage("Sort this: "+fact)), testStart); !ok {
		t.Error("call arguments quoted from a side reply: QuotedSession = false, want true")
	}
}

// After a handoff, the leader and the worker can both continue the session. Each agent has its own system prompt and
// tools. A request from a third agent is a side request.
func TestAgentBeforeHandoffCanContinueSession(t *testing.T) {
	r := newRecord("s")
	turn := func(req *wire.Request, reply wire.Reply) {
		r.Begin(req, testStart)
		r.SetLastTurn(req)
		reply.Complete = true
		r.AddReply(&reply)
	}
	history := []string{userMessage("go"), callMessage(randomID), resultMessage(randomID, "ok")}
	turn(agentRequest(t, "You lead.", []string{"hand_over", "plan"}, userMessage("go")), callReply(randomID))
	turn(agentRequest(t, "You work.", []string{"sh"}, history...), wire.Reply{Text: "done"})
	longer := append(append([]string{}, history...), assistantMessage("done"), userMessage("and now"))
	for name, tc := range map[string]struct {
		req  *wire.Request
		side bool
	}{
		"the worker":                         {agentRequest(t, "You work.", []string{"sh"}, longer...), false},
		"the leader":                         {agentRequest(t, "You lead.", []string{"hand_over"}, longer...), false},
		"a third agent":                      {agentRequest(t, "You judge.", []string{"hand_over"}, longer...), true},
		"the leader in another conversation": {agentRequest(t, "You lead.", []string{"hand_over"}, userMessage("another"), assistantMessage("ok"), userMessage("x")), true},
		"the leader without tools":           {agentRequest(t, "You lead.", nil, longer...), true},
	} {
		if reason, side := r.SideReason(tc.req, session.Claim{}, session.SideDetector{}); side != tc.side {
			t.Errorf("%s: got side = %v (%s), want %v", name, side, reason, tc.side)
		}
	}
	turn(agentRequest(t, "You lead.", []string{"hand_over"}, longer...), wire.Reply{Text: "thanks"})
	repeated := append(append([]string{}, longer...), assistantMessage("thanks"), userMessage("more"))
	if reason, side := r.SideReason(agentRequest(t, "You work.", []string{"sh"}, repeated...), session.Claim{}, session.SideDetector{}); side {
		t.Errorf("worker's next turn: got side request %s, want a main request", reason)
	}
}
