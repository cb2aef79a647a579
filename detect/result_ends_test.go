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

// Loops does not hash results with different ends, so equal results must have equal ends. Times, ids, blank lines and
// colours do not count.
func TestResultsWithTheSameHashHaveTheSameEnds(t *testing.T) {
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
		one, two := detect.ResultEnds(first), detect.ResultEnds(second)
		if detect.ResultHash(first, false) == detect.ResultHash(second, false) && one != two && one != 0 && two != 0 {
			t.Errorf("results %.200q and %.200q have the same hash, but different ends", first, second)
		}
	})
}

// The ends are the first two and the last four lines, up to a limit.
func TestResultEndsAreFirstAndLastLines(t *testing.T) {
	t.Parallel()
	text := strings.Split("a b c d e f g h", " ")
	for i, want := range []bool{true, true, false, false, true, true, true, true} {
		other := slices.Clone(text)
		other[i] = "x"
		if got := detect.ResultEnds(strings.Join(text, "\n")) != detect.ResultEnds(strings.Join(other, "\n")); got != want {
			t.Errorf("line %d changed: ends changed = %v, want %v", i, got, want)
		}
	}
	line := strings.Repeat("word ", 60)
	if detect.ResultEnds(line+"a") != detect.ResultEnds(line+"b") {
		t.Errorf("a change at line byte %d changed the ends, want only the first 256 bytes to count", len(line))
	}
	if got := detect.ResultEnds(strings.Repeat("word\n", 14<<10)); got != 0 {
		t.Errorf("ResultEnds(70 KB) = %d, want 0 (unknown)", got)
	}
}

// Loops reads a whole earlier result only if the ends equal a new failure's ends, so a long session with different
// failures is cheap.
func TestDifferentFailuresAreNotReadInFull(t *testing.T) {
	t.Parallel()
	var steps []testStep
	for i := range 60 {
		frames := strings.Repeat("  File \"run.py\", line 7, in run\n", 40)
		steps = append(steps, bash(fmt.Sprintf("python tool%d.py", i),
			fmt.Sprintf("Traceback (most recent call last):\n%sValueError: row %d of %c is empty\n\nCommand exited with code 1", frames, i*31, 'a'+i%26)))
	}
	hashed, described := detect.ReadInFull(parse(t, wire.Chat, obj{"messages": chat(steps)}))
	if hashed != 0 || described > 1 {
		t.Errorf("earlier results that Loops read: %d hashed, %d described of 59, want 0 and at most 1", hashed, described)
	}
}
