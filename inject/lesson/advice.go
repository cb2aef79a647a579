package lesson

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxAdvice is the maximum size of a lesson's advice in a block, in bytes.
const MaxAdvice = 600

// maxRaw is how many bytes of a title or section are rendered or scanned. A section can be a megabyte long.
const maxRaw = 16 << 10

// Text is a lesson as a model sees it: without hidden characters, role marks (such as "system:") and block delimiters
// (lines that open or close an inserted block).
type Text struct {
	Slug, Title   string
	lines         []string // advice
	paragraphEnds []bool   // by line: whether a paragraph or list item ends with the line
}

// Text returns the lesson as a model sees it.
func (l *Lesson) Text() Text {
	t := Text{Slug: oneLine(l.Slug), Title: l.Headline()}
	if t.Slug == "" || hasDelimiter(t.Slug) || speaksAsRole("["+t.Slug+"]") {
		t.Slug = "lesson"
	}
	t.lines, t.paragraphEnds = unwrap(cleanLines(clipBytes(l.Advice, maxRaw)))
	return t
}

// SanitizeLine returns an untrusted text as one line that is safe in a request, or "" if it contains a block delimiter.
func SanitizeLine(text string) string {
	if line := oneLine(text); !hasDelimiter(line) {
		return line
	}
	return ""
}

// Headline returns the title as one safe line, or a title made from the slug if nothing usable remains.
func (l *Lesson) Headline() string {
	h := oneLine(l.Title)
	if h == "" || hasDelimiter(h) {
		h = oneLine(strings.ReplaceAll(l.Slug, "-", " "))
	}
	if h == "" || hasDelimiter(h) {
		h = "lesson"
	}
	return clipRunes(h, maxTitle)
}

func oneLine(s string) string {
	return strings.Join(strings.Fields(strings.Join(cleanLines(strings.Join(strings.Fields(clipBytes(s, maxRaw)), " ")), " ")), " ")
}

// Lines returns the advice without blank lines and code fences, in at most maxBytes bytes including line feeds. Longer
// advice is cut after a sentence or list item, or after a word if no sentence fits.
func (t *Text) Lines(maxBytes int) []string {
	lines, ends := t.lines, t.paragraphEnds
	used := 0
	for i, line := range lines {
		if used+len(line)+1 <= maxBytes {
			used += len(line) + 1
			continue
		}
		if part := cutSentence(line, maxBytes-used-1); part != "" {
			return append(lines[:i:i], part)
		}
		for n := i; n > 0; n-- { // find the end of a sentence
			if ends[n-1] || endsSentence(lines[n-1]) {
				return lines[:n:n]
			}
			if part := cutSentence(lines[n-1], len(lines[n-1])); part != "" {
				return append(lines[:n-1:n-1], part)
			}
		}
		return hardCut(lines[:i+1], maxBytes)
	}
	return lines
}

// unwrap removes blank lines and code fences. ends[i] is true if a paragraph or a list item ends with kept[i].
func unwrap(lines []string) (kept []string, ends []bool) {
	for _, line := range lines {
		t := strings.TrimSpace(line)
		fence := strings.HasPrefix(t, "```") || strings.HasPrefix(t, "~~~")
		if n := len(ends); n > 0 && (t == "" || fence || isListItem(t)) {
			ends[n-1] = true
		}
		if t != "" && !fence {
			kept, ends = append(kept, strings.TrimRight(line, " ")), append(ends, false)
		}
	}
	if n := len(ends); n > 0 {
		ends[n-1] = true
	}
	return kept, ends
}

func isListItem(t string) bool {
	if strings.HasPrefix(t, "- ") || strings.HasPrefix(t, "* ") || strings.HasPrefix(t, "+ ") {
		return true
	}
	digits := strings.TrimLeft(t, "0123456789")
	return len(digits) < len(t) && (strings.HasPrefix(digits, ". ") || strings.HasPrefix(digits, ") "))
}

// cutSentence returns the first sentences in s that fit into limit bytes.
func cutSentence(s string, limit int) string {
	best := 0
	for i, r := range s {
		next := i + utf8.RuneLen(r)
		for next < len(s) && strings.ContainsRune(`"'`+"`)]”’", rune(s[next])) {
			next++
		}
		if next > limit {
			break
		}
		if (next == len(s) || s[next] == ' ' || isFullWidthStop(r)) && endsSentence(s[:next]) {
			best = next
		}
	}
	return strings.TrimRight(s[:best], " ")
}

func isFullWidthStop(r rune) bool { return r == '。' || r == '！' || r == '？' }

// endsSentence reports whether s ends with a complete sentence. The period after an abbreviation or a list number does
// not end a sentence.
func endsSentence(s string) bool {
	s = strings.TrimRight(s, " \"'`)]”’")
	r, size := utf8.DecodeLastRuneInString(s)
	switch {
	case r == '!' || r == '?' || isFullWidthStop(r):
		return true
	case r != '.':
		return false
	}
	head := s[:len(s)-size]
	last := head[strings.LastIndexByte(head, ' ')+1:]
	switch strings.ToLower(strings.TrimLeft(last, "(")) {
	case "e.g", "i.e", "etc", "vs", "cf", "approx":
		return false
	default:
		return last != "" && strings.Trim(head, "0123456789") != "" // not a list item's number
	}
}

// hardCut cuts the lines after a word and appends " ...". The result has at most maxBytes bytes.
func hardCut(lines []string, maxBytes int) []string {
	const ellipsis = " ..."
	out := []string{}
	room := maxBytes
	for _, line := range lines {
		if len(line)+1 <= room-len(ellipsis) {
			out = append(out, line)
			room -= len(line) + 1
			continue
		}
		part := clipBytes(line, max(0, room-1-len(ellipsis)))
		if i := strings.LastIndexFunc(part, unicode.IsSpace); i > 0 && line[len(part)] != ' ' {
			part = part[:i]
		}
		switch part = strings.TrimRight(part, " "); {
		case strings.TrimSpace(part) != "":
			out = append(out, part+ellipsis)
		case len(out) > 0:
			out[len(out)-1] += ellipsis
		}
		break
	}
	return out
}

// clipBytes returns at most n bytes of s, cut between two characters.
func clipBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
