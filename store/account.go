package store

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"time"

	"precept/internal/sample"
	"precept/store/spool"
)

// Account says what became of the exchanges of a data directory's life: Admitted = Stored + Spooled
// + Incomplete + Dropped. An exchange is admitted when it, its beginning or its loss is on the
// disk.
type Account struct {
	Admitted   int64            `json:"admitted"`
	Stored     int64            `json:"stored"`
	Spooled    int64            `json:"spooled"`    // on the disk, and not in the store yet
	Incomplete int64            `json:"incomplete"` // under way when precept died: the store has a stub of each
	Dropped    map[string]int64 `json:"dropped"`
}

// progress is how far the spool was handed over, and what became of the exchanges up to there.
// Admitted is the spool's sequence number; the exceptions are counted, and all others are stored.
type progress struct {
	At       spool.Place `json:"-"`
	Admitted int64       `json:"-"`
	// Guessed says that there was no checkpoint: what was admitted before the first segment counts
	// as stored.
	Guessed    bool             `json:"-"`
	Incomplete int64            `json:"incomplete"`
	Dropped    map[string]int64 `json:"dropped,omitempty"`
	Open       []stub           `json:"open,omitempty"` // turns that are under way
}

// stored is how many exchanges the backend has.
func (l *progress) stored() int64 {
	n := l.Admitted - l.Incomplete - int64(len(l.Open))
	for _, dropped := range l.Dropped {
		n -= dropped
	}
	return n
}

// ack is the progress as the spool's checkpoint keeps it.
func (l *progress) ack() (spool.Ack, error) {
	note, err := json.Marshal(struct {
		Stored int64 `json:"stored"` // a release before this one reads it
		*progress
	}{l.stored(), l})
	return spool.Ack{At: l.At, Seq: l.Admitted, Guessed: l.Guessed, Note: note}, err
}

// progressOf reads what ack made. Where there is nothing to read, all that was admitted counts as
// stored.
func progressOf(a spool.Ack) (l progress) {
	if a.Note == nil || json.Unmarshal(a.Note, &l) != nil {
		l, a.Guessed = progress{}, true
	}
	l.At, l.Admitted, l.Guessed = a.At, a.Seq, a.Guessed
	return l
}

func (l *progress) clone() progress {
	c := *l
	c.Dropped, c.Open = maps.Clone(l.Dropped), slices.Clone(l.Open)
	return c
}

// advance goes on behind a batch that is in the backend.
func (l *progress) advance(b *batch) {
	if b.crashed {
		l.Incomplete += int64(len(l.Open))
		l.Open = nil
	}
	l.Open = append(l.Open, b.begun...)
	l.Admitted += b.admitted() + l.end(b)
	for reason, n := range b.dropped {
		l.drop(reason, n)
	}
	for i := range b.voids {
		l.drop(b.voids[i].Reason, 1)
	}
	if b.numbered {
		l.reconcile(b.before + b.admitted())
	}
	l.At = b.end
}

// end ends what was under way. It says how many turns end without having begun: the record of their
// beginning was damaged, and they are admitted now.
func (l *progress) end(b *batch) (unknown int64) {
	gone := len(b.ended) + len(b.voids)
	if gone == 0 {
		return 0
	}
	void := make(map[string]bool, len(b.voids))
	for i := range b.voids {
		void[b.voids[i].ID] = true
	}
	before := len(l.Open)
	l.Open = slices.DeleteFunc(l.Open, func(s stub) bool { return b.ended[s.ID] || void[s.ID] })
	return int64(max(gone-(before-len(l.Open)), 0))
}

func (l *progress) drop(reason string, n int64) {
	if l.Dropped == nil {
		l.Dropped = map[string]int64{}
	}
	l.Dropped[reason] += n
}

// reconcile believes the spool's own number of what it has admitted up to here. What is missing
// from its records was damaged.
func (l *progress) reconcile(admitted int64) {
	switch n := admitted - l.Admitted; {
	case n > 0:
		l.drop(droppedDamaged, n)
		l.Admitted = admitted
	case n < 0 && l.Guessed: // what ended here had begun before the first segment, and is no other one
		l.Admitted += max(n, -l.stored())
	}
}

// stubs are the exchanges of the turns that were under way when the program died.
func (l *progress) stubs() []sample.Exchange {
	var out []sample.Exchange
	for i := range l.Open {
		if x, ok := l.Open[i].exchange(); ok {
			out = append(out, x)
		}
	}
	return out
}

// forget takes the content out of the stubs that of names; their account stays.
func (l *progress) forget(of func(tenant, id string, at time.Time) bool) {
	for i := range l.Open {
		if x, ok := l.Open[i].exchange(); !ok || of(x.Tenant, x.Session, x.At) {
			l.Open[i].Doc = nil
		}
	}
}

// ReadAccount draws up the account of a data directory's spool, without changing a byte of it.
// running says that a precept is writing to it: what is under way there is not lost. Without a
// spool there is no account.
func ReadAccount(dir string, running bool) (a Account, err error) {
	for range 10 { // a running precept may take a segment away while it is read
		var v spool.View
		if v, err = spool.Look(dir); err == nil {
			a, err = readAccount(&v, running)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return Account{Dropped: map[string]int64{}}, nil
		}
		if err != nil || !running || !v.Outdated() {
			break
		}
	}
	return a, err
}

func readAccount(v *spool.View, running bool) (Account, error) {
	a := Account{Dropped: map[string]int64{}}
	l := progressOf(v.Delivered)
	stored := l.stored()
	r := reader{from: v.Reader, account: true, most: replayBytes}
	for l.At.Before(v.End) {
		b, err := r.next(l.At, v.End)
		if err != nil {
			return a, err
		}
		l.advance(&b)
	}
	if !running {
		l.reconcile(max(v.Seq, l.Admitted))
	}
	maps.Copy(a.Dropped, l.Dropped)
	a.Admitted, a.Stored, a.Spooled, a.Incomplete = l.Admitted, stored, l.stored()-stored, l.Incomplete
	if open := int64(len(l.Open)); running {
		a.Spooled += open
	} else {
		a.Incomplete += open
	}
	return a, nil
}
