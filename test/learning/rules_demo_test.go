package learning

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"precept/test/harness"
)

// Each of the four rounds has 100 sessions. The demo plans 93 picks for each section, which is 100 divided by
// sessionsPerPick, 1.07.
func TestRulesDemoMeasuresEverySection(t *testing.T) {
	if testing.Short() {
		t.Skip("the demo plays 400 sessions in four rounds")
	}
	t.Parallel()
	out := harness.MustRun(t, "demo", "--rules", "--exit", "--sessions", "400", "--agents", "4")
	rows := regexp.MustCompile(`(?m)^(\S.*?) +([+-]\d+\.\d) +[+-]\d+\.\d +[+-]\d+\.\d to [+-]\d+\.\d +(\d+)/(\d+)  \S`).FindAllStringSubmatch(out, -1)
	if len(rows) != 12 {
		t.Fatalf("sections with an effect: got %d, want 12:\n%s", len(rows), out)
	}
	signs := map[byte]int{}
	for _, r := range rows {
		with, _ := strconv.Atoi(r[3])
		without, _ := strconv.Atoi(r[4])
		if with < 20 || without < 20 || with+without < 93 {
			t.Errorf("section %s: got %d sessions with the section and %d without, want at least 20 of each and 93 in total", r[1], with, without)
		}
		if r[2] != "+0.0" {
			signs[r[2][0]]++
		}
		if !strings.Contains(out, "# removed: "+r[1]+":") && !strings.Contains(out, "# kept: "+r[1]+":") {
			t.Errorf("the proposal neither removes nor keeps section %s:\n%s", r[1], out)
		}
	}
	if signs['+'] != 3 || signs['-'] != 2 {
		t.Errorf("true effects of the sections: got %d above 0 and %d below 0, want 3 and 2:\n%s", signs['+'], signs['-'], out)
	}
}
