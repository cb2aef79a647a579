package main

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"

	"precept/admin"
	"precept/bandit/report"
	"precept/internal/sample"
	"precept/store"
)

// page holds the width and the colour setting with which a session is written to a terminal.
type page struct {
	width  int
	colour bool
}

// shownLines is the number of lines of a text that are printed.
const shownLines = 12

// page returns the format of the terminal; without colours with NO_COLOR or without a terminal.
func (w *invocation) page() page {
	columns, live := screen(w.out)
	none, _ := w.env("NO_COLOR")
	term, _ := w.env("TERM")
	return page{width: columns, colour: live && none == "" && term != "dumb"}
}

// ink is an ANSI colour, named by its purpose.
type ink string

const (
	inkPlain  ink = ""
	inkHead   ink = "1"     // bold
	inkBlock  ink = "30;42" // black on green, so that a person sees the inserted text
	inkGhost  ink = "2;9"   // faint, struck through
	inkError  ink = "31"
	inkFaint  ink = "2"
	labelWide     = 11 // columns of the label before a text
)

func (p page) paint(i ink, text string) string {
	if !p.colour || i == inkPlain {
		return text
	}
	return "\x1b[" + string(i) + "m" + text + "\x1b[0m"
}

func (p page) head(t *store.Transcript) string {
	text := "session " + t.Name + "  " + t.Agent + "  " + t.Model + "  begun " + t.Started.UTC().Format("2006-01-02 15:04:05 UTC")
	if t.Control {
		text += "  (control: no lessons)"
	}
	return strings.Join(p.lines(inkHead, text), "\n")
}

// end returns the lines about the end of a session.
func (p page) end(t *store.Transcript) string {
	text := fmt.Sprintf("closed after turn %d: no reward", t.SessionItem.Turns)
	if r := t.Rewarded; r.Value != nil {
		text = fmt.Sprintf(
			"closed after turn %d: reward %.2f (%s), from tier %d", t.SessionItem.Turns, *r.Value,
			t.Verdict, r.Tier,
		)
	}
	return strings.Join(p.lines(inkHead, text), "\n")
}

// turn returns the lines of one exchange, none wider than the page.
func (p page) turn(t *store.TurnItem) []string {
	facts := []string{fmt.Sprintf("turn %d", t.Turn), t.At.UTC().Format("15:04:05"), fmt.Sprintf(
		"%.1f s", t.LatencyMS/1000,
	)}
	if t.Input > 0 {
		facts = append(facts, fmt.Sprintf(
			"%s in (%d cached), %d out", amount(t.Input, "token"), t.Cached, t.Output,
		))
	}
	if t.Outcome != sample.Complete {
		facts = append(facts, strings.ReplaceAll(t.Outcome, "_", " "))
	}
	if t.Loops > 0 {
		facts = append(facts, "LOOP")
	}
	out := append([]string{""}, p.lines(inkHead, "-- "+strings.Join(facts, " | "))...)
	if t.Hidden {
		return append(
			out,
			p.lines(
				inkFaint, "hidden: the turn contains a path that was opted out later",
			)...,
		)
	}
	for i := range t.Entries {
		out = append(out, p.entry(&t.Entries[i])...)
	}
	return out
}

func (p page) entry(e *store.Entry) []string {
	label, text, i := e.Kind, e.Text, inkPlain
	switch e.Kind {
	case store.KindBlock:
		label, i = "PRECEPT +", inkBlock
	case store.KindWithheld:
		label, i = "PRECEPT -", inkGhost
		text = fmt.Sprintf(
			"%s was withheld by a coin (probability of injection: %.2f)",
			strings.Join(e.Slugs, ", "), e.Chance,
		)
		if e.Why == "control" {
			text = strings.Join(e.Slugs, ", ") + " matched; not injected, because the session is a control"
		}
	case sample.EventCall:
		text = e.Tool + " " + e.Text
	case sample.MessageResult:
		if e.Outcome == "error" {
			label, i = "FAILED", inkError
		} else if e.Outcome != "" && e.Outcome != "ok" {
			label = e.Outcome
		}
	case store.KindError:
		label, i = "ERROR", inkError
	case sample.MessageSystem:
		i = inkFaint
	}
	return p.withLabel(i, label, p.short(e, text))
}

// short cuts a long text and marks the cut.
func (p page) short(e *store.Entry, text string) string {
	maxLines := shownLines
	if e.Kind == sample.MessageSystem {
		maxLines = 1
	}
	lines := p.wrap(strings.TrimRight(text, "\n"), p.width-labelWide)
	if len(lines) > maxLines {
		left := len(lines) - maxLines
		lines = append(
			lines[:maxLines:maxLines],
			p.wrap(fmt.Sprintf("... %d more lines; the dashboard shows them", left), p.width-labelWide)...,
		)
	}
	if e.Cut > 0 {
		lines = append(
			lines,
			p.wrap(
				fmt.Sprintf("... %s more; `precept export` has the whole text", amount(e.Cut, "byte")), p.width-labelWide,
			)...,
		)
	}
	return strings.Join(lines, "\n")
}

// withLabel puts a label before a text.
func (p page) withLabel(i ink, label, text string) []string {
	var out []string
	for n, line := range strings.Split(text, "\n") {
		if n > 0 {
			label = ""
		}
		out = append(out, fmt.Sprintf("%-*s", labelWide, shortenLabel(label, labelWide-1))+p.paint(i, line))
	}
	return out
}

// lines splits a text into lines of the page's width.
func (p page) lines(i ink, text string) []string {
	out := p.wrap(text, p.width)
	for n := range out {
		out[n] = p.paint(i, out[n])
	}
	return out
}

// wrap breaks a text into lines of at most the given number of columns, at a blank where there is
// one. Hidden and control characters are printed as escapes.
func (p page) wrap(text string, columns int) []string {
	var out []string
	for line := range strings.SplitSeq(
		admin.Visible(strings.ReplaceAll(text, "\t", "    ")), "\n",
	) {
		out = append(out, breakLine([]rune(line), columns)...)
	}
	return out
}

// breakLine breaks a line into lines of at most columns columns, at a blank if there is one.
func breakLine(line []rune, columns int) (out []string) {
	for {
		columnsUsed, blank, end := 0, -1, 0
		for end < len(line) {
			if columnsUsed += cells(line[end]); columnsUsed > columns && end > 0 {
				break
			}
			end++
		}
		if end == len(line) {
			return append(out, string(line))
		}
		for i := end; i > 0 && blank < 0; i-- {
			if line[i] == ' ' {
				blank = i
			}
		}
		if blank > 0 {
			out, line = append(out, string(line[:blank])), line[blank+1:]
		} else {
			out, line = append(out, string(line[:end])), line[end:]
		}
	}
}

// cells returns the number of columns that a terminal uses for a character.
func cells(r rune) int {
	switch k := width.LookupRune(r).Kind(); {
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case k == width.EastAsianWide || k == width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// shortenLabel shortens a text to the width of its column.
func shortenLabel(s string, width int) string {
	s = report.Printable(s)
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:max(width-1, 0)]) + "…"
}
