package store

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"slices"

	"precept/sample"
)

// The reasons why exchanges are dropped.
const (
	droppedFull     = "full"      // the queue or the memory for waiting exchanges was full
	droppedBad      = "bad"       // it could not be encoded, or the store can never take it
	droppedReadOnly = "read_only" // precept ran from memory
	droppedQuota    = "quota"     // the spool had reached limits.spool_bytes
	droppedDamaged  = "damaged"   // the spool was damaged where it stood
	droppedOptOut   = "opted_out" // a call of its reply named a path of which nothing may be kept
)

// Books is the account of a data directory's life, in exchanges: Admitted = Stored + Spooled + Incomplete + Dropped.
type Books struct {
	Admitted   int64            `json:"admitted"`
	Stored     int64            `json:"stored"`
	Spooled    int64            `json:"spooled"`
	Incomplete int64            `json:"incomplete"` // under way when precept died
	Dropped    map[string]int64 `json:"dropped"`
}

// ledger is the account as of a place in the spool.
type ledger struct {
	At         place            `json:"at"`
	Admitted   int64            `json:"admitted"`
	Stored     int64            `json:"stored"`
	Incomplete int64            `json:"incomplete"`
	Dropped    map[string]int64 `json:"dropped,omitempty"`
	Open       []stub           `json:"open,omitempty"` // turns that were under way
}

func (l *ledger) clone() ledger {
	c := *l
	c.Dropped, c.Open = maps.Clone(l.Dropped), slices.Clone(l.Open)
	return c
}

// advance books a parcel that is in the backend.
func (l *ledger) advance(p *parcel) {
	if p.crashed {
		l.Incomplete += int64(len(l.Open))
		l.Open = nil
	}
	l.Open = append(l.Open, p.begun...)
	if gone := len(p.ended) + len(p.voids); gone > 0 && len(l.Open) > 0 {
		ended := make(map[string]bool, gone)
		for _, id := range p.ended {
			ended[id] = true
		}
		for i := range p.voids {
			ended[p.voids[i].ID] = true
		}
		l.Open = slices.DeleteFunc(l.Open, func(s stub) bool { return ended[s.ID] })
	}
	l.Admitted += p.admitted
	l.Stored += int64(len(p.exchanges))
	if l.Dropped == nil && len(p.dropped)+len(p.voids) > 0 {
		l.Dropped = map[string]int64{}
	}
	for reason, n := range p.dropped {
		l.Dropped[reason] += n
	}
	for i := range p.voids {
		l.Dropped[p.voids[i].Reason]++
	}
	l.At = p.end
}

// refuse takes an exchange back that was booked as stored: the backend can never take it.
func (l *ledger) refuse() {
	if l.Dropped == nil {
		l.Dropped = map[string]int64{}
	}
	l.Stored--
	l.Dropped[droppedBad]++
}

// lost books exchanges that the spool should have held up to a segment's head, and did not.
func (l *ledger) lost(admitted int64) {
	if n := admitted - l.Admitted; n > 0 {
		if l.Dropped == nil {
			l.Dropped = map[string]int64{}
		}
		l.Dropped[droppedDamaged] += n
		l.Admitted = admitted
	}
}

// stubs are the exchanges of the turns that were under way when the program died.
func (l *ledger) stubs() []sample.Exchange {
	var out []sample.Exchange
	for i := range l.Open {
		var x sample.Exchange
		if json.Unmarshal(l.Open[i].Doc, &x) == nil {
			out = append(out, x)
		}
	}
	return out
}

// ReadBooks draws up the account of a data directory's spool. running says that a precept is writing to it: what is under
// way there is not lost. Without a spool there is no account.
func ReadBooks(dir string, running bool) (Books, error) {
	books := Books{Dropped: map[string]int64{}}
	segs, err := segments(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return books, nil
	}
	if err != nil {
		return books, err
	}
	l, err := readCursor(dir, segs)
	if err != nil {
		return books, err
	}
	until := l.At
	if n := len(segs); n > 0 && l.At.before(place{segs[n-1].n, segs[n-1].size}) {
		until = place{segs[n-1].n, segs[n-1].size}
	}
	stored := l.Stored
	for l.At.before(until) {
		p, head, err := replay(dir, l.At, until)
		if err != nil {
			return books, err
		}
		if head != nil {
			l.lost(head.Admitted)
		}
		l.advance(&p)
	}
	maps.Copy(books.Dropped, l.Dropped)
	books.Admitted, books.Stored, books.Spooled, books.Incomplete = l.Admitted, stored, l.Stored-stored, l.Incomplete
	if open := int64(len(l.Open)); running {
		books.Spooled += open
	} else {
		books.Incomplete += open
	}
	return books, nil
}
