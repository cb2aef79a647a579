package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"precept/cmd/precept/server"
)

const progressInterval = 200 * time.Millisecond

// progress shows the progress of a long operation on one line of a terminal. A nil progress shows nothing.
type progress struct {
	out                   io.Writer
	now                   func() time.Time
	unit                  string
	done, total           int64 // total 0: unknown
	startedAt, nextUpdate time.Time
	width                 int
}

// newProgress returns a progress, or nil if console is not a terminal.
func newProgress(console io.Writer, tools server.Tools, unit string, total int64) *progress {
	if !isTerminal(console) {
		return nil
	}
	return &progress{out: console, now: tools.Now, unit: unit, total: total, startedAt: tools.Now()}
}

// add updates the line at most once in progressInterval.
func (p *progress) add(n int64) {
	if p == nil {
		return
	}
	p.done += n
	if now := p.now(); !now.Before(p.nextUpdate) {
		p.nextUpdate = now.Add(progressInterval)
		p.show(now)
	}
}

func (p *progress) end() {
	if p == nil {
		return
	}
	p.show(p.now())
	fmt.Fprintln(p.out)
}

func (p *progress) show(now time.Time) {
	rate := ""
	if s := now.Sub(p.startedAt).Seconds(); s >= 1 {
		rate = fmt.Sprintf("  %.0f/s", float64(p.done)/s)
	}
	line := fmt.Sprintf("%s: %d%s", p.unit, p.done, rate)
	if p.total > 0 {
		share := min(float64(p.done)/float64(p.total), 1)
		line = fmt.Sprintf(
			"%s: [%s] %3.0f%%  %d of %d%s", p.unit, bar(share), 100*share, p.done,
			max(p.total, p.done), rate,
		)
	}
	fmt.Fprintf(p.out, "\r%s%s", line, strings.Repeat(" ", max(p.width-len(line), 0)))
	p.width = len(line)
}

func bar(share float64) string {
	const width = 24
	full := int(min(share, 1) * width)
	return strings.Repeat("=", full) + strings.Repeat(" ", width-full)
}
