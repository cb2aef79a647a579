package spool

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// resume takes up the last segment where its last whole record ends. Where it does not tell a
// sequence number, one before it does. end is where the checkpoint saw the log end.
func (l *Log) resume(segs []segment, end Place) error {
	for last := true; len(segs) > 0; segs = segs[:len(segs)-1] {
		seg := segs[len(segs)-1]
		if h, ok := readHead(seg.path(l.dir)); ok && h.Spool != l.name {
			continue // of another directory: whoever comes to it takes it away
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

// survey finds where a segment ends, and the sequence number by then. What the checkpoint knows of
// it is not read again.
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
			damages = 0 // it tells what was lost before it
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

// goOn goes on behind the last record of a segment, or leaves it as it is and begins a new one.
func (l *Log) goOn(f *os.File, seg segment, at int64, torn bool) error {
	last := Place{seg.n, at}
	switch {
	case last.Before(l.end): // it is shorter than what was read of it, or the newest are gone
		l.end = Place{Segment: l.end.Segment + 1}
		return f.Close()
	case l.fresh || at == 0: // damaged, or none of ours: whoever reads it sets aside what is bad
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
