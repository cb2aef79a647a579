package wire

import (
	"runtime"
	"strings"
	"testing"
)

// parseTagCall returns several calls in a text as one Call, with the first call's name and all arguments.
func TestParseTagCall(t *testing.T) {
	long := strings.Repeat("<a>", maxTaggedBytes)
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
			t.Errorf("parseTagCall(%.80q) = %+v, want %+v", text, c, want)
		}
	}
}

func TestParseTextResult(t *testing.T) {
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
			t.Errorf("parseTextResult(%q) = %q, want %q", text, rep.text, want)
		}
	}
}

// Some agents send the call id as "id". If no call has this id, the tool's name replaces the call id.
func TestResultReadsCallIDFromID(t *testing.T) {
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

// Qwen-Agent reformats the calls in a reply before the next request.
func TestTextEchoHashIgnoresTagCallFormat(t *testing.T) {
	const callText = "I look.\n<tool_call>\n{\"arguments\":{\"b\":1,\"a\":[2]},\"name\":\"f\"}\n</tool_call>"
	reformatted := "I look. <tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [2], \"b\": 1}}\n</tool_call>"
	if TextEchoHash(callText) != TextEchoHash(reformatted) {
		t.Errorf("TextEchoHash = %s for the reply and %s for the reformatted reply, want equal hashes", TextEchoHash(callText), TextEchoHash(reformatted))
	}
	for _, other := range []string{strings.Replace(reformatted, "I look", "I see", 1), strings.Replace(reformatted, "[2]", "[3]", 1)} {
		if TextEchoHash(callText) == TextEchoHash(other) {
			t.Errorf("TextEchoHash(%q) equals the hash of %q, want a different hash", other, callText)
		}
	}
}

func TestParseTagCallMemoryIsLinear(t *testing.T) {
	text := strings.Repeat(`<tool_call>{"name":"f","arguments":{}}</tool_call>`, 20_000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c, _ := parseTagCall(text)
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 100*uint64(len(text)) {
		t.Errorf("parseTagCall allocated %d bytes for %d bytes of text, want at most 100 times the length", allocated, len(text))
	}
	if want := len("{}") + 19_999*len("\nf {}"); len(c.Args) != want {
		t.Errorf("len(Args) = %d, want %d", len(c.Args), want)
	}
}

// A prefix must not begin with an earlier format's prefix, because the first match wins.
func TestEachAgentFormatIsReachable(t *testing.T) {
	for i := range agentFormats {
		p := &agentFormats[i]
		if p.agent == "" || (len(p.prefixes) == 0) == (p.readSteps == nil) || (p.readSteps == nil) != (p.kind == "") {
			t.Errorf("format %d: got %+v, want an agent, and either prefixes or readSteps with a kind", i, p)
		}
		for _, mark := range p.prefixes {
			if got := findAgentFormat(mark + " x"); !p.exact && got != p {
				t.Errorf("findAgentFormat(%q) = %v, want %s", mark+" x", got, p.agent)
			}
			if got := findAgentFormat(mark); got != p {
				t.Errorf("findAgentFormat(%q) = %v, want %s", mark, got, p.agent)
			}
		}
	}
}
