package detect_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"precept/detect"
)

// pipedArgs is a command with a pipe, which hides the exit code. Therefore Classify can judge only the output.
const pipedArgs = `{"command":"./release.sh 2>&1 | tail -20"}`

// evidence is what a line says about the outcome.
type evidence int

const (
	none           evidence = iota
	errorMessage            // a failure if it is among the last lines
	failureSummary          // a failure in any line, unless a line that reports a success follows
)

func TestClassifyReadsErrorLines(t *testing.T) {
	for _, tc := range []struct {
		line     string
		evidence evidence
		rule     string
	}{
		{"npm ERR! code ELIFECYCLE", failureSummary, "npm"},
		{"npm error code 1", failureSummary, "npm"},
		{"npm warn deprecated inflight@1.0.6", none, ""},
		{"ninja: build stopped: subcommand failed.", failureSummary, "ninja"},
		{"ninja: error: unknown target 'demo'", failureSummary, "ninja"},
		{"ninja: no work to do.", none, ""},
		{"curl: (7) Failed to connect to 127.0.0.1 port 9", failureSummary, "curl"},
		{"curl 8.5.0 (x86_64-pc-linux-gnu)", none, ""},
		{"CMake Error at CMakeLists.txt:3 (add_library):", failureSummary, "cmake"},
		{"CMake Warning at CMakeLists.txt:3 (message):", none, ""},
		{"CONFLICT (content): Merge conflict in cart.go", failureSummary, "git"},
		{"CONFLICTS are marked in the table", none, ""},
		{"! [rejected]        main -> main (fetch first)", failureSummary, "git"},
		{"! [remote rejected] main -> main (hook declined)", failureSummary, "git"},
		{"! [new branch]      main -> main", none, ""},
		{"ERROR tests/test_cart.py::test_total - KeyError", failureSummary, "pytest"},
		{"ERROR of measurement is below 2%", none, ""},
		{"ELIFECYCLE  Command failed with exit code 1.", failureSummary, "pnpm"},
		{"ERR_PNPM_NO_SCRIPT  Missing script: build", failureSummary, "pnpm"},
		{"make: *** [all] Error 2", failureSummary, "make"},
		{"make[2]: *** [Makefile:3: all] Error 1", failureSummary, "make"},
		{"gmake: *** No rule to make target 'demo'.  Stop.", failureSummary, "make"},
		{"make: Nothing to be done for 'all'.", none, ""},
		{"mark: *** three stars", none, ""},
		{"--- FAIL: TestTotal (0.00s)", failureSummary, "go-test"},
		{"--- PASS: TestTotal (0.00s)", none, ""},
		{"--- FAILS: 0", none, ""},
		{"FAIL", failureSummary, "test-fail"},
		{"FAILED", failureSummary, "test-fail"},
		{"FAIL\tshop/cart\t0.004s", failureSummary, "test-fail"},
		{"FAIL: test_total (tests.Cart)", failureSummary, "test-fail"},
		{"FAIL  cart/total", failureSummary, "test-fail"},
		{"FAIL src/cart.test.ts", failureSummary, "test-fail"},
		{"FAIL fast is on", none, ""},
		{"FAILOVER took 3 s", none, ""},
		{"FAILED (failures=1)", failureSummary, "test-fail"},
		{"FAILED tests/test_cart.py::test_total - assert 3 == 4", failureSummary, "test-fail"},
		{"FAILED uploads: 0", none, ""},
		{"FAILURE: Build failed with an exception.", failureSummary, "test-fail"},
		{"Tests:       1 failed, 8 passed, 9 total", failureSummary, "jest"},
		{"Tests:       10 failed, 9 total", failureSummary, "jest"},
		{"Tests:       0 failed, 9 total", none, ""},
		{"Test Suites: 2 failed, 3 total", failureSummary, "jest"},
		{"Test Files  1 failed | 2 passed (3)", failureSummary, "jest"},
		{"Trials: 2 failed, 3 total", none, ""},
		{"test result: FAILED. 1 passed; 1 failed; 0 ignored", failureSummary, "cargo-test"},
		{"tests finished: 2 failed", failureSummary, "test-fail"},
		{"tests finished: 1 exceptions", failureSummary, "test-fail"},
		{"tests finished: 0 failed, 0 exceptions", none, ""},
		{"==== 1 failed, 21 passed in 3.20s ====", failureSummary, "pytest"},
		{"==== 2 errors in 0.10s ====", failureSummary, "pytest"},
		{"==== 0 failed, 0 errors in 0.10s ====", none, ""},
		{"==== 3 failed ====", none, ""},
		{"==== 3 failed in sequence", none, ""},
		{"BUILD FAILED in 3s", failureSummary, "build"},
		{"BUILD FAILURE", failureSummary, "build"},
		{"BUILD FAILOVER", none, ""},
		{"panic: runtime error: index out of range [3]", failureSummary, "crash"},
		{"panic room: locked", none, ""},
		{"Segmentation fault (core dumped)", failureSummary, "crash"},
		{"Aborted (core dumped)", failureSummary, "crash"},
		{"Killed", failureSummary, "crash"},
		{"Killed 3 processes", none, ""},
		{"fatal: not a git repository", errorMessage, "fatal"},
		{"fatal error: all goroutines are asleep - deadlock!", errorMessage, "fatal"},
		{"fatal flaws: none", none, ""},
		{"error TS2322: Type 'x' is not assignable", failureSummary, "tsc"},
		{"src/cart.ts(12,9): error TS2322: Type", failureSummary, "tsc"},
		{"src/cart.ts:12:9 - error TS2322: Type", failureSummary, "tsc"},
		{"what error TS2322 means", none, ""},
		{"error[E0425]: cannot find value `total`", failureSummary, "cargo"},
		{"error: could not compile `shop` (bin)", failureSummary, "cargo"},
		{"cart.c:7:12: error: 'total' undeclared", failureSummary, "compiler"},
		{"cart.c:1:10: fatal error: cart.h: gone", failureSummary, "compiler"},
		{"Cart.cs(3,4): error CS0103: The name", failureSummary, "compiler"},
		{"in the chapter on 3: error: is explained", none, ""},
		{"cart: error: unread", none, ""},
		{"error Command failed with exit code 1.", failureSummary, "script"},
		{`error: script "build" exited with code 1`, failureSummary, "script"},
		{"error: Recipe `build` failed on line 3", failureSummary, "script"},
		{"Error response from daemon: no such container", failureSummary, "command"},
		{"error: failed to push some refs to 'example.org'", failureSummary, "command"},
		{"Found 3 errors in 2 files", failureSummary, "linter"},
		{"Found errors in earlier drafts", none, ""},
		{"✖ 2 problems (1 error, 1 warning)", failureSummary, "eslint"},
		{"✖ 2 problems (0 errors, 2 warnings)", none, ""},
		{"[ERROR] BUILD of module cart", failureSummary, "maven"},
		{"[ERROR] COMPILATION ERROR :", failureSummary, "maven"},
		{"[ERROR] Failed to execute goal on project shop", failureSummary, "maven"},
		{"[ERROR] Re-run with -X", errorMessage, "error-line"},
		{"==17==ERROR: AddressSanitizer: heap-use-after-free", failureSummary, "sanitizer"},
		{"==17==HINT: no ERROR: here", none, ""},
		{"error: boom", errorMessage, "error-line"},
		{"ERROR - boom", errorMessage, "error-line"},
		{"Error! boom", errorMessage, "error-line"},
		{"error. boom", errorMessage, "error-line"},
		{"error (3) boom", errorMessage, "error-line"},
		{"error [3] boom", errorMessage, "error-line"},
		{"errors are counted below", none, ""},
		{"an error: boom", none, ""},
		{"ValueError: boom", errorMessage, "exception"},
		{"shop.cart.NoSuchThingError: gone", errorMessage, "exception"},
		{"java.lang.IllegalStateException: closed", errorMessage, "exception"},
		{"TypeError [ERR_INVALID]: gone", errorMessage, "exception"},
		{"werkzeug.NotFound: 404", errorMessage, "exception"},
		{"KeyboardInterrupt", errorMessage, "exception"},
		{"valueError: lower case", none, ""},
		{"ValueError is documented", none, ""},
		{"a ValueError: in prose", none, ""},
		{"_ValueError: private", none, ""},
		{"ls: cannot access 'x': No such file or directory", errorMessage, "shell"},
		{"bash: cartctl: command not found", errorMessage, "shell"},
		{"mkdir: build: Permission denied", errorMessage, "shell"},
		{"grep: write error: Broken pipe", none, ""},
		{"note: no such luck", none, ""},
		{"3 failing", failureSummary, "mocha"},
		{"0 failing", none, ""},
		{"failing", none, ""},
		{"husky - pre-commit hook failed (add --no-verify)", failureSummary, "command"},
		{"husky - pre-commit script exited with code 1", failureSummary, "command"},
		{"husky - installed", none, ""},
		{"shop/cart [build failed]", failureSummary, "go-build"},
		{"shop/cart [setup failed]", failureSummary, "go-build"},
		{"shop/cart [no test files]", none, ""},
		{"./main.go:12:5: undefined: total", errorMessage, "go-build"},
		{"./main.go:12: no column", none, ""},
		{"see main.go:12:5: it is there", none, ""},
		{"exit status 2", errorMessage, "go-run"},
		{"exit status 0", none, ""},
		{"exit status of the child was 2", none, ""},
		{"Uncaught ReferenceError: x", errorMessage, "exception"},
		{"Unhandled rejection", errorMessage, "exception"},
		{"thread 'main' panicked at src/main.rs:3:5:", errorMessage, "exception"},
		{"thread 'main' started", none, ""},
		{"Caused by: java.io.IOException: gone", errorMessage, "exception"},
	} {
		const after = "\nstep 3\nstep 4\nstep 5\nstep 6\nstep 7"
		for place, text := range map[string]string{
			"at the end":       "step 1\nstep 2\n" + tc.line,
			"in the middle":    "step 1\n" + tc.line + after,
			"before a success": "step 1\n" + tc.line + after + "\nAll tests passed",
		} {
			isFailure := tc.evidence == failureSummary && place != "before a success" || tc.evidence == errorMessage && place == "at the end"
			got := detect.Classify("bash", pipedArgs, text, 0)
			if (got.Outcome == detect.Error) != isFailure || isFailure && got.Rule != "text:"+tc.rule {
				t.Errorf("%q %s: got outcome %s (rule %q), want an error (rule text:%[6]s): %[5]t", tc.line, place, got.Outcome, got.Rule, isFailure, tc.rule)
			}
		}
	}
}

func TestSuccessSummaryOverridesEarlierErrors(t *testing.T) {
	for line, isSuccess := range map[string]bool{
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
		got := detect.Classify("bash", pipedArgs, text, 0)
		if (got.Outcome == detect.OK) != isSuccess {
			t.Errorf("error line before %q: got outcome %s (rule %q), want a success: %t", line, got.Outcome, got.Rule, isSuccess)
		}
		if got := detect.Classify("bash", pipedArgs, "step 1\n"+line, 0).ReportsSuccess; got != isSuccess {
			t.Errorf("last line %q: ReportsSuccess = %v, want %v", line, got, isSuccess)
		}
	}
}

// A traceback with more than three lines after it is not a failure, because the program continued.
func TestTracebackAtTheEndIsAFailure(t *testing.T) {
	const trace = "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    f()\nLookup: gone"
	for name, tc := range map[string]struct {
		text      string
		isFailure bool
	}{
		"no line after it":              {"step 1\n" + trace, true},
		"three lines after it":          {"step 1\n" + trace + "\na\nb\nc", true},
		"four lines after it":           {"step 1\n" + trace + "\na\nb\nc\nd", false},
		"a second traceback at the end": {"step 1\n" + trace + "\na\nb\nc\nd\ne\n" + trace, true},
		"a truncated traceback": {
			"step 1\nTraceback (most recent call last):\n  File \"a.py\", line 3", true,
		},
		"node version at the end":        {"step 1\nstack\nstack\n\nNode.js v22.3.0", true},
		"node version in a sentence":     {"step 1\nNode.js versions that are supported: 20, 22", false},
		"node version before nine lines": {"step 1\nNode.js v22.3.0" + strings.Repeat("\nstep", 9), false},
	} {
		if got := detect.Classify("bash", pipedArgs, tc.text, 0); (got.Outcome == detect.Error) != tc.isFailure {
			t.Errorf("%s: got outcome %s (rule %q), want an error: %t", name, got.Outcome, got.Rule, tc.isFailure)
		}
	}
}

func TestErrorLineInPrintedSourceIsNotAFailure(t *testing.T) {
	for name, tc := range map[string]struct {
		text      string
		isFailure bool
	}{
		"a diff":                      {"diff --git a/x b/x\n-a\n+b\nerror: boom", false},
		"a diff hunk":                 {"@@ -1 +1 @@\n-a\n+b\nerror: boom", false},
		"numbered by cat":             {"1\ta\n2\tb\n3\tc\nerror: boom", false},
		"numbered by grep":            {"1:a\n2-b\n3:c\nerror: boom", false},
		"numbered with arrows":        {"1→a\n2→b\n3→c\nerror: boom", false},
		"two of three lines numbered": {"1:a\n2:b\nc\nerror: boom", true},
		"one line numbered":           {"1:a\nerror: boom", true},
		"no line numbered":            {"a\nb\nc\nerror: boom", true},
	} {
		if got := detect.Classify("bash", pipedArgs, tc.text, 0); (got.Outcome == detect.Error) != tc.isFailure {
			t.Errorf("%s: got outcome %s (rule %q), want an error: %t", name, got.Outcome, got.Rule, tc.isFailure)
		}
	}
}

func TestShellErrorsInHalfOfTheLinesAreAFailure(t *testing.T) {
	const shellError = "ls: cannot access 'x': No such file or directory\n"
	for n, isFailure := range map[int]bool{7: true, 6: true, 5: false, 1: false} {
		text := "step 1\n" + strings.Repeat(shellError, n) + strings.Repeat("step\n", 5)
		if got := detect.Classify("bash", pipedArgs, text, 0); (got.Outcome == detect.Error) != isFailure {
			t.Errorf("%d shell error lines and 6 other lines: got outcome %s (rule %q), want an error: %t", n, got.Outcome, got.Rule, isFailure)
		}
	}
}

func TestTimeoutIsFoundInFirstOrLastLine(t *testing.T) {
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
			t.Errorf("%q: got outcome %s and rule %q, want rule %q", text, got.Outcome, got.Rule, rule)
		}
	}
}

func TestTimeoutMessageMayQuoteACommandWithSeveralLines(t *testing.T) {
	const script = "python3 -c \"\nfor n in range(9):\n    print('try', n)\n\""
	for text, rule := range map[string]string{
		"The last command <command>" + script + "</command> timed out and has been killed.\nThe output of the command was:\n <output>\n\n</output>": "text:timeout",
		"The last command <command>tail -f app.log</command> timed out and has been killed.\nThe output of the command was:\n <output>\nready\n":    "text:timeout",
		"The command '" + script + "' was cancelled because it took more than 25 seconds. Try another command.":                                     "text:timeout",
		"Command `" + script + "` timed out after 30 seconds":                                                                                       "text:timeout",
		"The last command <command>" + script + "</command> printed:\n3 requests timed out":                                                         "",
		"The command '" + script + "' printed nothing\n2 of x and y timed out":                                                                      "",
	} {
		for _, line := range []string{"./release.sh", "tail -f app.log"} {
			if line != "./release.sh" && rule == "" {
				continue
			}
			args := `{"command":"` + line + `"}`
			if got := detect.Classify("bash", args, text, 0); got.Rule != rule {
				t.Errorf("%s with result %q: got outcome %s and rule %q, want rule %q", line, text, got.Outcome, got.Rule, rule)
			}
		}
	}
}

func TestReadOnlyCommandsMayEndInAnError(t *testing.T) {
	const listing = "-rw-r--r-- 1 root root 812 Aug 16 00:40 shop.db\n"
	for _, tc := range []struct {
		line, out string
		want      detect.Outcome
	}{
		{"ls -l shop.db && file shop.db", listing + "/bin/sh: 1: file: not found", detect.Error},
		{"ls -l shop.db; xxd shop.db", listing + "bash: line 2: xxd: command not found", detect.Error},
		{"ls -l shop.db && cat shop.sql", listing + "cat: shop.sql: No such file or directory", detect.Error},
		{"ls -l && cat 'my notes'", listing + "cat: 'my notes': No such file or directory", detect.OK},
		{"ls -l && cat build.log", listing + "bash: line 2: xxd: command not found", detect.OK},
		{"ls -l && cat build.log", listing + "cat: shop.sql: No such file or directory", detect.OK},
		{"ls -l && cat build.log", listing + "file build.log not found", detect.OK},
	} {
		args := `{"command":` + strconv.Quote(tc.line) + `}`
		if got := detect.Classify("bash", args, tc.out, 0); got.Outcome != tc.want {
			t.Errorf("%s with output %q: got outcome %s (rule %q), want %s", tc.line, tc.out, got.Outcome, got.Rule, tc.want)
		}
		if got := detect.Classify("bash", args, tc.out+"\n\nCommand exited with code 0", 0); got.Outcome != detect.OK {
			t.Errorf("%s with exit code 0 and output %q: got outcome %s (rule %q), want ok", tc.line, tc.out, got.Outcome, got.Rule)
		}
	}
}

func TestScriptsLastLineMayHaveAFailureSymbol(t *testing.T) {
	const steps = "Loading the price list\nThis can take a minute.\nRows: 12\nColumns: 4\n"
	for last, want := range map[string]detect.Outcome{
		"❌ Failed to save the price list.":           detect.Error,
		"✗ could not save the price list: disk full": detect.Error,
		"✖ 1 price (0 missing)":                      detect.OK,
		"✗ Saturday":                                 detect.OK,
		"❌ Failed to save the price list.\nRows: 12": detect.OK,
		"❌ Failed to save the price list.\n1 passed": detect.OK,
	} {
		if got := detect.Classify("bash", `{"command":"python3 prices.py"}`, steps+last, 0); got.Outcome != want {
			t.Errorf("output that ends with %q: got outcome %s (rule %q), want %s", last, got.Outcome, got.Rule, want)
		}
	}
}

func TestCommonProgramFailuresAreErrors(t *testing.T) {
	for _, tc := range []struct {
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
		{"service shop start && service shop status", "Starting shop: shopd failed!", detect.Error},
		{"python3 shop.py", "Error importing prices: No module named 'rows'", detect.Error},
		{"python3 shop.py", "Loading.\nError packing order 3: no price\nPacked 8 orders", detect.OK},
		{"python3 shop.py", "Error handling works as planned: no price", detect.OK},
		{"python3 shop.py", "a\nb\n=== Test 3: no prices ===\nERROR (expected): no price", detect.OK},
		{
			"pip install shop",
			"Preparing metadata (pyproject.toml): finished with status 'error'\nerror: metadata-generation-failed\n\n" +
				"× Encountered error while generating package metadata.\n╰─> See above for output.\n\nnote: about the package\nhint: See above for details.",
			detect.Error,
		},
		{"./shop", "terminate called after throwing an instance of 'std::out_of_range'\n  what():  rows\na\nb\nc\nd", detect.Error},
		{"service shop start", "shop: unrecognized service", detect.Error},
		{"gfortran shop.f90", "Fatal Error: Cannot open module file 'rows.mod'\ncompilation terminated.", detect.Error},
		{"nano shop.sql", "Interactive operation 'nano shop.sql' is not supported by this environment", detect.Error},
		{"./pay.sh \"x", "bash: -c: line 1: unexpected EOF while looking for matching `\"'", detect.Error},
		{
			"aws s3 mb s3://shop",
			"make_bucket failed: s3://shop An error occurred (InvalidAccessKeyId) when calling the CreateBucket operation: No such key.",
			detect.Error,
		},
		{
			"conda create -n shop python=3.10 numpy=9",
			"Solving environment: ...working... failed\n\nPackagesNotFoundError: The following packages are not available from current channels:\n\n" +
				"  - numpy=9\n\nCurrent channels:\n\n  - defaults\n\nTo search for alternate channels, navigate to\n\n    an address\n\nand use the search bar.",
			detect.Error,
		},
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
		args, err := json.Marshal(map[string]string{"command": tc.line})
		if err != nil {
			t.Fatal(err)
		}
		if got := detect.Classify("bash", string(args), tc.out, 0); got.Outcome != tc.want {
			t.Errorf("%s: got judgement %+v, want outcome %s", tc.line, got, tc.want)
		}
	}
}
