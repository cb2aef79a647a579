package wire

import (
	"bytes"
)

// sseReader splits a stream of server-sent events into single events. The input may arrive in pieces of any size. Lines
// end with LF, CR or CRLF.
type sseReader struct {
	maxBytes    int                                   // limit for a line, and for an event's data
	handleEvent func(name, data []byte, tooLong bool) // if tooLong, data is only the tail of the last line

	line    []byte
	lineEnd []byte // tail of a line that is longer than maxBytes
	data    []byte
	name    []byte
	hasData bool
	lineCut bool // the line is longer than maxBytes
	tooLong bool // the event is longer than maxBytes
	afterCR bool
}

// keptBuffer is the largest buffer, in bytes, that is kept for the next event, because a thousand streams may be open
// at the same time.
const keptBuffer = 16 << 10

func (s *sseReader) write(p []byte) {
	hasCR := bytes.IndexByte(p, '\r') >= 0 // searched once: a CR is rare
	for len(p) > 0 {
		if s.afterCR {
			s.afterCR = false
			if p[0] == '\n' {
				p = p[1:]
				continue
			}
		}
		n := bytes.IndexByte(p, '\n')
		run := p
		if n >= 0 {
			run = p[:n]
		}
		if hasCR {
			if cr := bytes.IndexByte(run, '\r'); cr >= 0 {
				n, s.afterCR = cr, true
			}
		}
		if n < 0 {
			s.bufferLine(p)
			return
		}
		if len(s.line) == 0 && !s.lineCut && n <= s.maxBytes {
			s.readLine(p[:n])
		} else {
			s.bufferLine(p[:n])
			s.readLine(s.line)
			s.line, s.lineCut = reuse(s.line), false
		}
		p = p[n+1:]
	}
}

func (s *sseReader) drop(maxBuffered int) {
	s.maxBytes = maxBuffered
	if len(s.line) > maxBuffered {
		s.line, s.lineCut = nil, true
	}
	if len(s.data) > maxBuffered {
		s.data, s.tooLong = nil, true
	}
}

// end reads the last line and event, which some servers send without a final newline.
func (s *sseReader) end() {
	s.readLine(s.line)
	s.dispatch()
	s.line, s.lineCut = nil, false
}

func (s *sseReader) bufferLine(p []byte) {
	if room := s.maxBytes - len(s.line); len(p) > room {
		if !s.lineCut {
			s.lineCut, s.lineEnd = true, appendEnd(nil, s.line)
		}
		s.lineEnd = appendEnd(s.lineEnd, p)
		p = p[:max(room, 0)]
	}
	s.line = append(s.line, p...)
}

func (s *sseReader) readLine(line []byte) {
	if len(line) == 0 && !s.lineCut {
		s.dispatch()
		return
	}
	field, value, _ := bytes.Cut(line, []byte(":"))
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	switch string(field) {
	case "event":
		s.name = append(s.name[:0], value[:min(len(value), 128)]...)
	case "data":
		if s.hasData {
			s.data = append(s.data, '\n')
		}
		s.hasData = true
		s.tooLong = s.tooLong || s.lineCut || len(s.data)+len(value) > s.maxBytes
		if s.tooLong {
			value = nil
		}
		s.data = append(s.data, value...)
	}
}

func (s *sseReader) dispatch() {
	if s.hasData {
		if s.tooLong {
			s.data = s.lineEnd
		}
		s.handleEvent(s.name, s.data, s.tooLong)
	}
	s.data, s.lineEnd, s.name, s.hasData, s.tooLong = reuse(s.data), nil, s.name[:0], false, false
}

func reuse(b []byte) []byte {
	if cap(b) > keptBuffer {
		return nil
	}
	return b[:0]
}

// eventTemplate holds the last event's bytes before and after its text fragment. Hundreds of events in a stream differ
// only in this fragment, and a comparison takes a tenth of a scan's time.
type eventTemplate struct {
	name, before, after []byte
	item                *replyItem
	textSpan            span // with the quotes
	changes             int  // texts that the last event added or replaced
	valid               bool
}

func (e *eventTemplate) learn(name, data []byte) {
	e.valid = e.changes == 1 && !e.item.isCall && !e.item.isHosted
	if !e.valid {
		return
	}
	e.name = append(e.name[:0], name...)
	e.before = append(e.before[:0], data[:e.textSpan.start+1]...)
	e.after = append(e.after[:0], data[e.textSpan.end-1:]...)
}

// readByTemplate reports whether an event matches the template, and if so adds the text fragment to the template's
// item.
func (r *ReplyReader) readByTemplate(name, data []byte) bool {
	m := &r.template
	if !m.valid || !bytes.HasPrefix(data, m.before) || !bytes.Equal(name, m.name) {
		return false
	}
	end := stringEnd(data, len(m.before))
	if end < 0 || !bytes.Equal(data[end-1:], m.after) {
		return false
	}
	r.append(m.item, data[len(m.before):end-1])
	return true
}
