package agents

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"precept/test/harness"
)

// readCounters returns precept's metrics by name, summed over the labels. Metrics with the label outcome are omitted.
func readCounters(t *testing.T, p *harness.Process) map[string]int {
	t.Helper()
	status, text := harness.Get(t, p.AdminURL+"/metrics", "e2e-token")
	if status != http.StatusOK {
		t.Errorf("/metrics: got status %d, body %s, want 200", status, text)
	}
	sums := map[string]int{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, labels, _ := strings.Cut(name, "{")
		if v, err := strconv.ParseFloat(value, 64); err == nil && !strings.Contains(labels, "outcome=") {
			sums[name] += int(v)
		}
	}
	return sums
}

// checkCounts expects one lesson in each conversation and one warning for each loop. A warning counts as an injected
// lesson.
func (r *row) checkCounts(column string, got map[string]int, conversations, loops int) {
	want := map[string]int{
		"sessions_total": conversations, "lessons_matched_total": conversations, "lessons_picked_total": conversations + loops,
		"lessons_injected_total": conversations + loops, "lessons_withheld_total": 0, "loops_total": loops,
		"fail_open_total": 0, "uninspected_total": 0, "injection_rejected_total": 0, "dropped_total": 0,
	}
	var problems []string
	for name, n := range want {
		problems = append(problems, problemUnless(got["precept_"+name] == n, "%s is %d, want %d", name, got["precept_"+name], n))
	}
	r.set(column, "", nonEmpty(append(problems, r.cells[column].problem)...)...)
}
