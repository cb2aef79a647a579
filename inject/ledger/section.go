package ledger

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"precept/inject/lesson"
)

// Heading precedes the entries.
const Heading = "## Lessons Learned"

// section says where the entries are in the file, in byte offsets.
type section struct {
	found      bool
	start, end int    // from the end of the heading to the next heading at the same or a higher level
	lastEnd    int    // end of the last nonblank line
	closer     string // text that closes a code fence or comment that is open at the end; "" for none
	endsInList bool   // the last line is in a list, so an entry needs no blank line before it
}

// findSection finds the entries. It ignores headings in code fences and comments.
func findSection(text []byte) section {
	s := section{start: len(text), end: len(text), lastEnd: len(text)}
	closer := "" // text that closes the open fence or comment
	for at := 0; at < len(text); {
		next := len(text)
		if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
			next = at + i + 1
		}
		content := bytes.TrimRight(bytes.TrimPrefix(text[at:next], []byte("\ufeff")), " \t\r\n")
		plainLine := closer == ""
		closer = updateFence(content, closer)
		switch level, title := lesson.ParseHeading(string(content)); {
		case !plainLine || level == 0 || level > 2:
		case s.found:
			s.end = at
			return s
		case level == 2 && strings.EqualFold(title, strings.TrimPrefix(Heading, "## ")):
			s.found, s.start = true, next
		}
		if s.found && len(content) > 0 {
			s.lastEnd = next
			s.endsInList = content[0] == '-' || content[0] == '*' || content[0] == '+' || content[0] == ' ' || content[0] == '\t'
		}
		s.closer = closer
		at = next
	}
	return s
}

// updateFence returns the text that closes the fence or comment that is open after a line, or "" if none is open.
// closer is the value before the line.
func updateFence(content []byte, closer string) string {
	text := bytes.TrimLeft(content, " ")
	if len(content)-len(text) > 3 {
		return closer
	}
	switch {
	case closer == commentEnd:
		if bytes.Contains(text, []byte(commentEnd)) {
			return ""
		}
		return closer
	case closer == "" && bytes.HasPrefix(text, []byte("<!--")):
		if bytes.Contains(text[len("<!--"):], []byte(commentEnd)) {
			return ""
		}
		return commentEnd
	}
	return lesson.OpenFence(closer, string(text))
}

const commentEnd = "-->"

func lineEnd(text []byte) string {
	if i := bytes.IndexByte(text, '\n'); i > 0 && text[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// insertion returns the text that adds bullets to the section, and the offset at which to insert it. If the section is
// missing, insertion adds it at the end of the file.
func (s *section) insertion(text []byte, bullets, eol string) (at int, insert string) {
	var b strings.Builder
	at = s.lastEnd
	if at > 0 && text[at-1] != '\n' {
		b.WriteString(eol)
	}
	if s.closer != "" { // the entry must not be inside the open fence or comment
		b.WriteString(s.closer + eol)
	}
	switch {
	case len(bytes.TrimPrefix(text, []byte("\ufeff"))) == 0:
		b.WriteString(Heading + eol + eol)
	case !s.found:
		b.WriteString(eol + Heading + eol + eol)
	case !s.endsInList:
		b.WriteString(eol)
	}
	b.WriteString(bullets)
	return at, b.String()
}

// DatedEntry is a ledger entry with a time.
type DatedEntry struct {
	Entry Entry
	At    time.Time // zero if the entry has no valid time
}

// Entries returns the entries, the oldest first. It skips other text, and entries that lack file, error or rule.
func Entries(text []byte) []DatedEntry {
	s := findSection(text)
	var out []DatedEntry
	var open *DatedEntry
	for raw := range strings.Lines(string(text[s.start:s.end])) {
		content := strings.TrimRight(raw, " \t\r\n")
		if rest, ok := strings.CutPrefix(content, "- ["); ok {
			open = nil
			if at, kind, ok := strings.Cut(rest, "] **"+labelType+":** "); ok {
				t, _ := time.Parse(time.RFC3339, at)
				out = append(out, DatedEntry{Entry{Type: kind}, t})
				open = &out[len(out)-1]
			}
			continue
		}
		if content != "" && !strings.HasPrefix(content, " ") && !strings.HasPrefix(content, "\t") {
			open = nil
		}
		if open == nil {
			continue
		}
		label, value, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(content), "- **"), ":** ")
		for _, f := range open.Entry.fields() {
			if f.label == label && *f.text == "" {
				*f.text = strings.ReplaceAll(strings.TrimSpace(value), "&lt;!--", "<!--")
			}
		}
	}
	for i := range out {
		out[i].Entry.File = strings.Trim(out[i].Entry.File, "` ")
	}
	return slices.DeleteFunc(out, func(d DatedEntry) bool { return d.Entry.File == "" || d.Entry.Error == "" || d.Entry.Rule == "" })
}
