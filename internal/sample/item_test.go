package sample_test

import (
	"cmp"
	"strings"
	"testing"

	"precept/internal/sample"
	"precept/internal/wire"
)

// precept matches lessons against the user text. This text does not include what agents add to the user's words.
func TestSampleUserTextMatchesWireUserText(t *testing.T) {
	for _, content := range []string{
		`"fix it"`, `"<system-reminder>be brief</system-reminder>\nfix it"`, `"<ide_selection>x</ide_selection>fix it"`, `"<task-notification>done</task-notification>"`,
		`"Lessons from past experience:\n- [a] b\nEnd of lessons.\n\nfix it"`, `"\"fix it\""`, `"# AGENTS.md instructions for /x\n<INSTRUCTIONS>y</INSTRUCTIONS>"`,
		`[{"type":"text","text":"<bash-input>ls</bash-input>"},{"type":"text","text":"fix it"},{"type":"text","text":"and test it"}]`, `"Observation: 3 files"`,
	} {
		raw := `{"role":"user","content":` + content + `}`
		req, err := wire.Parse(wire.Chat, []byte(`{"messages":[`+raw+`]}`))
		if err != nil {
			t.Fatal(err)
		}
		s := newScript()
		s.addTurn(sample.Reply{Text: "done"}, raw)
		if got, want := sample.Build(s.session)[0].Input["user_text"], cmp.Or(req.Item(0).UserText, sample.MissingUserMessage); got != want {
			t.Errorf("%s: got user_text %q, want %q", content, got, want)
		}
	}
}

func printSession(s *sample.Session) string {
	var out []string
	for _, e := range s.Events() {
		switch {
		case e.Role == sample.EventCall && e.Answered:
			out = append(out, e.Call.Name+"("+e.Call.Args+")="+e.Text)
		case e.Role == sample.EventCall:
			out = append(out, e.Call.Name+"("+e.Call.Args+")")
		case e.Role == sample.EventUser:
			out = append(out, "user:"+e.Text)
		}
	}
	return strings.Join(out, " | ")
}

func TestSessionContainsEachCallReadByWire(t *testing.T) {
	const shell = `"command":["ls","-l"]`
	for _, tc := range []struct {
		name, dialect string
		items         []string     // second turn's items
		reply         sample.Reply // first turn's reply
		want          string
		tools         int
	}{
		{"older client's function_call", "chat", []string{
			`{"role":"assistant","content":null,"function_call":{"name":"ls","arguments":"{}"}}`, `{"role":"function","name":"ls","content":"a.go"}`,
		}, callReply("ls", "ls", "{}"), "user:go | ls({})=a.go", 1},
		{"Responses API local_shell_call", "responses", []string{
			`{"type":"local_shell_call","id":"l1","call_id":"c1","action":{` + shell + `}}`, `{"type":"local_shell_call_output","call_id":"c1","output":"a.go"}`,
		}, callReply("c1", "local_shell", "{"+shell+"}"), "user:go | local_shell({" + shell + "})=a.go", 1},
		{"Responses API apply_patch_call", "responses", []string{
			`{"type":"apply_patch_call","call_id":"c1","operation":{"path":"a"}}`, `{"type":"apply_patch_call_output","call_id":"c1","output":"done"}`,
		}, sample.Reply{Text: "I patch."}, `user:go | apply_patch({"path":"a"})=done`, 1},
		{"calls without ids, results in order", "chat", []string{
			`{"role":"assistant","content":"","tool_calls":[{"type":"function","function":{"name":"a","arguments":"{}"}},{"type":"function","function":{"name":"b","arguments":"{}"}}]}`,
			`{"role":"tool","content":"of a"}`, `{"role":"tool","content":"of b"}`,
		}, sample.Reply{Calls: []sample.Call{{Name: "a", Args: "{}"}, {Name: "b", Args: "{}"}}}, "user:go | a({})=of a | b({})=of b", 2},
		{"a call written as text", "chat", []string{
			messageJSON("assistant", "Thought: look\nAction: ls\nAction Input: ."), messageJSON("user", "Observation: a.go"),
		}, sample.Reply{Text: "Thought: look\nAction: ls\nAction Input: ."}, "user:go | ls(.)=a.go", 1},
		{"another precept's block before a result", "chat", []string{
			`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"ls","arguments":"{}"}}]}`,
			resultJSON("c1", "[LOOP DETECTED] The call ls has failed before.\n[END LOOP DETECTED]\n\na.go"),
		}, callReply("c1", "ls", "{}"), "user:go | ls({})=a.go", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScript()
			s.addTurn(tc.reply, messageJSON("user", "go")).Dialect = tc.dialect
			s.repeatedReply = nil
			s.addTurn(sample.Reply{Text: "done"}, tc.items...).Dialect = tc.dialect
			if got := printSession(&s.session); got != tc.want {
				t.Errorf("session:\n got %s\nwant %s", got, tc.want)
			}
			first := sample.Build(s.session)[0]
			if n, _ := first.Output["tool_calls"].(int); n != tc.tools || (tc.tools > 0) != (first.Family == sample.IntentResolution) {
				t.Errorf("got sample %s with %d calls, want intent_resolution with %d", first.Family, n, tc.tools)
			}
		})
	}
}

func TestStringInputIsUserText(t *testing.T) {
	s := newScript()
	s.addTurn(sample.Reply{Text: "Hello."}, `"say hello"`).Dialect = "responses"
	if got := sample.Build(s.session)[0].Input["user_text"]; got != "say hello" {
		t.Errorf(`got user_text %q, want "say hello"`, got)
	}
	if got := formatConversation(s.session.Conversation()); got != "user:say hello | assistant:Hello." {
		t.Errorf(`got conversation %q, want "user:say hello | assistant:Hello."`, got)
	}
}

func TestTextCallsStayTextInConversation(t *testing.T) {
	const callText = "Thought: look\nAction: ls\nAction Input: ."
	s := newScript()
	s.addTurn(sample.Reply{Text: callText}, messageJSON("user", "go"))
	s.addTurn(sample.Reply{Text: "done"}, messageJSON("user", "Observation: a.go"))
	if got := formatConversation(s.session.Conversation()); got != "user:go | assistant:"+callText+" | user:Observation: a.go | assistant:done" {
		t.Errorf("got conversation %q, want call %q and the result as text", got, callText)
	}
	r := sample.NewMessageReader()
	r.Request(&s.session.Exchanges[0])
	r.Reply(&s.session.Exchanges[0])
	if got := r.Request(&s.session.Exchanges[1]); len(got) != 1 || got[0].Role != sample.EventUser || got[0].Text != "Observation: a.go" {
		t.Errorf(`got messages %+v, want one message of role %s with the text "Observation: a.go"`, got, sample.EventUser)
	}
}

// In an imported transcript, the next request does not repeat the reply.
func TestTextCallResultIsFoundWithoutRepeatedReply(t *testing.T) {
	const callText = "Thought: look\nAction: ls\nAction Input: ."
	req, err := wire.Parse(wire.Chat, []byte(`{"messages":[`+strings.Join([]string{messageJSON("user", "go"), messageJSON("assistant", callText), messageJSON("user", "Observation: a.go")}, ",")+`]}`))
	if err != nil {
		t.Fatal(err)
	}
	s := newScript()
	s.addTurn(sample.Reply{Text: callText, Calls: []sample.Call{sample.Call(req.Item(1).Calls[0])}}, messageJSON("user", "go"))
	s.repeatedReply = nil
	s.addTurn(sample.Reply{Text: "done"}, messageJSON("user", "Observation: a.go"))
	if got := printSession(&s.session); got != "user:go | ls(.)=a.go" {
		t.Errorf(`got session %q, want "user:go | ls(.)=a.go"`, got)
	}
}

// An older client uses the tool name as the call id.
func TestReusedCallIDIsNewCall(t *testing.T) {
	repeatedCall := func(args string) string {
		return `{"role":"assistant","content":null,"function_call":{"name":"ls","arguments":` + string(wire.AppendString(nil, args)) + `}}`
	}
	s := newScript()
	s.addTurn(callReply("ls", "ls", `{"p":"a"}`), messageJSON("user", "go"))
	s.repeatedReply = nil
	s.addTurn(callReply("ls", "ls", `{"p":"b"}`), repeatedCall(`{"p":"a"}`), `{"role":"function","name":"ls","content":"error: no a"}`)
	s.repeatedReply = nil
	s.addTurn(sample.Reply{Text: "done"}, repeatedCall(`{"p":"b"}`), `{"role":"function","name":"ls","content":"b.go"}`)
	s.session.IsFailure = isFailure
	got := sample.Build(s.session)
	if families(got) != "intent_resolution error_correction" || got[0].Output["tool_calls"] != 2 || got[0].Output["failed_calls"] != 1 {
		t.Errorf("got families %s, output %v, want intent_resolution error_correction, 2 calls, 1 failed", families(got), got[0].Output)
	}
	if got := printSession(&s.session); got != `user:go | ls({"p":"a"})=error: no a | ls({"p":"b"})=b.go` {
		t.Errorf("got session %q, want `user:go | ls({\"p\":\"a\"})=error: no a | ls({\"p\":\"b\"})=b.go`", got)
	}
}

func TestReaderReturnsUnknownItemsAsReceived(t *testing.T) {
	s := newScript()
	e := s.addTurn(sample.Reply{Text: "ok"}, `{"type":"reasoning","id":"r"}`, `{"type":"item_reference","id":"m"}`, `{"type":"mystery","x":1}`, `{"type":"web_search_call","id":"w"}`, `7`, `{"type":"message","role":"user","content":"hi"}`)
	e.Dialect = "responses"
	var out []string
	for _, s := range sample.NewMessageReader().Request(e) {
		out = append(out, s.Role+":"+s.Text)
	}
	if got, want := strings.Join(out, " | "), `other:{"type":"mystery","x":1} | other:{"type":"web_search_call","id":"w"} | user:hi`; got != want {
		t.Errorf("request messages:\n got %s\nwant %s", got, want)
	}
}

func TestChoiceCountIsRecorded(t *testing.T) {
	s := newScript()
	s.addTurn(sample.Reply{Text: "one", Choices: 3}, messageJSON("user", "count"))
	for _, built := range sample.Build(s.session) {
		if built.Meta["choices"] != 3 || built.Output["response_text"] != "one" {
			t.Errorf(`got sample %+v, want Meta["choices"] = 3 and Output["response_text"] = "one"`, built)
		}
	}
	e := s.session.Exchanges[0]
	decoded, err := e.Encode().Decode()
	if err != nil || decoded.Reply.Choices != 3 {
		t.Errorf("decoded: got Reply %+v, error %v, want Choices = 3, no error", decoded.Reply, err)
	}
	s = newScript()
	s.addTurn(sample.Reply{Text: "one"}, messageJSON("user", "count"))
	if _, hasChoices := sample.Build(s.session)[0].Meta["choices"]; hasChoices {
		t.Error(`one choice: got Meta["choices"], want it unset`)
	}
}

// Each reply is one event, although the next request repeats the reply. If a call has several results, the event holds
// the first. A result without a call is omitted.
func TestEventsIncludeMessagesBeforeFirstRecordedTurn(t *testing.T) {
	s := newScript()
	s.addTurn(sample.Reply{Text: "It is a."},
		`{"role":"user","content":"Which file?"}`,
		`{"role":"assistant","content":"I look.","tool_calls":[{"id":"c1","type":"function","function":{"name":"ls","arguments":"{}"}}]}`,
		`{"role":"tool","tool_call_id":"c9","content":"lost"}`,
		`{"role":"tool","tool_call_id":"c1","content":"a.go"}`,
		`{"role":"tool","tool_call_id":"c1","content":"b.go"}`)
	s.addTurn(sample.Reply{Text: "Yes."}, `{"role":"user","content":"Sure?"}`)
	var got []string
	for _, e := range s.session.Events() {
		got = append(got, string(e.Role)+":"+e.Text+e.Call.Name)
	}
	if want := "user:Which file? | assistant:I look. | call:a.gols | assistant:It is a. | user:Sure? | assistant:Yes."; strings.Join(got, " | ") != want {
		t.Errorf("Events:\n got %s\nwant %s", strings.Join(got, " | "), want)
	}
}

// A tool result without an id belongs to the newest call without an id.
func TestCallKeepsFirstResult(t *testing.T) {
	for id, want := range map[string]string{
		"c": `user:go | run({"x":1})=fine`,
		"":  `user:go | run({"x":1}) | run({"x":1})=fine`,
	} {
		s := newScript()
		call := `{"type":"tool_use","id":"` + id + `","name":"run","input":{"x":1}}`
		result := func(text string) string {
			return `{"type":"tool_result","tool_use_id":"` + id + `","content":"` + text + `"}`
		}
		s.addTurn(sample.Reply{Text: ""}, messageJSON("user", "go"), `{"role":"assistant","content":[`+call+`,`+call+`]}`,
			`{"role":"user","content":[`+result("fine")+`,`+result("error: no")+`]}`).Dialect = "messages"
		s.session.IsFailure = isFailure
		if got := printSession(&s.session); got != want {
			t.Errorf("id %q: got session %s, want %s", id, got, want)
		}
		if got := sample.Build(s.session); got[0].Output["failed_calls"] != 0 {
			t.Errorf("id %q: got output %v, want 0 failed calls", id, got[0].Output)
		}
	}
}
