package store

import (
	"slices"

	"precept/internal/sample"
	"precept/internal/session"
	"precept/store/spool"
)

// batch is what goes to the backend in one piece: what one flush put down, or a stretch of the
// spool that was read back.
type batch struct {
	crashed   bool // it begins a run of the program: whatever was under way before it never ended
	rows      []session.Row
	echoes    []session.Echo
	exchanges []sample.Exchange
	signals   []signal
	begun     []stub
	ended     map[string]bool // ids of exchanges whose beginning is in an earlier batch
	voids     []void          // turns whose beginning is, and of which nothing is kept
	dropped   map[string]int64
	counted   int64       // exchanges that it only counts
	held      int64       // bytes in memory
	end       spool.Place // behind it in the spool
	flush     int64       // number of the flush that made it; 0: it was read back

	// numbered says that one of its records told the spool's sequence number. By that the spool had
	// admitted so many exchanges before this batch.
	numbered bool
	before   int64
}

// admitted is how many exchanges enter the account with this batch, and how many sequence numbers
// it takes in the spool.
func (b *batch) admitted() int64 {
	n := int64(len(b.begun)+len(b.exchanges)-len(b.ended)) + b.counted
	for _, dropped := range b.dropped {
		n += dropped
	}
	return n
}

// empty says that there is nothing to put down.
func (b *batch) empty() bool {
	return !b.crashed && len(b.rows)+len(b.echoes)+len(b.exchanges)+len(b.signals)+len(b.begun)+len(b.voids)+len(b.dropped) == 0 &&
		b.counted == 0
}

// drop counts exchanges that are given up before anything of them was put down.
func (b *batch) drop(reason string, n int64) {
	if b.dropped == nil {
		b.dropped = map[string]int64{}
	}
	b.dropped[reason] += n
}

// over ends a turn of which nothing is kept.
func (b *batch) over(t *Begun, reason string) {
	if t != nil && t.put {
		b.voids = append(b.voids, void{t.x.ID, reason})
	} else {
		b.drop(reason, 1)
	}
}

// giveUp drops some of the exchanges, and says how many.
func (b *batch) giveUp(reason string, of func(*sample.Exchange) bool) (n int64) {
	kept := b.exchanges[:0:0]
	for i := range b.exchanges {
		x := &b.exchanges[i]
		switch {
		case !of(x):
			kept = append(kept, *x)
			continue
		case b.ended[x.ID]:
			delete(b.ended, x.ID)
			b.voids = append(b.voids, void{x.ID, reason})
		default:
			b.drop(reason, 1)
		}
		n++
	}
	b.exchanges = kept
	return n
}

// forget takes out what is the tenant's and of the sessions, whatever time it bears. Exchanges
// stay, for the account: the tombstones keep them from the backend.
func (b *batch) forget(tenant string, of func(session.ID) bool) {
	b.rows = slices.DeleteFunc(b.rows, func(r session.Row) bool { return r.Tenant == tenant && of(r.ID) })
	b.echoes = slices.DeleteFunc(b.echoes, func(e session.Echo) bool { return e.Tenant == tenant && of(e.ID) })
	b.signals = slices.DeleteFunc(b.signals, func(g signal) bool { return g.Tenant == tenant && of(g.ID) })
}

// reset empties the batch, for what comes next. Its room is used again, where it is not of an
// outage: what is merged and handed over many times a second would be most of the garbage.
func (b *batch) reset() {
	if cap(b.exchanges) > 8*flushAt {
		*b = batch{}
		return
	}
	clear(b.rows)
	clear(b.echoes)
	clear(b.exchanges)
	clear(b.signals)
	clear(b.begun)
	clear(b.ended)
	*b = batch{rows: b.rows[:0], echoes: b.echoes[:0], exchanges: b.exchanges[:0], signals: b.signals[:0], begun: b.begun[:0], ended: b.ended}
}

// merge appends copies of what the next batch holds. What it is appended to must not begin a run
// in its middle.
func (b *batch) merge(next *batch) {
	b.crashed = b.crashed || next.crashed // a run's first batch meets none before it
	b.rows = append(b.rows, next.rows...)
	b.echoes = append(b.echoes, next.echoes...)
	b.exchanges = append(b.exchanges, next.exchanges...)
	b.signals = append(b.signals, next.signals...)
	b.begun = append(b.begun, next.begun...)
	for id := range next.ended {
		b.finish(id)
	}
	b.voids = append(b.voids, next.voids...)
	for reason, n := range next.dropped {
		b.drop(reason, n)
	}
	b.held += next.held
	b.end, b.flush = next.end, next.flush
}

// newestRows leaves out the rows that a later one of the same session replaces.
func newestRows(rows []session.Row) []session.Row {
	last := make(map[session.Ref]int, len(rows))
	for i := range rows {
		last[session.Ref{Tenant: rows[i].Tenant, ID: rows[i].ID}] = i
	}
	if len(last) == len(rows) {
		return rows
	}
	out := make([]session.Row, 0, len(last))
	for i := range rows {
		if last[session.Ref{Tenant: rows[i].Tenant, ID: rows[i].ID}] == i {
			out = append(out, rows[i])
		}
	}
	return out
}

// append writes the batch's records. What begins comes before what ends: a reader may stop between
// any two of them.
func (b *batch) append(buf []byte) []byte {
	size := 0
	for i := range b.exchanges {
		enc := b.exchanges[i].Seal()
		size += len(enc.Data) + len(enc.Items)
	}
	buf = slices.Grow(buf, size+size/16+64) // and the rest
	record := spool.AppendRecord
	if b.crashed {
		buf = record(buf, recordRun, func(buf []byte) []byte { return buf })
	}
	for i := range b.begun {
		buf = appendDoc(buf, recordBegun, &b.begun[i])
	}
	for i := range b.rows {
		buf = record(buf, recordRow, func(buf []byte) []byte { return appendRow(buf, &b.rows[i]) })
	}
	if len(b.echoes) > 0 {
		buf = record(buf, recordEchoes, func(buf []byte) []byte { return appendEchoes(buf, b.echoes) })
	}
	for i := range b.exchanges {
		x := &b.exchanges[i]
		buf = record(buf, recordExchange, func(buf []byte) []byte { return appendExchange(buf, x, b.ended[x.ID]) })
	}
	for i := range b.signals {
		g := &b.signals[i]
		buf = appendDoc(buf, recordSignal, storedSignal{g.Tenant, g.ID.String(), g.entry})
	}
	for i := range b.voids {
		buf = appendDoc(buf, recordVoid, b.voids[i])
	}
	if len(b.dropped) > 0 {
		buf = appendDoc(buf, recordDropped, b.dropped)
	}
	return buf
}

// add takes in one record that was read back. An error says that the record is not what its
// checksum promises.
func (b *batch) add(rec spool.Record) error {
	payload := rec.Payload
	switch rec.Kind {
	case recordExchange:
		begun, _, enc, err := cutExchange(payload)
		if err != nil {
			return err
		}
		x, err := enc.Decode()
		if err != nil {
			return err
		}
		b.exchanges = append(b.exchanges, x)
		if begun {
			b.finish(x.ID)
		}
	case recordRow:
		r, err := readRow(payload)
		if err != nil {
			return err
		}
		b.rows = append(b.rows, r)
	case recordEchoes:
		list, err := readEchoes(payload)
		if err != nil {
			return err
		}
		b.echoes = append(b.echoes, list...)
	case recordSignal:
		sg, err := readSignal(payload)
		if err != nil {
			return err
		}
		b.signals = append(b.signals, sg)
	default:
		return b.count(rec)
	}
	return nil
}

// count adds what a record says to the account, without keeping what it holds.
func (b *batch) count(rec spool.Record) error {
	payload := rec.Payload
	switch rec.Kind {
	case recordExchange:
		begun, id, _, err := cutExchange(payload)
		if err != nil {
			return err
		}
		b.counted++
		if begun {
			b.finish(string(id))
		}
	case recordBegun:
		s, err := readDoc[stub](payload)
		if err != nil {
			return err
		}
		b.begun = append(b.begun, s)
	case recordVoid:
		v, err := readDoc[void](payload)
		if err != nil {
			return err
		}
		b.voids = append(b.voids, v)
	case recordDropped:
		d, err := readDoc[map[string]int64](payload)
		if err != nil {
			return err
		}
		for reason, n := range d {
			b.drop(reason, n)
		}
	case spool.KindHead, spool.KindEnd:
		b.number(rec.Seq)
	}
	return nil // also of kinds that a later release may add
}

// finish notes that an exchange was begun in an earlier batch.
func (b *batch) finish(id string) {
	if b.ended == nil {
		b.ended = map[string]bool{}
	}
	b.ended[id] = true
}

// number notes the sequence number that the spool had come to with what the batch holds so far.
func (b *batch) number(seq int64) { b.numbered, b.before = true, seq-b.admitted() }

// admittedBy is how many exchanges a record admits: their number is the spool's sequence number.
func admittedBy(kind byte, payload []byte) int64 {
	var b batch
	if b.count(spool.Record{Kind: kind, Payload: payload}) != nil {
		return 0 // whoever reads it back sets it aside
	}
	return b.admitted()
}
