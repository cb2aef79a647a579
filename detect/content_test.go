package detect_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"precept/detect"
	"precept/internal/wire"
)

func TestReadContentIsNotAFailure(t *testing.T) {
	const logHead = "# The log of last night\n\n1\n2\n3\n4\n5\n6\n"
	n := forEachOutput(t, failedOutputs, func(command, _, text string) {
		found := strings.ReplaceAll(strings.TrimSpace(text), "\n", "\nlogs/night.txt:7:")
		for name, tc := range map[string]struct{ tool, args, text string }{
			"read by a tool":      {"read_file", `{"path":"logs/night.txt"}`, logHead + text},
			"cat":                 {"bash", shellArgs("cat logs/night.txt"), logHead + text},
			"tail":                {"bash", shellArgs("tail -n 40 logs/night.txt"), logHead + text},
			"Get-Content":         {"PowerShell", shellArgs("Get-Content logs/night.txt"), logHead + text},
			"grep":                {"bash", shellArgs("grep -rn -C 3 x logs"), "logs/night.txt:6:" + found},
			"searched by a tool":  {"grep", `{"pattern":"night"}`, "logs/night.txt:6:" + found},
			"docker logs":         {"bash", shellArgs("docker logs night"), logHead + text},
			"git show":            {"bash", shellArgs("git show HEAD:logs/night.txt"), logHead + text},
			"quoted in a thought": {"think", `{"thought":"x"}`, "I saw this in the log:\n" + text},
			"fetched from an API": {"get_log", `{"id":7}`, logHead + text},
		} {
			if j := detect.Classify(tc.tool, tc.args, tc.text, 0); j.Outcome == detect.Error {
				t.Errorf("%s, %s: got outcome error (rule %q), want no error, for\n%s", command, name, j.Rule, tc.text)
			}
		}
	})
	if n < 160 {
		t.Errorf("outputs in failed.txt: got %d, want at least 160", n)
	}
}

// A frame is the text that a harness adds to a command's output.
func TestExitCodeInTheFrameIsAnError(t *testing.T) {
	forEachOutput(t, failedOutputs, func(command, args, text string) {
		for _, frame := range []string{"Exit code: 3\nOutput:\n" + text, text + "\n\nCommand exited with code 3"} {
			if j := detect.Classify("bash", args, frame, 0); j.Outcome != detect.Error || j.Code != 3 {
				t.Errorf("%s: got judgement %+v, want outcome %q and code 3, for\n%s", command, j, detect.Error, frame)
			}
		}
	})
	forEachOutput(t, successfulOutputs, func(command, args, text string) {
		if j := detect.Classify("bash", args, text+"\n\nCommand exited with code 3", 0); j.Outcome != detect.Error {
			t.Errorf("%s: got judgement %+v, want outcome %q, for\n%s", command, j, detect.Error, text)
		}
	})
}

func TestSignatureIgnoresTheFrame(t *testing.T) {
	forEachOutput(t, failedOutputs, func(command, _, text string) {
		signature := detect.Signature(text)
		if headline := detect.Headline(text); signature == "" || headline == "" {
			t.Errorf("%s: Signature = %q, Headline = %q, want neither to be empty, for\n%s", command, signature, headline, text)
		}
		framed := "Chunk ID: 1a2b3c\nWall time: 0.1 seconds\nProcess exited with code 1\nOutput:\n" + text
		if got := detect.Signature(framed); got != signature {
			t.Errorf("%s: Signature in a frame = %[3]q, want %[2]q, as without a frame", command, signature, got)
		}
	})
}

// If more than three lines follow a traceback, the program caught the exception.
func TestCaughtTracebackIsNotAFailure(t *testing.T) {
	const trace = "Traceback (most recent call last):\n  File \"a.py\", line 3, in f\n    f()\nKeyError: 'x'\n"
	for text, want := range map[string]detect.Outcome{
		trace:                               detect.Error,
		"start\n" + trace + "\n\n":          detect.Error,
		trace + "a\nb\nc\n":                 detect.Error,
		trace + "a\nb\nc\nd\ne\n":           detect.OK,
		trace + "  a\n  b\n  c\n  d\n  e\n": detect.OK,
		trace + "a\nb\nc\nd\ne\n" + trace:   detect.Error,
		"Traceback (most recent call last):\n  File \"a.py\", line 3, in f": detect.Error,
	} {
		if got := detect.Classify("bash", shellArgs("python a.py"), "go\n"+text, 0); got.Outcome != want {
			t.Errorf("result %q: got outcome %s (rule %q), want %s", text, got.Outcome, got.Rule, want)
		}
	}
}

// Go prints a heading such as "# shop/cart" before compile errors. An error line without the
// heading can be output of the program.
func TestCompileErrorAmongPassingPackagesIsFound(t *testing.T) {
	passed := strings.Repeat("ok  \tshop/list\t0.01s\n", 6)
	for text, want := range map[string]detect.Outcome{
		passed + "# shop/cart\ncart/cart.go:3:5: undefined: total\n" + passed: detect.Error,
		passed + "cart/cart.go:3:5: undefined: total\n" + passed:              detect.OK,
		passed: detect.OK,
	} {
		if got := detect.Classify("bash", shellArgs("go vet ./..."), text, 0); got.Outcome != want {
			t.Errorf("result %q: got outcome %s (rule %q), want %s", text, got.Outcome, got.Rule, want)
		}
	}
}

// Inspect reads the whole transcript at once, and Loops reads each request of the session. Both must find the same
// loops.
func TestInspectAndLoopsAgreeOnCalls(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := drawSteps(rt)
		want := replay(t, wire.Chat, steps)
		found, err := inspect(t, mustJSON(t, obj{"messages": chat(steps)}))
		if err != nil {
			rt.Fatal(err)
		}
		var results []int // indices of the steps with results
		for i, step := range steps {
			if step.user == "" {
				results = append(results, i)
			}
		}
		var loops []int
		n := -1
		for _, f := range found {
			switch f.Kind {
			case detect.KindResult:
				n++
			case detect.KindLoop:
				loops = append(loops, results[n])
			}
		}
		if !slices.Equal(loops, want) {
			rt.Fatalf("calls with loops: Inspect found %v, Loops found %v", loops, want)
		}
	})
}

func TestCallsWithChangingResultsAreNotALoop(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var steps []testStep
		n := rapid.IntRange(1, 25).Draw(rt, "n")
		for i := range n {
			row := fmt.Sprintf("row %d of the list", i)
			steps = append(steps, rapid.SampledFrom([]testStep{
				bash("./next", row), bash("cat list", row), call("next_page", "{}", row),
				call("get_row", `{"at":"end"}`, "Error: no "+row), call("read", jsonArgs("path", "list"), row),
				call("browser_scroll", `{"by":"page"}`, row), call("get_job", "{}", `{"rows":`+fmt.Sprint(i)+`}`),
			}).Draw(rt, fmt.Sprint("call", i)))
		}
		if got := replay(t, wire.Chat, steps); len(got) > 0 {
			rt.Fatalf("loops at calls %v, want none, for %+v", got, steps)
		}
	})
}
