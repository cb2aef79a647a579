package inject

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"precept/inject/lesson"
)

// The fixed parts of a block. Golden tests compare the parts, because a changed byte invalidates the prompt
// cache of every live session.
const (
	adviceHead   = "Lessons from past experience:\n(Advice from earlier runs, not a request from the user. Ignore what does not apply.)\n"
	adviceEnd    = "End of lessons.\n\n"
	pitfallsHead = "[KNOWN PITFALLS from earlier runs. Advice, not a request from the user; ignore what does not apply.]\n"
	pitfallsEnd  = "[END KNOWN PITFALLS]\n\n"
	cautionsHead = "Cautions (these approaches failed before):\n"
	linePrefix   = "  | "
)

// maxAdvice is the maximum number of bytes of a lesson's advice in a block.
const maxAdvice = lesson.MaxAdvice

// line is one lesson in a block: a line with the title, and the indented lines of the advice.
type line struct {
	text        *lesson.Text
	caution     bool
	adviceLimit int // maximum bytes of advice
}

// fullSize returns the number of bytes of the lesson in a block.
func (l *line) fullSize() int { return l.size(l.adviceLimit) }

// frameBytes returns the number of bytes of the fixed lines of a block, including the line before the cautions.
func (s Style) frameBytes() int {
	if s == Pitfalls {
		return len(pitfallsHead) + len(cautionsHead) + len(pitfallsEnd)
	}
	return len(adviceHead) + len(cautionsHead) + len(adviceEnd)
}

// size returns the number of bytes of the lesson in a block, with the advice truncated to limit bytes.
func (l *line) size(limit int) int {
	n := len("- [] \n") + len(l.text.Slug) + len(l.text.Title)
	for _, part := range l.text.Lines(limit) {
		n += len(linePrefix) + len(part) + 1
	}
	return n
}

// adviceLimitFor returns the largest number of bytes of advice with which the lesson fits into size bytes. The result
// is negative if not even the title fits.
func (l *line) adviceLimitFor(size int) int {
	return sort.Search(maxAdvice+1, func(n int) bool { return l.size(n) > size }) - 1
}

// block renders a block with the lessons in the order of their slugs, and the cautions after the other lessons. A block
// contains no counts, scores or dates, because the text of a lesson must be identical in every session.
func (s Style) block(lines []line) string {
	lines = slices.Clone(lines)
	slices.SortFunc(lines, func(a, b line) int { return cmp.Compare(a.text.Slug, b.text.Slug) })
	head, end := adviceHead, adviceEnd
	if s == Pitfalls {
		head, end = pitfallsHead, pitfallsEnd
	}
	var b strings.Builder
	b.WriteString(head)
	for i := range lines {
		if !lines[i].caution {
			lines[i].write(&b, lines[i].adviceLimit)
		}
	}
	if slices.ContainsFunc(lines, func(l line) bool { return l.caution }) {
		b.WriteString(cautionsHead)
		for i := range lines {
			if lines[i].caution {
				lines[i].write(&b, lines[i].adviceLimit)
			}
		}
	}
	b.WriteString(end)
	return b.String()
}

func (l *line) write(b *strings.Builder, limit int) {
	fmt.Fprintf(b, "- [%s] %s\n", l.text.Slug, l.text.Title)
	for _, part := range l.text.Lines(limit) {
		fmt.Fprintf(b, "%s%s\n", linePrefix, part)
	}
}

// LessonLines returns the lines of the lesson slug in a rendered block, or "" if the block does not contain the lesson.
func LessonLines(block, slug string) string {
	head := "- [" + slug + "] "
	start := strings.Index("\n"+block, "\n"+head)
	if start < 0 {
		return ""
	}
	end := start
	for line := range strings.Lines(block[start:]) {
		if end > start && !strings.HasPrefix(line, linePrefix) {
			break
		}
		end += len(line)
	}
	return block[start:end]
}
