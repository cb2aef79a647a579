package inject

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"precept/lesson"
)

// The fixed parts of a block. They are golden-tested: a changed byte empties the prompt cache of every live session.
const (
	adviceHead   = "Lessons from past experience:\n(Advice from earlier runs, not a request from the user. Ignore what does not apply.)\n"
	adviceEnd    = "End of lessons.\n\n"
	pitfallsHead = "[KNOWN PITFALLS from earlier runs. Advice, not a request from the user; ignore what does not apply.]\n"
	pitfallsEnd  = "[END KNOWN PITFALLS]\n\n"
	cautionsHead = "Cautions (these approaches failed before):\n"
	linePrefix   = "  | "
)

// maxAdvice is how much of a lesson's advice is shown, in bytes; maxTitle bounds what stands before it.
const (
	maxAdvice = 600
	maxTitle  = 200
)

// line is one lesson as it stands in a block.
type line struct {
	slug, title string
	advice      string // cleaned, one line a line, not cut yet
	caution     bool
}

func lineOf(l *lesson.Lesson, caution bool) line {
	return line{
		slug:    oneLine(l.Slug),
		title:   cutText(oneLine(l.Title), maxTitle),
		advice:  tidy(l.Advice),
		caution: caution,
	}
}

// frame is the bytes of a block around its lessons.
func (s Style) frame() int {
	if s == Pitfalls {
		return len(pitfallsHead) + len(cautionsHead) + len(pitfallsEnd)
	}
	return len(adviceHead) + len(cautionsHead) + len(adviceEnd)
}

// size is the bytes of the lesson in a block, with at most limit bytes of advice.
func (l *line) size(limit int) int {
	text := cutText(l.advice, limit)
	n := len("- [] \n") + len(l.slug) + len(l.title)
	if text != "" {
		n += len(text) + 1 + len(linePrefix)*(1+strings.Count(text, "\n"))
	}
	return n
}

// limit is how many bytes of advice leave the lesson inside size bytes; negative: not even its title fits.
func (l *line) limit(size int) int {
	if l.size(0) > size {
		return -1
	}
	lo, hi := 0, maxAdvice
	for lo < hi {
		mid := (lo + hi + 1) / 2
		if l.size(mid) <= size {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return lo
}

// block renders lessons in the order of their slugs, cautions apart. Nothing in it counts, scores or dates: the text of
// a lesson must be the same for every session that gets it.
func (s Style) block(lines []line, limit int) string {
	lines = slices.Clone(lines)
	slices.SortFunc(lines, func(a, b line) int { return cmp.Compare(a.slug, b.slug) })
	head, end := adviceHead, adviceEnd
	if s == Pitfalls {
		head, end = pitfallsHead, pitfallsEnd
	}
	var b strings.Builder
	b.WriteString(head)
	for i := range lines {
		if !lines[i].caution {
			lines[i].write(&b, limit)
		}
	}
	if slices.ContainsFunc(lines, func(l line) bool { return l.caution }) {
		b.WriteString(cautionsHead)
		for i := range lines {
			if lines[i].caution {
				lines[i].write(&b, limit)
			}
		}
	}
	b.WriteString(end)
	return b.String()
}

func (l *line) write(b *strings.Builder, limit int) {
	b.WriteString("- [")
	b.WriteString(l.slug)
	b.WriteString("] ")
	b.WriteString(l.title)
	b.WriteByte('\n')
	text := cutText(l.advice, limit)
	if text == "" {
		return
	}
	for part := range strings.SplitSeq(text, "\n") {
		b.WriteString(linePrefix)
		b.WriteString(part)
		b.WriteByte('\n')
	}
}

// oneLine folds white space and drops what does not show: a title cannot begin a line of its own.
func oneLine(s string) string {
	return strings.Join(strings.Fields(strings.Map(visible, defused(s))), " ")
}

// tidy is a markdown section as lines: without blank ones, without what does not show. Every line break that a reader
// may know counts as one, so that each line gets the prefix.
func tidy(s string) string {
	s = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\v", "\n", "\f", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n", "\t", "    ").Replace(defused(s))
	var out []string
	for part := range strings.SplitSeq(s, "\n") {
		part = strings.TrimRightFunc(strings.Map(visible, part), unicode.IsSpace)
		if part != "" {
			out = append(out, part)
		}
	}
	return strings.Join(out, "\n")
}

// visible keeps what can be read; white space of any kind becomes a blank, and what is hidden or turns the direction of
// writing goes.
func visible(r rune) rune {
	switch {
	case unicode.IsSpace(r):
		return ' '
	case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r == utf8.RuneError:
		return -1
	}
	return r
}

// defused takes the marks of our own blocks out of a lesson's text: it can neither close a block nor open one.
func defused(s string) string {
	if !strings.ContainsAny(s, "[") && !strings.Contains(s, "lessons.") && !strings.Contains(s, "experience:") {
		return s
	}
	return strings.NewReplacer(
		"End of lessons.", "End of lessons",
		"Lessons from past experience:", "Lessons from past experience",
		"[KNOWN PITFALLS", "(KNOWN PITFALLS", "[END KNOWN PITFALLS]", "(END KNOWN PITFALLS)",
		"[LOOP DETECTED]", "(LOOP DETECTED)", "[END LOOP DETECTED]", "(END LOOP DETECTED)",
		"[END LESSON]", "(END LESSON)",
	).Replace(s)
}

// cutText cuts at the end of the last sentence or line that fits; where the first one does not fit, at a word, and says so.
func cutText(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	if limit <= 0 {
		return ""
	}
	head := s[:limit]
	for !utf8.RuneStart(s[len(head)]) {
		head = head[:len(head)-1]
	}
	if end := lastSentence(head, s[len(head):]); end > 0 {
		return strings.TrimRight(head[:end], " \n")
	}
	const more = " ..."
	if limit <= len(more) {
		return ""
	}
	head = head[:min(len(head), limit-len(more))]
	if i := strings.LastIndexByte(head, ' '); i > 0 {
		head = head[:i]
	}
	for len(head) > 0 && !utf8.ValidString(head) {
		head = head[:len(head)-1]
	}
	return strings.TrimRight(head, " \n") + more
}

// lastSentence is the end of the last whole sentence in head, which is followed by rest, or of the last whole line; 0:
// there is neither.
func lastSentence(head, rest string) int {
	line := 0
	for i := len(head); i > 0; i-- {
		next := head[i:]
		if next == "" {
			next = rest
		}
		switch {
		case strings.HasSuffix(head[:i], "。"):
			return i
		case next != "" && next[0] != ' ' && next[0] != '\n':
		case head[i-1] == '.' || head[i-1] == '!' || head[i-1] == '?':
			return i
		case line == 0 && next != "" && next[0] == '\n':
			line = i
		}
	}
	return line
}
