package store

import (
	"encoding/json"
	"slices"
	"time"

	"precept/store/spool"
)

// blankOut takes out of the spool what was put down of turns that turned out, later, to have opted
// out. Their account stays. It belongs to the delivery, which alone reads the spool back.
func (d *delivery) blankOut() {
	d.rec.mu.Lock()
	defer d.rec.mu.Unlock()
	if len(d.rec.blank) == 0 {
		return
	}
	gone := make(map[string]bool, len(d.rec.blank))
	at := make([]spool.Place, 0, len(d.rec.blank))
	for _, t := range d.rec.blank {
		gone[t.x.ID] = true
		at = append(at, t.at)
	}
	d.rec.blank = nil
	lists := [][]stub{d.rec.ready.begun, d.tail.begun, d.books.Open, d.safe.Open}
	for i := range d.marks {
		lists = append(lists, d.marks[i].ledger.Open)
	}
	for _, list := range lists {
		for i := range list {
			if gone[list[i].ID] {
				list[i].Doc = nil
			}
		}
	}
	d.cursorAt = time.Time{} // it may hold them as well
	err := d.rec.spool.Overwrite(recordBegun, at, func(payload []byte) []byte {
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
		d.rec.scrub = true // the whole segment goes, as soon as it can
		d.failedTo("spool", err)
	}
}

// scrubFor sees to it that a segment goes in which the end of such a turn was read back: a run that
// was killed may not have come to its beginning.
func (d *delivery) scrubFor(p *parcel) {
	if slices.ContainsFunc(p.voids, func(v void) bool { return v.Reason == droppedOptOut }) {
		d.rec.mu.Lock()
		d.rec.scrub = true
		d.rec.mu.Unlock()
	}
}
