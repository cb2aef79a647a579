//go:build !race

package learning

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestCycleDemoEndsWithProof(t *testing.T) {
	if testing.Short() {
		t.Skip("the demo plays 2,240 sessions")
	}
	dir := t.TempDir()
	out, done, stop := startCycleDemo(t, dir)
	for !strings.Contains(out.String(), "dashboard runs until") {
		select {
		case err := <-done:
			t.Fatalf("the demo ended before the test interrupted it: error %v\n%s", err, out.String())
		case <-time.After(50 * time.Millisecond):
		}
	}
	text := out.String()
	login := regexp.MustCompile(`(http://127[^/]+)/login\?token=([0-9a-f]+)`).FindStringSubmatch(text)
	if login == nil {
		t.Fatalf("demo output %q has no login address", text)
	}
	rep := readCycleReport(t, login[1], login[2])
	for slug, want := range map[string][]string{
		"give-floor-as-a-whole-number-to-book-room": {"proven helps", "helps"},
		"leave-the-floor-out":                       {"proven harms", "harms", "likely harms", "benched"},
	} {
		r, ok := rep[slug]
		if !ok {
			t.Fatalf("the report has no row for %s\n%s", slug, text)
		}
		expected := false
		for _, v := range want {
			expected = expected || slices.Contains(r.Verdicts, v)
		}
		if !expected || r.NInjected == 0 {
			t.Errorf("%s: got verdicts %q and %d injected sessions, want a verdict in %q and at least 1 session", slug, r.Verdicts, r.NInjected, want)
		}
	}
	if harm := rep["leave-the-floor-out"]; harm.Picked > harm.Matched/2 {
		t.Errorf("picks of the harmful lesson: got %d in %d matches, want at most half of the matches", harm.Picked, harm.Matched)
	}
	if len(rep) > 3 || !strings.Contains(text, "reached a model as a lesson: 0.") {
		t.Errorf("got %d lessons in the report, want at most 3, and \"reached a model as a lesson: 0.\" in the output:\n%s", len(rep), text)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "precept-circle-*")); len(left) > 0 {
		t.Errorf("directories after the demo: got %v, want none", left)
	}
}
