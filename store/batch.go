package store

import (
	"encoding/json"
	"slices"
	"time"

	"precept/sample"
	"precept/session"
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
	ended     []string // exchanges of the begun ones, in the order of exchanges
	voids     []void   // begun ones that are over and of which nothing is kept
	dropped   map[string]int64
	counted   int64       // exchanges of which only the account is drawn up
	admitted  int64       // exchanges that entered the account here
	held      int64       // bytes in memory
	end       spool.Place // behind it in the spool
	flush     int64       // number of the flush that made it; 0: it was read back

	// hasTotal says that one of its records holds how many were admitted in the spool's life:
	// total, and here up to that record.
	hasTotal    bool
	total, upTo int64
}

// stub is a turn that is under way: an exchange of which only the beginning is known.
type stub struct {
	ID  string          `json:"id"`
	Doc json.RawMessage `json:"doc,omitempty"` // of sample.Exchange; none when it was forgotten
}

// void is the end of a turn of which nothing is kept.
type void struct {
	ID     string `json:"id"`
	Reason string `json:"reason"`
}

func (p *batch) empty() bool {
	return !p.crashed && len(p.rows)+len(p.echoes)+len(p.exchanges)+len(p.signals)+len(p.begun)+len(p.ended)+len(p.voids)+len(p.dropped) == 0 &&
		p.counted == 0
}

// drop counts exchanges that are given up before they were put down.
func (p *batch) drop(reason string, n int64) {
	if n <= 0 {
		return
	}
	if p.dropped == nil {
		p.dropped = map[string]int64{}
	}
	p.dropped[reason] += n
	p.admitted += n
}

// over books the end of a turn of which nothing is kept.
func (p *batch) over(b *Begun, reason string) {
	if b != nil && b.put {
		p.voids = append(p.voids, void{b.x.ID, reason})
	} else {
		p.drop(reason, 1)
	}
}

// reset empties the batch, for what comes next. Its room is used again, where it is not of an
// outage: what is merged and handed over many times a second would be most of the garbage.
func (p *batch) reset() {
	if cap(p.exchanges) > 8*flushAt {
		*p = batch{}
		return
	}
	clear(p.rows)
	clear(p.echoes)
	clear(p.exchanges)
	clear(p.signals)
	clear(p.begun)
	*p = batch{rows: p.rows[:0], echoes: p.echoes[:0], exchanges: p.exchanges[:0], signals: p.signals[:0], begun: p.begun[:0], ended: p.ended[:0]}
}

// merge appends copies of what the next batch holds. What it is appended to must not begin a run
// in its middle.
func (p *batch) merge(q *batch) {
	p.crashed = p.crashed || q.crashed // a run's first batch meets none before it
	p.rows = append(p.rows, q.rows...)
	p.echoes = append(p.echoes, q.echoes...)
	p.exchanges = append(p.exchanges, q.exchanges...)
	p.signals = append(p.signals, q.signals...)
	p.begun = append(p.begun, q.begun...)
	p.ended = append(p.ended, q.ended...)
	p.voids = append(p.voids, q.voids...)
	admitted := p.admitted + q.admitted
	for reason, n := range q.dropped {
		p.drop(reason, n)
	}
	p.admitted = admitted
	p.held += q.held
	p.end, p.flush = q.end, q.flush
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
func (p *batch) append(b []byte) []byte {
	size := 0
	for i := range p.exchanges {
		enc := p.exchanges[i].Seal()
		size += len(enc.Data) + len(enc.Items)
	}
	b = slices.Grow(b, size+size/16+64) // and the rest
	record := spool.AppendRecord
	if p.crashed {
		b = record(b, recordRun, func(b []byte) []byte { return b })
	}
	for i := range p.begun {
		b = appendDoc(b, recordBegun, &p.begun[i])
	}
	for i := range p.rows {
		b = record(b, recordRow, func(b []byte) []byte { return appendRow(b, &p.rows[i]) })
	}
	if len(p.echoes) > 0 {
		b = record(b, recordEchoes, func(b []byte) []byte { return appendEchoes(b, p.echoes) })
	}
	ended := 0
	for i := range p.exchanges {
		x, begun := &p.exchanges[i], false
		if ended < len(p.ended) && p.ended[ended] == x.ID {
			begun = true
			ended++
		}
		b = record(b, recordExchange, func(b []byte) []byte { return appendExchange(b, x, begun) })
	}
	for i := range p.signals {
		g := &p.signals[i]
		b = appendDoc(b, recordSignal, storedSignal{g.Tenant, g.ID.String(), g.entry})
	}
	for i := range p.voids {
		b = appendDoc(b, recordVoid, p.voids[i])
	}
	if len(p.dropped) > 0 {
		b = appendDoc(b, recordDropped, p.dropped)
	}
	return b
}

// add books one record that was read back. An error says that the record is not what its checksum
// promises.
func (p *batch) add(rec spool.Record) error {
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
		p.exchanges = append(p.exchanges, x)
		p.entered(begun, x.ID)
	case recordRow:
		r, err := readRow(payload)
		if err != nil {
			return err
		}
		p.rows = append(p.rows, r)
	case recordEchoes:
		list, err := readEchoes(payload)
		if err != nil {
			return err
		}
		p.echoes = append(p.echoes, list...)
	case recordSignal:
		sg, err := readSignal(payload)
		if err != nil {
			return err
		}
		p.signals = append(p.signals, sg)
	default:
		return p.count(rec)
	}
	return nil
}

// count adds what a record says to the account, without keeping what it holds.
func (p *batch) count(rec spool.Record) error {
	payload := rec.Payload
	switch rec.Kind {
	case recordExchange:
		begun, id, _, err := cutExchange(payload)
		if err != nil {
			return err
		}
		p.counted++
		p.entered(begun, string(id))
	case recordBegun:
		s, err := readDoc[stub](payload)
		if err != nil {
			return err
		}
		p.begun = append(p.begun, s)
		p.admitted++
	case recordVoid:
		v, err := readDoc[void](payload)
		if err != nil {
			return err
		}
		p.voids = append(p.voids, v)
	case recordDropped:
		d, err := readDoc[map[string]int64](payload)
		if err != nil {
			return err
		}
		for reason, n := range d {
			p.drop(reason, n)
		}
	case spool.KindHead, spool.KindEnd:
		p.setTotal(rec.Seq)
	}
	return nil // also of kinds that a later release may add
}

// entered books the end of a turn whose exchange is kept.
func (p *batch) entered(begun bool, id string) {
	if begun {
		p.ended = append(p.ended, id)
	} else {
		p.admitted++
	}
}

// setTotal notes how many were admitted in the spool's life when it had come this far.
func (p *batch) setTotal(total int64) { p.hasTotal, p.total, p.upTo = true, total, p.admitted }

// forgetStubs takes the content of stubs out where of says so; their account stays.
func forgetStubs(list []stub, of func(tenant, id string, at time.Time) bool) []stub {
	list = slices.Clone(list)
	for i := range list {
		var x sample.Exchange
		if len(list[i].Doc) > 0 && (json.Unmarshal(list[i].Doc, &x) != nil || of(x.Tenant, x.Session, x.At)) {
			list[i].Doc = nil
		}
	}
	return list
}
