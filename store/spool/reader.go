package spool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Reader reads a log back, whoever writes to it meanwhile.
type Reader struct {
	Dir  string
	name string // in its segments' heads; "": any
	look bool   // it changes nothing, and so sets nothing aside
}

// Record is one that was read. Payload is valid until the next one is read.
type Record struct {
	Kind    byte
	Payload []byte
	Seq     int64 // of the log's own kinds: the sequence number that the log had come to
}

// Step says how to go on after a record.
type Step int

// The steps.
const (
	More  Step = iota // with the next one
	Last              // not now: this one was the last
	Later             // not now: this one is to come again
)

// Next hands the records between two places to take, one by one, and returns the place behind the
// last that was taken. It stops at the end of a segment: who goes on from there gets the head of
// the next one first. A record for which take returns an error is damaged: like all other damage it
// is copied into the quarantine for a person to look at, and reading goes on behind it. How much
// was lost shows in the next sequence number.
func (r Reader) Next(from, until Place, take func(Record) (Step, error)) (Place, error) {
	f, err := os.Open(segment{n: from.Segment}.path(r.Dir))
	if errors.Is(err, fs.ErrNotExist) {
		return r.skip(from, until)
	}
	if err != nil {
		return from, fmt.Errorf("read the spool: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	stop := until.Offset
	if from.Segment < until.Segment {
		info, err := f.Stat()
		if err != nil {
			return from, fmt.Errorf("read the spool: %w", err)
		}
		stop = info.Size()
	}
	t := stretch{Reader: r, f: f, end: from, fn: take}
	at, torn, err := scan(f, from.Offset, stop, t.record, t.quarantine)
	if err != nil {
		return t.end, err
	}
	if t.foreign {
		if !r.look {
			quarantineSegment(r.Dir, segment{n: from.Segment}.path(r.Dir))
		}
		return r.skip(t.end, until)
	}
	if t.paused {
		return t.end, nil
	}
	if torn {
		t.quarantine(at, stop)
	}
	if from.Segment < until.Segment { // through with it, whatever stands behind the last record
		return r.skip(t.end, until)
	}
	return until, nil
}

// stretch is a part of one segment while it is read.
type stretch struct {
	Reader
	f       *os.File
	end     Place
	fn      func(Record) (Step, error)
	paused  bool // take has stopped before the end
	foreign bool // the segment is of another log
}

func (t *stretch) record(kind byte, payload []byte, end int64) (more bool, err error) {
	step := More
	switch kind {
	case KindHead:
		var h segmentHead
		if json.Unmarshal(payload, &h) != nil {
			break
		}
		if t.foreign = h.Spool != t.name && t.name != ""; t.foreign {
			return false, nil
		}
		step, err = t.fn(Record{kind, payload, h.Seq})
	case KindEnd:
		var seq int64
		if seq, err = readEnd(payload); err == nil {
			step, err = t.fn(Record{kind, payload, seq})
		}
	default:
		step, err = t.fn(Record{Kind: kind, Payload: payload})
	}
	if err != nil {
		t.quarantine(end-int64(len(payload)), end)
	}
	if step == Later {
		t.paused = true
		return false, nil
	}
	t.end.Offset = end
	t.paused = step == Last
	return !t.paused, nil
}

// quarantine copies damaged bytes into the quarantine, unless the reader changes nothing.
func (t *stretch) quarantine(from, to int64) {
	if !t.look {
		quarantine(t.Dir, t.f, t.end.Segment, from, to)
	}
}

// skip is the beginning of the next segment that exists, or until where none does.
func (r Reader) skip(at, until Place) (Place, error) {
	segs, err := segments(r.Dir)
	if err != nil {
		return at, err
	}
	for _, seg := range segs {
		if seg.n > at.Segment && seg.n <= until.Segment {
			return Place{Segment: seg.n}, nil
		}
	}
	return until, nil
}

// View is a log at a moment, for whoever only looks. Its Reader changes nothing.
type View struct {
	Checkpoint
	Reader
	End Place
	Seq int64 // of the last checkpoint

	first uint64 // segment, 0: none
}

// Look looks at the log of a directory, whoever writes to it meanwhile.
func Look(dir string) (v View, err error) {
	segs, err := segments(dir)
	if err != nil {
		return v, err
	}
	c, _, err := readCursor(dir, segs)
	if err != nil {
		return v, err
	}
	v.Checkpoint = Checkpoint{Epoch: c.Epoch, Delivered: c.delivered(), Safe: c.Safe}
	v.Reader, v.End, v.Seq = Reader{Dir: dir, name: c.Spool, look: true}, c.End, c.Seq
	if n := len(segs); n > 0 {
		v.first = segs[0].n
		if last := (Place{segs[n-1].n, segs[n-1].size}); v.End.Before(last) {
			v.End = last
		}
	}
	return v, nil
}

// Outdated says that a segment of the view was deleted meanwhile: what it held may seem lost.
func (v View) Outdated() bool {
	segs, err := segments(v.Dir)
	return err == nil && v.first > 0 && (len(segs) == 0 || segs[0].n > v.first)
}
