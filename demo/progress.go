package demo

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// Row is one lesson as precept's report has it, for the table. Known says that an interval may be
// shown.
type Row struct {
	Effect, Lo, Hi     float64
	Known              bool
	Injected, Withheld int64
	Verdict            string
}

// Progress draws the fleet's progress: in place on a terminal, else a line now and then.
type Progress struct {
	Out        io.Writer
	Terminal   bool
	Columns    int // of the terminal; 0: narrow
	drawn      int
	milestones Milestones
}

// Draw shows how far the fleet is.
func (p *Progress) Draw(done, total int, success int64, elapsed time.Duration, t Table, loops Loops) {
	share := float64(done) / float64(max(total, 1))
	rate := float64(done) / max(elapsed.Seconds(), .001)
	head := fmt.Sprintf("%s %d of %d sessions, %.0f a second, %.1f%% succeeded", bar(share, 20), done, total, rate,
		100*float64(success)/float64(max(done, 1)))
	news := p.milestones.Of(done, t, loops)
	if !p.Terminal {
		_, _ = fmt.Fprintln(p.Out, strings.Join(append([]string{head}, foldAll(news, narrowTable-2)...), "\n  "))
		return
	}
	var b strings.Builder
	if p.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\x1b[J", p.drawn)
	}
	for _, line := range news {
		b.WriteString(fold(line, max(p.Columns, narrowTable)) + "\n")
	}
	if len(news) > 0 {
		b.WriteString("\n")
	}
	kept := strings.Count(b.String(), "\n")
	b.WriteString(head + "\n\n")
	t.write(&b, p.Columns)
	text := b.String()
	p.drawn = strings.Count(text, "\n") - kept // the news stay
	_, _ = io.WriteString(p.Out, text)
}

// bar is a progress bar of so many columns.
func bar(share float64, width int) string {
	full := min(max(int(share*float64(width)+.5), 0), width)
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", width-full) + "]"
}

// Table holds the truth beside precept's estimate.
type Table struct {
	World *World
	Rows  map[string]Row
}

// How many columns the table takes: without the two arms' sessions, and with them.
const (
	narrowTable = 80
	wideTable   = 90
)

// Write prints the table for a terminal of so many columns.
func (t Table) Write(w io.Writer, columns int) error {
	var b strings.Builder
	t.write(&b, columns)
	_, err := io.WriteString(w, b.String())
	return err
}

func (t Table) write(b *strings.Builder, columns int) {
	row := func(lesson, truth, found, interval, sessions, verdict string) {
		fmt.Fprintf(b, "%-26s %6s %6s  %-15s ", lesson, truth, found, interval)
		if columns >= wideTable {
			fmt.Fprintf(b, "%9s ", sessions)
		}
		b.WriteString(" " + verdict + "\n")
	}
	row("lesson", "truth", "found", "95% interval", "in/out", "verdict")
	wide := false
	for _, l := range t.World.Truths {
		r := t.Rows[l.Slug]
		est, span := "-", "-"
		if r.Known {
			est = points(r.Effect)
			span = points(r.Lo) + " to " + points(r.Hi)
		}
		row(l.Slug, points(l.Effect), est, span, fmt.Sprintf("%d/%d", r.Injected, r.Withheld), cmp.Or(r.Verdict, "not matched yet"))
		wide = wide || r.claimed() && r.Lo <= 0 && r.Hi >= 0
	}
	if wide {
		b.WriteString("\nA claim rests on what was known when it was made, and stays. From then on only\n" +
			"5% are withheld, which widens the interval again, to where it may hold 0.\n")
	}
}

// claimed says that the report has called the lesson something that the coins alone show.
func (r Row) claimed() bool {
	switch r.Verdict {
	case "helps", "harms", "proven helps", "proven harms":
		return r.Known
	}
	return false
}

// fold breaks a sentence at its blanks into lines of at most so many columns.
func fold(text string, columns int) string {
	var b strings.Builder
	at := 0
	for word := range strings.FieldsSeq(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case at > 0 && at+1+n > columns:
			b.WriteString("\n  ")
			at = 2
		case at > 0:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}

func foldAll(lines []string, columns int) (out []string) {
	for _, line := range lines {
		out = append(out, strings.Split(fold(line, columns), "\n")...)
	}
	return out
}

// points writes a reward difference in points: 0.05 is +5.0.
func points(x float64) string { return fmt.Sprintf("%+.1f", 100*x) }

// Summary tells in words how the fleet fared.
func (s Score) Summary() string {
	gain, room := s.With-s.None, s.Best-s.None
	share := 0.0
	if room > 0 {
		share = 100 * gain / room
	}
	return fmt.Sprintf("Without lessons the fleet would succeed in %.1f%% of its sessions. With precept\n"+
		"it was %.1f%% over the whole run, learning included; with only the lessons that\n"+
		"help, all the time, it would be %.1f%%. That is %.0f%% of the attainable gain.",
		100*s.None, 100*s.With, 100*s.Best, share)
}
