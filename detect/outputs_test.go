package detect_test

import (
	_ "embed"
	"encoding/json"
	"strings"
	"testing"

	"precept/detect"
)

//go:embed testdata/fine.txt
var successfulOutputs string

//go:embed testdata/failed.txt
var failedOutputs string

//go:embed testdata/tools.tsv
var toolAnswers string

//go:embed testdata/harness.tsv
var harnessResults string

// forEachOutput calls fn with each entry of a file such as fine.txt, and returns the number of entries. An entry
// consists of a line with "$ " and the command, the output, and a line with "=".
func forEachOutput(t *testing.T, entries string, fn func(command, args, text string)) (n int) {
	t.Helper()
	command, text := "", ""
	for line := range strings.Lines(entries) {
		switch {
		case strings.HasPrefix(line, "$ ") && command == "":
			command, text = strings.TrimSpace(line[2:]), ""
		case line == "=\n" && command != "":
			args, err := json.Marshal(map[string]string{"command": command})
			if err != nil {
				t.Fatal(err)
			}
			fn(command, string(args), text)
			n++
			command = ""
		case command != "":
			text += line
		}
	}
	return n
}

func TestSuccessfulOutputIsNotAFailure(t *testing.T) {
	n := forEachOutput(t, successfulOutputs, func(command, args, text string) {
		for _, frame := range []string{"", "[exit code: 0]", "Exit code: 0"} {
			if j := detect.Classify("bash", args, text+frame, 0); j.Outcome == detect.Error {
				t.Errorf("%s with frame %q: got outcome error (rule %q), want no error, for\n%s", command, frame, j.Rule, text)
			}
		}
	})
	if n < 70 {
		t.Errorf("outputs in fine.txt: got %d, want at least 70", n)
	}
}

func TestFailedOutputIsAFailureWithoutExitCode(t *testing.T) {
	n := forEachOutput(t, failedOutputs, func(command, args, text string) {
		if j := detect.Classify("bash", args, text, 0); j.Outcome != detect.Error {
			t.Errorf("%s: got outcome %s (rule %q), want %s, for\n%s", command, j.Outcome, j.Rule, detect.Error, text)
		}
	})
	if n < 120 {
		t.Errorf("outputs in failed.txt: got %d, want at least 120", n)
	}
}

// Each line in testdata/tools.tsv holds an outcome, a custom tool and a result.
func TestCustomToolResultsAreClassified(t *testing.T) {
	n := 0
	for line := range strings.Lines(toolAnswers) {
		cols := strings.SplitN(strings.TrimRight(line, "\n"), "\t", 3)
		if strings.HasPrefix(line, "#") || len(cols) != 3 {
			continue
		}
		text := cols[2]
		if text[0] != '{' { // in JSON, a line feed stays escaped
			text = strings.ReplaceAll(text, `\n`, "\n")
		}
		if j := detect.Classify(cols[1], `{"q":"rows"}`, text, 0); string(j.Outcome) != cols[0] {
			t.Errorf("%s: got outcome %s (rule %q), want %s, for\n%s", cols[1], j.Outcome, j.Rule, cols[0], text)
		}
		n++
	}
	if n < 100 {
		t.Errorf("results in tools.tsv: got %d, want at least 100", n)
	}
}

// The results in testdata/harness.tsv have no error flag. Among the results are timeouts, exit codes in frames, and
// content that looks like a failure. The command x means that the tool is not a shell.
func TestHarnessResultsAreClassified(t *testing.T) {
	n := 0
	for line := range strings.Lines(harnessResults) {
		cols := strings.SplitN(strings.TrimRight(line, "\n"), "\t", 4)
		if strings.HasPrefix(line, "#") {
			continue
		}
		outcome, tool, command, text := cols[0], cols[1], cols[2], cols[3]
		if text[0] == '{' || strings.HasPrefix(text, "[{") { // in JSON, a line feed stays escaped
			text = strings.ReplaceAll(text, `\\n`, `\n`)
		} else {
			text = strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(text)
		}
		args := jsonArgs("command", command)
		if command == "x" {
			args = jsonArgs("q", "rows")
		}
		if j := detect.Classify(tool, args, text, 0); string(j.Outcome) != outcome {
			t.Errorf("%s %s: got outcome %s (rule %q), want %s, for\n%s", tool, command, j.Outcome, j.Rule, outcome, text)
		}
		n++
	}
	if n < 300 {
		t.Errorf("results in harness.tsv: got %d, want at least 300", n)
	}
}
