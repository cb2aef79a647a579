package wire_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"precept/internal/wire"
)

// newScriptedChat starts a message at each line with "U " (user) or "A " (assistant). Three apostrophes mean a code
// fence.
func newScriptedChat(t *testing.T, script string) *wire.Request {
	t.Helper()
	var list []map[string]string
	for line := range strings.SplitSeq(strings.ReplaceAll(strings.Trim(script, "\n"), "'''", "```"), "\n") {
		switch head, rest, _ := strings.Cut(line, " "); head {
		case "U":
			list = append(list, map[string]string{"role": "user", "content": rest})
		case "A":
			list = append(list, map[string]string{"role": "assistant", "content": rest})
		default:
			list[len(list)-1]["content"] += "\n" + line
		}
	}
	body, err := json.Marshal(map[string]any{"messages": list})
	if err != nil {
		t.Fatal(err)
	}
	r, err := wire.Parse(wire.Chat, body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// callsText formats the user texts, calls and results of a request. Call ids are replaced with numbers, in the order of
// their first use.
func callsText(r *wire.Request) string {
	var out strings.Builder
	ids := map[string]int{}
	id := func(s string) string {
		if s == "" {
			return "?"
		}
		if ids[s] == 0 {
			ids[s] = len(ids) + 1
		}
		return fmt.Sprint("#", ids[s])
	}
	for i := range r.Len() {
		it := r.Item(i)
		if it.UserText != "" {
			fmt.Fprintf(&out, "%d says %q\n", i, it.UserText)
		}
		for n := range it.Calls {
			c := &it.Calls[n]
			fmt.Fprintf(&out, "%d calls %s %s %s\n", i, id(c.ID), c.Name, c.Args)
		}
		for _, res := range it.Results {
			fmt.Fprintf(&out, "%d answers %s %q %d\n", i, id(res.CallID), res.Text, res.IsError)
		}
	}
	return out.String()
}

// Some agents write calls and results as text. The format of an unknown agent is recognised only if the same
// call and result repeat.
func TestTextAgentsHaveCallsAndResults(t *testing.T) {
	for _, tc := range []struct{ name, script, want string }{
		{"smolagents", `
U New task:
find it
A Thought: I look.
<code>
print(1)
</code>
U Observation:
Execution logs:
1
A Thought: done
Calling tools:
[{'id': 'call_1', 'type': 'function', 'function': {'name': 'f', 'arguments': {'a': 1}}}, {'id': 'call_2', 'type': 'function', 'function': {'name': 'g', 'arguments': {}}}]
U Observation:
2
A Calling tools:
[{'id': 'call_3', 'type': 'function', 'function': {'name': 'python_interpreter', 'arguments': 'x = 1'}}]
U Call id: call_3
Error:
it broke
Now let's retry: take care not to repeat previous errors! If you have retried several times, try a completely different approach.
`, `
0 says "New task:\nfind it"
1 calls #1 python_interpreter print(1)
2 answers #1 "Execution logs:\n1" 0
3 calls #2 f {'a': 1}
g {}
4 answers #2 "2" 0
5 calls #3 python_interpreter 'x = 1'
6 answers #3 "it broke" 1
`},
		{"ReAct", `
U find it
A Thought: so
Action: search
Action Input: {"q": "x"}
Observation: made up
U Observation: none
A Action: look[there]
U OBSERVATION: one
A Thought 1: t
Action 1: Search[a b]
U Observation 1: two
U Observation 1234: no
U Observation post: no
U Observation : no
`, `
0 says "find it"
1 calls #1 search {"q": "x"}
2 answers #1 "none" 0
3 calls #2 look {"command":"there"}
4 answers #2 "one" 0
5 calls #3 Search {"command":"a b"}
6 answers #3 "two" 0
7 says "Observation 1234: no"
8 says "Observation post: no"
9 says "Observation : no"
`},
		{"mini-swe-agent", `
U find it
A I look.
'''bash
ls -l
'''
U <returncode>0</returncode>
<output>
a
</output>
A '''bash
false
'''
U <exception>x</exception>
<returncode>1</returncode>
A '''bash

'''
U <returncode>2</returncode>
U Format error:

<error>
x
U <exception>it says only this</exception>
A and so '''bash
ls
'''
U <returncode>3</returncode>
`, `
0 says "find it"
1 calls #1 bash {"command":"ls -l"}
2 answers #1 "<returncode>0</returncode>\n<output>\na\n</output>" 0
3 calls #2 bash {"command":"false"}
4 answers #2 "<exception>x</exception>\n<returncode>1</returncode>" 1
6 answers #3 "<returncode>2</returncode>" 0
8 says "<exception>it says only this</exception>"
10 answers #4 "<returncode>3</returncode>" 0
`},
		{"mini-swe-agent 1", `
U find it
A '''bash
./feed.sh
echo done
'''
U The last command <command>./feed.sh
echo done</command> timed out and has been killed.
The output of the command was:
 <output>
</output>
Please try another command and make sure to avoid those requiring interactive input.
A I say nothing.
U Please always provide EXACTLY ONE action in triple backticks, found 0 actions.
A '''bash
ls
'''
U The last command <command> was wrong
`, `
0 says "find it"
1 calls #1 bash {"command":"./feed.sh\necho done"}
2 answers #1 "The last command <command>./feed.sh\necho done</command> timed out and has been killed.\nThe output of the command was:\n <output>\n</output>\nPlease try another command and make sure to avoid those requiring interactive input." 0
6 says "The last command <command> was wrong"
`},
		{"AutoGen and Open Interpreter", `
U find it
A Run:
'''python
print(1)
'''
U exitcode: 0 (execution succeeded)
Code output: 1
A '''sh
ls
'''
more
U Code output: a

What does this output mean / what's next (if anything, or are we done)?
`, `
0 says "find it"
1 calls #1 bash {"command":"print(1)"}
2 answers #1 "exitcode: 0 (execution succeeded)\nCode output: 1" 0
3 calls #2 bash {"command":"ls"}
4 answers #2 "a" 0
`},
		{"aider", `
U fix it
A I do.

a.go
'''go
<<<<<<< SEARCH
x
=======
y
>>>>>>> REPLACE
'''
U I updated the files.
A Ok.
U # 1 SEARCH/REPLACE block failed to match!

## SearchReplaceNoExactMatch

# *SEARCH/REPLACE block* Rules:

Every block
U # Fix any errors below, if possible.

## See relevant line below
U I ran this command:

go test "x"

And got this output:

FAIL

# File editing rules:
x
U I ran this command:

a

b

And got this output:

c
U I ran this command:

and nothing came of it
U # What is a SEARCH/REPLACE block?
U please

To suggest changes to a file you MUST return it
A <<<<<<< SEARCH
x
U # 1 SEARCH/REPLACE block failed to match!
`, `
0 says "fix it"
1 calls #1 search_replace a.go
'''go
<<<<<<< SEARCH
x
=======
y
>>>>>>> REPLACE
4 answers #1 "# 1 SEARCH/REPLACE block failed to match!\n\n## SearchReplaceNoExactMatch" 1
5 answers #2 "# Fix any errors below, if possible.\n\n## See relevant line below" 1
6 calls #3 bash {"command":"go test \"x\""}
6 answers #3 "FAIL" 0
7 says "I ran this command:\n\na\n\nb\n\nAnd got this output:\n\nc"
8 says "I ran this command:\n\nand nothing came of it"
9 says "# What is a SEARCH/REPLACE block?"
10 says "please"
12 answers #4 "# 1 SEARCH/REPLACE block failed to match!" 1
`},
		{"calls between tags", `
U find it
<environment_details>
x
</environment_details>
A I look. <tool_call>
{"name": "f", "arguments": {"a": 1}}
</tool_call><tool_call>{"name":"g","args":[2]}</tool_call>
U <tool_response>
x
</tool_response>
A <function=bash>
<parameter=command>ls</parameter>
</function>
U EXECUTION RESULT of [bash]:
a
A I read.
<read_file>
<path>a.go</path>
</read_file>
U [read_file for 'a.go'] Result:

1 | x
<environment_details>
12:30
</environment_details>
`, `
0 says "find it"
1 calls #1 f {"a": 1}
g [2]
2 answers #1 "x" 0
3 calls #2 bash {"command":"ls"}
4 answers #2 "EXECUTION RESULT of [bash]:\na" 0
5 calls #3 read_file {"path":"a.go"}
6 answers #3 "1 | x" 0
`},
		{"unknown format with a repeated call and result", `
U go
A {"action": "f", "a": 1}
U no luck
A <think>hm</think>{"a": 1, "action": "f"}
U no luck
A {"action":{"name":"g","args":{"b":2}},"thought":"x"}
U it says 5
A {"thought": "only"}
U so
A <thought>x</thought>
'''json
{"action": "f", "a": 1}
'''
U no luck
`, `
0 says "go"
1 calls #1 f {"action":"f","a":1}
2 says "no luck"
2 answers #1 "no luck" 0
3 calls #2 f {"a":1,"action":"f"}
4 says "no luck"
4 answers #2 "no luck" 0
5 calls #3 g {"b":2}
6 says "it says 5"
6 answers #3 "it says 5" 0
8 says "so"
9 calls #1 f {"action":"f","a":1}
10 says "no luck"
10 answers #1 "no luck" 0
`},
		{"unknown format without a repeated call and result", `
U go
A {"action": "f", "a": 1}
U no luck
A {"action": "f", "a": 2}
U no luck
A {"action": "f", "a": 1}
U some luck
`, `
0 says "go"
2 says "no luck"
4 says "no luck"
6 says "some luck"
`},
		{"unknown format, code block fails three times", `
U go
A '''python
f()
'''
U no 1
A '''python
f()
'''
U no 2
A '''python
f()
'''
U no 3
`, `
0 says "go"
1 calls #1 code {"command":"f()"}
2 says "no 1"
2 answers #1 "no 1" 0
3 calls #2 code {"command":"f()"}
4 says "no 2"
4 answers #2 "no 2" 0
5 calls #3 code {"command":"f()"}
6 says "no 3"
6 answers #3 "no 3" 0
`},
		{"unknown format, code block fails twice", `
U go
A '''python
f()
'''
U no
A '''python
f()
'''
U no
`, `
0 says "go"
2 says "no"
4 says "no"
`},
		{"dspy", `
U [[ ## question ## ]]
what

[[ ## trajectory ## ]]
[[ ## thought_0 ## ]]
I look

[[ ## tool_name_0 ## ]]
f

[[ ## tool_args_0 ## ]]
{"a": 1}

[[ ## observation_0 ## ]]
Execution error in f: no
[[ ## note ## ]]

[[ ## thought_1 ## ]]
again

[[ ## tool_name_1 ## ]]
g

[[ ## tool_args_1 ## ]]
{}

[[ ## observation_1 ## ]]
fine

Respond with the corresponding output fields, starting with the field '[[ ## next_thought ## ]]'
`, `
0 says "what"
0 calls #1 f {"a": 1}
0 calls #2 g {}
0 answers #1 "Execution error in f: no\n[[ ## note ## ]]" 1
0 answers #2 "fine" 0
`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newScriptedChat(t, tc.script)
			want := strings.ReplaceAll(strings.TrimPrefix(tc.want, "\n"), "'''", "```")
			if got := callsText(r); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			assertEchoKeys(t, r)
			assertResultAnchors(t, r)
		})
	}
}

// assertEchoKeys fails the test unless each assistant message has an echo key in common with the reply that has the
// same text.
func assertEchoKeys(t *testing.T, r *wire.Request) {
	t.Helper()
	for i := range r.Len() {
		if r.Role(i) != wire.RoleAssistant {
			continue
		}
		raw, _ := json.Marshal(map[string]any{"choices": []any{map[string]any{"message": map[string]any{"content": r.Item(i).Text}}}})
		reader := wire.NewReplyReader(wire.Chat, -1, 1<<20)
		_, _ = reader.Write(raw)
		known := wire.ReplyEchoKeys(reader.Reply(), "")
		if !slices.ContainsFunc(r.EchoKeys(i), func(key string) bool { return slices.Contains(known, key) }) {
			t.Errorf("assistant message %d: EchoKeys = %v, want one of the reply's keys %v", i, r.EchoKeys(i), known)
		}
	}
}

// assertResultAnchors fails the test unless Find finds each result. If the call is in the same message, Splice must
// insert text directly before the result.
func assertResultAnchors(t *testing.T, r *wire.Request) {
	t.Helper()
	for i := range r.Len() {
		for _, res := range r.Item(i).Results {
			a := r.AnchorAt(i, res.CallID)
			item, block, ok := r.Find(a)
			if !ok || item != i || res.WithCall && block != res.Block {
				t.Errorf("result %q: Find(anchor) = item %d, block %d, %v, want item %d, block %d, true", res.Text, item, block, ok, i, res.Block)
			}
			if !res.WithCall || res.Block < 0 {
				continue
			}
			out, err := r.Splice(nil, []wire.Edit{{Item: item, Block: block, Text: "HERE "}})
			first, _, _ := strings.Cut(res.Text, "\n")
			if at := strings.Index(string(out), "HERE "); err != nil || !strings.HasPrefix(strings.TrimLeft(string(out[at+5:]), " "), first) {
				t.Errorf("Splice = %s, error %v, want the text directly before result %q", out, err, res.Text)
			}
		}
	}
}
