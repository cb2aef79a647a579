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

// Two results with equal hashes have equal ends, so results with different ends need no hash. Times, ids, blank lines
// and colours change neither.
func TestEqualResultsHaveEqualEnds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.SampledFrom([]string{
			"ok  \tshop\t0.%ds", "at 2026-03-01 10:0%d:11 worker stopped", "", "trace_id: ab%dc", "E   assert 1 == 2",
			"\x1b[31mFAILED\x1b[0m in %d ms", `{"took_ms":%d,"rows":[` + strings.Repeat(`{"id":"a"},`, 40) + `]}`,
			"/tmp/build-a8f%dk2/x.c: error", strings.Repeat("long line ", 4000), "wall time: %d seconds",
		}), 0, 12).Draw(t, "lines")
		write := func(n int) string {
			var b strings.Builder
			for _, line := range lines {
				b.WriteString(strings.ReplaceAll(line, "%d", fmt.Sprint(n)))
				b.WriteString(strings.Repeat("\n", 1+n%2))
			}
			return b.String()
		}
		first, second := write(3), write(8)
		one, two := detect.ResultEnds(first), detect.ResultEnds(second)
		if detect.ResultSum(first) == detect.ResultSum(second) && one != two && one != 0 && two != 0 {
			t.Errorf("results %.200q and %.200q have equal hashes and different ends, want equal ends", first, second)
		}
	})
}

// The ends of a result are its first two and its last four lines. Long results and long lines are read up to a bound.
func TestEndsOfAResult(t *testing.T) {
	t.Parallel()
	text := strings.Split("a b c d e f g h", " ")
	for i, want := range []bool{true, true, false, false, true, true, true, true} {
		other := slices.Clone(text)
		other[i] = "x"
		if got := detect.ResultEnds(strings.Join(text, "\n")) != detect.ResultEnds(strings.Join(other, "\n")); got != want {
			t.Errorf("another line %d changes the ends: %v, want %v", i, got, want)
		}
	}
	line := strings.Repeat("word ", 60)
	if detect.ResultEnds(line+"a") != detect.ResultEnds(line+"b") {
		t.Errorf("the end of a line of %d bytes changes the ends, want only the first 256 bytes to count", len(line))
	}
	if got := detect.ResultEnds(strings.Repeat("word\n", 14<<10)); got != 0 {
		t.Errorf("a result of 70 KB has ends %d, want 0: the ends are unknown", got)
	}
}

// A failing turn reads earlier results at their ends only, unless the results may be equal. A long session with a
// different failure in each turn stays cheap.
func TestDifferentFailuresAreNotReadInFull(t *testing.T) {
	t.Parallel()
	var story []storyStep
	for i := range 60 {
		frames := strings.Repeat("  File \"run.py\", line 7, in run\n", 40)
		story = append(story, bash(fmt.Sprintf("python tool%d.py", i),
			fmt.Sprintf("Traceback (most recent call last):\n%sValueError: row %d of %c is empty\n\nCommand exited with code 1", frames, i*31, 'a'+i%26)))
	}
	hashed, described := detect.ReadInFull(parse(t, wire.Chat, obj{"messages": chat(story)}))
	if hashed != 0 || described > 1 {
		t.Errorf("Loops hashed %d and described %d of 59 earlier results, want 0 and at most 1", hashed, described)
	}
}
