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

// Transcript is a conversation that was read from a file.
type Transcript struct {
	Source, ID string
	Request    *wire.Request // its list, as the last request of the conversation
}

// Read reads transcripts: JSON lines, one JSON object, an array of them or a bare list of messages.
// One transcript at a time is held in memory. A transcript that is not to be read does not stop the
// others; the error names the first of them and counts the rest. An error of each stops at once.
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

// firstByte is the first byte that is no white space, behind a byte order mark; it is not taken.
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
	raw    json.RawMessage // of the value that was read last
	n      int             // transcripts read
	faults []error
	more   int // faults that are not among them
}

// maxFaults is how many faults of a file are reported one by one: a wrong file has one a line.
const maxFaults = 10

// next reads the next value; io.EOF says that there is none.
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

// array reads an array: of transcripts one by one, of messages as one transcript.
func (i *reading) array() error {
	_, _ = i.in.Token() // the bracket, which was seen
	list := []byte(`{"messages":[`)
	bare := 0 // elements that are messages
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

// give hands one transcript over. What is no JSON at all ends the reading: nobody knows where the
// next one begins.
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

// name is a JSON string's content; another value stands for itself.
func name(raw []byte) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}
