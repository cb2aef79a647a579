package redis

import (
	"context"
	"crypto/sha1" //nolint:gosec // the digest of Redis' scripts
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"precept/internal/sample"
	"precept/internal/session"
)

// maxDocument is the largest value that is sent to Redis, which accepts strings of up to 512 MiB
// (proto-max-bulk-len).
const maxDocument = 64 << 20

// Write stores the batch: rows, then echoes, exchanges and samples, tenant by tenant. Write may be
// repeated: a row yields to a row with a newer Seen, a known exchange stays, a sample replaces the
// sample with the same id, and a known echo stays. After an error a part of the batch may be
// stored: repeat the call.
//
// With session.ErrInvalid nothing was stored, and one of the values can never be stored: remove the
// value from the batch.
func (s *Store) Write(ctx context.Context, b session.Batch) error {
	b, units := splitUnits(b)
	w := &writing{s: s, bases: map[string]string{}}
	if err := w.encode(&b); err != nil {
		return fmt.Errorf("redis: write: %w", err)
	}
	for i := range units {
		if err := s.writeUnit(ctx, units[i]); err != nil {
			return err
		}
	}
	if len(w.items) == 0 {
		return ctx.Err()
	}
	return s.change(ctx, "write", slices.Collect(maps.Keys(w.bases)), func(c client) error {
		// All tenants share one order of writes.
		end, err := c.IncrBy(ctx, s.commonKey("seq"), int64(len(w.items))).Result()
		if err != nil {
			return err
		}
		p := newPlan("write")
		for i, it := range w.items {
			if it.placed {
				it.args = append(it.args, strconv.FormatInt(end-int64(len(w.items)-i-1), 10))
			}
			p.add(it.base, it.args...)
		}
		return s.run(ctx, c, p)
	})
}

// splitUnits separates the rows of units from a batch.
func splitUnits(b session.Batch) (session.Batch, []session.Row) {
	if !slices.ContainsFunc(b.Rows, func(r session.Row) bool { return r.Unit }) {
		return b, nil
	}
	var rows, units []session.Row
	for i := range b.Rows {
		if b.Rows[i].Unit {
			units = append(units, b.Rows[i])
		} else {
			rows = append(rows, b.Rows[i])
		}
	}
	b.Rows = rows
	return b, units
}

// unitTries is the number of times that a unit's row is merged because another replica was faster.
const unitTries = 32

// writeUnit writes the row of a unit for which several replicas may draw at once: the row is merged
// with the stored row, again if another replica writes meanwhile.
func (s *Store) writeUnit(ctx context.Context, r session.Row) error {
	return s.change(ctx, "write unit", []string{r.Tenant}, func(c client) error {
		for range unitTries {
			if done, err := s.tryUnit(ctx, c, r); done || err != nil {
				return err
			}
		}
		return fmt.Errorf("%w: the row of a run is written by too many at once", ErrBusy)
	})
}

// tryUnit merges and writes the row once, and reports whether no other replica wrote meanwhile.
func (s *Store) tryUnit(ctx context.Context, c client, r session.Row) (done bool, err error) {
	v, err := c.HMGet(ctx, s.sessionKey(r.Tenant, r.ID), "h", "d", "i").Result()
	if err != nil {
		return false, err
	}
	was := ""
	if old, ok := toRow(r.Tenant, r.ID, v); ok {
		sum := sha1.Sum(old.Data) //nolint:gosec // Lua has SHA-1 only; the digest compares rows
		was = hex.EncodeToString(sum[:])
		if both, err := session.Merged(old, r); err == nil { // a row that does not decode is replaced
			r = both
		}
	}
	args, err := rowArgs(&r)
	if err != nil {
		return false, err
	}
	place, err := c.Incr(ctx, s.commonKey("seq")).Result()
	if err != nil {
		return false, err
	}
	args = append(append([]any{"u", was}, args...), place)
	return s.script(ctx, c, "write", s.base(r.Tenant), args...).Bool()
}

// writing is a batch while it is encoded.
type writing struct {
	s     *Store
	items []item
	bases map[string]string // prefix of the keys of each tenant
}

// item is one operation of write.lua. The last argument of a placed item is the place in the order
// of writes.
type item struct {
	base   string
	args   []any
	placed bool
}

func (w *writing) add(tenant string, placed bool, args ...any) {
	if w.bases[tenant] == "" {
		w.bases[tenant] = w.s.base(tenant)
	}
	w.items = append(w.items, item{w.bases[tenant], args, placed})
}

// encode checks and encodes everything before anything is sent.
func (w *writing) encode(b *session.Batch) error {
	docs, err := b.Documents()
	if err != nil {
		return err
	}
	for i := range b.Rows {
		r := &b.Rows[i]
		args, err := rowArgs(r)
		if err != nil {
			return err
		}
		w.add(r.Tenant, true, append([]any{"r"}, args...)...)
	}
	for i := range b.Echoes {
		e := &b.Echoes[i]
		w.add(e.Tenant, false, "e", string(e.ID[:]), echoBytes(e.Key), ordered(micros(e.At)), score(e.At))
	}
	for i := range b.Exchanges {
		e, id, doc := &b.Exchanges[i], docs.Sessions[i], packExchange(docs.Exchanges[i])
		if err := fits("exchange "+e.ID, len(doc)); err != nil {
			return err
		}
		w.add(e.Tenant, true, "x", string(id[:]), digest(e.ID), score(e.At), doc, ordered(micros(e.At)))
	}
	for i := range b.Samples {
		m, doc := &b.Samples[i], string(docs.Samples[i])
		if err := fits("sample "+m.Sample.ID, len(doc)); err != nil {
			return err
		}
		w.add(m.Tenant, false, "m", string(m.ID[:]), score(m.Sample.CreatedAt), m.Sample.ID, digest(m.Sample.ID), doc,
			m.Tenant, m.Agent, m.Sample.Family, m.Sample.CreatedAt.UTC().Format(time.RFC3339Nano))
	}
	w.addWhole(b)
	return nil
}

// rowArgs returns a row in the form of write.lua, without the place.
func rowArgs(r *session.Row) ([]any, error) {
	return []any{
		string(r.ID[:]), ordered(micros(r.Started)), ordered(micros(r.Seen)), score(r.Seen), bit(r.Closed), bit(r.StandIn), string(r.Data),
	}, fits("session "+r.ID.String(), len(r.Data))
}

// fits returns an error for a value that is too large to be sent.
func fits(what string, bytes int) error {
	if bytes > maxDocument {
		return fmt.Errorf("%s: %w: it has %d bytes, more than %d", what, session.ErrInvalid, bytes, maxDocument)
	}
	return nil
}

// addWhole adds the sessions with all samples in the batch.
func (w *writing) addWhole(b *session.Batch) {
	names := make(map[session.Ref][]any, len(b.Whole))
	for i := range b.Samples {
		m := &b.Samples[i]
		ref := session.Ref{Tenant: m.Tenant, ID: m.ID}
		names[ref] = append(names[ref], m.Sample.ID)
	}
	for _, ref := range b.Whole {
		w.add(ref.Tenant, false, append([]any{"w", string(ref.ID[:]), strconv.Itoa(len(names[ref]))}, names[ref]...)...)
	}
}

func bit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// packExchange encodes the document of an exchange: the length of the JSON (4 bytes), the JSON
// without new items, and the list of the new items, byte for byte, or nothing.
func packExchange(enc sample.Encoded) string {
	b := make([]byte, 4, 4+len(enc.Data)+len(enc.Items))
	binary.BigEndian.PutUint32(b, uint32(len(enc.Data))) //nolint:gosec // longer documents are refused
	return string(append(append(b, enc.Data...), enc.Items...))
}

func unpackExchange(doc string) (sample.Exchange, error) {
	if len(doc) < 4 || int64(binary.BigEndian.Uint32([]byte(doc[:4]))) > int64(len(doc)-4) {
		return sample.Exchange{}, fmt.Errorf("%w: an exchange is cut", ErrCorrupt)
	}
	n := binary.BigEndian.Uint32([]byte(doc[:4]))
	enc := sample.Encoded{Data: []byte(doc[4 : 4+n])}
	if rest := doc[4+n:]; rest != "" {
		enc.Items = []byte(rest)
	}
	e, err := enc.Decode()
	if err != nil {
		return e, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return e, nil
}
