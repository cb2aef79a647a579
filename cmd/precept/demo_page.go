package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"precept/bandit/report"
	"precept/cmd/precept/demo"
)

// demoPage tells how the demo goes: in place on a terminal, else a line now and then.
type demoPage struct {
	out     io.Writer
	live    bool
	columns int
	truths  []demo.Truth
	drawn   int             // lines that the next drawing takes the place of
	told    map[string]bool // milestones that were told
}

// soFar is how far the fleet is.
type soFar struct {
	done, total, success int64
	loops, calls         int64 // loops that a warning ended, and how many calls the first one had made
	elapsed              time.Duration
}

// draw shows how far the fleet is, and what was found out.
func (p *demoPage) draw(s soFar, rows []report.Row) {
	head := fmt.Sprintf("[%s] %d of %d sessions, %.0f a second, %.1f%% succeeded", bar(float64(s.done)/float64(max(s.total, 1))),
		s.done, s.total, float64(s.done)/max(s.elapsed.Seconds(), .001), 100*float64(s.success)/float64(max(s.done, 1)))
	var lines []string
	for _, line := range p.milestones(s, rows) {
		lines = append(lines, folded(line, p.columns-2)...)
	}
	if !p.live {
		_, _ = fmt.Fprintln(p.out, strings.Join(append([]string{head}, lines...), "\n  "))
		return
	}
	var b strings.Builder
	if p.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\x1b[J", p.drawn)
	}
	if len(lines) > 0 {
		b.WriteString(strings.Join(lines, "\n") + "\n\n")
	}
	text := head + "\n\n" + p.table(rows)
	p.drawn = strings.Count(text, "\n") // the milestones stay
	_, _ = io.WriteString(p.out, b.String()+text)
}

// rowOf is what was found out of a lesson; nothing, of one that has not matched.
func rowOf(rows []report.Row, slug string) report.Row {
	i := slices.IndexFunc(rows, func(r report.Row) bool { return r.Slug == slug })
	if i < 0 {
		return report.Row{Verdict: "not matched yet"}
	}
	return rows[i]
}

// table is what is true beside what was found out. Where there is room it has the two arms'
// sessions.
func (p *demoPage) table(rows []report.Row) string {
	const roomy = 90
	var b strings.Builder
	line := func(lesson, truth, found, interval, sessions, verdict string) {
		fmt.Fprintf(&b, "%-26s %6s %6s  %-15s ", lesson, truth, found, interval)
		if p.columns >= roomy {
			fmt.Fprintf(&b, "%9s ", sessions)
		}
		b.WriteString(" " + verdict + "\n")
	}
	line("lesson", "truth", "found", "95% interval", "in/out", "verdict")
	widened := false
	for _, l := range p.truths {
		r := rowOf(rows, l.Slug)
		found, interval := "-", "-"
		if known(&r) {
			found, interval = point(*r.Effect), point(*r.Lo)+" to "+point(*r.Hi)
			claims := []report.Verdict{report.Helps, report.Harms, report.ProvenHelps, report.ProvenHarms}
			widened = widened || slices.Contains(claims, r.Verdict) && *r.Lo <= 0 && *r.Hi >= 0
		}
		line(l.Slug, point(l.Effect), found, interval, fmt.Sprintf("%d/%d", r.NInjected, r.NWithheld), string(r.Verdict))
	}
	if widened {
		b.WriteString("\nA claim rests on what was known when it was made, and stays. From then on only\n" +
			"5% are withheld, which widens the interval again, to where it may hold 0.\n")
	}
	return b.String()
}

// known says that an effect may be shown.
func known(r *report.Row) bool { return r.Effect != nil && r.Lo != nil && r.Hi != nil }

// point writes a reward difference in points: 0.05 is +5.0.
func point(x float64) string { return fmt.Sprintf("%+.1f", 100*x) }

// milestones finds what is worth a line of its own, and tells it once.
func (p *demoPage) milestones(s soFar, rows []report.Row) (lines []string) {
	const narrow = 0.5 // how wide the interval of a first effect may be
	add := func(key, format string, args ...any) {
		if !p.told[key] {
			p.told[key] = true
			lines = append(lines, fmt.Sprintf("after %d sessions: ", s.done)+fmt.Sprintf(format, args...))
		}
	}
	if s.loops > 0 {
		add("loop", "a loop is caught: %d equal calls failed alike, the agent was told, and went another way", s.calls)
	}
	for _, l := range p.truths {
		r := rowOf(rows, l.Slug)
		if known(&r) && *r.Hi-*r.Lo < narrow {
			add("effect", "a first effect: %s %s points (%s to %s)", l.Slug, point(*r.Effect), point(*r.Lo), point(*r.Hi))
		}
		effect := point(*cmp.Or(r.Effect, new(float64)))
		switch key := l.Slug + string(r.Verdict); r.Verdict {
		case report.Helps, report.Harms:
			add(key, "%s %s, by %s points", l.Slug, r.Verdict, effect)
		case report.ProvenHelps:
			add(key, "%s is proven to help, by %s points", l.Slug, effect)
		case report.Benched:
			add(key, "%s is benched: 2%% of the sessions try it from now on", l.Slug)
		default:
		}
	}
	return lines
}
