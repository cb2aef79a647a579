package ledger

import (
	"bytes"
	"strings"

	"precept/inject/lesson"
)

// Heading is the section of AGENT.md in which entries stand.
const Heading = "## Lessons Learned"

// section is where the entries of a file stand, in bytes.
type section struct {
	found      bool
	start, end int    // from behind the heading's line to the next heading of its level or above
	last       int    // behind the last line in it that is not blank
	open       string // what closes a code fence or a comment that is still open at its end (or the file's), "" for nothing
	list       bool   // the last line belongs to a list, so that an entry may follow without a blank line
}

// find looks for the section. A heading within a code fence or a comment is none.
func find(text []byte) section {
	s := section{start: len(text), end: len(text), last: len(text)}
	closer := "" // of the fence or comment that is open
	for at := 0; at < len(text); {
		next := len(text)
		if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
			next = at + i + 1
		}
		content := bytes.TrimRight(bytes.TrimPrefix(text[at:next], []byte("\ufeff")), " \t\r\n")
		plainLine := closer == ""
		closer = fence(content, closer)
		switch level, title := lesson.Heading(string(content)); {
		case !plainLine || level == 0 || level > 2:
		case s.found:
			s.end = at
			return s
		case level == 2 && strings.EqualFold(title, strings.TrimPrefix(Heading, "## ")):
			s.found, s.start = true, next
		}
		if s.found && len(content) > 0 {
			s.last = next
			s.list = content[0] == '-' || content[0] == '*' || content[0] == '+' || content[0] == ' ' || content[0] == '\t'
		}
		s.open = closer
		at = next
	}
	return s
}

// fence follows code fences and comments: closer is what ends the one that is open before a line,
// the answer what ends the one that is open behind it.
func fence(content []byte, closer string) string {
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
	return lesson.Fence(closer, string(text))
}

const commentEnd = "-->"

// lineEnd is how the lines of a file end: as its first one does.
func lineEnd(text []byte) string {
	if i := bytes.IndexByte(text, '\n'); i > 0 && text[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// added is what must be inserted into a file, and where, so that the bullets stand at the end of
// its section. A section that is not there is made at the end of the file.
func (s *section) added(text []byte, bullets, eol string) (at int, insert string) {
	var b strings.Builder
	at = s.last
	if at > 0 && text[at-1] != '\n' {
		b.WriteString(eol)
	}
	if s.open != "" { // otherwise the entry would be part of somebody's example
		b.WriteString(s.open + eol)
	}
	switch {
	case len(bytes.TrimPrefix(text, []byte("\ufeff"))) == 0:
		b.WriteString(Heading + eol + eol)
	case !s.found:
		b.WriteString(eol + Heading + eol + eol)
	case !s.list:
		b.WriteString(eol)
	}
	b.WriteString(bullets)
	return at, b.String()
}
