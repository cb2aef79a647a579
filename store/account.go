package store

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"slices"

	"precept/sample"
	"precept/store/spool"
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

// Account is the account of a data directory's life, in exchanges: Admitted = Stored + Spooled +
// Incomplete + Dropped. An exchange is admitted when it, its beginning or its loss is on the disk.
type Account struct {
	Admitted   int64            `json:"admitted"`
	Stored     int64            `json:"stored"`
	Spooled    int64            `json:"spooled"`    // on the disk, and not in the store yet
	Incomplete int64            `json:"incomplete"` // under way when precept died: the store has a stub of each
	Dropped    map[string]int64 `json:"dropped"`
}

// progress is the account as of a place in the spool: Admitted = Stored + Incomplete + Dropped +
// len(Open).
type progress struct {
	At       spool.Place `json:"-"`
	Admitted int64       `json:"-"` // the spool's sequence number
	// Guessed says that the account before the spool's first segment is not known: what was
	// admitted then counts as stored.
	Guessed    bool             `json:"-"`
	Stored     int64            `json:"stored"`
	Incomplete int64            `json:"incomplete"`
	Dropped    map[string]int64 `json:"dropped,omitempty"`
	Open       []stub           `json:"open,omitempty"` // turns that were under way
}

// ack is the progress as the spool's checkpoint keeps it.
func (l *progress) ack() (spool.Ack, error) {
	note, err := json.Marshal(l)
	return spool.Ack{At: l.At, Seq: l.Admitted, Guessed: l.Guessed, Note: note}, err
}

// progressOf reads what ack made. Where there is nothing to read, what was admitted counts as
// stored.
func progressOf(a spool.Ack) (l progress) {
	if a.Note == nil || json.Unmarshal(a.Note, &l) != nil {
		l = progress{Stored: a.Seq}
		a.Guessed = true
	}
	l.At, l.Admitted, l.Guessed = a.At, a.Seq, a.Guessed
	return l
}

func (l *progress) clone() progress {
	c := *l
	c.Dropped, c.Open = maps.Clone(l.Dropped), slices.Clone(l.Open)
	return c
}

// advance books a batch that is in the backend.
func (l *progress) advance(p *batch) {
	if p.crashed {
		l.Incomplete += int64(len(l.Open))
		l.Open = nil
	}
	l.Open = append(l.Open, p.begun...)
	l.close(p)
	l.Admitted += p.admitted
	l.Stored += int64(len(p.exchanges)) + p.counted
	for reason, n := range p.dropped {
		l.drop(reason, n)
	}
	for i := range p.voids {
		l.drop(p.voids[i].Reason, 1)
	}
	if p.hasTotal {
		l.reconcile(p.total + p.admitted - p.upTo)
	}
	l.At = p.end
}

// close ends what was under way. One that ends without having begun was admitted all the same: its
// beginning was damaged.
func (l *progress) close(p *batch) {
	gone := len(p.ended) + len(p.voids)
	if gone == 0 {
		return
	}
	ended := make(map[string]bool, gone)
	for _, id := range p.ended {
		ended[id] = true
	}
	for i := range p.voids {
		ended[p.voids[i].ID] = true
	}
	before := len(l.Open)
	l.Open = slices.DeleteFunc(l.Open, func(s stub) bool { return ended[s.ID] })
	l.Admitted += int64(max(gone-(before-len(l.Open)), 0))
}

func (l *progress) drop(reason string, n int64) {
	if l.Dropped == nil {
		l.Dropped = map[string]int64{}
	}
	l.Dropped[reason] += n
}

// refuse takes an exchange back that was booked as stored: the backend can never take it.
func (l *progress) refuse() {
	l.Stored--
	l.drop(droppedBad, 1)
}

// reconcile books what the spool told to have admitted up to here, and does not hold.
func (l *progress) reconcile(admitted int64) {
	switch n := admitted - l.Admitted; {
	case n > 0:
		l.drop(droppedDamaged, n)
		l.Admitted = admitted
	case n < 0 && l.Guessed: // what ended here had begun before the first segment, and is no other one
		n = max(n, -l.Stored)
		l.Stored += n
		l.Admitted += n
	}
}

// stubs are the exchanges of the turns that were under way when the program died.
func (l *progress) stubs() []sample.Exchange {
	var out []sample.Exchange
	for i := range l.Open {
		var x sample.Exchange
		if len(l.Open[i].Doc) > 0 && json.Unmarshal(l.Open[i].Doc, &x) == nil {
			out = append(out, x)
		}
	}
	return out
}

// ReadAccount draws up the account of a data directory's spool, without changing a byte of it.
// running says that a precept is writing to it: what is under way there is not lost. Without a
// spool there is no account.
func ReadAccount(dir string, running bool) (books Account, err error) {
	for range 10 { // a running precept may take a segment away while it is read
		var v spool.View
		if v, err = spool.Look(dir); err == nil {
			books, err = readAccount(&v, running)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return Account{Dropped: map[string]int64{}}, nil
		}
		if err != nil || !running || !v.Outdated() {
			break
		}
	}
	return books, err
}

func readAccount(v *spool.View, running bool) (Account, error) {
	books := Account{Dropped: map[string]int64{}}
	l := progressOf(v.Delivered)
	stored := l.Stored
	r := reader{from: v.Reader, account: true, most: replayBytes}
	for l.At.Before(v.End) {
		p, err := r.next(l.At, v.End)
		if err != nil {
			return books, err
		}
		l.advance(&p)
	}
	if !running {
		l.reconcile(max(v.Seq, l.Admitted))
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
