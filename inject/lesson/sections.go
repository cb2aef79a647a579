package lesson

import (
	"iter"
	"strings"
)

// AdviceHead is the text before the advice in a body from FormatBody.
const AdviceHead = "\n## What to do (or avoid)\n\n"

// FormatBody returns a lesson's AIP-11 sections in Markdown. It does not change the advice. There is no section for an
// empty counter-example.
func FormatBody(title, when, advice, counterExample string) string {
	oneLine := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	body := "\n# " + oneLine(title) + "\n\n## When this applies\n\n" + oneLine(when) + "\n" + AdviceHead + advice + "\n"
	if counterExample != "" {
		body += "\n## Counter-example\n\n" + counterExample + "\n"
	}
	return body
}

// section returns the text under the first wanted heading, up to the next heading at an equal or higher level.
func section(body string, wanted func(string) bool) string {
	level, start, end := 0, len(body), len(body)
	for h := range headings(body) {
		if level > 0 && h.level <= level {
			end = h.start
			break
		}
		if level == 0 && wanted(h.text) {
			level, start = h.level, h.end
		}
	}
	return strings.Trim(strings.ReplaceAll(body[start:end], "\r\n", "\n"), "\r\n")
}

// heading is a heading with its line's offsets.
type heading struct {
	level, start, end int
	text              string
}

// headings yields the headings outside code fences.
func headings(body string) iter.Seq[heading] {
	return func(yield func(heading) bool) {
		at, fence := 0, ""
		for line := range strings.Lines(body) {
			h := heading{start: at, end: at + len(line)}
			at = h.end
			line = strings.TrimRight(line, "\r\n")
			fence = OpenFence(fence, line)
			if h.level, h.text = ParseHeading(line); h.level > 0 && fence == "" && !yield(h) {
				return
			}
		}
	}
}

// OpenFence returns the marker of the code fence that is open after a line, or "". open is the marker before the line.
func OpenFence(open, line string) string {
	text := strings.TrimLeft(line, " ")
	if len(line)-len(text) > 3 {
		return open
	}
	marker := ""
	if strings.HasPrefix(text, "```") || strings.HasPrefix(text, "~~~") {
		marker = text[:len(text)-len(strings.TrimLeft(text, text[:1]))]
	}
	rest := text[len(marker):]
	switch {
	case open == "" && strings.HasPrefix(marker, "`") && strings.Contains(rest, "`"): // a code span within a line
		return ""
	case open == "":
		return marker
	case marker != "" && marker[0] == open[0] && len(marker) >= len(open) && strings.TrimSpace(rest) == "":
		return ""
	default:
		return open
	}
}

// ParseHeading parses an ATX heading, such as "## Context". Other lines have level 0.
func ParseHeading(line string) (level int, text string) {
	start := strings.TrimLeft(line, " ")
	rest := strings.TrimLeft(start, "#")
	level = len(start) - len(rest)
	if len(line)-len(start) > 3 || level == 0 || level > 6 || rest != "" && rest[0] != ' ' && rest[0] != '\t' {
		return 0, ""
	}
	text = strings.TrimSpace(rest)
	if bare := strings.TrimRight(text, "#"); bare == "" || strings.HasSuffix(bare, " ") {
		text = strings.TrimSpace(bare) // without the closing hashes
	}
	return level, text
}

// isHeading returns a function that recognizes a heading, regardless of case and a final colon.
func isHeading(want string) func(string) bool {
	return func(s string) bool { return strings.EqualFold(strings.TrimRight(s, ":"), want) }
}

// isAdviceHeading recognises "What to do (or avoid)" and variants.
func isAdviceHeading(s string) bool {
	s = strings.ToLower(strings.Join(strings.FieldsFunc(s, func(r rune) bool {
		return r == ' ' || r == '(' || r == ')' || r == '/' || r == ':' || r == '\t'
	}), " "))
	switch s {
	case "what to do or avoid", "what to do", "what to avoid", "what to do avoid", "what to do and avoid":
		return true
	default:
		return false
	}
}

func firstTitle(body string) string {
	for h := range headings(body) {
		if h.level == 1 {
			return h.text
		}
	}
	return ""
}

// unsectionedText returns the text of a lesson without sections, which is all text below the title. If there are other
// headings besides the title, the lesson has sections, and the result is "".
func unsectionedText(body string) string {
	start := 0
	for h := range headings(body) {
		if h.level > 1 || start > 0 {
			return ""
		}
		start = h.end
	}
	return strings.TrimSpace(strings.ReplaceAll(body[start:], "\r\n", "\n"))
}
