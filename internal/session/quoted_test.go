package session_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"precept/internal/session"
	"precept/internal/wire"
)

var testScope = session.Scope{Tenant: "default", Credential: 1} //nolint:gochecknoglobals // a test constant

func agentRequest(t *testing.T, system string, tools []string, messages ...string) *wire.Request {
	t.Helper()
	list := []map[string]any{}
	for _, name := range tools {
		list = append(list, map[string]any{"type": "function", "function": map[string]any{"name": name, "parameters": map[string]any{}}})
	}
	toolsJSON, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	body := `{"model":"m","messages":[{"role":"system","content":"` + system + `"}`
	for _, m := range messages {
		body += "," + m
	}
	if body += "]"; len(tools) > 0 {
		body += `,"tools":` + string(toolsJSON)
	}
	req, err := wire.Parse(wire.Chat, []byte(body+"}"))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func sessionID(name string) session.ID {
	return session.NamedID("default", session.NamespaceSession, name)
}

// Caller finds the conversation with a tool call that contains the sub-agent's task. If two conversations have such a
// call, sure is false.
func TestCallerIsFoundBySubAgentTask(t *testing.T) {
	const task = "Look up all invoices of last March and add them up"
	callReply := wire.Reply{Complete: true, Calls: []wire.Call{{ID: "c1", Name: "research", Args: `{"task":"` + task + `","depth":3}`}}}
	leaderRequest := func(text string) *wire.Request { return agentRequest(t, "You lead.", []string{"research"}, text) }
	worker := agentRequest(t, "You research.", []string{"search"}, userMessage(task))
	addTurn := func(q *session.Quotes, name string, rep wire.Reply) {
		q.AddTurn(testScope, sessionID(name), leaderRequest(userMessage("Close the books of "+name+", please")), testStart)
		q.AddReply(testScope, sessionID(name), &rep)
	}
	for name, tc := range map[string]struct {
		before   func(q *session.Quotes)
		req      *wire.Request
		at       time.Time
		scope    session.Scope
		ok, sure bool
	}{
		"one call with the task":             {func(q *session.Quotes) { addTurn(q, "one", callReply) }, worker, testStart, testScope, true, true},
		"one call with the task, in a run":   {func(q *session.Quotes) { addTurn(q, "one", callReply) }, worker, testStart, session.Scope{Tenant: "default", Credential: 1, Run: "r"}, true, true},
		"the same call in two conversations": {func(q *session.Quotes) { addTurn(q, "one", callReply); addTurn(q, "two", callReply) }, worker, testStart, testScope, true, false},
		"a reply after the call":             {func(q *session.Quotes) { addTurn(q, "one", callReply); addTurn(q, "one", wire.Reply{Text: "done"}) }, worker, testStart, testScope, false, false},
		"too long ago":                       {func(q *session.Quotes) { addTurn(q, "one", callReply) }, worker, testStart.Add(30 * time.Minute), testScope, false, false},
		"another credential":                 {func(q *session.Quotes) { addTurn(q, "one", callReply) }, worker, testStart, session.Scope{Tenant: "default", Credential: 2}, false, false},
		"no call":                            {func(q *session.Quotes) { addTurn(q, "one", wire.Reply{Text: task}) }, worker, testStart, testScope, false, false},
		"a request with a reply":             {func(q *session.Quotes) { addTurn(q, "one", callReply) }, agentRequest(t, "You research.", nil, userMessage(task), assistantMessage("ok"), userMessage("on")), testStart, testScope, false, false},
		"a 7-byte first message":             {func(q *session.Quotes) { addTurn(q, "one", callReply) }, agentRequest(t, "You research.", nil, userMessage("Look up")), testStart, testScope, false, false},
		"a request of the caller's own agent": {func(q *session.Quotes) {
			q.AddTurn(testScope, sessionID("one"), leaderRequest(userMessage(task)), testStart)
			q.AddReply(testScope, sessionID("one"), &callReply)
		}, leaderRequest(userMessage(task)), testStart, testScope, false, false},
	} {
		q := session.NewQuotes()
		tc.before(q)
		id, ok, sure := q.Caller(tc.scope, tc.req, tc.at)
		if ok != tc.ok || sure != tc.sure || sure && id != sessionID("one") {
			t.Errorf("%s: Caller = %v, ok = %v, sure = %v, want ok = %v, sure = %v and, if sure, %v", name, id, ok, sure, tc.ok, tc.sure, sessionID("one"))
		}
	}
}

// A request with the conversation's system prompt, or with one of the conversation's tools, quotes no session.
func TestQuotedSessionRequiresQuestionAndAnswer(t *testing.T) {
	const questionText, answerText = "How do I rotate the signing keys", "Run the rotation script on the bastion"
	q := session.NewQuotes()
	q.AddTurn(testScope, sessionID("one"), agentRequest(t, "You help.", []string{"sh"}, userMessage(questionText)), testStart)
	q.AddReply(testScope, sessionID("one"), &wire.Reply{Text: answerText, Complete: true})
	q.AddTurn(testScope, sessionID("chat"), agentRequest(t, "You chat.", nil, userMessage("Which colour is the sky at noon")), testStart)
	q.AddReply(testScope, sessionID("chat"), &wire.Reply{Text: "It is blue at noon, mostly", Complete: true})
	both := questionText + " / " + answerText
	for name, tc := range map[string]struct {
		req  *wire.Request
		at   time.Time
		want string
	}{
		"both in one message":                     {agentRequest(t, "Judge it.", nil, userMessage(both)), testStart, "one"},
		"both in separate messages":               {agentRequest(t, "Judge it.", nil, userMessage(questionText), assistantMessage(answerText), userMessage("Was it good?")), testStart, "one"},
		"only the question":                       {agentRequest(t, "Judge it.", nil, userMessage("He said: "+questionText)), testStart, ""},
		"only the answer":                         {agentRequest(t, "Judge it.", nil, userMessage("It said: "+answerText)), testStart, ""},
		"the conversation's system prompt":        {agentRequest(t, "You help.", nil, userMessage(both)), testStart, ""},
		"a conversation tool":                     {agentRequest(t, "Judge it.", []string{"sh", "ls"}, userMessage(both)), testStart, ""},
		"other tools, no speaker labels":          {agentRequest(t, "Judge it.", []string{"save"}, userMessage(both)), testStart, ""},
		"other tools, speaker labels":             {agentRequest(t, "Keep it.", []string{"save"}, userMessage("user: "+questionText+" assistant: "+answerText)), testStart, "one"},
		"a dialogue, 80 bytes and an instruction": {agentRequest(t, "Keep it.", []string{"save"}, userMessage("user: "+questionText+" assistant: "+answerText+" "+fmt.Sprintf("%080d", 0)+" now do as it says")), testStart, ""},
		"a dialogue, then a short instruction":    {agentRequest(t, "Keep it.", []string{"save"}, userMessage("user: "+questionText+" assistant: "+answerText+"......... now do as it says")), testStart, ""},
		"too long ago":                            {agentRequest(t, "Judge it.", nil, userMessage(both)), testStart.Add(30 * time.Minute), ""},
		"a chat with speaker labels":              {agentRequest(t, "Judge it.", nil, userMessage("user: Which colour is the sky at noon assistant: It is blue at noon, mostly")), testStart, "chat"},
		"a chat without speaker labels":           {agentRequest(t, "Judge it.", nil, userMessage("Which colour is the sky at noon It is blue at noon, mostly")), testStart, ""},
	} {
		id, ok := q.QuotedSession(testScope, tc.req, tc.at)
		if ok != (tc.want != "") || ok && id != sessionID(tc.want) {
			t.Errorf("%s: QuotedSession = %v, %v, want conversation %q", name, id, ok, tc.want)
		}
	}
}

func TestQuotedSessionFindsReplyToSideRequest(t *testing.T) {
	const fact = "The user rotates the signing keys by hand"
	q := session.NewQuotes()
	q.AddTurn(testScope, sessionID("one"), agentRequest(t, "You help.", []string{"sh"}, userMessage("How do I rotate the keys")), testStart)
	q.AddSideReply(testScope, sessionID("one"), &wire.Reply{Complete: true, Text: fact}, testStart)
	request := jsonRequest(t, userMessage("Sort this: "+fact))
	if _, ok := q.QuotedSession(testScope, request, testStart.Add(time.Minute)); !ok {
		t.Error("quoted after one minute: QuotedSession = false, want true")
	}
	if _, ok := q.QuotedSession(testScope, request, testStart.Add(2*time.Minute)); ok {
		t.Error("quoted after two minutes: QuotedSession = true, want false")
	}
	if _, ok := q.QuotedSession(testScope, agentRequest(t, "x", nil, userMessage("Sort this: "+fact)), testStart); ok {
		t.Error("quoted in a request that does not require JSON: QuotedSession = true, want false")
	}
}
