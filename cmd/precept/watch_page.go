package main

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"

	"precept/admin"
	"precept/bandit/feedback"
	"precept/bandit/report"
	"precept/bandit/trial"
	"precept/internal/sample"
	"precept/store"
)

// pageStyle formats a session for a terminal.
type pageStyle struct {
	width  int
	colour bool
}

const maxShownLines = 12 // lines of one message or result

// newPageStyle uses colours if the terminal supports them and NO_COLOR is not set.
func (inv *invocation) newPageStyle() pageStyle {
	columns, isTTY := terminalWidth(inv.stdout)
	noColor, _ := inv.env("NO_COLOR")
	term, _ := inv.env("TERM")
	return pageStyle{width: columns, colour: isTTY && noColor == "" && term != "dumb"}
}

// ink is an ANSI colour.
type ink string

const (
	inkPlain    ink = ""
	inkHeading  ink = "1"     // bold
	inkInserted ink = "30;42" // black on green: inserted text must be easy to see
	inkWithheld ink = "2;9"   // faint, struck through
	inkError    ink = "31"
	inkFaint    ink = "2"
)

const labelWidth = 11 // columns

func (p pageStyle) paint(colour ink, text string) string {
	if !p.colour || colour == inkPlain {
		return text
	}
	return "\x1b[" + string(colour) + "m" + text + "\x1b[0m"
}

func (p pageStyle) headLines(t *store.Transcript) string {
	text := "session " + t.Name + "  " + t.Agent + "  " + t.Model + "  began " + t.Started.UTC().Format("2006-01-02 15:04:05 UTC")
	if t.Control {
		text += "  (control: no lessons)"
	}
	if t.SessionItem.Excluded {
		text += "  (" + report.NotCounted(t.ExcludedFor) + ")"
	}
	return strings.Join(p.lines(inkHeading, text), "\n")
}

func (p pageStyle) endLines(t *store.Transcript) string {
	text := fmt.Sprintf("closed after turn %d: no reward", t.SessionItem.Turns)
	if r := t.Rewarded; r.Value != nil {
		text = fmt.Sprintf(
			"closed after turn %d: reward %.2f (%s), from %s", t.SessionItem.Turns, *r.Value,
			t.Verdict, rewardSource(r.Tier),
		)
	}
	switch {
	case t.SessionItem.Excluded:
		text += "; " + report.NotCounted(t.ExcludedFor)
	case t.Rewarded.Counted != nil:
		text += "; counted"
	}
	return strings.Join(p.lines(inkHeading, text), "\n")
}

func rewardSource(tier int) string {
	switch tier {
	case feedback.TierUser:
		return "the user"
	case feedback.TierVerifier:
		return "a verifier"
	}
	return "the traffic"
}

// turnLines formats one turn. fates has the session's lessons, with the reasons why some were not picked.
func (p pageStyle) turnLines(t *store.TurnItem, fates []store.Fate) []string {
	facts := []string{fmt.Sprintf("turn %d", t.Turn), t.At.UTC().Format("15:04:05"), fmt.Sprintf(
		"%.1f s", t.LatencyMS/1000,
	)}
	if t.Input > 0 {
		written := ""
		if t.Written > 0 {
			written = fmt.Sprintf(", %d written to the cache", t.Written)
		}
		facts = append(facts, fmt.Sprintf(
			"%s in (%d cached%s), %d out", countNoun(t.Input, "token"), t.Cached, written, t.Output,
		))
	}
	if t.Outcome != sample.Complete {
		facts = append(facts, strings.ReplaceAll(t.Outcome, "_", " "))
	}
	if t.Loops > 0 {
		facts = append(facts, "LOOP")
	}
	out := append([]string{""}, p.lines(inkHeading, "-- "+strings.Join(facts, " | "))...)
	if t.Hidden {
		return append(
			out,
			p.lines(
				inkFaint, "hidden: the turn contains a path that was opted out after the turn was stored",
			)...,
		)
	}
	for _, text := range missingLessons(t, fates) {
		out = append(out, p.withLabel(inkFaint, "PRECEPT", strings.Join(p.wrap(text, p.width-labelWidth), "\n"))...)
	}
	for i := range t.Entries {
		out = append(out, p.entryLines(&t.Entries[i])...)
	}
	return out
}

// missingLessons says, for each lesson that matched in a turn but was not picked, why the lesson was not picked. For a
// first turn without a match, missingLessons names the lessons that nearly matched.
func missingLessons(t *store.TurnItem, fates []store.Fate) (out []string) {
	for _, l := range t.Lessons {
		if l.State == "matched" {
			out = append(out, l.Slug+" matched, but was not picked: "+passReason(fates, l.Slug))
		}
	}
	if t.Turn != 1 || len(t.Lessons) > 0 {
		return out
	}
	for i := range fates {
		if fates[i].State == store.NotMatched {
			out = append(out, fates[i].Slug+" did not match: "+fates[i].Why)
		}
	}
	return append(out, "no lesson for this turn; `precept lessons try TEXT` shows the lessons that match a text")
}

// passReason says why a lesson that matched was not picked.
func passReason(fates []store.Fate, slug string) string {
	for i := range fates {
		if fates[i].Slug != slug {
			continue
		}
		switch trial.PassReason(fates[i].Why) {
		case trial.PassedSlots:
			return "better lessons took all places (inject.k)"
		case trial.PassedRoom:
			return "no room for the text (inject.budget_bytes)"
		case trial.PassedRank:
			return "the chooser expects less gain than the inserted tokens cost"
		}
	}
	return "the reason was not stored"
}

func (p pageStyle) entryLines(e *store.Entry) []string {
	label, text, colour := e.Kind, e.Text, inkPlain
	switch e.Kind {
	case store.KindBlock:
		label, colour = "PRECEPT +", inkInserted
	case store.KindWithheld:
		label, colour = "PRECEPT -", inkWithheld
		text = fmt.Sprintf(
			"%s was withheld at random (probability of injection: %.2f)",
			strings.Join(e.Slugs, ", "), e.Propensity,
		)
		if e.Why == "control" {
			text = strings.Join(e.Slugs, ", ") + " matched, but was not injected, because this is a control session"
		}
	case sample.EventCall:
		text = e.Tool + " " + e.Text
	case sample.MessageResult:
		if e.Outcome == "error" {
			label, colour = "FAILED", inkError
		} else if e.Outcome != "" && e.Outcome != "ok" {
			label = e.Outcome
		}
	case store.KindError:
		label, colour = "ERROR", inkError
	case sample.MessageSystem:
		colour = inkFaint
	}
	return p.withLabel(colour, label, p.truncate(e, text))
}

// truncate cuts a long text, and adds lines that say how much is omitted.
func (p pageStyle) truncate(e *store.Entry, text string) string {
	maxLines := maxShownLines
	if e.Kind == sample.MessageSystem || e.Kind == sample.MessageTools {
		maxLines = 1
	}
	lines := p.wrap(strings.TrimRight(text, "\n"), p.width-labelWidth)
	if len(lines) > maxLines {
		left := len(lines) - maxLines
		lines = append(
			lines[:maxLines:maxLines],
			p.wrap(fmt.Sprintf("... %d more lines; the dashboard shows them", left), p.width-labelWidth)...,
		)
	}
	if e.CutBytes > 0 {
		lines = append(
			lines,
			p.wrap(
				fmt.Sprintf("... %s more; `precept export --session` has the whole text", countNoun(e.CutBytes, "byte")), p.width-labelWidth,
			)...,
		)
	}
	return strings.Join(lines, "\n")
}

// withLabel begins the first line with the label, and indents the others.
func (p pageStyle) withLabel(colour ink, label, text string) []string {
	var out []string
	for n, line := range strings.Split(text, "\n") {
		if n > 0 {
			label = ""
		}
		out = append(out, fmt.Sprintf("%-*s", labelWidth, shortenLabel(label, labelWidth-1))+p.paint(colour, line))
	}
	return out
}

func (p pageStyle) lines(colour ink, text string) []string {
	out := p.wrap(text, p.width)
	for n := range out {
		out[n] = p.paint(colour, out[n])
	}
	return out
}

// wrap breaks lines at a space if there is one. Hidden characters and control characters become visible escapes.
func (p pageStyle) wrap(text string, columns int) []string {
	var out []string
	for line := range strings.SplitSeq(
		admin.TerminalText(strings.ReplaceAll(text, "\t", "    ")), "\n",
	) {
		out = append(out, breakLine([]rune(line), columns)...)
	}
	return out
}

func breakLine(line []rune, columns int) (out []string) {
	for {
		columnsUsed, blank, end := 0, -1, 0
		for end < len(line) {
			if columnsUsed += runeWidth(line[end]); columnsUsed > columns && end > 0 {
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

func runeWidth(r rune) int {
	switch k := width.LookupRune(r).Kind(); {
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case k == width.EastAsianWide || k == width.EastAsianFullwidth:
		return 2
	}
	return 1
}

func shortenLabel(s string, width int) string {
	s = report.Printable(s)
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:max(width-1, 0)]) + "…"
}
