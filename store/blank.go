package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"
)

// blankOut takes out of the spool what was put down of turns that turned out, later, to have opted
// out. Their account stays. It belongs to the delivery, which alone reads the spool back.
func (s *Store) blankOut(b *batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.blank) == 0 {
		return
	}
	gone := make(map[string]bool, len(b.blank))
	files := map[uint64][]*Begun{}
	for _, t := range b.blank {
		gone[t.x.ID] = true
		files[t.at.Segment] = append(files[t.at.Segment], t)
	}
	b.blank = nil
	lists := [][]stub{b.ready.begun, b.tail.begun, b.books.Open, b.safe.Open}
	for i := range b.marks {
		lists = append(lists, b.marks[i].ledger.Open)
	}
	for _, list := range lists {
		for i := range list {
			if gone[list[i].ID] {
				list[i].Doc = nil
			}
		}
	}
	b.cursorAt = time.Time{} // it may hold them as well
	b.kept = cursorFile{}
	for n, turns := range files {
		if err := blank(segment{n: n}.path(s.spool.dir), turns); err != nil {
			b.scrub = true // the whole segment goes, as soon as it can
			s.failedTo(err)
		}
	}
}

// scrubFor sees to it that a segment goes in which the end of such a turn was read back: a run that
// was killed may not have come to its beginning.
func (s *Store) scrubFor(b *batch, p *parcel) {
	if slices.ContainsFunc(p.voids, func(v void) bool { return v.Reason == droppedOptOut }) {
		b.mu.Lock()
		b.scrub = true
		b.mu.Unlock()
	}
}

// blank writes over the records of turns that are still in a segment.
func blank(path string, turns []*Begun) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was drained
	}
	if err != nil {
		return fmt.Errorf("take what opted out out of the spool: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for _, t := range turns {
		if err := blankAt(f, t); err != nil {
			return fmt.Errorf("take what opted out out of the spool: %w", err)
		}
	}
	return datasync(f)
}

// blankAt puts a stub without content, of the same length, in the place of a turn's.
func blankAt(f *os.File, t *Begun) error {
	old := make([]byte, t.size)
	if _, err := f.ReadAt(old, t.at.Offset); err != nil {
		return err
	}
	kind, _, size, err := readFrame(old)
	if err != nil || kind != frameBegun || size != t.size {
		return nil //nolint:nilerr // its place was given back meanwhile
	}
	text, err := json.Marshal(stub{ID: t.x.ID})
	if err != nil {
		return err
	}
	frame := append(openFrame(make([]byte, 0, t.size), frameBegun), text...)
	for len(frame) < t.size {
		frame = append(frame, ' ')
	}
	_, err = f.WriteAt(closeFrame(frame, 0), t.at.Offset)
	return err
}
