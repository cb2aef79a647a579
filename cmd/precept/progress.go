package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"precept/cmd/precept/server"
)

// progressEvery is how often a person is told how far it is.
const progressEvery = 200 * time.Millisecond

// progress tells a person how far a long piece of work is, on one line that is written over. A nil
// progress tells nobody: where no terminal is, nobody watches.
type progress struct {
	out         io.Writer
	now         func() time.Time
	what        string
	done, total int64 // total 0: it is not known how much there is
	began, next time.Time
	width       int // of what stands on the line
}

// newProgress watches the work when standard error is a terminal.
func newProgress(console io.Writer, tools server.Tools, what string, total int64) *progress {
	if !isTerminal(console) {
		return nil
	}
	return &progress{out: console, now: tools.Now, what: what, total: total, began: tools.Now()}
}

// add counts n more.
func (p *progress) add(n int64) {
	if p == nil {
		return
	}
	p.done += n
	if now := p.now(); !now.Before(p.next) {
		p.next = now.Add(progressEvery)
		p.show(now)
	}
}

// end shows the last count and leaves the line.
func (p *progress) end() {
	if p == nil {
		return
	}
	p.show(p.now())
	fmt.Fprintln(p.out)
}

func (p *progress) show(now time.Time) {
	rate := ""
	if s := now.Sub(p.began).Seconds(); s >= 1 {
		rate = fmt.Sprintf("  %.0f/s", float64(p.done)/s)
	}
	line := fmt.Sprintf("%s: %d%s", p.what, p.done, rate)
	if p.total > 0 {
		share := min(float64(p.done)/float64(p.total), 1)
		line = fmt.Sprintf(
			"%s: [%s] %3.0f%%  %d of %d%s", p.what, bar(share), 100*share, p.done,
			max(p.total, p.done), rate,
		)
	}
	fmt.Fprintf(p.out, "\r%s%s", line, strings.Repeat(" ", max(p.width-len(line), 0)))
	p.width = len(line)
}

// bar draws how much of something is done.
func bar(share float64) string {
	const width = 24
	full := int(min(share, 1) * width)
	return strings.Repeat("=", full) + strings.Repeat(" ", width-full)
}
