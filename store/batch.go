package store

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"precept/bandit/feedback"
	"precept/internal/guard"
	"precept/internal/label"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/store/outbox"
)

// batch is the content for one delivery: the changes from one or more flushes (recorder runs), or rows read back from
// the outbox.
type batch struct {
	rows      []session.Row
	echoes    []session.Echo
	exchanges []sample.Exchange
	signals   []signal

	// The next four fields are for the outbox only.
	stubs    []outbox.Stub    // turns in progress, without content
	endedIDs []string         // exchange ids of ended turns with a stub in the outbox
	dropped  map[string]int64 // dropped exchanges by reason
	scrub    bool             // a turn with a stub opted out, so the stub's bytes must leave the outbox file

	// The next four fields are set only if the rows were read back from the outbox.
	interruptedTurns     []sample.Exchange // turns in progress when the program ended
	undecodableStubCount int64             // turns in progress with a stub that does not decode
	forgottenCount       int64             // exchanges of deleted sessions, for the account (the exchange counts)
	damagedCount         int64             // exchanges that do not decode

	heldBytes    int64 // exchange bytes in memory
	lastSequence int64 // last outbox row's sequence number
	flushNumber  int64 // last flush's number; 0 if the rows were read back from the outbox
}

func (b *batch) isEmpty() bool {
	return len(b.rows)+len(b.echoes)+len(b.exchanges)+len(b.signals)+len(b.stubs)+len(b.endedIDs)+len(b.dropped) == 0
}

func (b *batch) addDropped(reason string, n int64) {
	if b.dropped == nil {
		b.dropped = map[string]int64{}
	}
	b.dropped[reason] += n
}

// endTurn counts a turn that ends without an exchange to store. The next append also deletes the turn's stub from the
// outbox.
func (b *batch) endTurn(t *TurnStart, reason string) {
	b.addDropped(reason, 1)
	if t != nil && t.stubWritten {
		b.endedIDs = append(b.endedIDs, t.exchange.ID)
	}
}

func (b *batch) dropExchanges(reason string, match func(*sample.Exchange) bool) int64 {
	before := len(b.exchanges)
	b.exchanges = slices.DeleteFunc(b.exchanges, func(x sample.Exchange) bool { return match(&x) })
	n := int64(before - len(b.exchanges))
	if n > 0 {
		b.addDropped(reason, n)
	}
	return n
}

func (b *batch) dropSignals(tenants map[string]bool) int64 {
	before := len(b.signals)
	b.signals = slices.DeleteFunc(b.signals, func(g signal) bool { return tenants[g.Ref.Tenant] })
	return int64(before - len(b.signals))
}

// forget removes the selected sessions' rows, echo keys and signals. The exchanges stay in the batch for the account,
// but the writer does not store them, because the session has a tombstone.
func (b *batch) forget(tenant string, match func(session.ID) bool) {
	b.rows = slices.DeleteFunc(b.rows, func(r session.Row) bool { return r.Tenant == tenant && match(r.ID) })
	b.echoes = slices.DeleteFunc(b.echoes, func(e session.Echo) bool { return e.Tenant == tenant && match(e.ID) })
	b.signals = slices.DeleteFunc(b.signals, func(g signal) bool { return g.Ref.Tenant == tenant && match(g.Ref.ID) })
}

// reset empties the batch. The next batch reuses the lists' memory, unless an outage made the lists long.
func (b *batch) reset() {
	if cap(b.exchanges) > 8*flushAt {
		*b = batch{lastSequence: b.lastSequence, flushNumber: b.flushNumber}
		return
	}
	clear(b.rows)
	clear(b.echoes)
	clear(b.exchanges)
	clear(b.signals)
	*b = batch{rows: b.rows[:0], echoes: b.echoes[:0], exchanges: b.exchanges[:0], signals: b.signals[:0], lastSequence: b.lastSequence, flushNumber: b.flushNumber}
}

// merge appends a later batch's rows, echo keys, exchanges and signals to b. Only an append to the outbox needs the
// other fields.
func (b *batch) merge(later *batch) {
	b.rows = append(b.rows, later.rows...)
	b.echoes = append(b.echoes, later.echoes...)
	b.exchanges = append(b.exchanges, later.exchanges...)
	b.signals = append(b.signals, later.signals...)
	b.heldBytes += later.heldBytes
	b.lastSequence, b.flushNumber = later.lastSequence, later.flushNumber
}

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

func sessionRef(x *sample.Exchange) session.Ref {
	id, _ := session.ParseID(x.Session)
	return session.Ref{Tenant: x.Tenant, ID: id}
}

// sessionParts holds the indices of one session's parts in a batch. Together the parts become one document, the content
// of an outbox row.
type sessionParts struct {
	exchanges []int
	rows      []int
	echoes    []int
	signals   []int
}

// encodeRows encodes the batch as one outbox row per session. The documents are slices of grown, which is buf or a
// larger buffer. guarded runs f, and reports whether f returned without a panic. An exchange whose encoding panics is
// dropped and counted.
func (b *batch) encodeRows(buf []byte, guarded func(ref session.Ref, exchange string, f func()) bool) (rows []outbox.Row, grown []byte, dropped int64) {
	dropped = b.dropExchanges(droppedBad, func(x *sample.Exchange) bool { return !guarded(sessionRef(x), x.ID, func() { x.Seal() }) })
	bySession := map[session.Ref]*sessionParts{}
	var order []session.Ref
	sessionPart := func(tenant string, id session.ID) *sessionParts {
		ref := session.Ref{Tenant: tenant, ID: id}
		parts := bySession[ref]
		if parts == nil {
			parts = &sessionParts{}
			bySession[ref] = parts
			order = append(order, ref)
		}
		return parts
	}
	// size estimates the encoded size in bytes. It allows 64 or 32 bytes for a part's times, flags and lengths.
	size := 0
	for i := range b.exchanges {
		x := &b.exchanges[i]
		enc := x.Seal()
		size += len(enc.Data) + len(enc.Items) + 64
		ref := sessionRef(x)
		parts := sessionPart(ref.Tenant, ref.ID)
		parts.exchanges = append(parts.exchanges, i)
	}
	for i := range b.rows {
		size += len(b.rows[i].Data) + 64
		parts := sessionPart(b.rows[i].Tenant, b.rows[i].ID)
		parts.rows = append(parts.rows, i)
	}
	for i := range b.echoes {
		size += 32
		parts := sessionPart(b.echoes[i].Tenant, b.echoes[i].ID)
		parts.echoes = append(parts.echoes, i)
	}
	for i := range b.signals {
		parts := sessionPart(b.signals[i].Ref.Tenant, b.signals[i].Ref.ID)
		parts.signals = append(parts.signals, i)
	}
	buf = slices.Grow(buf[:0], size)
	for _, ref := range order {
		from := len(buf)
		buf = b.appendDocument(buf, bySession[ref])
		rows = append(rows, outbox.Row{
			Kind: outbox.KindTurns, Tenant: ref.Tenant, Session: ref.ID, Exchanges: int64(len(bySession[ref].exchanges)), Document: buf[from:len(buf):len(buf)],
		})
	}
	return rows, buf, dropped
}

// Each document part begins with a kind byte.
const (
	partExchange = 'E' // encoded exchange (Data and Items)
	partRow      = 'R' // flags, start, last use and data from the session's row
	partEcho     = 'K' // echo key and time
	partSignal   = 'S' // feedback.Entry in JSON
)

func (b *batch) appendDocument(buf []byte, parts *sessionParts) []byte {
	for _, i := range parts.rows {
		r := &b.rows[i]
		flag := byte(0)
		for n, set := range []bool{r.Closed, r.StartedOffline, r.IsUnit} {
			if set {
				flag |= 1 << n
			}
		}
		buf = appendTime(appendTime(append(buf, partRow, flag), r.Started), r.Seen)
		buf = appendBytes(buf, r.Data)
	}
	for _, i := range parts.echoes {
		buf = binary.LittleEndian.AppendUint64(append(buf, partEcho), uint64(b.echoes[i].Key))
		buf = appendTime(buf, b.echoes[i].At)
	}
	for _, i := range parts.exchanges {
		enc := b.exchanges[i].Seal()
		buf = appendBytes(appendBytes(append(buf, partExchange), enc.Data), enc.Items)
	}
	for _, i := range parts.signals {
		if text, err := json.Marshal(b.signals[i].entry); err == nil { // encoding a plain struct never fails
			buf = appendBytes(append(buf, partSignal), text)
		}
	}
	return buf
}

// addRow decodes an outbox row into the batch. A row that does not decode is counted in damagedCount or
// undecodableStubCount.
func (b *batch) addRow(r *outbox.Row, g *guard.Guard) {
	b.lastSequence = r.Sequence
	var row batch
	switch r.Kind {
	case outbox.KindTurns:
		err := g.RunErr(label.StepReadBack, func() error { return row.decodeDocument(r, g) })
		if err != nil || int64(len(row.exchanges)) != r.Exchanges {
			b.damagedCount += r.Exchanges
			return
		}
		row.lastSequence = b.lastSequence
		b.merge(&row)
	case outbox.KindStub:
		if len(r.Document) == 0 { // the session was deleted
			return
		}
		var x sample.Exchange
		if json.Unmarshal(r.Document, &x) != nil || x.ID == "" || sessionRef(&x) != (session.Ref{Tenant: r.Tenant, ID: r.Session}) {
			b.undecodableStubCount++
			return
		}
		x.Outcome = sample.Incomplete // a damaged row can have a different outcome
		b.interruptedTurns = append(b.interruptedTurns, x)
	default: // outbox.KindForgotten
		b.forgottenCount += r.Exchanges
	}
}

var errInvalidDocument = errors.New("a document in the outbox was not written by precept") //nolint:gochecknoglobals // an error to compare with

func (b *batch) decodeDocument(r *outbox.Row, g *guard.Guard) error {
	for d := r.Document; len(d) > 0; {
		kind, data := d[0], []byte(nil)
		var err error
		switch d = d[1:]; kind {
		case partRow:
			if len(d) < 17 {
				return errInvalidDocument
			}
			row := session.Row{
				Tenant: r.Tenant, ID: r.Session, Started: readTime(d[1:]), Seen: readTime(d[9:]),
				Closed: d[0]&1 != 0, StartedOffline: d[0]&2 != 0, IsUnit: d[0]&4 != 0,
			}
			row.Data, d, err = cutBytes(d[17:])
			b.rows = append(b.rows, row)
		case partEcho:
			if len(d) < 16 {
				return errInvalidDocument
			}
			b.echoes = append(b.echoes, session.Echo{
				Tenant: r.Tenant, ID: r.Session, Key: session.EchoKey(binary.LittleEndian.Uint64(d)), At: readTime(d[8:]),
			})
			d = d[16:]
		case partExchange:
			var enc sample.Encoded
			if enc.Data, d, err = cutBytes(d); err == nil {
				enc.Items, d, err = cutBytes(d)
			}
			if len(enc.Items) == 0 {
				enc.Items = nil
			}
			if err == nil {
				var x sample.Exchange
				x, err = enc.Decode()
				g.Before(label.StepReadBack, r.Session, x.ID)
				b.exchanges = append(b.exchanges, x)
			}
		case partSignal:
			var e feedback.Entry
			if data, d, err = cutBytes(d); err == nil {
				err = json.Unmarshal(data, &e)
			}
			b.signals = append(b.signals, signal{session.Ref{Tenant: r.Tenant, ID: r.Session}, e})
		default:
			err = errInvalidDocument
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func appendBytes(b, data []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(data))), data...)
}

// cutBytes reads, from the start of b, bytes that appendBytes wrote. Both results are slices of b.
func cutBytes(b []byte) (data, rest []byte, err error) {
	n, w := binary.Uvarint(b)
	if w <= 0 || n > uint64(len(b)-w) {
		return nil, nil, errInvalidDocument
	}
	return b[w : w+int(n)], b[w+int(n):], nil
}

func appendTime(b []byte, t time.Time) []byte {
	return binary.LittleEndian.AppendUint64(b, uint64(t.UnixMicro()))
}

func readTime(b []byte) time.Time {
	return time.UnixMicro(int64(binary.LittleEndian.Uint64(b))).UTC()
}
