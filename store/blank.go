package store

import (
	"encoding/json"
	"slices"
	"time"

	"precept/store/spool"
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
	at := make([]spool.Place, 0, len(b.blank))
	for _, t := range b.blank {
		gone[t.x.ID] = true
		at = append(at, t.at)
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
	err := s.spool.Overwrite(recordBegun, at, func(payload []byte) []byte {
		old, err := readDoc[stub](payload)
		if err != nil || !gone[old.ID] {
			return nil
		}
		text, err := json.Marshal(stub{ID: old.ID})
		if err != nil {
			return nil
		}
		return text
	})
	if err != nil {
		b.scrub = true // the whole segment goes, as soon as it can
		s.failedTo(err)
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
