package proxy

import (
	"bytes"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"precept/proxy/hooks"
)

// A failing upstream has one warning a minute, with the number of failures, and one line when the
// upstream answers again. An upstream that alternates has no more lines.
func TestFailingUpstreamHasOneWarningAMinute(t *testing.T) {
	up, err := newTarget("default", "http://user:secret@127.0.0.1:9/v1")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	start := time.Date(2026, 1, 1, 3, 0, 0, 0, time.UTC)
	lines := func(want ...string) {
		t.Helper()
		got := strings.Split(strings.TrimSpace(out.String()), "\n")
		out.Reset()
		if len(want) == 0 && got[0] == "" {
			return
		}
		for i := range got {
			if len(got) != len(want) || !regexp.MustCompile(want[i]).MatchString(got[i]) {
				t.Fatalf("the log has the lines %q, want matches of %q", got, want)
			}
		}
	}
	now := start
	up.faults.logFailure(log, up, now, 502, "connection refused")
	lines(`level=WARN msg="requests to the upstream fail".*url=http://user:xxxxx@127.0.0.1:9/v1 status=502 failed=1 why="connection refused"`)
	for range 59 {
		now = now.Add(time.Second)
		up.faults.logFailure(log, up, now, 502, "connection refused")
	}
	lines()
	now = now.Add(time.Second)
	up.faults.logFailure(log, up, now, 504, "time-out")
	lines(`failed=60 why=time-out`)
	for range 20 {
		now = now.Add(time.Second)
		up.logAnswer(func() *slog.Logger { return log }, func() time.Time { return now }, 200)
		up.faults.logFailure(log, up, now, 502, "connection refused")
	}
	lines(`level=INFO msg="the upstream answers again".*failed=61 after=1m1s`)
	for range 3 {
		up.faults.logFailure(log, up, now, 502, "connection refused")
	}
	lines(`level=WARN msg="requests to the upstream fail".*failed=22 `) // the upstream failed again for good
	up.logAnswer(func() *slog.Logger { return log }, func() time.Time { return now }, 200)
	lines(`level=INFO msg="the upstream answers again".*failed=23 `)
	now = now.Add(time.Minute)
	up.logAnswer(func() *slog.Logger { return log }, func() time.Time { return now }, 529)
	lines(`level=WARN msg="requests to the upstream fail".* status=529 failed=1 `) // the failures of a minute ago are over
}

// A flood of refused webhooks is one line a minute, with the number of refused deliveries.
func TestRefusedWebhooksShareOneLineAMinute(t *testing.T) {
	var out strings.Builder
	log, now := slog.New(slog.NewTextHandler(&out, nil)), time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	var r refusedHooks
	for range 1000 {
		r.warn(log, hooks.GitHub, now)
		now = now.Add(100 * time.Millisecond)
	}
	if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); len(lines) != 2 || !strings.Contains(lines[0], "refused=1") || !strings.Contains(lines[1], "refused=600") {
		t.Errorf("1,000 deliveries in 100 s: %q, want a line for 1 and a line for 600", lines)
	}
}
