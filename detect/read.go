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

// Transcript is a recorded conversation.
type Transcript struct {
	Source, ID string
	Request    *wire.Request
	Reward     *float64 // from 0 to 1; nil means unknown
}

// ReadTranscripts calls handle with each transcript in the input. The input consists of JSON lines, JSON objects over
// several lines, an array of objects, or one array of messages. Only one transcript is in memory at a time. Invalid
// lines are skipped, and the returned error lists the line numbers. After an error from handle, ReadTranscripts stops.
func ReadTranscripts(r io.Reader, handle func(Transcript) error) error {
	return readTranscripts(r, handle, nil)
}

// readTranscripts does the same as ReadTranscripts, but can use a pool. The pool then inspects the transcripts in JSON
// lines, and handle gets only the other transcripts.
func readTranscripts(r io.Reader, handle func(Transcript) error, pool *inspectors) error {
	rd := &transcriptReader{handle: handle, inspectors: pool, input: bufio.NewReaderSize(r, readSize), line: 1, unreadBytes: fileSize(r)}
	if pool != nil {
		pool.reportError = rd.addTranscriptError
	}
	if bom, _ := rd.input.Peek(3); bytes.Equal(bom, []byte("\xef\xbb\xbf")) {
		_, _ = rd.input.Discard(3)
	} else if bytes.HasPrefix(bom, []byte("\xff\xfe")) || bytes.HasPrefix(bom, []byte("\xfe\xff")) {
		return errors.New("the text is UTF-16; save it as UTF-8")
	}
	err := rd.readAll()
	if drainErr := rd.drain(); drainErr != nil {
		err = drainErr
	}
	if errors.Is(err, errEmpty) {
		return err
	}
	if err != nil && !rd.stopped {
		err = fmt.Errorf("read transcripts: %w", err)
	}
	if len(rd.moreErrorLines) > 0 {
		rd.lineErrors = append(rd.lineErrors, errors.New(listLines(rd.moreErrorLines)))
	}
	return errors.Join(append(rd.lineErrors, err)...)
}

var errEmpty = errors.New("the input is empty")

// transcriptReader splits the input into transcripts: the JSON objects at the top level and in top-level arrays.
type transcriptReader struct {
	handle         func(Transcript) error
	inspectors     *inspectors // nil means that handle gets all transcripts
	input          *bufio.Reader
	stopped        bool    // handle returned an error
	lineErrors     []error // errors from the first maxLineErrors invalid lines
	moreErrorLines []int   // line numbers

	unreadBytes int64      // number of bytes not read yet in a file; 0 means unknown
	line        int        // current line number
	hasContent  bool       // the input has something other than white space
	skipLine    bool       // skip the rest of the current line
	lineValues  [][]byte   // complete values on the current line
	array       *openArray // array that is not closed yet; nil if none
	openValue   openValue
}

// fileSize returns a regular file's size, or 0 for any other reader.
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

// openArray is a top-level array of transcripts or messages that has not been read to the end.
type openArray struct {
	start      int  // line number
	count      int  // elements so far
	needsComma bool // the next character must be a comma, a closing bracket or a line break
	invalid    bool
	messages   []byte // JSON transcript with the messages so far, without the closing brackets
}

// maxLineErrors is the number of errors that are reported in full. In an unknown format, every line has an error.
const maxLineErrors = 10

func (r *transcriptReader) readAll() error {
	for atStart := true; ; {
		part, err := r.input.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			err = nil
			if atStart && r.openValue.depth > 0 && (part[0] == '{' || part[0] == '[') { // dropTruncatedValue needs the whole line
				var rest []byte
				part = bytes.Clone(part)
				rest, err = r.input.ReadBytes('\n')
				part = append(part, rest...)
			}
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		r.unreadBytes = max(r.unreadBytes-int64(len(part)), 0)
		if len(part) > 0 {
			if atStart {
				r.dropTruncatedValue(part)
			}
			if splitErr := r.split(part); splitErr != nil {
				return splitErr
			}
		}
		if atStart = bytes.HasSuffix(part, []byte("\n")); atStart {
			if lineErr := r.endLine(); lineErr != nil {
				return lineErr
			}
			r.line++
		}
		if err != nil {
			return r.endInput()
		}
	}
}

func (r *transcriptReader) readStructural(c byte) error {
	r.hasContent = true
	switch {
	case c == '{' && (r.array == nil || !r.array.needsComma):
		r.openValue.depth, r.openValue.start, r.openValue.possibleStarts = 1, r.line, nil
		if r.array == nil {
			r.openValue.raw = nil // the transcript still uses the old buffer
		}
		r.openValue.raw = r.openValue.raw[:0]
	case c == '[':
		if r.array != nil {
			r.dropInvalid(r.array.start, errTruncated)
			r.skipLine = false
		}
		r.array = &openArray{start: r.line, messages: []byte(`{"messages":[`)}
	case c == ',' && r.array != nil && r.array.count > 0:
		r.array.needsComma = false
	case c == ']' && r.array != nil:
		return r.endArray()
	case r.array != nil && r.array.needsComma:
		r.dropInvalid(r.line, errors.New("a comma is missing between two elements"))
	default:
		r.dropInvalid(r.line, errors.New("the text does not begin with { or ["))
	}
	return nil
}

// dropInvalid reports an invalid line and drops the open value and the rest of the current line.
func (r *transcriptReader) dropInvalid(line int, why error) {
	r.reportLineError(line, "", fmt.Errorf("the text is not JSON: %w", why))
	for _, n := range r.openValue.possibleStarts {
		r.reportLineError(n, "", fmt.Errorf("the text is not JSON: %w", why))
	}
	r.openValue.depth, r.openValue.inString, r.openValue.escaped, r.openValue.possibleStarts, r.lineValues = 0, false, false, nil, nil
	r.skipLine = line == r.line
	if r.array != nil {
		if r.array.invalid, r.array.needsComma = true, false; r.array.start == line {
			r.array = nil // the line's bracket did not begin an array, or the array is truncated
		}
	}
}

// addValue handles a complete value. If the value is in an array, addValue emits it if it is a transcript, and
// otherwise adds it as a message to the array's transcript. Outside an array, it queues the value for endLine.
func (r *transcriptReader) addValue(raw []byte) error {
	if r.array == nil {
		r.openValue.raw = nil
		r.lineValues = append(r.lineValues, raw) // if the rest of the line is invalid, dropInvalid drops the value
		return nil
	}
	r.openValue.raw = raw[:0]
	r.array.count++
	r.array.needsComma = true
	rec, err := wire.ReadRecording(raw)
	if u, ok := errors.AsType[*wire.Uninspected](err); ok && u.Reason == "invalid_json" {
		r.array.invalid = true
	}
	if errors.Is(err, wire.ErrNoRecording) {
		if len(r.array.messages) > len(`{"messages":[`) {
			r.array.messages = append(r.array.messages, ',')
		}
		r.array.messages = r.extend(r.array.messages, raw)
		return nil
	}
	r.openValue.raw = nil // the transcript still uses the old buffer
	return r.emit(raw, rec, err)
}

func (r *transcriptReader) endLine() error {
	values := r.lineValues
	r.lineValues, r.skipLine = nil, false
	if r.array != nil {
		r.array.needsComma = false
	}
	for _, raw := range values {
		if r.inspectors != nil && r.array == nil && len(raw) <= maxConcurrentLine {
			if err := r.inspectors.add(raw, r.openValue.start); err != nil {
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

func (r *transcriptReader) endArray() error {
	array := r.array
	r.array = nil
	if array.invalid || len(array.messages) == len(`{"messages":[`) {
		return nil
	}
	r.openValue.start = array.start
	raw := r.extend(array.messages, []byte("]}"))
	rec, err := wire.ReadRecording(raw)
	return r.emit(raw, rec, err)
}

// endInput emits the last values, and reports an error if the input is empty or a value is still open.
func (r *transcriptReader) endInput() error {
	if r.openValue.depth > 0 {
		r.dropInvalid(r.openValue.start, errTruncated)
	}
	if r.array != nil {
		r.dropInvalid(r.array.start, errors.New("the JSON array ends early"))
	}
	if !r.hasContent {
		return errEmpty
	}
	return r.endLine()
}

// emit calls handle with a transcript, or reports the error err that ReadRecording returned.
func (r *transcriptReader) emit(raw []byte, rec wire.Recording, err error) error {
	if err == nil {
		if err = r.drain(); err != nil {
			return err
		}
		err = r.handle(Transcript{Source: stringContent(rec.Source), ID: stringContent(rec.ID), Request: rec.Request, Reward: rec.Reward})
		r.stopped = err != nil
		return err
	}
	var location string
	if r.array != nil && r.array.start == r.openValue.start {
		location = fmt.Sprintf(", element %d", r.array.count)
	}
	location, err = describeError(raw, rec, err, location)
	r.reportLineError(r.openValue.start, location, err)
	return nil
}

func (r *transcriptReader) addTranscriptError(start int, raw []byte, rec wire.Recording, err error) {
	location, err := describeError(raw, rec, err, "")
	r.addLineError(start, location, err)
}

// describeError returns location with the transcript id, and err. If the text is not JSON, it returns a JSON decoder's
// error instead of err, because that error is more precise.
func describeError(raw []byte, rec wire.Recording, err error, location string) (string, error) {
	if u, ok := errors.AsType[*wire.Uninspected](err); ok && u.Reason == "invalid_json" {
		if why := json.Unmarshal(raw, new(json.RawMessage)); why != nil {
			err = fmt.Errorf("the text is not JSON: %w", why)
		}
	}
	if len(rec.ID) > 0 {
		location += fmt.Sprintf(" (%s)", stringContent(rec.ID))
	}
	return location, err
}

func (r *transcriptReader) drain() error {
	if r.inspectors == nil {
		return nil
	}
	err := r.inspectors.drain()
	r.stopped = r.stopped || err != nil
	return err
}

// reportLineError adds an error. It first waits for the earlier lines, because their errors must come first.
func (r *transcriptReader) reportLineError(line int, location string, err error) {
	_ = r.drain() // the next add or drain returns the error
	r.addLineError(line, location, err)
}

// addLineError adds an error about part of a line, or about the whole line if location is empty.
func (r *transcriptReader) addLineError(line int, location string, err error) {
	if len(r.lineErrors) == maxLineErrors {
		r.moreErrorLines = append(r.moreErrorLines, line)
		return
	}
	r.lineErrors = append(r.lineErrors, fmt.Errorf("line %d%s: %w", line, location, err))
}

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

// stringContent returns a JSON string's content, and other JSON unchanged.
func stringContent(raw []byte) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}
