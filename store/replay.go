package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"precept/session"
)

const (
	replayBytes = 4 << 20 // read back for one delivery
	startBytes  = 1 << 17 // the same while a start waits for it
	asideBytes  = 8 << 20 // of a damaged stretch are kept for a person to look at
)

// reader reads a spool back.
type reader struct {
	dir     string
	spool   string // the name in its segments' heads
	account bool   // draw up the account only, and change nothing
	most    int    // bytes of a parcel

	guard  func(step string, f func() error) error // nil: none
	before func(step string, id session.ID, exchange string)
}

// reading runs what reads one record: one that makes it panic is damaged, like one that cannot be
// read.
func (r *reader) reading(kind byte, payload []byte, read func(kind byte, payload []byte) error) error {
	if r.guard == nil {
		return read(kind, payload)
	}
	return r.guard("read back", func() error {
		if r.before != nil && kind == frameExchange {
			_, id, _, err := cutExchange(payload)
			if err != nil {
				return err
			}
			r.before("read back", session.ID{}, string(id))
		}
		return read(kind, payload)
	})
}

// next reads the next parcel from a place on, up to the place until. It never crosses the beginning
// of a segment or of a run, so that the books can be drawn up there, and it ends behind something
// that was written at once, where that can be seen.
func (r *reader) next(from, until place) (p parcel, err error) {
	p.end = from
	f, err := os.Open(segment{n: from.Segment}.path(r.dir))
	if errors.Is(err, fs.ErrNotExist) {
		return p, r.skip(&p, until)
	}
	if err != nil {
		return p, fmt.Errorf("read the spool: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	stop := until.Offset
	if from.Segment < until.Segment {
		info, err := f.Stat()
		if err != nil {
			return p, fmt.Errorf("read the spool: %w", err)
		}
		stop = info.Size()
	}
	t := taking{reader: r, f: f, p: &p}
	at, torn, err := scan(f, from.Offset, stop, t.take, func(a, b int64) { t.aside(a, b) })
	if err != nil {
		return p, err
	}
	if t.foreign {
		r.quarantine(from.Segment)
		return p, r.skip(&p, until)
	}
	if t.paused {
		return p, nil
	}
	if torn {
		t.aside(at, stop)
	}
	if from.Segment < until.Segment { // through with it, whatever stands behind the last record
		return p, r.skip(&p, until)
	}
	p.end = until
	return p, nil
}

// taking is one segment on its way into a parcel.
type taking struct {
	*reader
	f       *os.File
	p       *parcel
	bytes   int
	paused  bool // there is more for the next parcel
	foreign bool // the segment is of another spool
}

func (t *taking) take(kind byte, payload []byte, end int64) (more bool, err error) {
	switch {
	case kind == frameSegment:
		var h segmentHead
		if json.Unmarshal(payload, &h) != nil {
			break
		}
		if t.foreign = h.Spool != t.spool && t.spool != ""; t.foreign {
			return false, nil
		}
		t.p.tell(h.Admitted)
	case kind == frameRun && !t.p.empty():
		t.paused = true // it begins the next parcel
		return false, nil
	case kind == frameRun:
		t.p.crashed = true
	case t.account:
		err = t.reading(kind, payload, t.p.count)
	default:
		err = t.reading(kind, payload, t.p.take)
	}
	if err != nil {
		t.aside(end-int64(len(payload)), end)
	}
	t.p.end.Offset = end
	t.bytes += len(payload)
	t.paused = t.bytes >= t.most && kind == frameAdmitted || t.bytes >= 4*t.most
	return !t.paused, nil
}

// skip ends the parcel at the beginning of the next segment that is there.
func (r *reader) skip(p *parcel, until place) error {
	segs, err := segments(r.dir)
	if err != nil {
		return err
	}
	for _, seg := range segs {
		if seg.n > p.end.Segment && seg.n <= until.Segment {
			p.end = place{Segment: seg.n}
			return nil
		}
	}
	p.end = until
	return nil
}

// aside copies a damaged stretch to where a person can look at it. That something was lost is
// booked at the next record that tells how much was admitted.
func (t *taking) aside(from, to int64) {
	if !t.account {
		setAside(t.dir, t.f, t.p.end.Segment, from, to)
	}
}

func setAside(dir string, f *os.File, seg uint64, from, to int64) {
	aside := filepath.Join(dir, quarantineDir)
	if os.MkdirAll(aside, 0o700) != nil {
		return
	}
	b := make([]byte, min(to-from, asideBytes))
	n, _ := f.ReadAt(b, from)
	_ = os.WriteFile(filepath.Join(aside, fmt.Sprintf("%016d-%d.bin", seg, from)), b[:n], 0o600) // a copy for a person, no more
}

// quarantineDir holds what is damaged or foreign.
const quarantineDir = "quarantine"

// quarantine takes a segment away that is none of ours.
func (r *reader) quarantine(seg uint64) {
	if !r.account {
		moveAside(r.dir, segment{n: seg}.path(r.dir))
	}
}

func moveAside(dir, path string) {
	aside := filepath.Join(dir, quarantineDir)
	if os.MkdirAll(aside, 0o700) == nil {
		_ = os.Rename(path, filepath.Join(aside, filepath.Base(path))) // what stays is read again, and does no harm
	}
}

// tidyAside deletes what was set aside before a time.
func tidyAside(dir string, before time.Time) {
	entries, err := os.ReadDir(filepath.Join(dir, quarantineDir))
	if err != nil {
		return
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.ModTime().Before(before) {
			_ = os.Remove(filepath.Join(dir, quarantineDir, e.Name())) // it is tried again
		}
	}
}
