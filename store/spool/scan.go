package spool

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// scanChunk is how much of a segment is read at a time; a record that is longer is read whole.
const scanChunk = 1 << 20

// scan reads a segment's records from an offset up to the offset until. fn gets each with the
// offset behind it, and says whether to go on. damaged is told of stretches that hold no record. It
// returns the offset behind the last record that fn was given, and whether the stretch ends in the
// middle of a record (torn): a write that a crash cut short.
func scan(f *os.File, from, until int64, fn func(kind byte, payload []byte, end int64) (more bool, err error), damaged func(from, to int64)) (at int64, torn bool, err error) {
	s := scanner{f: f, at: from, until: until}
	bad := int64(-1) // where a damaged stretch began
	for at = from; s.at < s.until; {
		kind, payload, size, err := readFrame(s.buf)
		switch {
		case err == nil:
			if bad >= 0 {
				damaged(bad, s.at)
				bad = -1
			}
			s.skip(size)
			at = s.at
			if more, err := fn(kind, payload, at); err != nil || !more {
				return at, false, err
			}
		case errors.Is(err, errShort) && s.at+int64(len(s.buf)) < s.until:
			if err := s.fill(max(size, scanChunk)); err != nil {
				return at, false, err
			}
		default: // damaged, or a length that points behind the end: look for the next record
			if bad < 0 {
				bad = s.at
			}
			s.skip(1 + nextFrame(s.buf[1:]))
		}
	}
	return at, bad >= 0, nil
}

type scanner struct {
	f     *os.File
	at    int64 // of buf
	until int64
	buf   []byte
}

func (s *scanner) skip(n int) {
	s.buf = s.buf[n:]
	s.at += int64(n)
}

// fill reads on until the buffer holds n bytes, or the stretch ends: then until is where it does.
func (s *scanner) fill(n int) error {
	n = int(min(int64(n), s.until-s.at))
	b := make([]byte, n)
	have := copy(b, s.buf)
	got, err := s.f.ReadAt(b[have:], s.at+int64(have))
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the spool: %w", err)
	}
	s.buf = b[:have+got]
	if have+got < n { // the file is shorter than it should be
		s.until = s.at + int64(len(s.buf))
	}
	return nil
}
