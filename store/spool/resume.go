package spool

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// resume finds the end of the log: behind the last whole record of the last segment. The sequence
// number by then is that of the last record that tells one, and what was counted since; where the
// last segment has no such record, the segments before it are looked at. end is where the log ended
// when the checkpoint was written.
func (l *Log) resume(segs []segment, end Place) error {
	for last := true; len(segs) > 0; segs = segs[:len(segs)-1] {
		seg := segs[len(segs)-1]
		if h, ok := readHead(seg.path(l.dir)); ok && h.Spool != l.name {
			continue // of another log: the reader takes it away when it comes to it
		}
		f, err := os.OpenFile(seg.path(l.dir), os.O_RDWR, 0)
		if err != nil {
			return fmt.Errorf("open the spool: %w", err)
		}
		at, torn, told, err := l.survey(f, seg, end)
		switch {
		case err != nil:
			return errors.Join(err, f.Close())
		case last:
			err = l.goOn(f, seg, at, torn)
		default:
			err = f.Close()
		}
		if err != nil || told {
			return err
		}
		last = false
	}
	return nil
}

// survey finds where the whole records of a segment end (at), whether half a record follows (torn),
// and raises l.seq to the sequence number by then; known says that a record or the checkpoint told
// one. What stood there when the checkpoint was written is not read again.
func (l *Log) survey(f *os.File, seg segment, end Place) (at int64, torn, known bool, err error) {
	from := int64(0)
	if end.Segment == seg.n && end.Offset <= seg.size {
		from, known = end.Offset, true
	}
	base, counted, damages := l.seq, int64(0), int64(0)
	at, torn, err = scan(f, from, seg.size, func(kind byte, payload []byte, _ int64) (bool, error) {
		seq, ok := numberOf(kind, payload)
		if ok {
			base, known = seq-counted, true
		}
		if kind == KindHead || kind == KindEnd {
			damages = 0 // its sequence number counts what was damaged before it
		} else {
			counted += l.count(kind, payload)
		}
		return true, nil
	}, func(int64, int64) { damages++; l.fresh = true })
	l.seq = max(l.seq, base+counted+damages)
	return at, torn, known, err
}

// numberOf is the sequence number that a record of the log's own tells.
func numberOf(kind byte, payload []byte) (seq int64, ok bool) {
	switch kind {
	case KindHead:
		var h segmentHead
		err := json.Unmarshal(payload, &h)
		return h.Seq, err == nil
	case KindEnd:
		seq, err := readEnd(payload)
		return seq, err == nil
	}
	return 0, false
}

// goOn decides where the next write goes: behind the last record of this segment, or into a new
// one.
func (l *Log) goOn(f *os.File, seg segment, at int64, torn bool) error {
	last := Place{seg.n, at}
	switch {
	case last.Before(l.end): // it is shorter than what was read of it, or the newest segments are gone
		l.end = Place{Segment: l.end.Segment + 1}
		return f.Close()
	case l.fresh || at == 0: // it is damaged, or not ours: the reader sets aside what is bad
		l.end = Place{Segment: seg.n + 1}
		return f.Close()
	case torn: // what a crash cut short was never acknowledged
		quarantine(l.dir, f, seg.n, at, seg.size)
		if err := f.Truncate(at); err != nil {
			return errors.Join(fmt.Errorf("cut the spool behind its last record: %w", err), f.Close())
		}
		l.bytes -= seg.size - at
	}
	l.f, l.end = f, last
	return nil
}
