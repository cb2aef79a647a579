package wire

import (
	"runtime"
	"strings"
	"testing"
)

// parseTagCall reads the calls that models write as text. Similar texts are not calls.
func TestTagCallForms(t *testing.T) {
	long := strings.Repeat("<a>", maxTagged)
	for text, want := range map[string]Call{
		"I run it.\n<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"command\": \"ls\"}}\n</tool_call>": {Name: "bash", Args: `{"command": "ls"}`},
		"<tool_call>{\"name\":\"f\",\"parameters\":{}}</tool_call><tool_call>{\"name\":\"g\"}":             {Name: "f", Args: "{}\ng {\"name\":\"g\"}"},
		"<tool_call>no JSON</tool_call>": {Name: "tool", Args: "no JSON"},
		"<function=str_replace>\n<parameter=path>/a</parameter>\n<parameter=new>x < \"y\"</parameter>\n</function>": {Name: "str_replace", Args: `{"path":"/a","new":"x < \"y\""}`},
		"So:\n<read_file>\n<path>a.go</path>\n</read_file>":                                                         {Name: "read_file", Args: `{"path":"a.go"}`},
		"<think>\n<b>x\n</think>\n<done>\nnothing here\n</done>":                                                    {Name: "done", Args: "nothing here"},
		"<big>\n" + long + "\n</big>":                                                                               {Name: "big", Args: long},
		"Thought: look\nAction: bash[ls -l]":                                                                        {Name: "bash", Args: `{"command":"ls -l"}`},
		"<function=a b>x</function>":                                                                                {},
		"Actions: many[of them]":                                                                                    {},
		"<p>It is done.</p>":                                                                                        {},
	} {
		c, ok := parseTagCall(text)
		if !ok {
			c = Call{}
		}
		if c != want {
			t.Errorf("%.80q: got call %+v, want %+v", text, c, want)
		}
	}
}

// readReport reads a result that an agent writes as text. It returns no result for the user's words.
func TestParseTextResultIgnoresWordsOfAPerson(t *testing.T) {
	for text, want := range map[string]string{
		"<tool_response>\nx\n</tool_response>":                                       "x",
		"<tool_response>\nx\n</tool_response>\n<tool_response>\ny\n</tool_response>": "x\n</tool_response>\n<tool_response>\ny\n</tool_response>",
		"[read_file for 'a.go'] Result:\n\n1 | x\n<environment_details>\n12:30":      "1 | x",
		"Observation 12: x": "x",
		"exitcode: 0 (execution succeeded)\nCode output: x":                             "exitcode: 0 (execution succeeded)\nCode output: x",
		"[WARN] Result: what does this line of the log mean?\nIt says [a b] Result: no": "",
		"[see for more] Result: why?":                                                   "",
		"Observation: ":                                                                 "",
		"Observation deck: closed":                                                      "",
		"exitcode: 0 is what it told me":                                                "",
		"Code output: is this right?":                                                   "",
		"[":                                                                             "",
		"<tool_response":                                                                "",
	} {
		if rep, _ := parseTextResult(text); rep.text != want {
			t.Errorf("%q: got result %q, want %q", text, rep.text, want)
		}
	}
}

// Qwen-Agent names the call of a result in the member "id". If no earlier call has this id, the result gets the name
// of its tool as its call id.
func TestResultNamedByID(t *testing.T) {
	r := mustParse(t, Chat, `{"messages":[{"role":"user","content":"go"},
		{"role":"assistant","tool_calls":[{"id":"call_0a1b2c3d4e5f","type":"function","function":{"name":"f","arguments":"{}"}}]},
		{"role":"tool","name":"f","id":"call_0a1b2c3d4e5f","content":"x"},
		{"role":"function","name":"g","id":"msg_1","content":"y"}]}`)
	for i, want := range map[int]string{2: "call_0a1b2c3d4e5f", 3: "g"} {
		if got := r.Item(i).Results[0].CallID; got != want {
			t.Errorf("result in item %d: got call id %q, want %q", i, got, want)
		}
	}
}

// Qwen-Agent changes the JSON of the calls in an answer before it sends the answer back. The echo key, which
// recognises a returned answer, must not change.
func TestRewrittenTagCallsAreRecognised(t *testing.T) {
	const callText = "I look.\n<tool_call>\n{\"arguments\":{\"b\":1,\"a\":[2]},\"name\":\"f\"}\n</tool_call>"
	back := "I look. <tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [2], \"b\": 1}}\n</tool_call>"
	if EchoText(callText) != EchoText(back) {
		t.Errorf("got echo key %s of the reply and %s of the rewritten answer, want equal keys", EchoText(callText), EchoText(back))
	}
	for _, other := range []string{strings.Replace(back, "I look", "I see", 1), strings.Replace(back, "[2]", "[3]", 1)} {
		if EchoText(callText) == EchoText(other) {
			t.Errorf("%q has the echo key of %q, want a different key", other, callText)
		}
	}
}

// For an answer with 20,000 calls, parseTagCall allocates at most 100 times the length of the answer.
func TestTagCallsAreLinear(t *testing.T) {
	text := strings.Repeat(`<tool_call>{"name":"f","arguments":{}}</tool_call>`, 20_000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c, _ := parseTagCall(text)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 100*uint64(len(text)) {
		t.Errorf("tagCall allocated %d bytes for a text of %d bytes, want at most 100 times the length", took, len(text))
	}
	if want := len("{}") + 19_999*len("\nf {}"); len(c.Args) != want {
		t.Errorf("got arguments of %d bytes, want %d", len(c.Args), want)
	}
}

// An agentFormat describes how an agent writes the results of calls as text. agentFormatOf finds a format by the
// prefixes of such texts. No prefix of an earlier format may begin a prefix of a later format.
func TestEachProfileIsReachable(t *testing.T) {
	for i := range agentFormats {
		p := &agentFormats[i]
		if p.agent == "" || (len(p.prefixes) == 0) == (p.readSteps == nil) || (p.readSteps == nil) != (p.kind == "") {
			t.Errorf("profile %d is %+v, want an agent, and either marks or readSteps with a kind", i, p)
		}
		for _, mark := range p.prefixes {
			if got := agentFormatOf(mark + " x"); !p.exact && got != p {
				t.Errorf("%q: got profile %v, want %s", mark+" x", got, p.agent)
			}
			if got := agentFormatOf(mark); got != p {
				t.Errorf("%q: got profile %v, want %s", mark, got, p.agent)
			}
		}
	}
}
