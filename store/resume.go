package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// resume takes up the last segment where its last whole record ends. Where it does not tell how
// much was admitted, one before it does.
func (s *spool) resume(segs []segment, c *cursorFile) error {
	for last := true; len(segs) > 0; segs = segs[:len(segs)-1] {
		seg := segs[len(segs)-1]
		if h, ok := readHead(seg.path(s.dir)); ok && h.Spool != s.name {
			continue // of another directory: whoever comes to it takes it away
		}
		f, err := os.OpenFile(seg.path(s.dir), os.O_RDWR, 0)
		if err != nil {
			return fmt.Errorf("open the spool: %w", err)
		}
		at, torn, told, err := s.survey(f, seg, c)
		switch {
		case err != nil:
			return errors.Join(err, f.Close())
		case last:
			err = s.takeUp(f, seg, at, torn)
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

// survey finds where a segment ends, and how much had been admitted by then. What the cursor knows
// of it is not read again.
func (s *spool) survey(f *os.File, seg segment, c *cursorFile) (at int64, torn, told bool, err error) {
	from := int64(0)
	if c.End.Segment == seg.n && c.End.Offset <= seg.size {
		from, told = c.End.Offset, true
	}
	p, damages := parcel{}, int64(0)
	at, torn, err = scan(f, from, seg.size, func(kind byte, payload []byte, _ int64) (bool, error) {
		if kind == frameSegment || kind == frameAdmitted {
			damages = 0 // it tells what was lost before it
		}
		if h := (segmentHead{}); kind == frameSegment && json.Unmarshal(payload, &h) == nil {
			p.tell(h.Admitted)
		}
		_ = p.count(kind, payload) // whoever reads it back sets it aside
		return true, nil
	}, func(int64, int64) { damages++; s.fresh = true })
	base := s.admitted
	if p.told {
		base = p.total - p.upTo
	}
	s.admitted = max(s.admitted, base+p.admitted+damages)
	return at, torn, told || p.told, err
}

// takeUp goes on behind the last record of a segment, or leaves it as it is and begins a new one.
func (s *spool) takeUp(f *os.File, seg segment, at int64, torn bool) error {
	last := place{seg.n, at}
	switch {
	case last.before(s.end): // it is shorter than what was delivered of it, or the newest are gone
		s.end = place{Segment: s.end.Segment + 1}
		return f.Close()
	case s.fresh || at == 0: // damaged, or none of ours: whoever reads it sets aside what is bad
		s.end = place{Segment: seg.n + 1}
		return f.Close()
	case torn: // what a crash cut short was never acknowledged
		setAside(s.dir, f, seg.n, at, seg.size)
		if err := f.Truncate(at); err != nil {
			return errors.Join(fmt.Errorf("cut the spool behind its last record: %w", err), f.Close())
		}
		s.bytes -= seg.size - at
	}
	s.f, s.end = f, last
	return nil
}
