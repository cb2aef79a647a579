package detect_test

import (
	"slices"
	"strings"
	"testing"

	"precept/internal/wire"
)

// A shell mixes standard output and standard error in any order. If the call succeeded, a new line order can be what
// the agent wanted, such as a sorted listing.
func TestLineOrderMattersOnlyInSuccessfulResults(t *testing.T) {
	const failed, ok = "\n<exited with exit code 2>", "\n<exited with exit code 0>"
	for _, tc := range []struct {
		name    string
		command string
		results []string
		loop    bool
	}{
		{"a failure with its lines in a different order", "sh ./build.sh", []string{"building demo\nerror: no rule to make target demo" + failed, "error: no rule to make target demo\nbuilding demo" + failed}, true},
		{"a failure with an error that occurs twice", "sh ./build.sh", []string{"a\nerror: no b\nerror: no b" + failed, "a\na\nerror: no b" + failed}, false},
		{"a test run with a different failing test", "go test ./...", []string{"--- FAIL: TestA\nFAIL" + failed, "--- FAIL: TestB\nFAIL" + failed}, false},
		{"words that move to a different line", "sh ./build.sh", []string{"error: a b\nc" + failed, "error: a\nb c" + failed}, false},
		{"a listing in a different order", "sh ./list.sh", []string{"alpha\nbeta" + ok, "beta\nalpha" + ok}, false},
	} {
		var steps []testStep
		for _, r := range tc.results {
			steps = append(steps, bash(tc.command, r))
		}
		var want []int
		if tc.loop {
			want = []int{len(steps) - 1}
		}
		for _, d := range []wire.Dialect{wire.Chat, wire.Messages, wire.Responses} {
			if got := replay(t, d, steps); !slices.Equal(got, want) {
				t.Errorf("%s: got loops at steps %v, want %v", tc.name, got, want)
			}
		}
		if got := replayFromCheckpoints(t, steps); !slices.Equal(got, want) {
			t.Errorf("%s, requests without history: got loops at steps %v, want %v", tc.name, got, want)
		}
	}
}

func TestLongFailureIgnoresLineOrder(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(strings.Repeat("compiling a file\nwarning: unused\n", 400)), "\n")
	slices.Sort(lines)
	first := strings.Join(lines, "\n")
	slices.Reverse(lines)
	second := strings.Join(lines, "\n")
	const failed = "\nerror: build failed\n<exited with exit code 2>"
	if got := countLoops(t, bash("make", first+failed), bash("make", second+failed)); got != 1 {
		t.Errorf("failure with reordered lines: got %d loops, want 1", got)
	}
}
