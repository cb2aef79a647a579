package detect_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"precept/detect"
	"precept/internal/wire"
)

// resultCase is a tool result with the expected judgement.
type resultCase struct {
	name, tool, args, text string
	errorFlag              int8 // 1: error, -1: success, 0: no flag
	want                   detect.Outcome
	rule                   string // prefix of the rule; "" accepts any rule
}

func checkResults(t *testing.T, cases []resultCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := detect.Classify(c.tool, c.args, c.text, c.errorFlag)
			if got.Outcome != c.want || !strings.HasPrefix(got.Rule, c.rule) {
				t.Errorf("got outcome %s (rule %q), want %s (rule %q), for\n%s", got.Outcome, got.Rule, c.want, c.rule, c.text)
			}
		})
	}
}

const deployArgs = `{"command":"./deploy.sh staging"}`

func TestAgentCommandResultsAreClassified(t *testing.T) {
	checkResults(t, []resultCase{
		{
			"codex fails", "exec_command", `{"cmd":"./deploy.sh"}`,
			"Chunk ID: 0a1b2c\nWall time: 0.0312 seconds\nProcess exited with code 2\nOriginal token count: 9\nOutput:\nno such stage\n",
			0, detect.Error, "exit-code",
		},
		{
			"codex works", "exec_command", `{"cmd":"./deploy.sh"}`,
			"Chunk ID: 0a1b2c\nWall time: 0.0312 seconds\nProcess exited with code 0\nOriginal token count: 9\nOutput:\ndeployed\n",
			0, detect.OK, "exit-code",
		},
		{
			"codex still runs", "exec_command", `{"cmd":"./serve.sh"}`,
			"Chunk ID: 0a1b2c\nWall time: 10.0 seconds\nProcess running with session ID 7120\nOutput:\nlistening\n",
			0, detect.Pending, "pending:",
		},
		{"claude fails", "Bash", deployArgs, "Exit code 2\nno such stage", 1, detect.Error, "exit-code"},
		{"claude works", "Bash", deployArgs, "deployed", -1, detect.OK, ""},
		{
			"claude background", "Bash", deployArgs, "Command running in background with ID: b7f2", -1,
			detect.Pending, "",
		},
		{"opencode without an exit code", "bash", deployArgs, "deployed", 0, detect.OK, ""},
		{
			"opencode timeout", "bash", deployArgs,
			"starting\n\n<shell_metadata>\nshell tool terminated command after exceeding timeout 2000 ms\n</shell_metadata>",
			0, detect.Error, "text:timeout",
		},
		{
			"qwen fails", "run_shell_command", deployArgs,
			"Command: ./deploy.sh staging\nDirectory: (root)\nOutput: no such stage\nError: (none)\nExit Code: 2\nSignal: (none)\nProcess Group PGID: (none)",
			0, detect.Error, "exit-code",
		},
		{
			"qwen works, with Error: (none)", "run_shell_command", deployArgs,
			"Command: ./deploy.sh staging\nDirectory: (root)\nOutput: deployed\nError: (none)\nExit Code: 0\nSignal: (none)\nProcess Group PGID: (none)",
			0, detect.OK, "exit-code",
		},
		{
			"pi fails", "bash", deployArgs, "no such stage\n\nCommand exited with code 2", 0, detect.Error,
			"exit-code",
		},
		{
			"pi fails without output", "bash", deployArgs, "(no output)\n\nCommand exited with code 1", 0,
			detect.Error, "exit-code",
		},
		{
			"pi timeout", "bash", deployArgs, "uploading\n\nCommand timed out after 30 seconds", 0,
			detect.Error, "text:timeout",
		},
		{
			"cline fails", "run_commands", `{"commands":["./deploy.sh staging"]}`,
			`[{"query":"./deploy.sh staging","result":"[Command exited with code 2]\nno such stage","error":"Command exited with code 2","success":false}]`,
			0, detect.Error, "json:",
		},
		{
			"cline works", "run_commands", `{"commands":["./deploy.sh staging"]}`,
			`[{"query":"./deploy.sh staging","result":"0 errors, deployed","error":"","success":true}]`,
			0, detect.OK, "json:success",
		},
		{
			"copilot fails", "bash", `{"command":"./deploy.sh","description":"Deploy"}`,
			"no such stage\n<shellId: 4 completed with exit code 2>", 0, detect.Error, "exit-code",
		},
		{
			"copilot works", "bash", `{"command":"./deploy.sh","description":"Deploy"}`,
			"deployed\n<shellId: 4 completed with exit code 0>", 0, detect.OK, "exit-code",
		},
		{
			"continue fails", "Bash", deployArgs,
			"Error executing tool Bash: Error (exit code 2): no such stage", 0, detect.Error,
			"exit-code",
		},
		{"continue without output", "Bash", deployArgs, "", 0, detect.OK, ""},
		{
			"sdk app fails", "shell", deployArgs, `{"stdout":"","stderr":"no such stage\n","exit_code":2}`, 0,
			detect.Error, "exit-code",
		},
		{
			"sdk app works", "shell", deployArgs, `{"stdout":"deployed\n","stderr":"","exit_code":0}`, 0,
			detect.OK, "exit-code",
		},
		{
			"older codex fails", "shell", `{"command":["bash","-lc","./deploy.sh"]}`,
			`{"output":"no such stage\n","metadata":{"exit_code":2,"duration_seconds":0.1}}`, 0,
			detect.Error, "exit-code",
		},
		{
			"code runner fails", "run_code", `{"code":"print(1)"}`,
			"exitcode: 1 (execution failed)\nCode output: boom", 0, detect.Error, "exit-code",
		},
		{
			"mini-swe fails", "bash", deployArgs,
			"<returncode>2</returncode>\n<output>\nno such stage\n</output>", 0, detect.Error,
			"exit-code",
		},
		{
			"openhands fails", "execute_bash", deployArgs,
			"no such stage\n[Python interpreter: /usr/bin/python3]\n[The command completed with exit code 2.]",
			0, detect.Error, "exit-code",
		},
		{
			"swe-agent fails, with a prompt", "bash", `{"command":"cat notes.txt"}`,
			"cat: notes.txt: No such file or directory\n(Open file: )\n(Current directory: /srv/app)\nbash-$",
			0, detect.Error, "text:",
		},
	})
}

func TestRepliesToInvalidCallsAreErrors(t *testing.T) {
	checkResults(t, []resultCase{
		{
			"codex", "exec_command", `{}`,
			"failed to parse function arguments: missing field `cmd`", 0, detect.Error, "",
		},
		{
			"claude", "Bash", `{}`,
			"<tool_use_error>InputValidationError: Bash failed</tool_use_error>", 1, detect.Error,
			"",
		},
		{
			"opencode", "bash", `{}`,
			"The bash tool was called with invalid arguments: expected string at command", 0,
			detect.Error, "",
		},
		{
			"qwen", "run_shell_command", `{}`, "params must have required property 'command'", 0,
			detect.Error, "",
		},
		{
			"pi", "bash", `{}`, "Validation failed for tool \"bash\":\n  - command: required", 0,
			detect.Error, "",
		},
		{
			"cline", "run_commands", `{}`, `{"error":"✖ Invalid input"}`, 0, detect.Error,
			"json:error",
		},
		{"copilot", "bash", `{}`, `Invalid input: "command": Required`, 0, detect.Error, ""},
		{
			"continue", "Bash", `{}`, `Required parameter "command" missing for tool "Bash"`, 0,
			detect.Error, "",
		},
		{
			"mcp", "mcp__db__query", `{"sql":"select"}`,
			"MCP error -32602: Invalid arguments for tool query", 0, detect.Error, "",
		},
		{
			"no such tool", "frobnicate", `{}`, "Error: No such tool available: frobnicate", 0,
			detect.Error, "",
		},
	})
}

// Each judgement has one of the four outcomes. Only a refusal has a refuser.
func TestClassifyReturnsAKnownOutcome(t *testing.T) {
	tools := []string{"bash", "read", "Edit", "lookup_order", "run_code", "WebFetch", "TodoWrite", "", "ツール"}
	rapid.Check(t, func(t *rapid.T) {
		tool := rapid.SampledFrom(tools).Draw(t, "tool")
		args := rapid.OneOf(rapid.Just(deployArgs), rapid.String(), rapid.Just(`{"path":"a"}`)).Draw(t, "args")
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[\[{'"a:, }\]\\n]{0,60}`), rapid.StringMatching(`(Error|error TS1|Exit code|FAIL)[: ]{0,2}[a-z0-9 \n]{0,40}`)).Draw(t, "text")
		flag := rapid.Int8Range(-1, 1).Draw(t, "flag")
		v := detect.Classify(tool, args, text, flag)
		switch v.Outcome {
		case detect.OK, detect.Error, detect.Pending, detect.Refusal:
		default:
			t.Fatalf("Outcome = %q, want ok, error, pending or refusal", v.Outcome)
		}
		if (v.Outcome == detect.Refusal) != (v.Refuser != detect.NoRefuser) {
			t.Fatalf("Outcome = %q, Refuser = %q, want Refuser set if and only if the outcome is a refusal", v.Outcome, v.Refuser)
		}
		if v != detect.Classify(tool, args, text, flag) {
			t.Fatalf("second Classify = %+v, want %+v", detect.Classify(tool, args, text, flag), v)
		}
	})
}

func FuzzClassify(f *testing.F) {
	f.Add("bash", deployArgs, "Exit code 3\nboom", int8(1))
	f.Add("x", "{}", `{"error": "", "response": "{'a': [1, {'b': None}]}"}`, int8(0))
	f.Add("run_code", `{"code":"x"}`, "exitcode: 0 (execution succeeded)\nCode output: \x1b[31mE", int8(-1))
	f.Add("bash", `{"command":"a <<EOF\n|&;'"}`, "<returncode>9</returncode><output>", int8(0))
	for _, text := range framedResults() {
		f.Add("bash", deployArgs, text, int8(0))
	}
	f.Fuzz(func(t *testing.T, tool, args, text string, flag int8) {
		v := detect.Classify(tool, args, text, flag)
		if v.Outcome == "" {
			t.Fatal("Classify returned no outcome")
		}
		if s := detect.Signature(text); len(s) > detect.MaxSignature {
			t.Fatalf("len(Signature) = %d, want at most %d", len(s), detect.MaxSignature)
		}
		detect.Kinds(text, v)
		detect.Kinds(text, detect.Judgement{Outcome: detect.Error})
		_, _, _ = detect.Verification(tool, args, text)
	})
}

func BenchmarkClassify8K(b *testing.B) {
	line := "src/cart/total.go: compiled in 12ms, 0 warnings, cache hit for shop/cart\n"
	text := strings.Repeat(line, 8192/len(line)) + "done\n"
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if v := detect.Classify("bash", deployArgs, text, 0); v.Outcome != detect.OK {
			b.Fatalf("Classify = %+v, want Outcome = %q", v, detect.OK)
		}
	}
}

func BenchmarkClassify8KJSON(b *testing.B) {
	item := `{"id":"1234","name":"a lamp","price":12.5,"options":{"color":"red","size":"L"},"error":null},`
	text := `{"items":[` + strings.Repeat(item, 8192/len(item)) + `{}],"next":null}`
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if v := detect.Classify("list_items", "{}", text, 0); v.Outcome != detect.OK {
			b.Fatalf("Classify = %+v, want Outcome = %q", v, detect.OK)
		}
	}
}

// Each request repeats the results of earlier turns. Failed looks only at the results that are new in the request.
func TestFailedReturnsOnlyNewErrors(t *testing.T) {
	callMessage := func(id string) obj {
		return obj{"role": "assistant", "content": nil, "tool_calls": []obj{{"id": id, "type": "function", "function": obj{"name": "bash", "arguments": `{"command":"make"}`}}}}
	}
	resultMessage := func(id, text string) obj { return obj{"role": "tool", "tool_call_id": id, "content": text} }
	const failed = "Traceback (most recent call last):\n  File \"x.py\", line 1\nValueError: no wall"
	for name, tc := range map[string]struct {
		new     []obj
		results int
		want    []int
	}{
		"no result":                {[]obj{{"role": "user", "content": "go on"}}, 0, nil},
		"no error":                 {[]obj{resultMessage("c2", "done")}, 1, nil},
		"second of three results":  {[]obj{resultMessage("c2", "done"), resultMessage("c3", failed), resultMessage("c4", "done")}, 3, []int{1}},
		"error before a user turn": {[]obj{resultMessage("c2", failed), {"role": "user", "content": "stop"}}, 1, []int{0}},
	} {
		msgs := append([]obj{{"role": "user", "content": "build"}, callMessage("c1"), resultMessage("c1", failed), callMessage("c2")}, tc.new...)
		results, got := new(detect.Results).Failed(parse(t, wire.Chat, obj{"messages": msgs}), nil)
		if results != tc.results || !slices.Equal(got, tc.want) {
			t.Errorf("%s: Failed = %d results with failures at %v, want %d results with failures at %v", name, results, got, tc.results, tc.want)
		}
	}
}
