package detect

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"precept/internal/wire"
)

// Transcript is a conversation from a file.
type Transcript struct {
	Source, ID string
	Request    *wire.Request // the whole conversation in one request
	Reward     *float64      // reward of the conversation, from 0 to 1; nil means unknown
}

// Read reads transcripts: JSON lines, JSON objects that span lines, an array of objects, or a bare list of
// messages. Read holds one transcript in memory. A line or a transcript with a fault is skipped; the returned
// error names the line numbers. An error of each stops Read.
func Read(r io.Reader, each func(Transcript) error) error { return read(r, each, nil) }

// read is Read with concurrent inspection: transcripts of JSON lines go to ahead instead of each, unless ahead
// is nil.
func read(r io.Reader, each func(Transcript) error, ahead *inspectors) error {
	rd := &reading{each: each, ahead: ahead, in: bufio.NewReaderSize(r, partSize), line: 1, rest: fileSize(r)}
	if ahead != nil {
		ahead.fault = rd.lineFault
	}
	if bom, _ := rd.in.Peek(3); bytes.Equal(bom, []byte("\xef\xbb\xbf")) {
		_, _ = rd.in.Discard(3)
	} else if bytes.HasPrefix(bom, []byte("\xff\xfe")) || bytes.HasPrefix(bom, []byte("\xfe\xff")) {
		return errors.New("the text is UTF-16; save it as UTF-8")
	}
	err := rd.readAll()
	if failed := rd.drain(); failed != nil {
		err = failed
	}
	if errors.Is(err, errEmpty) {
		return err
	}
	if err != nil && !rd.stopped {
		err = fmt.Errorf("read transcripts: %w", err)
	}
	if len(rd.moreFaults) > 0 {
		rd.faults = append(rd.faults, errors.New(listLines(rd.moreFaults)))
	}
	return errors.Join(append(rd.faults, err)...)
}

var errEmpty = errors.New("the input is empty")

// reading splits a text into the JSON objects of the top level and of arrays on the top level.
type reading struct {
	each       func(Transcript) error
	ahead      *inspectors // nil means the transcripts of JSON lines go to each, too
	in         *bufio.Reader
	stopped    bool    // each returned an error
	faults     []error // the first faults
	moreFaults []int   // lines of the other faults

	rest       int64     // number of bytes of the file that are unread; 0 means unknown
	line       int       // number of the current line, from 1
	any        bool      // the text holds more than white space
	skipLine   bool      // the rest of the current line is skipped
	lineValues [][]byte  // complete values of the current line
	list       *list     // the array that is not closed yet; nil if none
	open       openValue // the value that is not complete yet
}

// fileSize returns the size of a file, 0 for another reader.
func fileSize(r io.Reader) int64 {
	file, ok := r.(interface{ Stat() (fs.FileInfo, error) })
	if !ok {
		return 0
	}
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
		return info.Size()
	}
	return 0
}

// list is an array on the top level. The elements are transcripts, or the messages of one transcript.
type list struct {
	start    int
	n        int  // number of elements
	comma    bool // the next character must be a comma, a closing bracket or a line break
	broken   bool // an element is not valid JSON
	messages []byte
}

// maxFaults is the number of faults of a file that are reported in full. A file of an unknown format has one
// fault per line.
const maxFaults = 10

// readAll reads the input to its end.
func (r *reading) readAll() error {
	for atStart := true; ; {
		part, err := r.in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			err = nil
			if atStart && r.open.depth > 0 && (part[0] == '{' || part[0] == '[') { // dropCutValue needs the whole line
				var rest []byte
				part = bytes.Clone(part)
				rest, err = r.in.ReadBytes('\n')
				part = append(part, rest...)
			}
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		r.rest = max(r.rest-int64(len(part)), 0)
		if len(part) > 0 {
			if atStart {
				r.dropCutValue(part)
			}
			if failed := r.split(part); failed != nil {
				return failed
			}
		}
		if atStart = bytes.HasSuffix(part, []byte("\n")); atStart {
			if failed := r.endLine(); failed != nil {
				return failed
			}
			r.line++
		}
		if err != nil {
			return r.end()
		}
	}
}

// outside reads a character outside of a value.
func (r *reading) outside(c byte) error {
	r.any = true
	switch {
	case c == '{' && (r.list == nil || !r.list.comma):
		r.open.depth, r.open.start, r.open.starts = 1, r.line, nil
		if r.list == nil {
			r.open.raw = nil // a transcript keeps its bytes
		}
		r.open.raw = r.open.raw[:0]
	case c == '[':
		if r.list != nil {
			r.dropBroken(r.list.start, errCut)
			r.skipLine = false
		}
		r.list = &list{start: r.line, messages: []byte(`{"messages":[`)}
	case c == ',' && r.list != nil && r.list.n > 0:
		r.list.comma = false
	case c == ']' && r.list != nil:
		return r.endList()
	case r.list != nil && r.list.comma:
		r.dropBroken(r.line, errors.New("a comma is missing between two elements"))
	default:
		r.dropBroken(r.line, errors.New("the text does not begin with { or ["))
	}
	return nil
}

// dropBroken reports that a line is not valid JSON, drops the open value, and skips the rest of the current
// line if line is the current line.
func (r *reading) dropBroken(line int, why error) {
	r.reportFault(line, "", fmt.Errorf("the text is not JSON: %w", why))
	for _, n := range r.open.starts {
		r.reportFault(n, "", fmt.Errorf("the text is not JSON: %w", why))
	}
	r.open.depth, r.open.inString, r.open.escaped, r.open.starts, r.lineValues = 0, false, false, nil, nil
	r.skipLine = line == r.line
	if r.list != nil {
		if r.list.broken, r.list.comma = true, false; r.list.start == line {
			r.list = nil // line does not begin an array, or begins an array that was cut
		}
	}
}

// value reads a complete value: the element of an array, or a value of the current line.
func (r *reading) value(raw []byte) error {
	if r.list == nil {
		r.open.raw = nil
		r.lineValues = append(r.lineValues, raw) // endLine emits the values, if the line has no fault
		return nil
	}
	r.open.raw = raw[:0]
	r.list.n++
	r.list.comma = true
	rec, err := wire.ReadRecording(raw)
	if u, ok := errors.AsType[*wire.Uninspected](err); ok && u.Reason == "invalid_json" {
		r.list.broken = true
	}
	if errors.Is(err, wire.ErrNoRecording) {
		if len(r.list.messages) > len(`{"messages":[`) {
			r.list.messages = append(r.list.messages, ',')
		}
		r.list.messages = r.extend(r.list.messages, raw)
		return nil
	}
	r.open.raw = nil // a transcript keeps its bytes
	return r.emit(raw, rec, err)
}

// endLine emits the values of a line.
func (r *reading) endLine() error {
	values := r.lineValues
	r.lineValues, r.skipLine = nil, false
	if r.list != nil {
		r.list.comma = false
	}
	for _, raw := range values {
		if r.ahead != nil && r.list == nil && len(raw) <= maxAhead {
			if err := r.ahead.add(raw, r.open.start); err != nil {
				r.stopped = true
				return err
			}
			continue
		}
		rec, err := wire.ReadRecording(raw)
		if err := r.emit(raw, rec, err); err != nil {
			return err
		}
	}
	return nil
}

// endList emits the messages of an array as one transcript.
func (r *reading) endList() error {
	l := r.list
	r.list = nil
	if l.broken || len(l.messages) == len(`{"messages":[`) {
		return nil
	}
	r.open.start = l.start
	raw := r.extend(l.messages, []byte("]}"))
	rec, err := wire.ReadRecording(raw)
	return r.emit(raw, rec, err)
}

// end reports a value or an array without an end, and an empty text, and emits the values of the last line.
func (r *reading) end() error {
	if r.open.depth > 0 {
		r.dropBroken(r.open.start, errCut)
	}
	if r.list != nil {
		r.dropBroken(r.list.start, errors.New("the JSON array ends early"))
	}
	if !r.any {
		return errEmpty
	}
	return r.endLine()
}

// emit calls each with a transcript, or reports the error of ReadRecording.
func (r *reading) emit(raw []byte, rec wire.Recording, err error) error {
	if err == nil {
		if err = r.drain(); err != nil {
			return err
		}
		err = r.each(Transcript{Source: stringContent(rec.Source), ID: stringContent(rec.ID), Request: rec.Request, Reward: rec.Reward})
		r.stopped = err != nil
		return err
	}
	var which string
	if r.list != nil && r.list.start == r.open.start {
		which = fmt.Sprintf(", element %d", r.list.n)
	}
	which, err = describeFault(raw, rec, err, which)
	r.reportFault(r.open.start, which, err)
	return nil
}

// lineFault adds the fault of a transcript on a line of its own.
func (r *reading) lineFault(start int, raw []byte, rec wire.Recording, err error) {
	which, err := describeFault(raw, rec, err, "")
	r.addFault(start, which, err)
}

// describeFault adds the id of a transcript to which, and replaces the error for invalid JSON by the error of
// the JSON decoder.
func describeFault(raw []byte, rec wire.Recording, err error, which string) (string, error) {
	if u, ok := errors.AsType[*wire.Uninspected](err); ok && u.Reason == "invalid_json" {
		if why := json.Unmarshal(raw, new(json.RawMessage)); why != nil {
			err = fmt.Errorf("the text is not JSON: %w", why)
		}
	}
	if len(rec.ID) > 0 {
		which += fmt.Sprintf(" (%s)", stringContent(rec.ID))
	}
	return which, err
}

// drain waits until ahead has emitted the findings of all added lines.
func (r *reading) drain() error {
	if r.ahead == nil {
		return nil
	}
	err := r.ahead.drain()
	r.stopped = r.stopped || err != nil
	return err
}

// reportFault adds a fault after the faults of all earlier lines.
func (r *reading) reportFault(line int, which string, err error) {
	_ = r.drain() // the next add, or the end of read, returns the error
	r.addFault(line, which, err)
}

// addFault adds the fault of a line. which names the part of the line, "" for the whole line.
func (r *reading) addFault(line int, which string, err error) {
	if len(r.faults) == maxFaults {
		r.moreFaults = append(r.moreFaults, line)
		return
	}
	r.faults = append(r.faults, fmt.Errorf("line %d%s: %w", line, which, err))
}

// listLines returns a message with the numbers of at most 100 lines, and with the number of the other lines.
func listLines(lines []int) string {
	const limit = 100
	var b strings.Builder
	for i := 0; i < len(lines) && i < limit; i++ {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.Itoa(lines[i]))
	}
	if n := len(lines) - limit; n > 0 {
		fmt.Fprintf(&b, " and %d more", n)
	}
	return "these lines cannot be read either: " + b.String()
}

// stringContent returns the content of a JSON string, and the text of another JSON value.
func stringContent(raw []byte) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}
