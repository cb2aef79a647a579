package proxy

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestUnsupportedRequestsAreLoggedHourly(t *testing.T) {
	var out bytes.Buffer
	log := func() *slog.Logger { return slog.New(slog.NewTextHandler(&out, nil)) }
	var u unsupportedRequests
	start := time.Date(2031, 3, 10, 15, 0, 0, 0, time.UTC)
	for minute := range 70 {
		u.add(log, "/v1beta/models/gemini:generateContent", start.Add(time.Duration(minute)*time.Minute))
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("log = %q, want 2 items", lines)
	}
	if !strings.Contains(lines[0], "path=/v1beta/models/gemini:generateContent count=1") {
		t.Errorf(`log: lines[0] = %q, want substring "path=/v1beta/models/gemini:generateContent count=1"`, lines[0])
	}
	if !strings.Contains(lines[1], "count=61") {
		t.Errorf(`log: lines[1] = %q, want substring "count=61"`, lines[1])
	}
}
