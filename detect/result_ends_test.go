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

// Loops compares ResultHash only if the EndLinesHash values are equal, so equal results must have equal EndLinesHash
// values. Neither hash depends on times, ids, blank lines or colours.
func TestEqualResultsHaveEqualEndLinesHash(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.SampledFrom([]string{
			"ok  \tshop\t0.%ds", "at 2026-03-01 10:0%d:11 worker stopped", "", "trace_id: ab%dc", "E   assert 1 == 2",
			"\x1b[31mFAILED\x1b[0m in %d ms", `{"took_ms":%d,"rows":[` + strings.Repeat(`{"id":"a"},`, 40) + `]}`,
			"/tmp/build-a8f%dk2/x.c: error", strings.Repeat("long line ", 4000), "wall time: %d seconds",
		}), 0, 12).Draw(t, "lines")
		render := func(n int) string {
			var b strings.Builder
			for _, line := range lines {
				b.WriteString(strings.ReplaceAll(line, "%d", fmt.Sprint(n)))
				b.WriteString(strings.Repeat("\n", 1+n%2))
			}
			return b.String()
		}
		first, second := render(3), render(8)
		one, two := detect.EndLinesHash(first), detect.EndLinesHash(second)
		if detect.ResultHash(first) == detect.ResultHash(second) && one != two && one != 0 && two != 0 {
			t.Errorf("results %.200q and %.200q have the same hash, but different first or last lines", first, second)
		}
	})
}

// EndLinesHash reads at most 256 bytes per line.
func TestEndLinesHashReadsFirstAndLastLines(t *testing.T) {
	t.Parallel()
	text := strings.Split("a b c d e f g h", " ")
	for i, want := range []bool{true, true, false, false, true, true, true, true} {
		other := slices.Clone(text)
		other[i] = "x"
		if got := detect.EndLinesHash(strings.Join(text, "\n")) != detect.EndLinesHash(strings.Join(other, "\n")); got != want {
			t.Errorf("line %d changed: EndLinesHash changed = %v, want %v", i, got, want)
		}
	}
	line := strings.Repeat("word ", 60)
	if detect.EndLinesHash(line+"a") != detect.EndLinesHash(line+"b") {
		t.Errorf("a change at byte %d of a line changed EndLinesHash, want no effect after the first 256 bytes", len(line))
	}
	if got := detect.EndLinesHash(strings.Repeat("word\n", 14<<10)); got != 0 {
		t.Errorf("EndLinesHash(70 KB) = %d, want 0 (unknown)", got)
	}
}

// In a long session with different failures, Loops must not read every earlier result in full.
func TestDifferentFailuresAreNotReadInFull(t *testing.T) {
	t.Parallel()
	var steps []testStep
	for i := range 60 {
		frames := strings.Repeat("  File \"run.py\", line 7, in run\n", 40)
		steps = append(steps, bash(fmt.Sprintf("python tool%d.py", i),
			fmt.Sprintf("Traceback (most recent call last):\n%sValueError: row %d of %c is empty\n\nCommand exited with code 1", frames, i*31, 'a'+i%26)))
	}
	hashed, searchedForFailure := detect.CountFullReads(parse(t, wire.Chat, obj{"messages": chat(steps)}))
	if hashed != 0 || searchedForFailure > 1 {
		t.Errorf("59 earlier results: Loops hashed %d and searched %d for the failure, want 0 hashed and at most 1 searched", hashed, searchedForFailure)
	}
}
