package detect_test

import (
	"testing"

	"precept/detect"
)

// Without an exit code, or with the exit code of a different command in a pipe, only the output shows the failure.
func TestFailureIsFoundInTheOutput(t *testing.T) {
	command := func(cmd string) string { return `{"command":"` + cmd + `"}` }
	checkResults(t, []resultCase{
		{
			"tsc piped to head", "bash", command("npx tsc --noEmit 2>&1 | head -20"),
			"lib/cart.ts(12,9): error TS2322: Type 'string' is not assignable to type 'number'.\nlib/cart.ts(19,3): error TS2304: Cannot find name 'total'.",
			0, detect.Error, "text:tsc",
		},
		{
			"go test piped to tail, exit 0", "exec_command", `{"cmd":"go test ./... | tail -5"}`,
			"Process exited with code 0\nOutput:\n--- FAIL: TestTotal (0.00s)\n    cart_test.go:9: got 3\nFAIL\nFAIL\tshop/cart\t0.004s\n",
			0, detect.Error, "text:",
		},
		{
			"pytest piped to tail", "bash", command("pytest -q | tail -3"),
			"FAILED tests/test_cart.py::test_total - assert 3 == 4\n1 failed, 7 passed in 0.12s", 0,
			detect.Error, "text:test-fail",
		},
		{
			"npm piped to grep", "bash", command("npm run build 2>&1 | grep -i err"),
			"npm error code 2\nnpm error path /srv/app", 0, detect.Error, "text:npm",
		},
		{
			"make masked by true", "bash", command("make all || true"),
			"cc -c cart.c\nmake: *** [Makefile:4: cart.o] Error 1", 0, detect.Error, "text:make",
		},
		{
			"eslint masked by echo", "bash", command("npx eslint . ; echo done"),
			"/srv/app/cart.js\n  3:1  error  'x' is not defined  no-undef\n\n✖ 1 problem (1 error, 0 warnings)\n\ndone",
			0, detect.Error, "text:eslint",
		},
		{
			"node terminated by an exception", "bash", command("node app.js 2>&1 | head -30"),
			"node:internal/modules/cjs/loader:936\n  throw err;\n  ^\n\nError: Cannot find module './cart'\n    at Module._resolve (node:internal)\n\nNode.js v22.1.0",
			0, detect.Error, "text:node",
		},
		{
			"traceback at the end", "bash", command("python app.py 2>&1 | tail -4"),
			"starting\nTraceback (most recent call last):\n  File \"/srv/app.py\", line 3, in <module>\n    cart.total()\nAttributeError: 'NoneType' object has no attribute 'total'",
			0, detect.Error, "text:traceback",
		},
		{
			"log line with a colour", "bash", command("npm start"),
			"> app@1.0.0 start\n\n\x1b[32minfo\x1b[39m: listening\n\x1b[31merror\x1b[39m: Failed to open the database",
			0, detect.Error, "text:error-line",
		},
		{
			"command not found", "bash", command("gradel build"), "bash: gradel: command not found", 0,
			detect.Error, "",
		},
		{
			"grep on a missing file", "bash", command("grep -n total carts.go"),
			"grep: carts.go: No such file or directory", 0, detect.Error, "text:shell",
		},
		{
			"grep run by find", "bash", command("find . -name c.go -exec grep total {} +"),
			"grep: ./c.go: Permission denied", 0, detect.Error, "text:shell",
		},
		{
			"a search program that is not installed", "bash", command("rg total"), "/bin/sh: 1: rg: not found", 0,
			detect.Error, "text:shell",
		},
		{
			"docker without a daemon", "bash", command("docker ps"),
			"Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
			0, detect.Error, "text:shell",
		},
		{
			"cd into a missing folder", "bash", command("cd nowhere && npm test"),
			"(eval):cd:1: no such file or directory: nowhere", 0, detect.Error, "",
		},
		{
			"cargo", "bash", command("cargo build 2>&1 | tail"),
			"error[E0425]: cannot find value `total` in this scope\nerror: could not compile `shop` (bin) due to 1 previous error",
			0, detect.Error, "text:",
		},
		{
			"gcc", "bash", command("gcc -c cart.c"),
			"cart.c:7:12: error: 'total' undeclared\ncart.c: In function 'main':", 0, detect.Error,
			"text:compiler",
		},
		{
			"go build", "bash", command("go build ./..."),
			"# shop/cart\ncart/cart.go:9:2: undefined: total", 0, detect.Error, "text:go-build",
		},
		{
			"rejected git push", "bash", command("git push origin main"),
			"To example.org:shop.git\n ! [rejected]        main -> main (fetch first)\nerror: failed to push some refs to 'example.org:shop.git'",
			0, detect.Error, "text:",
		},
		{
			"jest", "bash", command("npx jest 2>&1 | tail -5"),
			"Tests:       1 failed, 8 passed, 9 total\nSnapshots:   0 total\nTime:        1.2 s", 0,
			detect.Error, "text:jest",
		},
		{
			"jest with a suite that did not start", "bash", command("npx jest"),
			"Test Suites: 1 failed, 7 passed, 8 total\nTests:       41 passed, 41 total\nSnapshots:   0 total\nTime:        1.2 s", 0,
			detect.Error, "text:jest",
		},
		{
			"timeout in the first line", "bash", command("pip install -r requirements.txt"),
			"Command timed out after 120s\nCollecting flask", 0, detect.Error, "text:timeout",
		},
		{
			"a JSON result with a harness note", "terminal", command("sh b.sh"),
			`{"output": "no rule", "exit_code": 3, "error": null}` + "\n\n[Tool loop warning: it has failed 2 times]",
			0, detect.Error, "",
		},
		{
			"escaped line feeds", "bash", command("sh b.sh"),
			`building demo\nerror: no rule to make target demo\n\nExit code: 3`, 0, detect.Error,
			"",
		},
		{
			"several lines as a JSON string", "bash", command("sh b.sh"),
			`"building demo\nno rule to make target\nExit code: 3"`, 0, detect.Error, "",
		},
		{"one line as a JSON string", "bash", command("sh b.sh"), `"sh: 1: cc: not found\n"`, 0, detect.Error, ""},
		{
			"an error message with exit code 0", "run_code", `{"code":"main()"}`,
			"exitcode: 0 (execution succeeded)\nCode output: Error: Cannot open prices.csv\n", 0,
			detect.Error, "soft:",
		},
	})
}

func TestMentionedErrorsAreNotAFailure(t *testing.T) {
	command := func(cmd string) string { return `{"command":"` + cmd + `"}` }
	checkResults(t, []resultCase{
		{
			"source file", "read", `{"path":"cart.ts"}`,
			"export function total() {\n  throw new Error('error: not found');\n}\n// Error: handled below\ncatch (error) { console.error(`Error: ${error}`) }\n\nError: x",
			0, detect.OK, "",
		},
		{
			"numbered source", "str_replace_editor", `{"command":"view","path":"/srv/a.py"}`,
			"Here's the result of running `cat -n` on /srv/a.py:\n     1\traise ValueError('x')\n     2\tError: y",
			0, detect.OK, "",
		},
		{
			"source printed by sed", "bash", command("sed -n 1,5p cart.go"),
			"if err != nil {\n\treturn fmt.Errorf(\\\"error: %w\\\", err)\n}\npanic: not reached",
			0, detect.OK, "",
		},
		{
			"grep for a line with \\n and error", "bash", command("grep -n total a.c"),
			`7: puts("total\nerror: none\n")`, 0, detect.OK, "",
		},
		{
			"grep for errors", "bash", command("grep -rn 'error TS' logs | head"),
			"logs/a.log:3: lib/cart.ts(12,9): error TS2322: Type\nlogs/a.log:9: npm error code 2",
			0, detect.OK, "",
		},
		{
			"grep without file names in a log", "bash", command("grep -h Cannot ci.log"),
			"Cannot connect to the Docker daemon at unix:///var/run/docker.sock", 0, detect.OK, "",
		},
		{
			"grep with file names", "bash", command("grep -rn cannot notes"),
			"notes/a.md:3: ls: cannot access 'x': No such file or directory", 0, detect.OK, "",
		},
		{
			"a log's last line", "bash", command("tail -1 ci.log"),
			"make.sh: line 3: gcc: command not found", 0, detect.OK, "",
		},
		{
			"git diff", "bash", command("git diff"),
			"diff --git a/cart.go b/cart.go\n--- a/cart.go\n+++ b/cart.go\n@@ -1 +1 @@\n-panic: x\n+Error: y",
			0, detect.OK, "",
		},
		{
			"error words in test names", "bash", command("go test -v ./..."),
			"=== RUN   TestErrorIsReported\n--- PASS: TestErrorIsReported (0.00s)\n=== RUN   TestFailedLogin\n--- PASS: TestFailedLogin (0.00s)\nPASS\nok  \tshop/cart\t0.003s",
			0, detect.OK, "",
		},
		{
			"an error logged by a passing pytest", "bash", command("pytest"),
			"tests/test_errors.py::test_error PASSED\nERROR    root:cart.py:9 boom\n===== 8 passed, 1 warning in 0.31s =====",
			0, detect.OK, "",
		},
		{
			"an edited file", "Edit", `{"file_path":"/srv/a.go","old_string":"x","new_string":"error"}`,
			"The file /srv/a.go has been updated. Here's the result:\n 3\treturn errors.New(\"not found\")",
			0, detect.OK, "edited",
		},
		{
			"a written file", "write", `{"path":"errors.md","content":"x"}`,
			"Successfully wrote 812 bytes to errors.md", 0, detect.OK, "",
		},
		{
			"codex patch", "apply_patch", "*** Begin Patch\n*** End Patch",
			"Exit code: 0\nWall time: 0.1 seconds\nOutput:\nSuccess. Updated the following files:\nM errors.go\n",
			0, detect.OK, "",
		},
		{
			"grep finds nothing", "bash", command("grep -n total cart.go"),
			"(no output)\n\nCommand exited with code 1", 1, detect.OK, "nothing-found",
		},
		{
			"search without matches", "Grep", `{"pattern":"total"}`, "No matches found", 0,
			detect.OK, "",
		},
		{"an empty list", "search_flights", `{"from":"AAA"}`, "[]", 0, detect.OK, ""},
		{
			"pending order record", "get_order", `{"id":"7"}`,
			`{"id":"7","status":"pending","items":[{"name":"lamp","error":null}]}`, 0, detect.OK,
			"",
		},
		{
			"failed payment record", "get_payment", `{"id":"7"}`,
			`{"id":"7","status":"failed","amount":3,"currency":"EUR","card":"1111","at":"2025-01-01","customer":"9","order":"4"}`,
			0, detect.OK, "",
		},
		{
			"data with partial errors", "get_job", `{"id":"7"}`,
			`{"data":{"job":1},"errors":[{"message":"partial"}]}`, 0, detect.OK, "",
		},
		{
			"an empty error field", "api_call", `{}`, `{"error":"","response":"{'result': [1, 2]}"}`, 0,
			detect.OK, "",
		},
		{
			"success field is true", "api_call", `{}`, `{"success":true,"error":null,"message":"no error"}`,
			0, detect.OK, "json:success",
		},
		{
			"encyclopedia article with cannot", "Search", `{"query":"forbidden planet"}`,
			"Forbidden Planet is a film of 1956. It cannot be compared.", 0, detect.OK, "",
		},
		{
			"encyclopedia article with Failure", "Search", `{"query":"x"}`,
			"Failure to Launch is a film. Errors were made.", 0, detect.OK, "",
		},
		{
			"long encyclopedia article", "Search", `{"query":"x"}`,
			"Unknown is a film of 2011 directed by somebody whose name is long enough that the whole of this paragraph is clearly not a message: it goes on and on, tells the plot in all its turns, names the actors, the places where it was shot, the prizes, the reviews, and what the critics made of it in the end, which was not much.",
			0, detect.OK, "",
		},
		{
			"output that is too large", "Read", `{"file_path":"/srv/big.log"}`,
			"<persisted-output>\nOutput too large (1.2MB). Full output saved to: /tmp/x.txt\n", -1,
			detect.OK, "",
		},
		{
			"a warning by pip", "bash", command("pip install flask"),
			"Collecting flask\nSuccessfully installed flask-3.0\nWARNING: Running pip as the root user",
			0, detect.OK, "",
		},
		{
			"broken pipe", "bash", command("grep -r x . | head -1"),
			"./a.go:x\ngrep: write error: Broken pipe", 0, detect.OK, "",
		},
		{
			"a caught exception", "bash", command("python run.py"),
			"Traceback (most recent call last):\n  File \"a.py\", line 1\nValueError: x\nretrying\nconnected\nread 10 rows\nread 20 rows\nall rows read",
			0, detect.OK, "",
		},
		{
			"search matches", "Grep", `{"pattern":"Error:"}`, "Error: string;\nerror: boolean",
			0, detect.OK, "matches",
		},
		{
			"last lines from several logs", "bash", command("for f in *.log; do tail -1 $f; done"),
			"Error: x\nFAIL", 0, detect.OK, "",
		},
		{
			"a report that quotes an error", "Task", `{"prompt":"fix it"}`,
			"## Summary\n\nFixed:\n\nError: Cannot find module './a'", 0, detect.OK, "",
		},
		{
			"a reminder after a file", "Read", `{"file_path":"/a"}`,
			"     1→x\n\n<system-reminder>\nError: whatever\n</system-reminder>\n", 0, detect.OK,
			"",
		},
	})
}

// Some servers offer a program as a tool. Classify judges the result of such a tool as the program's output.
func TestToolsNamedAfterAProgramAreJudgedAsCommands(t *testing.T) {
	t.Parallel()
	const failed = "--- FAIL: TestCart (0.00s)\n    cart_test.go:9: got 3, want 4\nFAIL\nFAIL\tshop/cart\t0.018s\nFAIL"
	for _, tc := range []struct {
		tool, args, text string
		want             detect.Outcome
	}{
		{"go_test", `{"package":"./cart"}`, failed, detect.Error},
		{"go_test", `{"package":"./cart"}`, "ok  \tshop/cart\t0.018s", detect.OK},
		{"go_to_shelf", `{"shelf":"4"}`, failed, detect.OK},
		{"helm", `{"command":"upgrade shop ./shop"}`, "Release \"shop\" does not exist. Installing it now.\nW0814 warnings.go:70] deprecated\nError: unable to build kubernetes objects", detect.Error},
		{"git", `{"args":["merge","main"]}`, "Auto-merging cart.go\nCONFLICT (content): Merge conflict in cart.go\nAutomatic merge failed; fix conflicts and then commit the result.", detect.Error},
		{"read_file", `{"path":"plan.txt"}`, "<files><file><path>plan.txt</path><error>File not found: plan.txt</error></file></files>", detect.Error},
		{"k8s_helm", `{"args":["upgrade","shop","./shop"]}`, "W0318 warnings.go:70] unknown field\nError: INSTALLATION FAILED: no image", detect.Error},
		{"git", `{"args":["log","-2"]}`, "commit 4f2a\n\n    cart: a merge failed; fix it", detect.OK},
	} {
		if got := detect.Classify(tc.tool, tc.args, tc.text, 0); got.Outcome != tc.want {
			t.Errorf("%s %s: result %q: got outcome %s (rule %q), want %s", tc.tool, tc.args, tc.text, got.Outcome, got.Rule, tc.want)
		}
	}
}

// In a dictionary, the first line of an entry repeats the argument. Even if the argument is "error", the entry is
// content, not an error message.
func TestResultThatRepeatsAnArgumentIsContent(t *testing.T) {
	t.Parallel()
	if got := detect.Classify("lemma", `{"lemma":"error"}`, "error\nLat. error, -oris. 1. A wrong idea.", 0); got.Outcome != detect.OK {
		t.Errorf("dictionary entry: got outcome %s (rule %q), want ok", got.Outcome, got.Rule)
	}
	if got := detect.Classify("lemma", `{"lemma":"house"}`, "error\nthe dictionary is closed", 0); got.Outcome != detect.Error {
		t.Errorf("error message: got outcome %s (rule %q), want error", got.Outcome, got.Rule)
	}
}
