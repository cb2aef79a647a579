package session_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"precept/internal/session"
	"precept/internal/wire"
)

var someone = session.Scope{Tenant: "default", Credential: 1} //nolint:gochecknoglobals // a constant of the tests

// agentRequest returns the request of an agent with a system text and tools.
func agentRequest(t *testing.T, system string, tools []string, messages ...string) *wire.Request {
	t.Helper()
	list := []map[string]any{}
	for _, name := range tools {
		list = append(list, map[string]any{"type": "function", "function": map[string]any{"name": name, "parameters": map[string]any{}}})
	}
	offered, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	body := `{"model":"m","messages":[{"role":"system","content":"` + system + `"}`
	for _, m := range messages {
		body += "," + m
	}
	if body += "]"; len(tools) > 0 {
		body += `,"tools":` + string(offered)
	}
	req, err := wire.Parse(wire.Chat, []byte(body+"}"))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// conversation returns the id of a named session.
func conversation(name string) session.ID { return session.KeyOf("default", session.SpaceName, name) }

// Caller finds the conversation that started a sub-agent: the first words of the sub-agent are in a tool call of its
// caller. The caller is not sure if two conversations have a call with these words.
func TestCallerIsFoundByTheWordsOfItsToolCall(t *testing.T) {
	const task = "Look up all invoices of last March and add them up"
	callReply := wire.Reply{Complete: true, Calls: []wire.Call{{ID: "c1", Name: "research", Args: `{"task":"` + task + `","depth":3}`}}}
	leaderRequest := func(text string) *wire.Request { return agentRequest(t, "You lead.", []string{"research"}, text) }
	worker := agentRequest(t, "You research.", []string{"search"}, userMessage(task))
	play := func(q *session.Quotes, name string, rep wire.Reply) {
		q.AddTurn(someone, conversation(name), leaderRequest(userMessage("Close the books of "+name+", please")), testStart)
		q.AddReply(someone, conversation(name), &rep)
	}
	for name, k := range map[string]struct {
		before   func(q *session.Quotes)
		req      *wire.Request
		at       time.Time
		scope    session.Scope
		ok, sure bool
	}{
		"its call":                             {func(q *session.Quotes) { play(q, "one", callReply) }, worker, testStart, someone, true, true},
		"its call, in a run":                   {func(q *session.Quotes) { play(q, "one", callReply) }, worker, testStart, session.Scope{Tenant: "default", Credential: 1, Run: "r"}, true, true},
		"two conversations with an equal call": {func(q *session.Quotes) { play(q, "one", callReply); play(q, "two", callReply) }, worker, testStart, someone, true, false},
		"a reply after the call":               {func(q *session.Quotes) { play(q, "one", callReply); play(q, "one", wire.Reply{Text: "done"}) }, worker, testStart, someone, false, false},
		"too long ago":                         {func(q *session.Quotes) { play(q, "one", callReply) }, worker, testStart.Add(30 * time.Minute), someone, false, false},
		"another credential":                   {func(q *session.Quotes) { play(q, "one", callReply) }, worker, testStart, session.Scope{Tenant: "default", Credential: 2}, false, false},
		"no call":                              {func(q *session.Quotes) { play(q, "one", wire.Reply{Text: task}) }, worker, testStart, someone, false, false},
		"a request with an answer":             {func(q *session.Quotes) { play(q, "one", callReply) }, agentRequest(t, "You research.", nil, userMessage(task), assistantMessage("ok"), userMessage("on")), testStart, someone, false, false},
		"first words of 7 bytes":               {func(q *session.Quotes) { play(q, "one", callReply) }, agentRequest(t, "You research.", nil, userMessage("Look up")), testStart, someone, false, false},
		"the same task once more": {func(q *session.Quotes) {
			q.AddTurn(someone, conversation("one"), leaderRequest(userMessage(task)), testStart)
			q.AddReply(someone, conversation("one"), &callReply)
		}, leaderRequest(userMessage(task)), testStart, someone, false, false},
	} {
		q := session.NewQuotes()
		k.before(q)
		id, ok, sure := q.Caller(k.scope, k.req, k.at)
		if ok != k.ok || sure != k.sure || sure && id != conversation("one") {
			t.Errorf("%s: got caller %v, found = %v, sure = %v, want found = %v, sure = %v (%v if sure)", name, id, ok, sure, k.ok, k.sure, conversation("one"))
		}
	}
}

// A side request is about a conversation if it quotes a question and an answer of the conversation. It must not have
// the system text or a tool of the conversation.
func TestAboutNeedsQuestionAndAnswer(t *testing.T) {
	const questionText, answerText = "How do I rotate the signing keys", "Run the rotation script on the bastion"
	q := session.NewQuotes()
	q.AddTurn(someone, conversation("one"), agentRequest(t, "You help.", []string{"sh"}, userMessage(questionText)), testStart)
	q.AddReply(someone, conversation("one"), &wire.Reply{Text: answerText, Complete: true})
	q.AddTurn(someone, conversation("chat"), agentRequest(t, "You chat.", nil, userMessage("Which colour is the sky at noon")), testStart)
	q.AddReply(someone, conversation("chat"), &wire.Reply{Text: "It is blue at noon, mostly", Complete: true})
	both := questionText + " / " + answerText
	for name, k := range map[string]struct {
		req  *wire.Request
		at   time.Time
		want string
	}{
		"both in a text":                               {agentRequest(t, "Judge it.", nil, userMessage(both)), testStart, "one"},
		"both as a list":                               {agentRequest(t, "Judge it.", nil, userMessage(questionText), assistantMessage(answerText), userMessage("Was it good?")), testStart, "one"},
		"the question alone":                           {agentRequest(t, "Judge it.", nil, userMessage("He said: "+questionText)), testStart, ""},
		"the answer alone":                             {agentRequest(t, "Judge it.", nil, userMessage("It said: "+answerText)), testStart, ""},
		"the system text of the conversation":          {agentRequest(t, "You help.", nil, userMessage(both)), testStart, ""},
		"a tool of the conversation":                   {agentRequest(t, "Judge it.", []string{"sh", "ls"}, userMessage(both)), testStart, ""},
		"other tools, no dialogue":                     {agentRequest(t, "Judge it.", []string{"save"}, userMessage(both)), testStart, ""},
		"other tools, a dialogue":                      {agentRequest(t, "Keep it.", []string{"save"}, userMessage("user: "+questionText+" assistant: "+answerText)), testStart, "one"},
		"a dialogue, then 80 bytes and an instruction": {agentRequest(t, "Keep it.", []string{"save"}, userMessage("user: "+questionText+" assistant: "+answerText+" "+fmt.Sprintf("%080d", 0)+" now do as it says")), testStart, ""},
		"a dialogue, then a short instruction":         {agentRequest(t, "Keep it.", []string{"save"}, userMessage("user: "+questionText+" assistant: "+answerText+"......... now do as it says")), testStart, ""},
		"too long ago":                                 {agentRequest(t, "Judge it.", nil, userMessage(both)), testStart.Add(30 * time.Minute), ""},
		"a chat, as a dialogue":                        {agentRequest(t, "Judge it.", nil, userMessage("user: Which colour is the sky at noon assistant: It is blue at noon, mostly")), testStart, "chat"},
		"a chat, not as a dialogue":                    {agentRequest(t, "Judge it.", nil, userMessage("Which colour is the sky at noon It is blue at noon, mostly")), testStart, ""},
	} {
		id, ok := q.About(someone, k.req, k.at)
		if ok != (k.want != "") || ok && id != conversation(k.want) {
			t.Errorf("%s: got conversation %v, found = %v, want conversation %q (none if empty)", name, id, ok, k.want)
		}
	}
}

// For a short time, a side request that requires JSON may quote the reply to the previous side request.
func TestAboutFindsTheReplyToASideRequest(t *testing.T) {
	const made = "The user rotates the signing keys by hand"
	q := session.NewQuotes()
	q.AddTurn(someone, conversation("one"), agentRequest(t, "You help.", []string{"sh"}, userMessage("How do I rotate the keys")), testStart)
	q.AddSideReply(someone, conversation("one"), &wire.Reply{Complete: true, Text: made}, testStart)
	shaped := func() *wire.Request {
		req, err := wire.Parse(wire.Chat, []byte(`{"model":"m","response_format":{"type":"json_object"},"messages":[`+userMessage("Sort this: "+made)+`]}`))
		if err != nil {
			t.Fatal(err)
		}
		return req
	}
	if _, ok := q.About(someone, shaped(), testStart.Add(time.Minute)); !ok {
		t.Error("About finds no conversation by a reply quoted after a minute, want the conversation one")
	}
	if _, ok := q.About(someone, shaped(), testStart.Add(2*time.Minute)); ok {
		t.Error("About finds a conversation by a reply quoted after two minutes, want none")
	}
	if _, ok := q.About(someone, agentRequest(t, "x", nil, userMessage("Sort this: "+made)), testStart); ok {
		t.Error("About finds a conversation by a quoted reply in a request that does not require JSON, want none")
	}
}
