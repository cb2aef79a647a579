package inject

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"precept/bandit"
	"precept/inject/lesson"
	"precept/internal/session"
	"precept/internal/wire"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a test constant

type obj = map[string]any

// tb has the methods that *testing.T, *testing.B and *rapid.T share.
type tb interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// wireForm is an agent's format for the history.
type wireForm string

const (
	plainChat  wireForm = "chat with string contents"
	partsChat  wireForm = "chat with parts, reminders in the newest message" // as qwen does
	claude     wireForm = "messages, cache_control and parts in the newest message"
	responses  wireForm = "responses with item ids"
	references wireForm = "responses with item references"
)

func forms() []wireForm { return []wireForm{plainChat, partsChat, claude, responses, references} }

// entry is an item in an agent's history.
type entry struct {
	kind        string // user, answer, call, result
	text        string // user message, answer, call arguments, or result output
	id          string
	failed      bool
	number      int  // position among the user messages, from 1
	hasReminder bool // an agent's reminder precedes the user message
}

// agent simulates an agent. The agent's history does not contain the inserted blocks.
type agent struct {
	form             wireForm
	history          []entry
	userMessageCount int
	callCount        int
	answerCount      int
}

func (a *agent) addUserMessage(text string) { a.addMessage(text, false) }

func (a *agent) addMessage(text string, hasReminder bool) {
	a.userMessageCount++
	a.history = append(a.history, entry{kind: "user", text: text, number: a.userMessageCount, hasReminder: hasReminder})
}

func (a *agent) addAnswer(text string) {
	a.answerCount++
	a.history = append(a.history, entry{kind: "answer", text: text, id: fmt.Sprintf("msg_%d", a.answerCount)})
}

func (a *agent) addCall(cmd string) string {
	a.callCount++
	id := fmt.Sprintf("call_%d", a.callCount)
	args, _ := json.Marshal(obj{"command": cmd})
	a.history = append(a.history, entry{kind: "call", text: string(args), id: id})
	return id
}

func (a *agent) addResult(id, out string, failed bool) {
	a.history = append(a.history, entry{kind: "result", text: out, id: id, failed: failed})
}

func (a *agent) dialect() wire.Dialect {
	switch a.form {
	case claude:
		return wire.Messages
	case responses, references:
		return wire.Responses
	case plainChat, partsChat:
	}
	return wire.Chat
}

func (a *agent) body() []byte {
	var list []obj
	key := "messages"
	switch a.form {
	case plainChat, partsChat:
		list = a.chat()
	case claude:
		list = a.messages()
	case responses, references:
		list, key = a.responsesItems(), "input"
	}
	data, err := json.Marshal(obj{"model": "vendor/some-model-4-2", key: list, "tools": []obj{{
		"type": "function", "name": "bash", "function": obj{"name": "bash"},
	}}})
	if err != nil {
		panic(err)
	}
	return data
}

func textPart(s string) obj { return obj{"type": "text", "text": s} }

func (a *agent) chat() []obj {
	list := []obj{{"role": "system", "content": "You build things."}}
	for i := 0; i < len(a.history); i++ {
		e := a.history[i]
		switch e.kind {
		case "user":
			var content any = e.text
			if a.form == partsChat {
				parts := []obj{}
				if e.number == a.userMessageCount { // only the newest message has reminders
					parts = append(parts, textPart("<system-reminder>\nToday is a day.\n</system-reminder>\n"))
				}
				content = append(parts, textPart(e.text))
			}
			list = append(list, obj{"role": "user", "content": content})
		case "answer":
			list = append(list, obj{"role": "assistant", "content": e.text})
		case "call":
			var tc []obj
			for ; i < len(a.history) && a.history[i].kind == "call"; i++ {
				c := a.history[i]
				tc = append(tc, obj{"id": c.id, "type": "function", "function": obj{"name": "bash", "arguments": c.text}})
			}
			i--
			list = append(list, obj{"role": "assistant", "content": nil, "tool_calls": tc})
		case "result":
			var content any = e.text
			if a.form == partsChat {
				content = []obj{textPart(e.text)}
			}
			list = append(list, obj{"role": "tool", "tool_call_id": e.id, "content": content})
		}
	}
	return list
}

func (a *agent) messages() []obj {
	var list []obj
	add := func(role string, part obj) {
		if n := len(list); n > 0 && list[n-1]["role"] == role {
			parts, _ := list[n-1]["content"].([]obj)
			list[n-1]["content"] = append(parts, part)
			return
		}
		list = append(list, obj{"role": role, "content": []obj{part}})
	}
	for _, e := range a.history {
		switch e.kind {
		case "user":
			if e.hasReminder {
				add("user", textPart("<system-reminder>\nSome context.\n</system-reminder>"))
			}
			add("user", textPart(e.text))
		case "answer":
			add("assistant", textPart(e.text))
		case "call":
			add("assistant", obj{"type": "tool_use", "id": e.id, "name": "bash", "input": json.RawMessage(e.text)})
		case "result":
			add("user", obj{"type": "tool_result", "tool_use_id": e.id, "content": e.text, "is_error": e.failed})
		}
	}
	for i, m := range list {
		parts, _ := m["content"].([]obj)
		if i == len(list)-1 {
			parts[len(parts)-1]["cache_control"] = obj{"type": "ephemeral"}
		} else if len(parts) == 1 && parts[0]["type"] == "text" {
			m["content"] = parts[0]["text"] // the agent sends parts once, and a string in all later requests
		}
	}
	return list
}

func (a *agent) responsesItems() []obj {
	list := []obj{{"type": "message", "role": "developer", "content": "You build things."}}
	for i, e := range a.history {
		switch e.kind {
		case "user":
			list = append(list, obj{"type": "message", "role": "user", "id": fmt.Sprint("msg_u", i), "content": []obj{{"type": "input_text", "text": e.text}}})
		case "answer":
			if a.form == references {
				list = append(list, obj{"type": "item_reference", "id": e.id})
				continue
			}
			list = append(list, obj{"type": "message", "role": "assistant", "id": e.id, "content": []obj{{"type": "output_text", "text": e.text}}})
		case "call":
			list = append(list, obj{"type": "function_call", "call_id": e.id, "name": "bash", "arguments": e.text})
		case "result":
			list = append(list, obj{"type": "function_call_output", "call_id": e.id, "output": e.text})
		}
	}
	return list
}

// cachedMessages returns the messages in the form in which a prefix cache compares them: text parts are joined, and
// cache_control and reminders are left out.
func cachedMessages(t tb, body []byte) []string {
	t.Helper()
	var b struct {
		Messages []obj
		Input    any
	}
	if err := json.Unmarshal(body, &b); err != nil {
		t.Fatalf("parsing body %s: %v", body, err)
	}
	switch in := b.Input.(type) {
	case string:
		b.Messages = []obj{{"role": "user", "content": in}}
	case []any:
		for _, m := range in {
			item, _ := m.(obj)
			b.Messages = append(b.Messages, item)
		}
	}
	var out []string
	for _, m := range b.Messages {
		data, err := json.Marshal(flatten(m))
		if err != nil {
			t.Fatalf("%v", err)
		}
		out = append(out, string(data))
	}
	return out
}

// flatten returns the message with joined text parts and without cache_control.
func flatten(m obj) obj {
	out := obj{}
	for k, v := range m {
		if list, ok := v.([]any); ok && (k == "content" || k == "output") {
			v = joinText(list)
		}
		if k != "cache_control" {
			out[k] = v
		}
	}
	return out
}

// joinText joins the text parts, without reminders, and returns a string. If the list has other parts, joinText returns
// a list of these parts followed by the string.
func joinText(list []any) any {
	var s strings.Builder
	var others []any
	for _, p := range list {
		part, _ := p.(obj)
		if t, ok := part["text"].(string); ok {
			if !strings.HasPrefix(t, "<system-reminder>") {
				s.WriteString(t)
			}
			continue
		}
		others = append(others, flatten(part))
	}
	if len(others) == 0 {
		return s.String()
	}
	return append(others, s.String())
}

type testSession struct {
	meaning  []lesson.Resemblance // each turn's Input.MeaningMatches
	t        tb
	agent    *agent
	injector *Injector
	rec      *session.Record
	book     *lesson.Book
	beliefs  Beliefs
	now      time.Time
	claim    session.Claim

	body []byte   // newest request to the upstream, with the inserted blocks
	sent []string // messages of body
}

func newTestSession(t tb, form wireForm, cfg Config, book *lesson.Book, name string) *testSession {
	id := session.NamedID("default", session.NamespaceSession, name)
	return &testSession{
		t: t, agent: &agent{form: form}, injector: New(cfg), book: book, beliefs: bandit.New(), now: noon,
		claim: session.Claim{Agent: "coder"},
		rec:   session.NewRecord("default", session.Claim{Agent: "coder"}, session.Resolved{ID: id, Name: name}, noon),
	}
}

// send sends the history as the next turn. It checks that the previous request's messages are a prefix of the new
// messages.
func (s *testSession) send() Plan {
	s.t.Helper()
	p := s.sendBody(s.agent.body())
	return p
}

// sendBody is like send, but sends the given body.
func (s *testSession) sendBody(body []byte) Plan {
	s.t.Helper()
	before := s.sent
	p := s.plan(body)
	if len(s.sent) < len(before) {
		s.t.Fatalf("the upstream got %d messages, want at least as many as in the previous turn, %d", len(s.sent), len(before))
	}
	for i := range before {
		if before[i] != s.sent[i] {
			s.t.Fatalf("message %d of %d changed: got\n%s\nwant\n%s\nhistory: %+v", i, len(before), s.sent[i], before[i], s.agent.history)
		}
	}
	return p
}

// plan sends a body, but does not compare the messages with those of the previous request.
func (s *testSession) plan(body []byte) Plan {
	s.t.Helper()
	s.now = s.now.Add(time.Second)
	req, err := wire.Parse(s.agent.dialect(), body)
	if err != nil {
		s.t.Fatalf("parsing body %s: %v", body, err)
	}
	p := s.injector.Plan(s.rec, Input{MeaningMatches: s.meaning, Request: req, Claim: s.claim, Book: s.book, Beliefs: s.beliefs, Now: s.now, ReadsCommands: true})
	s.body, err = req.Splice(nil, p.Edits)
	if err != nil {
		s.t.Fatalf("%v", err)
	}
	if !addsOnly(body, s.body) {
		s.t.Fatalf("spliced body =\n%s\nwant only insertions into\n%s", s.body, body)
	}
	if (p.SkipReason == "") != (len(p.Edits) > 0) {
		s.t.Fatalf("plan has SkipReason %q and %d edits, want either a skip reason or edits", p.SkipReason, len(p.Edits))
	}
	s.sent = cachedMessages(s.t, s.body)
	return p
}

// addsOnly reports whether changed is body with nothing but insertions.
func addsOnly(body, changed []byte) bool {
	for i := range body {
		at := bytes.IndexByte(changed, body[i])
		if at < 0 {
			return false
		}
		changed = changed[at+1:]
	}
	return true
}

func (s *testSession) endTurn() { s.rec.AddReply(&wire.Reply{Complete: true}) }

// restart stores the session's record and reads it again, as happens when the server restarts.
func (s *testSession) restart() {
	s.t.Helper()
	row, err := s.rec.Row(func(s string) (string, bool) { return s, true })
	if err != nil {
		s.t.Fatalf("%v", err)
	}
	if len(row.Data) > 32<<10 {
		s.t.Fatalf("session's stored record has %d bytes, want at most %d", len(row.Data), 32<<10)
	}
	s.restore(row.Data)
}

func (s *testSession) restore(data []byte) {
	s.t.Helper()
	rec, err := session.Decode(s.rec.Identity.ID, data)
	if err != nil {
		s.t.Fatalf("%v", err)
	}
	s.rec = rec
}

// upstream returns the messages that the upstream got in the newest request.
func (s *testSession) upstream() string { return strings.Join(s.sent, "\n") }

func newBook(lessons ...*lesson.Lesson) *lesson.Book { return lesson.NewBook(lessons) }

func activeLesson(slug, keyword, advice string) *lesson.Lesson {
	return &lesson.Lesson{
		Slug: slug, Title: "About " + slug + ".", Advice: advice, State: lesson.Active, Confidence: 0.5,
		ContentHash: fmt.Sprintf("%x", slug+advice+"0123456789abcdef"),
		Trigger:     lesson.Trigger{Keywords: []string{keyword}},
	}
}

// injectAll returns a configuration that withholds no lesson.
func injectAll() Config {
	return Config{Bandit: bandit.Config{K: 3, Objective: bandit.All, Salt: "x"}}
}
