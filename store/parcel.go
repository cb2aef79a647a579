package store

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"precept/feedback"
	"precept/sample"
	"precept/session"
)

// parcel is what goes to the backend in one piece: what one flush put down, or a stretch of the spool that was read back.
type parcel struct {
	crashed   bool // it begins a run of the program: whatever was under way before it never ended
	rows      []session.Row
	echoes    []session.Echo
	exchanges []sample.Exchange
	signals   []signal
	begun     []stub
	ended     []string         // exchanges of the begun ones
	voids     []void           // begun ones that are over and of which nothing is kept
	dropped   map[string]int64 // exchanges that were given up before they began to be kept, by reason
	admitted  int64            // exchanges that entered the books here
	held      int64            // bytes in memory
	end       place            // behind it in the spool
	flush     int64            // number of the flush that made it; 0: it was read back
}

// stub is a turn that is under way: an exchange of which only the beginning is known.
type stub struct {
	ID  string          `json:"id"`
	Doc json.RawMessage `json:"doc"` // of sample.Exchange
}

// void is the end of a turn of which nothing is kept.
type void struct {
	ID     string `json:"id"`
	Reason string `json:"reason"`
}

func (p *parcel) empty() bool {
	return !p.crashed && len(p.rows)+len(p.echoes)+len(p.exchanges)+len(p.signals)+len(p.begun)+len(p.voids)+len(p.dropped) == 0
}

// drop counts exchanges that are given up.
func (p *parcel) drop(reason string, n int64) {
	if n == 0 {
		return
	}
	if p.dropped == nil {
		p.dropped = map[string]int64{}
	}
	p.dropped[reason] += n
	p.admitted += n
}

// over books the end of a turn of which nothing is kept. One that asked for it before it was put down was never admitted.
func (p *parcel) over(b *Begun, reason string) {
	switch {
	case b != nil && b.put:
		p.voids = append(p.voids, void{b.x.ID, reason})
	case reason != droppedOptOut:
		p.drop(reason, 1)
	}
}

// merge appends what the next parcel holds. Of a session's rows the newest stays.
func (p *parcel) merge(q *parcel) {
	p.crashed = p.crashed || q.crashed // a run's first parcel meets none before it
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
	last := make(map[touch]int, len(rows))
	for i := range rows {
		last[touch{rows[i].Tenant, rows[i].ID}] = i
	}
	if len(last) == len(rows) {
		return rows
	}
	out := make([]session.Row, 0, len(last))
	for i := range rows {
		if last[touch{rows[i].Tenant, rows[i].ID}] == i {
			out = append(out, rows[i])
		}
	}
	return out
}

// append writes the parcel's records.
func (p *parcel) append(b []byte) []byte {
	frame := func(kind byte, write func()) {
		at := len(b)
		b = openFrame(b, kind)
		write()
		b = closeFrame(b, at)
	}
	doc := func(kind byte, v any) {
		text, err := json.Marshal(v)
		if err != nil { // plain structures of ours always encode
			return
		}
		frame(kind, func() { b = append(b, text...) })
	}
	if p.crashed {
		frame(frameRun, func() {})
	}
	for i := range p.rows {
		frame(frameRow, func() { b = appendRow(b, &p.rows[i]) })
	}
	if len(p.echoes) > 0 {
		frame(frameEchoes, func() { b = appendEchoes(b, p.echoes) })
	}
	begun := make(map[string]bool, len(p.ended))
	for _, id := range p.ended {
		begun[id] = true
	}
	for i := range p.exchanges {
		x := &p.exchanges[i]
		enc, flag := x.Seal(), byte(0)
		if begun[x.ID] {
			flag = 1
		}
		frame(frameExchange, func() {
			b = append(b, flag)
			b = appendText(b, enc.Data)
			b = append(b, enc.Items...)
		})
	}
	for i := range p.signals {
		doc(frameSignal, storedSignal{p.signals[i].tenant, p.signals[i].id.String(), p.signals[i].entry})
	}
	for i := range p.begun {
		doc(frameBegun, p.begun[i])
	}
	for i := range p.voids {
		doc(frameVoid, p.voids[i])
	}
	if len(p.dropped) > 0 {
		doc(frameDropped, p.dropped)
	}
	return b
}

// take adds one record that was read back. An error says that the record is not what its checksum promises.
func (p *parcel) take(kind byte, payload []byte) error {
	switch kind {
	case frameExchange:
		return p.takeExchange(payload)
	case frameRow:
		r, err := readRow(payload)
		if err == nil {
			p.rows = append(p.rows, r)
		}
		return err
	case frameEchoes:
		list, err := readEchoes(payload)
		p.echoes = append(p.echoes, list...)
		return err
	case frameSignal:
		var s storedSignal
		if err := json.Unmarshal(payload, &s); err != nil {
			return fmt.Errorf("a signal: %w", err)
		}
		id, ok := session.ParseID(s.Session)
		if !ok {
			return errFrame
		}
		p.signals = append(p.signals, signal{touch{s.Tenant, id}, s.Entry})
	case frameBegun:
		var s stub
		if err := json.Unmarshal(payload, &s); err != nil {
			return fmt.Errorf("a beginning: %w", err)
		}
		p.begun = append(p.begun, s)
		p.admitted++
	case frameDropped:
		var d map[string]int64
		if err := json.Unmarshal(payload, &d); err != nil {
			return fmt.Errorf("what was dropped: %w", err)
		}
		for reason, n := range d {
			p.drop(reason, n)
		}
	case frameVoid:
		var v void
		if err := json.Unmarshal(payload, &v); err != nil {
			return fmt.Errorf("an end: %w", err)
		}
		p.voids = append(p.voids, v)
	}
	return nil // also of kinds that a later release may add
}

// count adds what a record admits, without keeping it.
func (p *parcel) count(kind byte, payload []byte) error {
	switch {
	case kind == frameBegun, kind == frameExchange && len(payload) > 0 && payload[0] == 0:
		p.admitted++
	case kind == frameDropped:
		return p.take(kind, payload)
	}
	return nil
}

func (p *parcel) takeExchange(payload []byte) error {
	if len(payload) == 0 {
		return errFrame
	}
	data, items, err := cutText(payload[1:])
	if err != nil {
		return err
	}
	x, err := sample.Encoded{Data: data, Items: nilIfEmpty(items)}.Decode()
	if err != nil {
		return err
	}
	p.exchanges = append(p.exchanges, x)
	if payload[0] == 0 {
		p.admitted++
	} else {
		p.ended = append(p.ended, x.ID)
	}
	return nil
}

type storedSignal struct {
	Tenant  string         `json:"tenant"`
	Session string         `json:"session"`
	Entry   feedback.Entry `json:"entry"`
}

func appendText(b, text []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// cutText takes a text that appendText wrote off the front. The rest is a part of b.
func cutText(b []byte) (text, rest []byte, err error) {
	n, w := binary.Uvarint(b)
	if w <= 0 || n > uint64(len(b)-w) {
		return nil, nil, errFrame
	}
	return b[w : w+int(n)], b[w+int(n):], nil //nolint:gosec // not more than there is
}

func nilIfEmpty(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

func appendRow(b []byte, r *session.Row) []byte {
	b = appendText(b, []byte(r.Tenant))
	b = append(b, r.ID[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(r.Started.UnixMicro())) //nolint:gosec // both ways
	b = binary.LittleEndian.AppendUint64(b, uint64(r.Seen.UnixMicro()))    //nolint:gosec // both ways
	flag := byte(0)
	if r.Closed {
		flag = 1
	}
	return append(append(b, flag), r.Data...)
}

func readRow(b []byte) (r session.Row, err error) {
	tenant, b, err := cutText(b)
	if err != nil || len(b) < len(r.ID)+17 {
		return r, errFrame
	}
	r.Tenant = string(tenant)
	b = b[copy(r.ID[:], b):]
	r.Started, r.Seen, r.Closed = readTime(b), readTime(b[8:]), b[16] == 1
	r.Data = append([]byte(nil), b[17:]...)
	return r, nil
}

func readTime(b []byte) time.Time {
	return time.UnixMicro(int64(binary.LittleEndian.Uint64(b))).UTC() //nolint:gosec // both ways
}

// appendEchoes writes the tenants' names once.
func appendEchoes(b []byte, list []session.Echo) []byte {
	byTenant := map[string][]session.Echo{}
	for i := range list {
		byTenant[list[i].Tenant] = append(byTenant[list[i].Tenant], list[i])
	}
	for tenant := range maps.Keys(byTenant) {
		of := byTenant[tenant]
		b = appendText(b, []byte(tenant))
		b = binary.AppendUvarint(b, uint64(len(of)))
		for i := range of {
			b = binary.LittleEndian.AppendUint64(b, uint64(of[i].Key))
			b = append(b, of[i].ID[:]...)
			b = binary.LittleEndian.AppendUint64(b, uint64(of[i].At.UnixMicro())) //nolint:gosec // both ways
		}
	}
	return b
}

func readEchoes(b []byte) (list []session.Echo, err error) {
	const size = 8 + len(session.ID{}) + 8
	for len(b) > 0 {
		tenant, rest, err := cutText(b)
		if err != nil {
			return list, err
		}
		n, w := binary.Uvarint(rest)
		if w <= 0 || n > uint64(len(rest)-w)/uint64(size) {
			return list, errFrame
		}
		b = rest[w:]
		for range n {
			e := session.Echo{Tenant: string(tenant), Key: session.EchoKey(binary.LittleEndian.Uint64(b)), At: readTime(b[size-8:])}
			copy(e.ID[:], b[8:])
			list, b = append(list, e), b[size:]
		}
	}
	return list, nil
}
