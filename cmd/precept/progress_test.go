package main

import (
	"strings"
	"testing"
	"time"
)

// A progress line must overwrite the previous line completely, even if the previous line is longer.
func TestProgressIsWrittenEvery200Milliseconds(t *testing.T) {
	var out strings.Builder
	at := time.Unix(0, 0)
	p := &progress{out: &out, now: func() time.Time { return at }, unit: "samples", total: 2000, startedAt: at}
	for range 1000 {
		p.add(1)
		at = at.Add(2 * time.Millisecond)
	}
	p.end()
	shown := strings.Split(strings.TrimPrefix(out.String(), "\r"), "\r")
	if len(shown) != 11 { // the lines of two seconds, and the last line
		t.Errorf("got %d progress lines, want 11; lines: %q", len(shown), shown)
	}
	if want := "samples: [============            ]  50%  1000 of 2000  500/s\n"; shown[10] != want {
		t.Errorf("got last line %q, want %q", shown[10], want)
	}

	out.Reset()
	p = &progress{out: &out, now: func() time.Time { return at }, unit: "files", startedAt: at}
	p.add(3)
	p.unit = "f"
	p.end()
	if want := "\rfiles: 3\rf: 3    \n"; out.String() != want {
		t.Errorf("got output %q, want %q, in which spaces make the second line as long as the first", out.String(), want)
	}

	var none *progress
	none.add(1)
	none.end()
	if w := (&invocation{stderr: &out}); newProgress(w.stderr, w.tools, "x", 1) != nil {
		t.Error("newProgress without a terminal: got a progress line, want nil")
	}
}
