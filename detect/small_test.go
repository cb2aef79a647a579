package detect_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"precept/detect"
)

// Short results. Each row fails after a change of the code that no other case detects.
func TestShortResultsAreClassified(t *testing.T) {
	const shell = `{"command":"./deploy"}`
	runResults(t, []resultCase{
		{"a reader's flag comes before its words", "Read", `{}`, "Error", -1, detect.OK, "flag"},
		{"a frame of a code alone", "order", `{}`, "[exit 5", 0, detect.Error, "exit-code"},
		{
			"a program of codex that failed", "order", `{}`, "Script failed\np", 0, detect.Error,
			"exit-code",
		},
		{"an exit code of nothing", "order", `{}`, "Exit code: 0\nfine", 0, detect.OK, "exit-code"},
		{
			"an exit code of nothing, and a complaint", "order", `{}`,
			"Exit code: 0\nError: no route", 0, detect.Error, "soft:",
		},
		{
			"a message that says no", "order", `{}`, `{'message':'Not delivered'}`, 0, detect.Error,
			"",
		},
		{"one that says yes", "order", `{}`, `{'message':'Now delivered'}`, 0, detect.OK, ""},
		{
			"a summary in the last line", "bash", shell, "-\n-\n-\ntest result: FAILED", 0,
			detect.Error, "text:",
		},
		{
			"a traceback's first line", "bash", shell, "Traceback (most recent call last)", 0,
			detect.Error, "text:traceback",
		},
		{
			"a traceback of a tool", "order", `{}`,
			"Traceback (most recent call last):\n  File \"a.py\"\nKeyError: 'x'", 0, detect.Error,
			"text:traceback",
		},
		{"a complaint, and then all is well", "bash", shell, "err:\nok  \tshop", 0, detect.OK, ""},
		{"an error, and then all is well", "bash", shell, "error:\nok  \tshop", 0, detect.OK, ""},
		{"words about an approval", "bash", shell, "requires approval in a TTY", 0, detect.OK, ""},
		{"a word about an approval", "bash", shell, "approval", 0, detect.OK, ""},
		{"words about a background", "order", `{}`, "in background", 0, detect.OK, ""},
		{
			"an error, four lines before the end", "bash", shell, "e\nerror:\nh\ns\n0", 0,
			detect.Error, "text:",
		},
		{
			"an error, empty lines behind it", "bash", shell, "e\nerror:\n\n\n\nC", 0, detect.Error,
			"text:",
		},
		{
			"an error, five lines before the end", "bash", shell, "e\nerror:\nh\ns\n0\n1", 0,
			detect.OK, "",
		},
		{"a place in brackets", "bash", shell, "l .(1:error 0", 0, detect.Error, ""},
		{
			"a page's title in its twelfth line", "order", `{}`,
			"1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n# Error 404", 0, detect.Error, "page:",
		},
		{
			"a title one line later", "order", `{}`,
			"1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n# Error 404", 0, detect.OK, "",
		},
		{"a smaller title", "order", `{}`, "## Error 404", 0, detect.Error, "page:"},
		{
			"kubectl, of an object", "bash", shell,
			"The Deployment \"web\" is invalid: spec: Required value", 0, detect.Error, "",
		},
		{"a sentence that begins alike", "bash", shell, "The release is out", 0, detect.OK, ""},
		{
			"a look at logs", "bash", `{"command":"docker logs web"}`, "err: one request was lost",
			0, detect.OK, "",
		},
		{
			"a look at remotes", "bash", `{"command":"git remote -v"}`, "Err: a remote's name", 0,
			detect.OK, "",
		},
		{
			"a change of remotes", "bash", `{"command":"git remote add x y"}`,
			"error: remote x already exists.", 0, detect.Error, "",
		},
		{
			"a name that ends in a colon and No", "bash", `{"command":"ls rows.mp4"}`,
			"rows.mp4: No", 0, detect.OK, "",
		},
		{"a place in Ruby", "bash", shell, ".rb:in 0", 0, detect.OK, ""},
		{"webpack is spoken of", "bash", shell, "webpack 5 error", 0, detect.OK, ""},
		{
			"webpack", "bash", shell, "webpack 5.90.0 compiled with 1 error in 300 ms", 0,
			detect.Error, "",
		},
		{
			"a box of double lines", "bash", shell,
			"╔═══╗\n║ Error: no browser is installed ║\n╚═══╝", 0, detect.Error, "",
		},
		{
			"a quiet pytest, cut", "bash", `{"command":"pytest -q | tail -1"}`,
			"1 failed, 3 passed in 0.12s", 0, detect.Error, "text:pytest",
		},
		{
			"a count of other things", "bash", shell, "1 failed attempt, 3 passed in 0.12s", 0,
			detect.OK, "",
		},
		{"nothing", "bash", shell, "", 0, detect.OK, ""},
		{"nothing, flagged", "order", `{}`, "", 1, detect.Error, "flag"},
		{
			"a long text", "bash", shell,
			strings.Repeat("fine\n", 100_000) + "Command exited with code 2", 0, detect.Error,
			"exit-code",
		},
	})
}

// Runs that verify the work, and their outcomes. A masked run without a summary has none.
func TestVerificationAndItsOutcome(t *testing.T) {
	for _, c := range []struct{ tool, args, text, want string }{
		{"bash", `{"command":"nx tsc`, "", "lint passed"},
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
		kind, passed, ok := detect.Verification(c.tool, c.args, c.text)
		got := ""
		if ok {
			got = kind + " " + map[bool]string{true: "passed", false: "failed"}[passed]
		}
		if got != c.want {
			t.Errorf("%s %s with %q: %q, want %q", c.tool, c.args, c.text, got, c.want)
		}
	}
}

// Short turns and their answers.
func TestShortTurnsAreClassified(t *testing.T) {
	for words, want := range map[string]detect.Feeling{
		"ok": detect.Approval, "k": detect.Approval, "k(": detect.Approval, "k but ": detect.Approval,
		"k t : m": detect.Neutral, "error Command failed": detect.Rejection, "Done.": detect.Neutral, "": detect.Neutral,
		"no": detect.Rejection,
	} {
		if got := detect.ReadTurn(words, words, "It is done."); got.Feeling != want {
			t.Errorf("%q is %s by %q, want %s", words, got.Feeling, got.Rule, want)
		}
		if got := detect.ReadTurn(words, words, ""); got.Feeling != detect.Neutral {
			t.Errorf("%q, which answers no question, is %s by the rule %q", words, got.Feeling, got.Rule)
		}
	}
}

// No text is too short, cut too early or begun too late to be read, and a second reading gives the
// same.
func TestAnyPieceOfTextIsReadRepeatably(t *testing.T) {
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
		read := func() string {
			kind, passed, ok := detect.Verification(tool, args, piece)
			canon := detect.CanonicalArgs(args)
			return fmt.Sprint(detect.Classify(tool, args, piece, 0), detect.Classify(tool, args, piece, 1), detect.Signature(piece), detect.Headline(piece),
				detect.ReadTurn(piece, piece, text), kind, passed, ok, detect.CallKey(tool, args), canon)
		}
		once := read()
		if again := read(); again != once {
			t.Fatalf("%q is read as %s the second time, want %s", piece, again, once)
		}
		if s := detect.Signature(piece); len(s) > detect.MaxSignature+64 {
			t.Fatalf("the signature has %d bytes, want at most %d", len(s), detect.MaxSignature+64)
		}
		_ = detect.Inspect(strings.NewReader(piece), func(detect.Finding) error { return nil })
	})
}
