package detect_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"precept/detect"
)

func TestClassifyHandlesEdgeCases(t *testing.T) {
	const shell = `{"command":"./deploy"}`
	checkResults(t, []resultCase{
		{"a read tool with the success flag, and the text \"Error\"", "Read", `{}`, "Error", -1, detect.OK, "flag"},
		{"an exit code in brackets without output", "order", `{}`, "[exit 5", 0, detect.Error, "exit-code"},
		{
			"codex reports a failed script", "order", `{}`, "Script failed\np", 0, detect.Error,
			"exit-code",
		},
		{"exit code 0", "order", `{}`, "Exit code: 0\nfine", 0, detect.OK, "exit-code"},
		{
			"exit code 0, and an error in the output", "order", `{}`,
			"Exit code: 0\nError: no route", 0, detect.Error, "soft:",
		},
		{
			"a message with the word \"Not\"", "order", `{}`, `{'message':'Not delivered'}`, 0, detect.Error,
			"",
		},
		{"a message with the word \"Now\"", "order", `{}`, `{'message':'Now delivered'}`, 0, detect.OK, ""},
		{
			"a summary in the last line", "bash", shell, "-\n-\n-\ntest result: FAILED", 0,
			detect.Error, "text:",
		},
		{
			"only a traceback's first line", "bash", shell, "Traceback (most recent call last)", 0,
			detect.Error, "text:traceback",
		},
		{
			"a tool's traceback", "order", `{}`,
			"Traceback (most recent call last):\n  File \"a.py\"\nKeyError: 'x'", 0, detect.Error,
			"text:traceback",
		},
		{"an err line, then a passing package", "bash", shell, "err:\nok  \tshop", 0, detect.OK, ""},
		{"an error line, then a passing package", "bash", shell, "error:\nok  \tshop", 0, detect.OK, ""},
		{"an approval in the middle of a line", "bash", shell, "requires approval in a TTY", 0, detect.OK, ""},
		{"only the word \"approval\"", "bash", shell, "approval", 0, detect.OK, ""},
		{"only the words \"in background\"", "order", `{}`, "in background", 0, detect.OK, ""},
		{
			"an error in the fourth line from the end", "bash", shell, "e\nerror:\nh\ns\n0", 0,
			detect.Error, "text:",
		},
		{
			"an error, then empty lines", "bash", shell, "e\nerror:\n\n\n\nC", 0, detect.Error,
			"text:",
		},
		{
			"an error in the fifth line from the end", "bash", shell, "e\nerror:\nh\ns\n0\n1", 0,
			detect.OK, "",
		},
		{"an open bracket with a line number", "bash", shell, "l .(1:error 0", 0, detect.Error, ""},
		{
			"a page title on line 12", "order", `{}`,
			"1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n# Error 404", 0, detect.Error, "page:",
		},
		{
			"a page title on line 13", "order", `{}`,
			"1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n# Error 404", 0, detect.OK, "",
		},
		{"a second-level heading", "order", `{}`, "## Error 404", 0, detect.Error, "page:"},
		{
			"kubectl rejects an invalid object", "bash", shell,
			"The Deployment \"web\" is invalid: spec: Required value", 0, detect.Error, "",
		},
		{"a harmless sentence that begins with \"The\"", "bash", shell, "The release is out", 0, detect.OK, ""},
		{
			"a command that reads logs", "bash", `{"command":"docker logs web"}`, "err: one request was lost",
			0, detect.OK, "",
		},
		{
			"a command that reads the remotes", "bash", `{"command":"git remote -v"}`, "Err: a remote's name", 0,
			detect.OK, "",
		},
		{
			"a command that changes the remotes", "bash", `{"command":"git remote add x y"}`,
			"error: remote x already exists.", 0, detect.Error, "",
		},
		{
			"a file name followed by \": No\"", "bash", `{"command":"ls rows.mp4"}`,
			"rows.mp4: No", 0, detect.OK, "",
		},
		{"a Ruby extension without a file name", "bash", shell, ".rb:in 0", 0, detect.OK, ""},
		{"webpack is mentioned", "bash", shell, "webpack 5 error", 0, detect.OK, ""},
		{
			"a failed webpack build", "bash", shell, "webpack 5.90.0 compiled with 1 error in 300 ms", 0,
			detect.Error, "",
		},
		{
			"an error in a box with double borders", "bash", shell,
			"╔═══╗\n║ Error: no browser is installed ║\n╚═══╝", 0, detect.Error, "",
		},
		{
			"quiet pytest's last line", "bash", `{"command":"pytest -q | tail -1"}`,
			"1 failed, 3 passed in 0.12s", 0, detect.Error, "text:pytest",
		},
		{
			"a count for attempts, not for tests", "bash", shell, "1 failed attempt, 3 passed in 0.12s", 0,
			detect.OK, "",
		},
		{"an empty output", "bash", shell, "", 0, detect.OK, ""},
		{"an empty result with the error flag", "order", `{}`, "", 1, detect.Error, "flag"},
		{
			"an exit code after a long output", "bash", shell,
			strings.Repeat("fine\n", 100_000) + "Command exited with code 2", 0, detect.Error,
			"exit-code",
		},
	})
}

// A pipe hides the exit code, so only a summary in the output shows the outcome.
func TestVerificationReturnsKindAndOutcome(t *testing.T) {
	for _, tc := range []struct{ tool, args, text, want string }{
		{"bash", `{"command":"nx tsc`, "", "lint passed"}, // truncated JSON; as a goal of nx or make, tsc counts as a lint
		{"bash", `{"command":"npx tsc --noEmit"}`, "", "build passed"},
		{"bash", `{"command":"cargo clippy"}`, "fine", "lint passed"},
		{"bash", `{"command":"go vet ./..."}`, "", "lint passed"},
		{"bash", `{"command":"make; true"}`, "fine", ""},
		{"bash", `{"command":"make;hello"}`, "fine", "build passed"},
		{"bash", `{"command":"sbt test"}`, "all is well", "test passed"},
		{"bash", `{"command":"pytest | tail"}`, "", ""},
		{"bash", `{"command":"pytest | tail -3"}`, "3 passed in 0.1s", "test passed"},
		{"bash", `{"command":"pytest | tail -3"}`, "1 failed, 3 passed in 0.1s", "test failed"},
		{
			"bash", `{"command":"pytest | tail -1"}`,
			"7 passed, 2 skipped, 1 warning in 62.10s (0:01:02)", "test passed",
		},
		{"bash", `{"command":"pytest | tail -1"}`, "2 errors in 0.10s", "test failed"},
		{"bash", `{"command":"pytest | tail -1"}`, "3 passed in all", ""},
		{"bash", `{"command":"pytest"}`, "3 passed in 0.1s", "test passed"},
		{"bash", `{"command":"pytest"}`, "1 failed\n\nCommand exited with code 1", "test failed"},
		{"bash", `{"command":"ls"}`, "a.go", ""},
		{"test", `{}`, "fine", ""},
		{"run_tests", `{}`, "3 passed", "test passed"},
		{"", `{"command":"cargo clippy"}`, "fine", ""},
		{"notes", `{"command":"cargo clippy"}`, "fine", ""},
	} {
		kind, passed, ok := detect.Verification(tc.tool, tc.args, tc.text)
		got := ""
		if ok {
			got = kind + " " + map[bool]string{true: "passed", false: "failed"}[passed]
		}
		if got != tc.want {
			t.Errorf("Verification(%s, %s, %q) = %q, want %q", tc.tool, tc.args, tc.text, got, tc.want)
		}
	}
}

func TestShortTurnsAreClassified(t *testing.T) {
	for text, want := range map[string]detect.Feeling{
		"ok": detect.Approval, "k": detect.Approval, "k(": detect.Approval, "k but ": detect.Approval,
		"k t : m": detect.Neutral, "error Command failed": detect.Rejection, "Done.": detect.Neutral, "": detect.Neutral,
		"no": detect.Rejection,
	} {
		if got := detect.ClassifyTurn(text, text, "It is done."); got.Feeling != want {
			t.Errorf("%q: got feeling %s (rule %q), want %s", text, got.Feeling, got.Rule, want)
		}
		if got := detect.ClassifyTurn(text, text, ""); got.Feeling != detect.Neutral {
			t.Errorf("%q without an earlier answer: got feeling %s (rule %q), want neutral", text, got.Feeling, got.Rule)
		}
	}
}

// The functions that read texts must not panic on any text, and a second call must return the same result.
func TestClassifyIsDeterministicOnAnyText(t *testing.T) {
	texts := []string{
		`{"command":"cd web && npx tsc --noEmit 2>&1 | head -20; echo $? > x","timeout":3,"env":["A=1",{"b":null}]}`,
		`[{"query":"./deploy","result":"[Command exited with code 2]\nno","error":"Command \"x\" failed","success":false}]`,
		"Chunk ID: 0a1b2c\nWall time: 0.03 seconds\nProcess exited with code 2\nOriginal token count: 9\nOutput:\nno such stage\n",
		"<returncode>2</returncode>\n<output>\nTraceback (most recent call last):\n  File \"a.py\", line 3\nKeyError: 'x'\n</output>",
		"=== RUN TestTotal\n--- FAIL: TestTotal (0.00s)\n    cart_test.go:9: got 3\nFAIL\tshop/cart\t0.004s\n==== 1 failed, 7 passed in 0.12s ====",
		"╷\n│ Error: Unsupported argument\n│\n│   on main.tf line 3\n╵\n\x1b[31merror\x1b[39m TS2322: no\nbash: gradel: command not found",
		"The user doesn't want to proceed with this tool use. <system-reminder>Keep it short.</system-reminder> no, that's wrong",
		"text(await tools.exec_command({cmd: \"gr\\x65p -n 'x' `a` ${b}\"}));",
		"{'message': 'Not delivered', \"code\": 404, 'ok': False, 'items': [1, 2.5e3, None], 'x': ...}",
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom(texts).Draw(t, "text")
		i := rapid.IntRange(0, len(text)).Draw(t, "from")
		j := rapid.IntRange(i, len(text)).Draw(t, "to")
		if rapid.Bool().Draw(t, "joined") {
			text += rapid.SampledFrom(texts).Draw(t, "other")
		}
		piece := text[i:j]
		tool := rapid.SampledFrom([]string{"bash", "exec", "Read", "Edit", "Grep", "order", "run_code", "browser_click", ""}).Draw(t, "tool")
		args := rapid.SampledFrom([]string{piece, `{"command":"make"}`, `{}`, ""}).Draw(t, "args")
		readAll := func() string {
			kind, passed, ok := detect.Verification(tool, args, piece)
			canon := detect.CanonicalArgs(args)
			return fmt.Sprint(detect.Classify(tool, args, piece, 0), detect.Classify(tool, args, piece, 1), detect.Signature(piece), detect.Headline(piece),
				detect.ClassifyTurn(piece, piece, text), kind, passed, ok, detect.CallIdentity(tool, args), canon)
		}
		once := readAll()
		if repeated := readAll(); repeated != once {
			t.Fatalf("second calls with %q: got %s, want %s as from the first calls", piece, repeated, once)
		}
		if s := detect.Signature(piece); len(s) > detect.MaxSignature {
			t.Fatalf("len(Signature) = %d, want at most %d", len(s), detect.MaxSignature)
		}
		_ = detect.Inspect(strings.NewReader(piece), func(detect.Finding) error { return nil })
	})
}
