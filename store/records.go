package store

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"precept/bandit/feedback"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/store/spool"
)

// The kinds of records in the spool, beside its own.
const (
	recordRun      = 'O' // a process began to write; what was under way before it never ended
	recordBegun    = 'B' // a turn is under way: the stub of its exchange, JSON
	recordExchange = 'E' // a turn is over: flag whether begun, the exchange's id, its two parts
	recordVoid     = 'V' // a turn that was begun is over and nothing of it is kept: JSON
	recordRow      = 'R' // a session's row
	recordEchoes   = 'K' // echoes, binary
	recordSignal   = 'S' // implicit feedback: JSON
	recordDropped  = 'D' // exchanges dropped since the last such record, by reason: JSON
)

// stub is a turn that is under way: an exchange of which only the beginning is known.
type stub struct {
	ID  string          `json:"id"`
	Doc json.RawMessage `json:"doc,omitempty"` // of sample.Exchange; none when it was forgotten
}

// exchange is what a stub tells of its turn; ok is false when that was forgotten.
func (s *stub) exchange() (x sample.Exchange, ok bool) {
	return x, len(s.Doc) > 0 && json.Unmarshal(s.Doc, &x) == nil
}

// void is the end of a turn of which nothing is kept.
type void struct {
	ID     string `json:"id"`
	Reason string `json:"reason"`
}

type storedSignal struct {
	Tenant  string         `json:"tenant"`
	Session string         `json:"session"`
	Entry   feedback.Entry `json:"entry"`
}

// appendDoc writes a record of JSON.
func appendDoc(b []byte, kind byte, v any) []byte {
	text, err := json.Marshal(v)
	if err != nil { // plain structures of ours always encode
		return b
	}
	return spool.AppendRecord(b, kind, func(b []byte) []byte { return append(b, text...) })
}

func readDoc[T any](payload []byte) (v T, err error) {
	if err := json.Unmarshal(payload, &v); err != nil {
		return v, fmt.Errorf("a record of JSON: %w", err)
	}
	return v, nil
}

func readSignal(payload []byte) (signal, error) {
	s, err := readDoc[storedSignal](payload)
	if err != nil {
		return signal{}, err
	}
	id, ok := session.ParseID(s.Session)
	if !ok {
		return signal{}, spool.ErrDamaged
	}
	return signal{session.Ref{Tenant: s.Tenant, ID: id}, s.Entry}, nil
}

// appendExchange writes an exchange, and whether its beginning was put down before.
func appendExchange(b []byte, x *sample.Exchange, begun bool) []byte {
	enc, flag := x.Seal(), byte(0)
	if begun {
		flag = 1
	}
	b = append(b, flag)
	b = appendText(b, x.ID)
	b = appendText(b, enc.Data)
	return append(b, enc.Items...)
}

// cutExchange takes an exchange's record apart. The parts are of payload.
func cutExchange(payload []byte) (begun bool, id []byte, enc sample.Encoded, err error) {
	if len(payload) == 0 {
		return false, nil, enc, spool.ErrDamaged
	}
	id, rest, err := cutText(payload[1:])
	if err != nil {
		return false, nil, enc, err
	}
	if enc.Data, enc.Items, err = cutText(rest); err != nil {
		return false, nil, enc, err
	}
	if len(enc.Items) == 0 {
		enc.Items = nil
	}
	return payload[0] != 0, id, enc, nil
}

func appendText[T string | []byte](b []byte, text T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// cutText takes a text that appendText wrote off the front. The rest is a part of b.
func cutText(b []byte) (text, rest []byte, err error) {
	n, w := binary.Uvarint(b)
	if w <= 0 || n > uint64(len(b)-w) {
		return nil, nil, spool.ErrDamaged
	}
	return b[w : w+int(n)], b[w+int(n):], nil //nolint:gosec // not more than there is
}

// The flags of a row.
const (
	rowClosed  = 1
	rowStandIn = 2
	rowUnit    = 4
)

func appendRow(b []byte, r *session.Row) []byte {
	b = appendText(b, r.Tenant)
	b = append(b, r.ID[:]...)
	b = appendTime(appendTime(b, r.Started), r.Seen)
	flag := byte(0)
	if r.Closed {
		flag = rowClosed
	}
	if r.StandIn {
		flag |= rowStandIn
	}
	if r.Unit {
		flag |= rowUnit
	}
	return append(append(b, flag), r.Data...)
}

func readRow(b []byte) (r session.Row, err error) {
	tenant, b, err := cutText(b)
	if err != nil || len(b) < len(r.ID)+17 {
		return r, spool.ErrDamaged
	}
	r.Tenant = string(tenant)
	b = b[copy(r.ID[:], b):]
	r.Started, r.Seen, r.Closed = readTime(b), readTime(b[8:]), b[16]&rowClosed != 0
	r.StandIn, r.Unit = b[16]&rowStandIn != 0, b[16]&rowUnit != 0
	r.Data = append([]byte(nil), b[17:]...)
	return r, nil
}

func appendTime(b []byte, t time.Time) []byte {
	return binary.LittleEndian.AppendUint64(b, uint64(t.UnixMicro())) //nolint:gosec // both ways
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
	for _, tenant := range slices.Sorted(maps.Keys(byTenant)) {
		of := byTenant[tenant]
		b = appendText(b, tenant)
		b = binary.AppendUvarint(b, uint64(len(of)))
		for i := range of {
			b = binary.LittleEndian.AppendUint64(b, uint64(of[i].Key))
			b = append(b, of[i].ID[:]...)
			b = appendTime(b, of[i].At)
		}
	}
	return b
}

func readEchoes(b []byte) (list []session.Echo, err error) {
	const size = 8 + len(session.ID{}) + 8
	for len(b) > 0 {
		tenant, rest, err := cutText(b)
		if err != nil {
			return nil, err
		}
		n, w := binary.Uvarint(rest)
		if w <= 0 || n > uint64(len(rest)-w)/uint64(size) {
			return nil, spool.ErrDamaged
		}
		b = rest[w:]
		name := string(tenant)
		for range n {
			e := session.Echo{Tenant: name, Key: session.EchoKey(binary.LittleEndian.Uint64(b)), At: readTime(b[size-8:])}
			copy(e.ID[:], b[8:])
			list, b = append(list, e), b[size:]
		}
	}
	return list, nil
}

// refOf names the session of an exchange.
func refOf(x *sample.Exchange) session.Ref {
	id, _ := session.ParseID(x.Session)
	return session.Ref{Tenant: x.Tenant, ID: id}
}
