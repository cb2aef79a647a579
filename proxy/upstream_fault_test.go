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

// An outage ends with the upstream's first answer. Within the next minute, a new outage begins only after three
// failures in a row.
func TestFailingUpstreamIsLoggedOncePerMinute(t *testing.T) {
	up, err := newTarget("default", "http://user:secret@127.0.0.1:9/v1")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	start := time.Date(2026, 1, 1, 3, 0, 0, 0, time.UTC)
	checkLog := func(want ...string) {
		t.Helper()
		checkLines(t, &out, want...)
	}
	now := start
	up.outages.logFailure(log, up, now, 502, "connection refused")
	checkLog(`level=WARN msg="requests to the upstream fail".*url=http://user:xxxxx@127.0.0.1:9/v1 status=502 failed=1 why="connection refused"`)
	for range 59 {
		now = now.Add(time.Second)
		up.outages.logFailure(log, up, now, 502, "connection refused")
	}
	checkLog()
	now = now.Add(time.Second)
	up.outages.logFailure(log, up, now, 504, "time-out")
	checkLog(`failed=60 why=time-out`)
	for range 20 {
		now = now.Add(time.Second)
		up.logAnswer(func() *slog.Logger { return log }, func() time.Time { return now }, 200)
		up.outages.logFailure(log, up, now, 502, "connection refused")
	}
	checkLog(`level=INFO msg="the upstream answers again".*failed=61 after=1m1s`)
	for range 3 {
		up.outages.logFailure(log, up, now, 502, "connection refused")
	}
	checkLog(`level=WARN msg="requests to the upstream fail".*failed=22 `) // these are three failures in a row
	up.logAnswer(func() *slog.Logger { return log }, func() time.Time { return now }, 429)
	checkLog() // a 429 does not end the outage
	up.logAnswer(func() *slog.Logger { return log }, func() time.Time { return now }, 200)
	checkLog(`level=INFO msg="the upstream answers again".*failed=23 `)
	now = now.Add(time.Minute)
	up.logAnswer(func() *slog.Logger { return log }, func() time.Time { return now }, 529)
	checkLog(`level=WARN msg="requests to the upstream fail".* status=529 failed=1 `) // this is a new outage
}

// checkLines compares the log lines with patterns, and empties the log.
func checkLines(t *testing.T, log *bytes.Buffer, want ...string) {
	t.Helper()
	got := strings.Split(strings.TrimSpace(log.String()), "\n")
	log.Reset()
	if len(want) == 0 && got[0] == "" {
		return
	}
	for i := range got {
		if len(got) != len(want) {
			t.Fatalf("log lines = %q, want %d items", got, len(want))
		}
		if !regexp.MustCompile(want[i]).MatchString(got[i]) {
			t.Fatal("log lines: MatchString(got[i]) = false, want true")
		}
	}
}

// precept logs at most five outages in a minute. The next log line contains the number of outages that were not logged.
func TestOutageStartAndEndAreLogged(t *testing.T) {
	up, err := newTarget("default", "http://127.0.0.1:9/v1")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	now := time.Date(2026, 1, 1, 3, 0, 0, 0, time.UTC)
	outage := func(failures int) {
		for range failures {
			up.outages.logFailure(log, up, now, 502, "connection refused")
		}
		now = now.Add(time.Second)
		up.logAnswer(func() *slog.Logger { return log }, func() time.Time { return now }, 200)
		now = now.Add(2 * time.Second)
	}
	for range 5 {
		outage(4)
		checkLines(t, &out, `level=WARN msg="requests to the upstream fail".*`, `level=INFO msg="the upstream answers again".* failed=4 after=1s$`)
	}
	for range 10 {
		outage(4)
	}
	outage(1)
	checkLines(t, &out)
	now = now.Add(time.Minute)
	outage(1)
	checkLines(t, &out, `level=WARN msg="requests to the upstream fail".* suppressed_outages=11$`, `level=INFO msg="the upstream answers again".* failed=1 after=1s$`)
	outage(3)
	checkLines(t, &out, `level=WARN msg="requests to the upstream fail".* why="connection refused"$`, `level=INFO msg="the upstream answers again".* failed=3 after=1s$`)
}

func TestRefusedWebhooksAreLoggedOncePerMinute(t *testing.T) {
	var out strings.Builder
	log, now := slog.New(slog.NewTextHandler(&out, nil)), time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	var r refusedHooks
	for range 1000 {
		r.warn(log, hooks.GitHub, now)
		now = now.Add(100 * time.Millisecond)
	}
	if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); len(lines) != 2 {
		t.Errorf("log = %q, want 2 items", lines)
	} else if !strings.Contains(lines[0], "refused=1") {
		t.Errorf(`log: lines[0] = %q, want substring "refused=1"`, lines[0])
	} else if !strings.Contains(lines[1], "refused=600") {
		t.Errorf(`log: lines[1] = %q, want substring "refused=600"`, lines[1])
	}
}
