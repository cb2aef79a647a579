package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	replayBytes   = 4 << 20 // read back for one delivery
	replayRecords = 2000
)

// replay reads the next parcel from a place on, up to the place until. A parcel never crosses the beginning of a segment
// or of a run, so that the books can be drawn up there. head is set when the parcel begins a segment.
func replay(dir string, from, until place) (p parcel, head *segmentHead, err error) {
	p.end = from
	f, err := os.Open(segment{n: from.Segment}.path(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil, skipTo(dir, &p, until)
	}
	if err != nil {
		return p, nil, fmt.Errorf("read the spool: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	stop := until.Offset
	if from.Segment < until.Segment {
		info, err := f.Stat()
		if err != nil {
			return p, nil, fmt.Errorf("read the spool: %w", err)
		}
		stop = info.Size()
	}
	bytes, records, paused := 0, 0, false
	at, torn, err := scan(f, from.Offset, stop, func(kind byte, payload []byte, end int64) (bool, error) {
		switch {
		case kind == frameSegment:
			head = &segmentHead{}
			if json.Unmarshal(payload, head) != nil {
				head = nil
			}
		case kind == frameRun && !p.empty():
			paused = true // it begins the next parcel
			return false, nil
		case kind == frameRun:
			p.crashed = true
		default:
			if err := p.take(kind, payload); err != nil {
				setAside(dir, f, from.Segment, end-int64(len(payload)), end)
			}
		}
		p.end.Offset = end
		bytes, records = bytes+len(payload), records+1
		paused = bytes >= replayBytes || records >= replayRecords
		return !paused, nil
	}, func(a, b int64) { setAside(dir, f, from.Segment, a, b) })
	if err != nil || paused {
		return p, head, err
	}
	if torn {
		setAside(dir, f, from.Segment, at, stop)
	}
	if from.Segment < until.Segment { // through with it, whatever stands behind the last record
		return p, head, skipTo(dir, &p, until)
	}
	p.end = until
	return p, head, nil
}

// skipTo ends the parcel at the beginning of the next segment that is there.
func skipTo(dir string, p *parcel, until place) error {
	segs, err := segments(dir)
	if err != nil {
		return err
	}
	for _, seg := range segs {
		if seg.n > p.end.Segment {
			p.end = place{Segment: seg.n}
			return nil
		}
	}
	p.end = until
	return nil
}

// setAside copies a damaged stretch to where a person can look at it. That it was lost is booked at the next segment's
// head.
func setAside(dir string, f *os.File, seg uint64, from, to int64) {
	aside := filepath.Join(dir, "quarantine")
	if os.MkdirAll(aside, 0o700) != nil {
		return
	}
	b := make([]byte, min(to-from, 8<<20))
	n, _ := f.ReadAt(b, from)
	_ = os.WriteFile(filepath.Join(aside, fmt.Sprintf("%016d-%d.bin", seg, from)), b[:n], 0o600) // a copy for a person, no more
}
