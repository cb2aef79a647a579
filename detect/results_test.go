package detect_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"precept/detect"
)

type resultCase struct {
	name, tool, args, text string
	flag                   int8
	want                   detect.Outcome
	rule                   string // prefix; "" any
}

func runResults(t *testing.T, cases []resultCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := detect.Classify(c.tool, c.args, c.text, c.flag)
			if got.Outcome != c.want || !strings.HasPrefix(got.Rule, c.rule) {
				t.Errorf("got %s by %q, want %s by %q\n%s", got.Outcome, got.Rule, c.want, c.rule, c.text)
			}
		})
	}
}

const sh = `{"command":"./deploy.sh staging"}`

// TestAgentsExitCodes holds the forms in which the known agents tell how a command ended.
func TestAgentsExitCodes(t *testing.T) {
	runResults(t, []resultCase{
		{"codex fails", "exec_command", `{"cmd":"./deploy.sh"}`, "Chunk ID: 0a1b2c\nWall time: 0.0312 seconds\nProcess exited with code 2\nOriginal token count: 9\nOutput:\nno such stage\n", 0, detect.Error, "exit-code"},
		{"codex works", "exec_command", `{"cmd":"./deploy.sh"}`, "Chunk ID: 0a1b2c\nWall time: 0.0312 seconds\nProcess exited with code 0\nOriginal token count: 9\nOutput:\ndeployed\n", 0, detect.OK, "exit-code"},
		{"codex still runs", "exec_command", `{"cmd":"./serve.sh"}`, "Chunk ID: 0a1b2c\nWall time: 10.0 seconds\nProcess running with session ID 7120\nOutput:\nlistening\n", 0, detect.Pending, "pending:"},
		{"claude fails", "Bash", sh, "Exit code 2\nno such stage", 1, detect.Error, "exit-code"},
		{"claude works", "Bash", sh, "deployed", -1, detect.OK, ""},
		{"claude background", "Bash", sh, "Command running in background with ID: b7f2", -1, detect.Pending, ""},
		{"opencode says nothing", "bash", sh, "deployed", 0, detect.OK, ""},
		{"opencode timeout", "bash", sh, "starting\n\n<shell_metadata>\nshell tool terminated command after exceeding timeout 2000 ms\n</shell_metadata>", 0, detect.OK, ""},
		{"qwen fails", "run_shell_command", sh, "Command: ./deploy.sh staging\nDirectory: (root)\nOutput: no such stage\nError: (none)\nExit Code: 2\nSignal: (none)\nProcess Group PGID: (none)", 0, detect.Error, "exit-code"},
		{"qwen works, Error: (none)", "run_shell_command", sh, "Command: ./deploy.sh staging\nDirectory: (root)\nOutput: deployed\nError: (none)\nExit Code: 0\nSignal: (none)\nProcess Group PGID: (none)", 0, detect.OK, "exit-code"},
		{"pi fails", "bash", sh, "no such stage\n\nCommand exited with code 2", 0, detect.Error, "exit-code"},
		{"pi fails in silence", "bash", sh, "(no output)\n\nCommand exited with code 1", 0, detect.Error, "exit-code"},
		{"pi timeout", "bash", sh, "uploading\n\nCommand timed out after 30 seconds", 0, detect.Error, "text:timeout"},
		{"cline fails", "run_commands", `{"commands":["./deploy.sh staging"]}`, `[{"query":"./deploy.sh staging","result":"[Command exited with code 2]\nno such stage","error":"Command exited with code 2","success":false}]`, 0, detect.Error, "json:"},
		{"cline works", "run_commands", `{"commands":["./deploy.sh staging"]}`, `[{"query":"./deploy.sh staging","result":"0 errors, deployed","error":"","success":true}]`, 0, detect.OK, "json:success"},
		{"copilot fails", "bash", `{"command":"./deploy.sh","description":"Deploy"}`, "no such stage\n<shellId: 4 completed with exit code 2>", 0, detect.Error, "exit-code"},
		{"copilot works", "bash", `{"command":"./deploy.sh","description":"Deploy"}`, "deployed\n<shellId: 4 completed with exit code 0>", 0, detect.OK, "exit-code"},
		{"continue fails", "Bash", sh, "Error executing tool Bash: Error (exit code 2): no such stage", 0, detect.Error, "exit-code"},
		{"continue is silent", "Bash", sh, "", 0, detect.OK, ""},
		{"sdk app", "shell", sh, `{"stdout":"","stderr":"no such stage\n","exit_code":2}`, 0, detect.Error, "exit-code"},
		{"sdk app works", "shell", sh, `{"stdout":"deployed\n","stderr":"","exit_code":0}`, 0, detect.OK, "exit-code"},
		{"older codex", "shell", `{"command":["bash","-lc","./deploy.sh"]}`, `{"output":"no such stage\n","metadata":{"exit_code":2,"duration_seconds":0.1}}`, 0, detect.Error, "exit-code"},
		{"code runner", "run_code", `{"code":"print(1)"}`, "exitcode: 1 (execution failed)\nCode output: boom", 0, detect.Error, "exit-code"},
		{"mini-swe", "bash", sh, "<returncode>2</returncode>\n<output>\nno such stage\n</output>", 0, detect.Error, "exit-code"},
		{"openhands", "execute_bash", sh, "no such stage\n[Python interpreter: /usr/bin/python3]\n[The command completed with exit code 2.]", 0, detect.Error, "exit-code"},
		{"swe-agent prompt", "bash", `{"command":"cat notes.txt"}`, "cat: notes.txt: No such file or directory\n(Open file: )\n(Current directory: /srv/app)\nbash-$", 0, detect.Error, "text:"},
	})
}

// TestBadArguments holds what harnesses answer when they cannot run a call at all.
func TestBadArguments(t *testing.T) {
	runResults(t, []resultCase{
		{"codex", "exec_command", `{}`, "failed to parse function arguments: missing field `cmd`", 0, detect.Error, ""},
		{"claude", "Bash", `{}`, "<tool_use_error>InputValidationError: Bash failed</tool_use_error>", 1, detect.Error, ""},
		{"opencode", "bash", `{}`, "The bash tool was called with invalid arguments: expected string at command", 0, detect.Error, ""},
		{"qwen", "run_shell_command", `{}`, "params must have required property 'command'", 0, detect.Error, ""},
		{"pi", "bash", `{}`, "Validation failed for tool \"bash\":\n  - command: required", 0, detect.Error, ""},
		{"cline", "run_commands", `{}`, `{"error":"✖ Invalid input"}`, 0, detect.Error, "json:error"},
		{"copilot", "bash", `{}`, `Invalid input: "command": Required`, 0, detect.Error, ""},
		{"continue", "Bash", `{}`, `Required parameter "command" missing for tool "Bash"`, 0, detect.Error, ""},
		{"mcp", "mcp__db__query", `{"sql":"select"}`, "MCP error -32602: Invalid arguments for tool query", 0, detect.Error, ""},
		{"no such tool", "frobnicate", `{}`, "Error: No such tool available: frobnicate", 0, detect.Error, ""},
	})
}

// TestMaskedFailures: the exit code is gone, the output tells.
func TestMaskedFailures(t *testing.T) {
	mk := func(cmd string) string { return `{"command":"` + cmd + `"}` }
	runResults(t, []resultCase{
		{"tsc behind head", "bash", mk("npx tsc --noEmit 2>&1 | head -20"), "lib/cart.ts(12,9): error TS2322: Type 'string' is not assignable to type 'number'.\nlib/cart.ts(19,3): error TS2304: Cannot find name 'total'.", 0, detect.Error, "text:tsc"},
		{"go test behind tail, exit 0", "exec_command", `{"cmd":"go test ./... | tail -5"}`, "Process exited with code 0\nOutput:\n--- FAIL: TestTotal (0.00s)\n    cart_test.go:9: got 3\nFAIL\nFAIL\tshop/cart\t0.004s\n", 0, detect.Error, "text:"},
		{"pytest behind tail", "bash", mk("pytest -q | tail -3"), "FAILED tests/test_cart.py::test_total - assert 3 == 4\n1 failed, 7 passed in 0.12s", 0, detect.Error, "text:test-fail"},
		{"npm behind grep", "bash", mk("npm run build 2>&1 | grep -i err"), "npm error code 2\nnpm error path /srv/app", 0, detect.Error, "text:npm"},
		{"make or true", "bash", mk("make all || true"), "cc -c cart.c\nmake: *** [Makefile:4: cart.o] Error 1", 0, detect.Error, "text:make"},
		{"eslint and echo", "bash", mk("npx eslint . ; echo done"), "/srv/app/cart.js\n  3:1  error  'x' is not defined  no-undef\n\n✖ 1 problem (1 error, 0 warnings)\n\ndone", 0, detect.Error, "text:eslint"},
		{"node died", "bash", mk("node app.js 2>&1 | head -30"), "node:internal/modules/cjs/loader:936\n  throw err;\n  ^\n\nError: Cannot find module './cart'\n    at Module._resolve (node:internal)\n\nNode.js v22.1.0", 0, detect.Error, "text:node"},
		{"traceback last", "bash", mk("python app.py 2>&1 | tail -4"), "starting\nTraceback (most recent call last):\n  File \"/srv/app.py\", line 3, in <module>\n    cart.total()\nAttributeError: 'NoneType' object has no attribute 'total'", 0, detect.Error, "text:traceback"},
		{"log line with a colour", "bash", mk("npm start"), "> app@1.0.0 start\n\n\x1b[32minfo\x1b[39m: listening\n\x1b[31merror\x1b[39m: Failed to open the database", 0, detect.Error, "text:error-line"},
		{"command not found", "bash", mk("gradel build"), "bash: gradel: command not found", 0, detect.Error, ""},
		{"grep itself", "bash", mk("grep -n total carts.go"), "grep: carts.go: No such file or directory", 0, detect.Error, "text:shell"},
		{"what find calls", "bash", mk("find . -name c.go -exec grep total {} +"), "grep: ./c.go: Permission denied", 0, detect.Error, "text:shell"},
		{"a look that is not installed", "bash", mk("rg total"), "/bin/sh: 1: rg: not found", 0, detect.Error, "text:shell"},
		{"no daemon to look at", "bash", mk("docker ps"), "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?", 0, detect.Error, "text:shell"},
		{"cd into nothing", "bash", mk("cd nowhere && npm test"), "(eval):cd:1: no such file or directory: nowhere", 0, detect.Error, ""},
		{"cargo", "bash", mk("cargo build 2>&1 | tail"), "error[E0425]: cannot find value `total` in this scope\nerror: could not compile `shop` (bin) due to 1 previous error", 0, detect.Error, "text:"},
		{"gcc", "bash", mk("gcc -c cart.c"), "cart.c:7:12: error: 'total' undeclared\ncart.c: In function 'main':", 0, detect.Error, "text:compiler"},
		{"go build", "bash", mk("go build ./..."), "# shop/cart\ncart/cart.go:9:2: undefined: total", 0, detect.Error, "text:go-build"},
		{"git", "bash", mk("git push origin main"), "To example.org:shop.git\n ! [rejected]        main -> main (fetch first)\nerror: failed to push some refs to 'example.org:shop.git'", 0, detect.Error, "text:"},
		{"jest", "bash", mk("npx jest 2>&1 | tail -5"), "Tests:       1 failed, 8 passed, 9 total\nSnapshots:   0 total\nTime:        1.2 s", 0, detect.Error, "text:jest"},
		{"timeout after 0", "bash", mk("pip install -r requirements.txt"), "Command timed out after 120s\nCollecting flask", 0, detect.Error, "text:timeout"},
		{"an envelope and a note", "terminal", mk("sh b.sh"), `{"output": "no rule", "exit_code": 3, "error": null}` + "\n\n[Tool loop warning: it has failed 2 times]", 0, detect.Error, ""},
		{"lines escaped", "bash", mk("sh b.sh"), `building demo\nerror: no rule to make target demo\n\nExit code: 3`, 0, detect.Error, ""},
		{"a text as JSON", "bash", mk("sh b.sh"), `"building demo\nno rule to make target\nExit code: 3"`, 0, detect.Error, ""},
		{"a line as JSON", "bash", mk("sh b.sh"), `"sh: 1: cc: not found\n"`, 0, detect.Error, ""},
		{"soft failure", "run_code", `{"code":"main()"}`, "exitcode: 0 (execution succeeded)\nCode output: Error: Cannot open prices.csv\n", 0, detect.Error, "soft:"},
	})
}

// TestNoFailure: results that talk of errors and are none.
func TestNoFailure(t *testing.T) {
	mk := func(cmd string) string { return `{"command":"` + cmd + `"}` }
	runResults(t, []resultCase{
		{"source file", "read", `{"path":"cart.ts"}`, "export function total() {\n  throw new Error('error: not found');\n}\n// Error: handled below\ncatch (error) { console.error(`Error: ${error}`) }\n\nError: x", 0, detect.OK, ""},
		{"numbered source", "str_replace_editor", `{"command":"view","path":"/srv/a.py"}`, "Here's the result of running `cat -n` on /srv/a.py:\n     1\traise ValueError('x')\n     2\tError: y", 0, detect.OK, ""},
		{"source by sed", "bash", mk("sed -n 1,5p cart.go"), "if err != nil {\n\treturn fmt.Errorf(\\\"error: %w\\\", err)\n}\npanic: not reached", 0, detect.OK, ""},
		{"grep for a line's end", "bash", mk("grep -n total a.c"), `7: puts("total\nerror: none\n")`, 0, detect.OK, ""},
		{"grep for errors", "bash", mk("grep -rn 'error TS' logs | head"), "logs/a.log:3: lib/cart.ts(12,9): error TS2322: Type\nlogs/a.log:9: npm error code 2", 0, detect.OK, ""},
		{"grep with a line of a log", "bash", mk("grep -h Cannot ci.log"), "Cannot connect to the Docker daemon at unix:///var/run/docker.sock", 0, detect.OK, ""},
		{"grep with its file", "bash", mk("grep -rn cannot notes"), "notes/a.md:3: ls: cannot access 'x': No such file or directory", 0, detect.OK, ""},
		{"the last line of a log", "bash", mk("tail -1 ci.log"), "make.sh: line 3: gcc: command not found", 0, detect.OK, ""},
		{"git diff", "bash", mk("git diff"), "diff --git a/cart.go b/cart.go\n--- a/cart.go\n+++ b/cart.go\n@@ -1 +1 @@\n-panic: x\n+Error: y", 0, detect.OK, ""},
		{"test names", "bash", mk("go test -v ./..."), "=== RUN   TestErrorIsReported\n--- PASS: TestErrorIsReported (0.00s)\n=== RUN   TestFailedLogin\n--- PASS: TestFailedLogin (0.00s)\nPASS\nok  \tshop/cart\t0.003s", 0, detect.OK, ""},
		{"pytest passes", "bash", mk("pytest"), "tests/test_errors.py::test_error PASSED\nERROR    root:cart.py:9 boom\n===== 8 passed, 1 warning in 0.31s =====", 0, detect.OK, ""},
		{"edited", "Edit", `{"file_path":"/srv/a.go","old_string":"x","new_string":"error"}`, "The file /srv/a.go has been updated. Here's the result:\n 3\treturn errors.New(\"not found\")", 0, detect.OK, "edited"},
		{"written", "write", `{"path":"errors.md","content":"x"}`, "Successfully wrote 812 bytes to errors.md", 0, detect.OK, ""},
		{"codex patch", "apply_patch", "*** Begin Patch\n*** End Patch", "Exit code: 0\nWall time: 0.1 seconds\nOutput:\nSuccess. Updated the following files:\nM errors.go\n", 0, detect.OK, ""},
		{"grep finds nothing", "bash", mk("grep -n total cart.go"), "(no output)\n\nCommand exited with code 1", 1, detect.OK, "nothing-found"},
		{"search without matches", "Grep", `{"pattern":"total"}`, "No matches found", 0, detect.OK, ""},
		{"no results", "search_flights", `{"from":"AAA"}`, "[]", 0, detect.OK, ""},
		{"pending order is data", "get_order", `{"id":"7"}`, `{"id":"7","status":"pending","items":[{"name":"lamp","error":null}]}`, 0, detect.OK, ""},
		{"failed payment is data", "get_payment", `{"id":"7"}`, `{"id":"7","status":"failed","amount":3,"currency":"EUR","card":"1111","at":"2025-01-01","customer":"9","order":"4"}`, 0, detect.OK, ""},
		{"errors of the data", "get_job", `{"id":"7"}`, `{"data":{"job":1},"errors":[{"message":"partial"}]}`, 0, detect.OK, ""},
		{"error empty", "api_call", `{}`, `{"error":"","response":"{'result': [1, 2]}"}`, 0, detect.OK, ""},
		{"success true", "api_call", `{}`, `{"success":true,"error":null,"message":"no error"}`, 0, detect.OK, "json:success"},
		{"encyclopedia", "Search", `{"query":"forbidden planet"}`, "Forbidden Planet is a film of 1956. It cannot be compared.", 0, detect.OK, ""},
		{"encyclopedia 2", "Search", `{"query":"x"}`, "Failure to Launch is a film. Errors were made.", 0, detect.OK, ""},
		{"encyclopedia 3", "Search", `{"query":"x"}`, "Unknown is a film of 2011 directed by somebody whose name is long enough that the whole of this paragraph is clearly not a message: it goes on and on, tells the plot in all its turns, names the actors, the places where it was shot, the prizes, the reviews, and what the critics made of it in the end, which was not much.", 0, detect.OK, ""},
		{"too large is no error", "Read", `{"file_path":"/srv/big.log"}`, "<persisted-output>\nOutput too large (1.2MB). Full output saved to: /tmp/x.txt\n", -1, detect.OK, ""},
		{"pip warns", "bash", mk("pip install flask"), "Collecting flask\nSuccessfully installed flask-3.0\nWARNING: Running pip as the root user", 0, detect.OK, ""},
		{"broken pipe", "bash", mk("grep -r x . | head -1"), "./a.go:x\ngrep: write error: Broken pipe", 0, detect.OK, ""},
		{"caught and gone on", "bash", mk("python run.py"), "Traceback (most recent call last):\n  File \"a.py\", line 1\nValueError: x\nretrying\nconnected\nread 10 rows\nread 20 rows\nall rows read", 0, detect.OK, ""},
		{"matches of a search", "Grep", `{"pattern":"Error:"}`, "Error: string;\nerror: boolean", 0, detect.OK, "matches"},
		{"a loop over files", "bash", mk("for f in *.log; do tail -1 $f; done"), "Error: x\nFAIL", 0, detect.OK, ""},
		{"a report that quotes", "Task", `{"prompt":"fix it"}`, "## Summary\n\nFixed:\n\nError: Cannot find module './a'", 0, detect.OK, ""},
		{"reminder behind a file", "Read", `{"file_path":"/a"}`, "     1→x\n\n<system-reminder>\nError: whatever\n</system-reminder>\n", 0, detect.OK, ""},
	})
}

// TestEnvelopes: what APIs answer.
func TestEnvelopes(t *testing.T) {
	runResults(t, []resultCase{
		{"status and title", "track", `{}`, `{"type":"about:blank","title":"Bad Request","status":400}`, 0, detect.Error, "json:http"},
		{"status as text", "news", `{}`, `{"error":"","response":"{\"status\":\"403\",\"msg\":\"Key required\"}"}`, 0, detect.Error, "json:http"},
		{"python literal", "track", `{}`, `{"error": "", "response": "{'success': False, 'message': 'nothing there'}"}`, 0, detect.Error, "json:success"},
		{"message alone", "movies", `{}`, `{'message': 'Not Found'}`, 0, detect.Error, "json:message"},
		{"message alone, nested", "movies", `{}`, `{"error":"","response":"{'message': 'page must be a number: two'}"}`, 0, detect.Error, "json:message"},
		{"message alone, good", "movies", `{}`, `{"message":"Order created"}`, 0, detect.OK, ""},
		{"success false", "pay", `{}`, `{"success":false}`, 0, detect.Error, "json:success"},
		{"error object", "pay", `{}`, `{"error":{"code":7,"message":"declined"}}`, 0, detect.Error, "json:error"},
		{"data alone", "run", `{}`, `{"data":"building\nerror: no rule to make target demo\n\nExit code: 2"}`, 0, detect.Error, "exit-code"},
		{"lines under a name", "run", `{}`, `{"func":"building\nerror: no rule to make target demo\n\nExit code: 2"}`, 0, detect.Error, "exit-code"},
		{"data with more", "get_file", `{}`, `{"data":"error: none yet\n\nExit code: 2","path":"notes.md"}`, 0, detect.OK, "json"},
		{"mcp parts", "mcp__x__y", `{}`, `{"content":[{"type":"text","text":"all good"}],"isError":true}`, 0, detect.Error, "json:is-error"},
		{"text parts", "mcp__x__y", `{}`, `[{"type":"text","text":"Error: no such user"}]`, 0, detect.Error, "text:"},
		{"cut in the middle", "movies", `{}`, `{"error": "", "response": "{'result': [{'title': 'A', 'plot': 'long ...`, 0, detect.OK, ""},
		{"task goes on", "start_task", `{}`, `{"task_id":"t1","status":"running"}`, 0, detect.Pending, "json:status"},
		{"sentence", "book_room", `{}`, "Error: room 12 is taken", 0, detect.Error, "text:error-first"},
		{"assignment echo", "book_room", `{}`, `# r_1 = "Error: room 12 is taken"`, 0, detect.Error, "text:error-first"},
		{"could not", "Search", `{}`, "Could not find [Lamp]. Similar: ['Lamps', 'Light']", 0, detect.Error, "text:unable"},
		{"exception name", "run", `{}`, "KeyError: 'price'", 0, detect.Error, "text:"},
		{"page 404", "FileReader", `{"request":"open it"}`, "Address: file:///srv/a.pdf\nTitle: Error 404\nViewport: 1\n## Error 404\n\nFile not found", 0, detect.Error, "page:"},
		{"browser error page", "browser_click", `{}`, "I clicked 'x'.\n\nHere is a screenshot of [example.org](chrome-error://chromewebdata/).", 0, detect.Error, "page:unreachable"},
		{"error on its own line", "FileSurfer", `{"request":"hear it"}`, "Address: file:///a.mp3\n### Transcript:\nError. Could not transcribe it.", 0, detect.Error, "page:"},
		{"http line", "fetch_api", `{}`, "Request failed with status code 503", 0, detect.Error, ""},
		{"edit refused", "Edit", `{"file_path":"/a","old_string":"x"}`, "String to replace not found in file.\nString: x", 0, detect.Error, ""},
		{"edit twice", "edit", `{"path":"a","oldText":"x"}`, "Found 2 occurrences of the text in a. The text must be unique.", 0, detect.Error, "text:"},
		{"not read yet", "Edit", `{"file_path":"/a"}`, "File has not been read yet. Read it first before writing to it.", 0, detect.Error, ""},
		{"relative path", "str_replace_editor", `{"command":"view","path":"a"}`, "The path a is not an absolute path, it should start with `/`.", 0, detect.Error, ""},
		{"read nothing", "Read", `{"file_path":"/a"}`, "File does not exist.", 0, detect.Error, ""},
		{"enoent", "read", `{"path":"/a"}`, "ENOENT: no such file or directory, access '/a'", 0, detect.Error, ""},
	})
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		text string
		flag int8
		by   detect.Refuser
	}{
		{"The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was NOT written to the file). To tell you how to proceed, the user said:\nuse tabs", 1, detect.Person},
		{"The user doesn't want to take this action right now. STOP what you are doing and wait for the user to tell you how to proceed.", 1, detect.Person},
		{"[Request interrupted by user for tool use]", 1, detect.Person},
		{"[Request interrupted by user]", 0, detect.Person},
		{"Claude requested permissions to write to /a, but you haven't granted it yet.", 1, detect.Headless},
		{"This command requires approval", 1, detect.Headless},
		{"The user rejected permission to use this specific tool call.", 0, detect.Person},
		{"The user rejected permission to use this specific tool call with the following feedback: smaller steps", 0, detect.Person},
		{"Error: The user rejected permission to use this specific tool call.", 0, detect.Person},
		{"The user dismissed this question", 0, detect.Person},
		{"User aborted the command", 0, detect.Person},
		{"Tool execution aborted", 0, detect.Person},
		{"The user has specified a rule which prevents you from using this specific tool call.", 0, detect.Policy},
		{"exec command rejected by user", 0, detect.Person},
		{"aborted by user after 4.2s", 0, detect.Person},
		{"Chunk ID: a1\nWall time: 4.2 seconds\naborted by user after 4.2s", 0, detect.Person},
		{`This "run_shell_command" invocation was denied by permission rules for this workspace.`, 0, detect.Policy},
		{"[Operation Cancelled] Reason: User pressed escape", 0, detect.Person},
		{"User did not allow tool call", 0, detect.Person},
		{"Command was cancelled by user before it could complete.", 0, detect.Person},
		{`{"error":"Tool \"run_commands\" requires approval in a TTY session -- NOT a tool or system failure."}`, 0, detect.Headless},
		{"Tool execution denied by user.", 0, detect.Person},
		{"User rejected the tool call", 0, detect.Person},
		{"Command aborted", 0, detect.Person},
		{"building\nlinking\n\nCommand aborted", 0, detect.Person},
		{"Operation aborted", 0, detect.Person},
		{"Permission denied by user", 0, detect.Person},
		{"Tool execution was not approved.", 0, detect.Person},
		{"The user has declined to run this tool. DO NOT attempt to call this tool again.", 1, detect.Person},
		{"Permission denied and could not request permission from user", 0, detect.Headless},
		{"Permission to use Bash with command rm has been denied.", 1, detect.Policy},
	} {
		got := detect.Classify("bash", sh, c.text, c.flag)
		if got.Outcome != detect.Refusal || got.By != c.by {
			t.Errorf("%q: got %s by %q (%s), want refusal by %q", c.text, got.Outcome, got.By, got.Rule, c.by)
		}
	}
	// The same words in a file that was read are somebody's documentation.
	if got := detect.Classify("read", `{"path":"notes.md"}`, "Command aborted", 0); got.Outcome == detect.Refusal {
		t.Errorf("a file's content is no refusal: %+v", got)
	}
	if got := detect.Classify("bash", sh, "bash: /srv/x: Permission denied", 0); got.Outcome != detect.Error {
		t.Errorf("a file system's refusal is an error: %+v", got)
	}
}

func TestFlag(t *testing.T) {
	if got := detect.Classify("lookup", `{}`, "whatever", 1); got.Outcome != detect.Error {
		t.Errorf("the wire says error: %+v", got)
	}
	if got := detect.Classify("Read", `{"file_path":"/a"}`, "Error: a file that holds just this", -1); got.Outcome != detect.OK {
		t.Errorf("the wire says no error: %+v", got)
	}
	if got := detect.Classify("Bash", `{"command":"npm test | tail -3"}`, "npm error code 1", -1); got.Outcome != detect.Error {
		t.Errorf("a pipe hid the exit code from the wire: %+v", got)
	}
}

// TestClassifyTotal: any text has one of the four outcomes, refusals have a refuser, and the
// judgement is repeatable.
func TestClassifyTotal(t *testing.T) {
	tools := []string{"bash", "read", "Edit", "lookup_order", "run_code", "WebFetch", "TodoWrite", "", "ツール"}
	rapid.Check(t, func(t *rapid.T) {
		tool := rapid.SampledFrom(tools).Draw(t, "tool")
		args := rapid.OneOf(rapid.Just(sh), rapid.String(), rapid.Just(`{"path":"a"}`)).Draw(t, "args")
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[\[{'"a:, }\]\\n]{0,60}`), rapid.StringMatching(`(Error|error TS1|Exit code|FAIL)[: ]{0,2}[a-z0-9 \n]{0,40}`)).Draw(t, "text")
		flag := rapid.Int8Range(-1, 1).Draw(t, "flag")
		v := detect.Classify(tool, args, text, flag)
		switch v.Outcome {
		case detect.OK, detect.Error, detect.Pending, detect.Refusal:
		default:
			t.Fatalf("outcome %q", v.Outcome)
		}
		if (v.Outcome == detect.Refusal) != (v.By != detect.NoRefuser) {
			t.Fatalf("refusal without refuser or the reverse: %+v", v)
		}
		if v != detect.Classify(tool, args, text, flag) {
			t.Fatal("not repeatable")
		}
	})
}

func FuzzClassify(f *testing.F) {
	f.Add("bash", sh, "Exit code 3\nboom", int8(1))
	f.Add("x", "{}", `{"error": "", "response": "{'a': [1, {'b': None}]}"}`, int8(0))
	f.Add("run_code", `{"code":"x"}`, "exitcode: 0 (execution succeeded)\nCode output: \x1b[31mE", int8(-1))
	f.Add("bash", `{"command":"a <<EOF\n|&;'"}`, "<returncode>9</returncode><output>", int8(0))
	f.Fuzz(func(t *testing.T, tool, args, text string, flag int8) {
		v := detect.Classify(tool, args, text, flag)
		if v.Outcome == "" {
			t.Fatal("no outcome")
		}
		if s := detect.Signature(text); len(s) > detect.MaxSignature {
			t.Fatalf("a signature of %d bytes", len(s))
		}
		_, _, _ = detect.Verification(tool, args, text)
	})
}

func BenchmarkClassify8K(b *testing.B) {
	line := "src/cart/total.go: compiled in 12ms, 0 warnings, cache hit for shop/cart\n"
	text := strings.Repeat(line, 8192/len(line)) + "done\n"
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if v := detect.Classify("bash", sh, text, 0); v.Outcome != detect.OK {
			b.Fatal(v)
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
			b.Fatal(v)
		}
	}
}
