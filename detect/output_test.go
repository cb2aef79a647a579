package detect_test

import (
	"encoding/json"
	"strings"
	"testing"

	"precept/detect"
)

// program is a call whose exit status is hidden by a pipe: only the output counts.
const program = `{"command":"./release.sh 2>&1 | tail -20"}`

// proof is the evidence of a line.
type proof int

const (
	nothing  proof = iota
	reported       // a program reports an error: evidence in the last lines without a report of a success
	summary        // the summary of a tool on a failure: evidence in any line
)

// Last lines of tools that fail, with their rules, and similar lines without evidence.
func TestLastLineOfAFailingToolIsEvidence(t *testing.T) {
	for _, c := range []struct {
		line  string
		proof proof
		rule  string
	}{
		{"npm ERR! code ELIFECYCLE", summary, "npm"},
		{"npm error code 1", summary, "npm"},
		{"npm warn deprecated inflight@1.0.6", nothing, ""},
		{"ninja: build stopped: subcommand failed.", summary, "ninja"},
		{"ninja: error: unknown target 'demo'", summary, "ninja"},
		{"ninja: no work to do.", nothing, ""},
		{"curl: (7) Failed to connect to 127.0.0.1 port 9", summary, "curl"},
		{"curl 8.5.0 (x86_64-pc-linux-gnu)", nothing, ""},
		{"CMake Error at CMakeLists.txt:3 (add_library):", summary, "cmake"},
		{"CMake Warning at CMakeLists.txt:3 (message):", nothing, ""},
		{"CONFLICT (content): Merge conflict in cart.go", summary, "git"},
		{"CONFLICTS are marked in the table", nothing, ""},
		{"! [rejected]        main -> main (fetch first)", summary, "git"},
		{"! [remote rejected] main -> main (hook declined)", summary, "git"},
		{"! [new branch]      main -> main", nothing, ""},
		{"ERROR tests/test_cart.py::test_total - KeyError", summary, "pytest"},
		{"ERROR of measurement is below 2%", nothing, ""},
		{"ELIFECYCLE  Command failed with exit code 1.", summary, "pnpm"},
		{"ERR_PNPM_NO_SCRIPT  Missing script: build", summary, "pnpm"},
		{"make: *** [all] Error 2", summary, "make"},
		{"make[2]: *** [Makefile:3: all] Error 1", summary, "make"},
		{"gmake: *** No rule to make target 'demo'.  Stop.", summary, "make"},
		{"make: Nothing to be done for 'all'.", nothing, ""},
		{"mark: *** three stars", nothing, ""},
		{"--- FAIL: TestTotal (0.00s)", summary, "go-test"},
		{"--- PASS: TestTotal (0.00s)", nothing, ""},
		{"--- FAILS: 0", nothing, ""},
		{"FAIL", summary, "test-fail"},
		{"FAILED", summary, "test-fail"},
		{"FAIL\tshop/cart\t0.004s", summary, "test-fail"},
		{"FAIL: test_total (tests.Cart)", summary, "test-fail"},
		{"FAIL  cart/total", summary, "test-fail"},
		{"FAIL src/cart.test.ts", summary, "test-fail"},
		{"FAIL fast is on", nothing, ""},
		{"FAILOVER took 3 s", nothing, ""},
		{"FAILED (failures=1)", summary, "test-fail"},
		{"FAILED tests/test_cart.py::test_total - assert 3 == 4", summary, "test-fail"},
		{"FAILED uploads: 0", nothing, ""},
		{"FAILURE: Build failed with an exception.", summary, "test-fail"},
		{"Tests:       1 failed, 8 passed, 9 total", summary, "jest"},
		{"Tests:       10 failed, 9 total", summary, "jest"},
		{"Tests:       0 failed, 9 total", nothing, ""},
		{"Test Suites: 2 failed, 3 total", summary, "jest"},
		{"Test Files  1 failed | 2 passed (3)", summary, "jest"},
		{"Trials: 2 failed, 3 total", nothing, ""},
		{"test result: FAILED. 1 passed; 1 failed; 0 ignored", summary, "cargo-test"},
		{"tests finished: 2 failed", summary, "test-fail"},
		{"tests finished: 1 exceptions", summary, "test-fail"},
		{"tests finished: 0 failed, 0 exceptions", nothing, ""},
		{"==== 1 failed, 21 passed in 3.20s ====", summary, "pytest"},
		{"==== 2 errors in 0.10s ====", summary, "pytest"},
		{"==== 0 failed, 0 errors in 0.10s ====", nothing, ""},
		{"==== 3 failed ====", nothing, ""},
		{"==== 3 failed in sequence", nothing, ""},
		{"BUILD FAILED in 3s", summary, "build"},
		{"BUILD FAILURE", summary, "build"},
		{"BUILD FAILOVER", nothing, ""},
		{"panic: runtime error: index out of range [3]", summary, "crash"},
		{"panic room: locked", nothing, ""},
		{"Segmentation fault (core dumped)", summary, "crash"},
		{"Aborted (core dumped)", summary, "crash"},
		{"Killed", summary, "crash"},
		{"Killed 3 processes", nothing, ""},
		{"fatal: not a git repository", reported, "fatal"},
		{"fatal error: all goroutines are asleep - deadlock!", reported, "fatal"},
		{"fatal flaws: none", nothing, ""},
		{"error TS2322: Type 'x' is not assignable", summary, "tsc"},
		{"src/cart.ts(12,9): error TS2322: Type", summary, "tsc"},
		{"src/cart.ts:12:9 - error TS2322: Type", summary, "tsc"},
		{"what error TS2322 means", nothing, ""},
		{"error[E0425]: cannot find value `total`", summary, "cargo"},
		{"error: could not compile `shop` (bin)", summary, "cargo"},
		{"cart.c:7:12: error: 'total' undeclared", summary, "compiler"},
		{"cart.c:1:10: fatal error: cart.h: gone", summary, "compiler"},
		{"Cart.cs(3,4): error CS0103: The name", summary, "compiler"},
		{"in the chapter on 3: error: is explained", nothing, ""},
		{"cart: error: unread", nothing, ""},
		{"error Command failed with exit code 1.", summary, "script"},
		{`error: script "build" exited with code 1`, summary, "script"},
		{"error: Recipe `build` failed on line 3", summary, "script"},
		{"Error response from daemon: no such container", summary, "command"},
		{"error: failed to push some refs to 'example.org'", summary, "command"},
		{"Found 3 errors in 2 files", summary, "linter"},
		{"Found errors in earlier drafts", nothing, ""},
		{"✖ 2 problems (1 error, 1 warning)", summary, "eslint"},
		{"✖ 2 problems (0 errors, 2 warnings)", nothing, ""},
		{"[ERROR] BUILD of module cart", summary, "maven"},
		{"[ERROR] COMPILATION ERROR :", summary, "maven"},
		{"[ERROR] Failed to execute goal on project shop", summary, "maven"},
		{"[ERROR] Re-run with -X", reported, "error-line"},
		{"==17==ERROR: AddressSanitizer: heap-use-after-free", summary, "sanitizer"},
		{"==17==HINT: no ERROR: here", nothing, ""},
		{"error: boom", reported, "error-line"},
		{"ERROR - boom", reported, "error-line"},
		{"Error! boom", reported, "error-line"},
		{"error. boom", reported, "error-line"},
		{"error (3) boom", reported, "error-line"},
		{"error [3] boom", reported, "error-line"},
		{"errors are counted below", nothing, ""},
		{"an error: boom", nothing, ""},
		{"ValueError: boom", reported, "exception"},
		{"shop.cart.NoSuchThingError: gone", reported, "exception"},
		{"java.lang.IllegalStateException: closed", reported, "exception"},
		{"TypeError [ERR_INVALID]: gone", reported, "exception"},
		{"werkzeug.NotFound: 404", reported, "exception"},
		{"KeyboardInterrupt", reported, "exception"},
		{"valueError: lower case", nothing, ""},
		{"ValueError is documented", nothing, ""},
		{"a ValueError: in prose", nothing, ""},
		{"_ValueError: private", nothing, ""},
		{"ls: cannot access 'x': No such file or directory", reported, "shell"},
		{"bash: cartctl: command not found", reported, "shell"},
		{"mkdir: build: Permission denied", reported, "shell"},
		{"grep: write error: Broken pipe", nothing, ""},
		{"note: no such luck", nothing, ""},
		{"3 failing", summary, "mocha"},
		{"0 failing", nothing, ""},
		{"failing", nothing, ""},
		{"husky - pre-commit hook failed (add --no-verify)", summary, "command"},
		{"husky - pre-commit script exited with code 1", summary, "command"},
		{"husky - installed", nothing, ""},
		{"shop/cart [build failed]", summary, "go-build"},
		{"shop/cart [setup failed]", summary, "go-build"},
		{"shop/cart [no test files]", nothing, ""},
		{"./main.go:12:5: undefined: total", reported, "go-build"},
		{"./main.go:12: no column", nothing, ""},
		{"see main.go:12:5: it is there", nothing, ""},
		{"exit status 2", reported, "go-run"},
		{"exit status 0", nothing, ""},
		{"exit status of the child was 2", nothing, ""},
		{"Uncaught ReferenceError: x", reported, "exception"},
		{"Unhandled rejection", reported, "exception"},
		{"thread 'main' panicked at src/main.rs:3:5:", reported, "exception"},
		{"thread 'main' started", nothing, ""},
		{"Caused by: java.io.IOException: gone", reported, "exception"},
	} {
		const after = "\nstep 3\nstep 4\nstep 5\nstep 6\nstep 7"
		for place, text := range map[string]string{
			"last":          "step 1\nstep 2\n" + c.line,
			"in the middle": "step 1\n" + c.line + after,
			"all went well": "step 1\n" + c.line + after + "\nAll tests passed",
		} {
			bad := c.proof == summary && place != "all went well" || c.proof == reported && place == "last"
			got := detect.Classify("bash", program, text, 0)
			if (got.Outcome == detect.Error) != bad || bad && got.Rule != "text:"+c.rule {
				t.Errorf("%s, %s: %s by %q, want an error: %t", c.line, place, got.Outcome, got.Rule, bad)
			}
		}
	}
}

// A summary of a success overrides earlier errors; a similar line does not.
func TestSuccessSummaryOverridesEarlierErrors(t *testing.T) {
	for line, well := range map[string]bool{
		"==== 22 passed in 3.20s ====":               true,
		"==== 22 passed, 0 failed in 3.20s ====":     true,
		"==== 22 passed, 1 error in 3.20s ====":      false,
		"==== 22 passed ====":                        false,
		"Tests:       9 passed, 9 total":             true,
		"Test Files  3 passed (3)":                   true,
		"Tests:       9 total":                       false,
		"test result: ok. 3 passed; 0 failed":        true,
		"test result: unknown":                       false,
		"All checks passed!":                         true,
		"All checks are listed":                      false,
		"Success: no issues found in 3 source files": true,
		"build succeeded":                            true,
		"Build succeeded.":                           true,
		"BUILD SUCCESSFUL in 3s":                     true,
		"All tests passed":                           true,
		"Found 0 errors. Watching for file changes.": true,
		"Successfully installed flask-3.0":           true,
		"Success is near":                            false,
		"ok  \tshop/cart\t0.003s":                    true,
		"ok so far":                                  false,
		"PASS":                                       true,
		"PASSAGE":                                    false,
		"OK":                                         true,
		"OK then":                                    false,
		"12 passing":                                 true,
		"0 passing":                                  false,
		"12 passed":                                  true,
		"all of them passed":                         false,
		"12 of what was asked for in the list is what passed": false,
	} {
		text := "step 1\nerror: boom\nstep 2\n" + line
		got := detect.Classify("bash", program, text, 0)
		if (got.Outcome == detect.OK) != well {
			t.Errorf("%q: %s by %q, want ok: %t", line, got.Outcome, got.Rule, well)
		}
		if sure := detect.Classify("bash", program, "step 1\n"+line, 0).Sure; sure != well {
			t.Errorf("%q: Sure is %v, want %v", line, sure, well)
		}
	}
}

// An exception at the end of the output ended the program; an exception followed by much output was
// caught.
func TestTracebackAtTheEndIsFailure(t *testing.T) {
	const trace = "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    f()\nLookup: gone"
	for name, c := range map[string]struct {
		text string
		bad  bool
	}{
		"it ends the output":   {"step 1\n" + trace, true},
		"three lines follow":   {"step 1\n" + trace + "\na\nb\nc", true},
		"four lines follow":    {"step 1\n" + trace + "\na\nb\nc\nd", false},
		"the last one ends it": {"step 1\n" + trace + "\na\nb\nc\nd\ne\n" + trace, true},
		"it is cut off": {
			"step 1\nTraceback (most recent call last):\n  File \"a.py\", line 3", true,
		},
		"node died":             {"step 1\nstack\nstack\n\nNode.js v22.3.0", true},
		"node tells of itself":  {"step 1\nNode.js versions that are supported: 20, 22", false},
		"node died long before": {"step 1\nNode.js v22.3.0" + strings.Repeat("\nstep", 9), false},
	} {
		if got := detect.Classify("bash", program, c.text, 0); (got.Outcome == detect.Error) != c.bad {
			t.Errorf("%s: %s by %q, want an error: %t", name, got.Outcome, got.Rule, c.bad)
		}
	}
}

// Printed source code says nothing about the program.
func TestPrintedSourceIsNotEvidence(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		bad  bool
	}{
		"a diff":            {"diff --git a/x b/x\n-a\n+b\nerror: boom", false},
		"a hunk":            {"@@ -1 +1 @@\n-a\n+b\nerror: boom", false},
		"numbered by cat":   {"1\ta\n2\tb\n3\tc\nerror: boom", false},
		"numbered by grep":  {"1:a\n2-b\n3:c\nerror: boom", false},
		"numbered by arrow": {"1→a\n2→b\n3→c\nerror: boom", false},
		"half of it is":     {"1:a\n2:b\nc\nerror: boom", true},
		"two lines":         {"1:a\nerror: boom", true},
		"plain":             {"a\nb\nc\nerror: boom", true},
	} {
		if got := detect.Classify("bash", program, c.text, 0); (got.Outcome == detect.Error) != c.bad {
			t.Errorf("%s: %s by %q, want an error: %t", name, got.Outcome, got.Rule, c.bad)
		}
	}
}

// Complaints of the shell are a failure if they are half of the output.
func TestShellComplaintsInHalfTheLinesAreFailure(t *testing.T) {
	const complaint = "ls: cannot access 'x': No such file or directory\n"
	for n, bad := range map[int]bool{7: true, 6: true, 5: false, 1: false} {
		text := "step 1\n" + strings.Repeat(complaint, n) + strings.Repeat("step\n", 5)
		if got := detect.Classify("bash", program, text, 0); (got.Outcome == detect.Error) != bad {
			t.Errorf("%d complaints and 6 other lines: %s by %q, want an error: %t", n, got.Outcome, got.Rule, bad)
		}
	}
}

// The harness reports a timeout at either end of the output.
func TestTimeoutIsFoundAtEitherEnd(t *testing.T) {
	for text, rule := range map[string]string{
		"Command timed out after 120s\nCollecting flask":                   "text:timeout",
		"Collecting flask\n<Command timed out after 120s>":                 "text:timeout",
		"Collecting\nThe command was stopped because it took more than 9s": "text:timeout",
		"Execution exceeded the time limit\nCollecting":                    "text:timeout",
		"Process killed: time limit exceeded\nCollecting":                  "text:timeout",
		"Shell tool terminated: exceeding timeout of 9s\nCollecting":       "text:timeout",
		"Requests timed out before, now they do not\nCollecting":           "",
		"Collecting\nrequests timed out twice":                             "",
	} {
		if got := detect.Classify("bash", `{"command":"./release.sh"}`, text, 0); got.Rule != rule {
			t.Errorf("%q: %s by %q, want %q", text, got.Outcome, got.Rule, rule)
		}
	}
}

// Failures in the words of common programs, without an exit code; and the same words in a file or
// before a success.
func TestFailureWordsOfCommonPrograms(t *testing.T) {
	for _, c := range []struct {
		line, out string
		want      detect.Outcome
	}{
		{
			"terraform fmt -x",
			"flag provided but not defined: -x\nUsage: terraform [global options] fmt [options]",
			detect.Error,
		},
		{
			"npx eslint src",
			"ESLint: 9.2.0\n\nESLint couldn't find an eslint.config.(js|mjs|cjs) file.\n",
			detect.Error,
		},
		{"apt-get install jq", "E: Unable to locate package jq", detect.Error},
		{
			"go build",
			"go: go.mod file not found in current directory or any parent directory; see 'go help modules'",
			detect.Error,
		},
		{
			"docker ps",
			"Cannot connect to the Docker daemon at unix:///run/docker.sock. Is the docker daemon running?",
			detect.Error,
		},
		{
			"kubectl get pods",
			"The connection to the server localhost:8080 was refused - did you specify the right host or port?",
			detect.Error,
		},
		{"kubectl logs web", "Error from server (NotFound): pods \"web\" not found", detect.Error},
		{
			"git commit -m x", "Author identity unknown\n\n*** Please tell me who you are.",
			detect.Error,
		},
		{"docker run -it x", "the input device is not a TTY", detect.Error},
		{"cat NOTES.md", "E: Unable to locate package jq\nThen run apt-get update.", detect.OK},
		{"grep -rn daemon docs", "docs/a.md:3: the input device is not a TTY", detect.OK},
		{"kubectl get pods", "NAME  READY\nweb-1 1/1", detect.OK},
	} {
		args, err := json.Marshal(map[string]string{"command": c.line})
		if err != nil {
			t.Fatal(err)
		}
		if got := detect.Classify("bash", string(args), c.out, 0); got.Outcome != c.want {
			t.Errorf("%s: got %v, want %s", c.line, got, c.want)
		}
	}
}
