package detect

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"precept/internal/wire"
)

// Transcript is a conversation from a file.
type Transcript struct {
	Source, ID string
	Request    *wire.Request // the list, as the last request of the conversation
}

// Read reads transcripts: JSON lines, one JSON object, an array of objects, or a bare list of
// messages. Read holds one transcript in memory. A transcript with a fault does not stop the
// others; the error names the first faults and counts the rest. An error of each stops Read.
func Read(r io.Reader, each func(Transcript) error) error {
	in := bufio.NewReaderSize(r, 256<<10)
	first, err := firstByte(in)
	if errors.Is(err, io.EOF) {
		return errors.New("there is nothing in it: the input is empty")
	}
	if err != nil {
		return fmt.Errorf("read transcripts: %w", err)
	}
	i := reading{each: each, in: json.NewDecoder(in)}
	if first == '[' {
		err = i.array()
	} else {
		err = i.lines()
	}
	if i.more > 0 {
		i.faults = append(i.faults, fmt.Errorf("%d more transcripts cannot be read", i.more))
	}
	return errors.Join(append(i.faults, err)...)
}

// firstByte returns the first byte after white space and a byte order mark, without consuming the
// byte.
func firstByte(in *bufio.Reader) (byte, error) {
	if bom, err := in.Peek(3); err == nil && bytes.Equal(bom, []byte("\xef\xbb\xbf")) {
		_, _ = in.Discard(3)
	}
	for {
		b, err := in.ReadByte()
		if err != nil {
			return 0, err
		}
		if b != ' ' && b != '\t' && b != '\r' && b != '\n' {
			return b, in.UnreadByte()
		}
	}
}

type reading struct {
	each   func(Transcript) error
	in     *json.Decoder
	raw    json.RawMessage // of the last value
	n      int             // number of transcripts
	faults []error
	more   int // number of faults that are not listed
}

// maxFaults is the number of faults of a file that are reported. A file of another form has a fault
// per line.
const maxFaults = 10

// next reads the next value; io.EOF at the end.
func (i *reading) next() error {
	err := i.in.Decode(&i.raw)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it ends in the middle")
	}
	return err
}

func (i *reading) lines() error {
	for {
		err := i.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("transcript %d is not JSON: %w", i.n+1, err)
		}
		if err := i.give(wire.ReadRecording(i.raw)); err != nil {
			return err
		}
	}
}

// array reads an array: transcripts one by one, or messages as one transcript.
func (i *reading) array() error {
	_, _ = i.in.Token() // bracket
	list := []byte(`{"messages":[`)
	bare := 0 // number of elements that are messages
	for n := 0; i.in.More(); n++ {
		if err := i.next(); err != nil {
			return fmt.Errorf("element %d of the array is not JSON: %w", n, err)
		}
		if bare == 0 {
			rec, err := wire.ReadRecording(i.raw)
			if !errors.Is(err, wire.ErrNoRecording) {
				if err := i.give(rec, err); err != nil {
					return err
				}
				continue
			}
		}
		if bare++; bare > 1 {
			list = append(list, ',')
		}
		list = append(list, i.raw...)
	}
	if _, err := i.in.Token(); err != nil {
		return fmt.Errorf("the array does not end: %w", err)
	}
	if bare == 0 {
		return nil
	}
	return i.give(wire.ReadRecording(append(list, "]}"...)))
}

// give emits one transcript. Invalid JSON ends the reading, because the start of the next
// transcript is unknown.
func (i *reading) give(rec wire.Recording, err error) error {
	i.n++
	if err == nil {
		return i.each(Transcript{name(rec.Source), name(rec.ID), rec.Request})
	}
	if len(rec.ID) > 0 {
		err = fmt.Errorf("transcript %d (%s): %w", i.n, name(rec.ID), err)
	} else {
		err = fmt.Errorf("transcript %d: %w", i.n, err)
	}
	if u, ok := errors.AsType[*wire.Uninspected](err); ok && u.Reason == "invalid_json" {
		return err
	}
	if len(i.faults) == maxFaults {
		i.more++
		return nil
	}
	i.faults = append(i.faults, err)
	return nil
}

// name returns the content of a JSON string, and any other value as written.
func name(raw []byte) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}
