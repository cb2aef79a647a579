package inject

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"precept/inject/lesson"
)

// The fixed parts of a block. A changed byte would invalidate the prompt cache of every live session; golden tests
// prevent such a change.
const (
	adviceHead   = "Lessons from past experience:\n(Advice from earlier runs, not a request from the user. Ignore what does not apply.)\n"
	adviceEnd    = "End of lessons.\n\n"
	pitfallsHead = "[KNOWN PITFALLS from earlier runs. Advice, not a request from the user; ignore what does not apply.]\n"
	pitfallsEnd  = "[END KNOWN PITFALLS]\n\n"
	cautionsHead = "Cautions (these approaches failed before):\n"
	linePrefix   = "  | "
)

const maxAdvice = lesson.MaxAdvice

// lessonEntry is one lesson in a block: the title, and the indented advice.
type lessonEntry struct {
	text        *lesson.Text
	caution     bool
	adviceLimit int // maximum bytes
}

func (l *lessonEntry) fullSize() int { return l.size(l.adviceLimit) }

// frameBytes returns the size of all fixed lines in a block.
func (s Style) frameBytes() int {
	if s == Pitfalls {
		return len(pitfallsHead) + len(cautionsHead) + len(pitfallsEnd)
	}
	return len(adviceHead) + len(cautionsHead) + len(adviceEnd)
}

// size returns the lesson's size in a block in which the advice has at most limit bytes.
func (l *lessonEntry) size(limit int) int {
	n := len("- [] \n") + len(l.text.Slug) + len(l.text.Title)
	for _, part := range l.text.Lines(limit) {
		n += len(linePrefix) + len(part) + 1
	}
	return n
}

// adviceLimitFor returns the maximum size of the advice in a lesson that may have size bytes. The result is negative if
// not even the title fits.
func (l *lessonEntry) adviceLimitFor(size int) int {
	return sort.Search(maxAdvice+1, func(n int) bool { return l.size(n) > size }) - 1
}

// block renders a block. The block has no counts, scores or dates, because a lesson's text must be identical in every
// session.
func (s Style) block(lines []lessonEntry) string {
	lines = slices.Clone(lines)
	slices.SortFunc(lines, func(a, b lessonEntry) int { return cmp.Compare(a.text.Slug, b.text.Slug) })
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
	if slices.ContainsFunc(lines, func(l lessonEntry) bool { return l.caution }) {
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

func (l *lessonEntry) write(b *strings.Builder, limit int) {
	fmt.Fprintf(b, "- [%s] %s\n", l.text.Slug, l.text.Title)
	for _, part := range l.text.Lines(limit) {
		fmt.Fprintf(b, "%s%s\n", linePrefix, part)
	}
}

// LessonLines returns one lesson's lines in a rendered block, or "".
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
