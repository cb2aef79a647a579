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

// The content of a file is no failure, whatever the content describes.
func TestReadContentIsNoFailure(t *testing.T) {
	const above = "# The log of last night\n\n1\n2\n3\n4\n5\n6\n"
	n := each(t, failedOutputs, func(command, _, text string) {
		found := strings.ReplaceAll(strings.TrimSpace(text), "\n", "\nlogs/night.txt:7:")
		for name, c := range map[string]struct{ tool, args, text string }{
			"read by a tool":      {"read_file", `{"path":"logs/night.txt"}`, above + text},
			"printed":             {"bash", shell("cat logs/night.txt"), above + text},
			"its end":             {"bash", shell("tail -n 40 logs/night.txt"), above + text},
			"printed in a window": {"PowerShell", shell("Get-Content logs/night.txt"), above + text},
			"searched":            {"bash", shell("grep -rn -C 3 x logs"), "logs/night.txt:6:" + found},
			"searched by a tool":  {"grep", `{"pattern":"night"}`, "logs/night.txt:6:" + found},
			"of a container":      {"bash", shell("docker logs night"), above + text},
			"of a commit":         {"bash", shell("git show HEAD:logs/night.txt"), above + text},
			"thought about":       {"think", `{"thought":"x"}`, "I saw this in the log:\n" + text},
			"fetched":             {"get_log", `{"id":7}`, above + text},
		} {
			if j := detect.Classify(c.tool, c.args, c.text, 0); j.Outcome == detect.Error {
				t.Errorf("%s, %s: the printed text is an error by %q, want content\n%s", command, name, j.Rule, c.text)
			}
		}
	})
	if n < 160 {
		t.Errorf("%d outputs were read, want at least 160", n)
	}
}

// The exit code of a harness decides, in any language of the output.
func TestHarnessExitCodeDecides(t *testing.T) {
	each(t, failedOutputs, func(command, args, text string) {
		for _, frame := range []string{"Exit code: 3\nOutput:\n" + text, text + "\n\nCommand exited with code 3"} {
			if j := detect.Classify("bash", args, frame, 0); j.Outcome != detect.Error || j.Code != 3 {
				t.Errorf("%s: got j %+v, frame %s, want Outcome = %q and status 3", command, j, frame, detect.Error)
			}
		}
	})
	each(t, fineOutputs, func(command, args, text string) {
		if j := detect.Classify("bash", args, text+"\n\nCommand exited with code 3", 0); j.Outcome != detect.Error {
			t.Errorf("%s: got j %+v, text %s, want Outcome = %q", command, j, text, detect.Error)
		}
	})
}

// Each failure has a signature of its own words, and a repeated failure has the same signature.
func TestFailureSignatureIsStable(t *testing.T) {
	each(t, failedOutputs, func(command, _, text string) {
		signature := detect.Signature(text)
		if signature == "" || detect.Headline(text) == "" {
			t.Errorf("%s has no signature or headline, want both:\n%s", command, text)
		}
		framed := "Chunk ID: 1a2b3c\nWall time: 0.1 seconds\nProcess exited with code 1\nOutput:\n" + text
		if got := detect.Signature(framed); got != signature {
			t.Errorf("%s: the signature is %q, in a frame %q; want equal signatures", command, signature, got)
		}
	})
}

// A program that continues after an exception caught the exception.
func TestCaughtTracebackIsNoFailure(t *testing.T) {
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
		if got := detect.Classify("bash", shell("python a.py"), "go\n"+text, 0); got.Outcome != want {
			t.Errorf("%q is %s by %q, want %s", text, got.Outcome, got.Rule, want)
		}
	}
}

// A package that does not compile is found among packages that pass.
func TestCompileErrorAmongPassingPackagesIsFound(t *testing.T) {
	passed := strings.Repeat("ok  \tshop/list\t0.01s\n", 6)
	for text, want := range map[string]detect.Outcome{
		passed + "# shop/cart\ncart/cart.go:3:5: undefined: total\n" + passed: detect.Error,
		passed + "cart/cart.go:3:5: undefined: total\n" + passed:              detect.OK,
		passed: detect.OK,
	} {
		if got := detect.Classify("bash", shell("go vet ./..."), text, 0); got.Outcome != want {
			t.Errorf("%q is %s by %q, want %s", text, got.Outcome, got.Rule, want)
		}
	}
}

// A transcript gives the judgements of the proxy while the transcript grew.
func TestTranscriptGivesTheLiveJudgements(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		story := drawSessions(rt)
		warned := play(t, wire.Chat, story)
		found, err := inspect(t, mustJSON(t, obj{"messages": chat(story)}))
		if err != nil {
			rt.Fatal(err)
		}
		var results []int // the calls, in the order of their results
		for i, d := range story {
			if d.user == "" {
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
		if !slices.Equal(loops, warned) {
			rt.Fatalf("the whole transcript has loops at %v, want %v as during its growth", loops, warned)
		}
	})
}

// Calls with new results are no loop, however often they repeat.
func TestChangingResultsAreNoLoop(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var story []drawnStep
		n := rapid.IntRange(1, 25).Draw(rt, "n")
		for i := range n {
			row := fmt.Sprintf("row %d of the list", i)
			story = append(story, rapid.SampledFrom([]drawnStep{
				bash("./next", row), bash("cat list", row), call("next_page", "{}", row),
				call("get_row", `{"at":"end"}`, "Error: no "+row), call("read", jsonArgs("path", "list"), row),
				call("browser_scroll", `{"by":"page"}`, row), call("get_job", "{}", `{"rows":`+fmt.Sprint(i)+`}`),
			}).Draw(rt, fmt.Sprint("call", i)))
		}
		if got := play(t, wire.Chat, story); len(got) > 0 {
			rt.Fatalf("changing results are loops at %v, want none: %+v", got, story)
		}
	})
}
