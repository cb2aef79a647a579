package redis

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis' script digest
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

// maxDocumentBytes limits a value sent to Redis, which by default accepts strings of up to 512 MiB
// (proto-max-bulk-len).
const maxDocumentBytes = 64 << 20

// Write stores a batch. The index entries (echo keys and sample ids) come first, because a session without index
// entries is never found. A stored row with a newer Seen, a stored exchange and a stored echo key are not replaced. A
// sample replaces the stored sample with the same id. After an error part of the batch might be stored, and the caller
// retries the call.
//
// If the error is session.ErrInvalid, nothing was stored, because at least one value can never be stored.
func (s *Store) Write(ctx context.Context, b session.Batch) error {
	b, units := splitUnits(b)
	w := &batchEncoder{tenants: map[string]bool{}, indexLists: map[session.Ref]*indexEntries{}}
	if err := w.encode(&b); err != nil {
		return fmt.Errorf("redis: write: %w", err)
	}
	for i := range units {
		if err := s.writeUnit(ctx, units[i]); err != nil {
			return err
		}
	}
	if len(w.operations)+len(w.index.items) == 0 {
		return ctx.Err()
	}
	return s.withTenants(ctx, "write", slices.Collect(maps.Keys(w.tenants)), func(c client) error {
		if err := s.runPlan(ctx, c, &w.index); err != nil {
			return err
		}
		end, err := s.reserveSequences(ctx, c, len(w.operations))
		if err != nil {
			return err
		}
		p := newPlan("write")
		for i, it := range w.operations {
			if it.sequenced {
				it.args = append(it.args, strconv.FormatInt(end-int64(len(w.operations)-i-1), 10))
			}
			p.add(it.location, it.args...)
		}
		return s.runPlan(ctx, c, p)
	})
}

// reserveSequences reserves n sequence numbers, which order all tenants' writes, and returns the last number.
func (s *Store) reserveSequences(ctx context.Context, c client, n int) (end int64, err error) {
	return s.script(ctx, c, "sequence", location{}, n).Int64()
}

// splitUnits removes the rows for units (runs and parent sessions) from the batch. It returns the batch and the removed
// rows.
func splitUnits(b session.Batch) (session.Batch, []session.Row) {
	if !slices.ContainsFunc(b.Rows, func(r session.Row) bool { return r.IsUnit }) {
		return b, nil
	}
	var rows, units []session.Row
	for i := range b.Rows {
		if b.Rows[i].IsUnit {
			units = append(units, b.Rows[i])
		} else {
			rows = append(rows, b.Rows[i])
		}
	}
	b.Rows = rows
	return b, units
}

const maxUnitTries = 32 // attempts to write a row that other replicas also change

// writeUnit merges a unit's row with the stored row, and writes the result. It starts again if the stored row has
// changed in the meantime: several replicas can assign lessons in a unit at the same time, and no assignment may be
// lost.
func (s *Store) writeUnit(ctx context.Context, r session.Row) error {
	return s.withTenants(ctx, "write unit", []string{r.Tenant}, func(c client) error {
		for range maxUnitTries {
			if done, err := s.tryWriteUnit(ctx, c, r); done || err != nil {
				return err
			}
		}
		return fmt.Errorf("%w: too many replicas write this run's row at the same time; repeat the call", ErrBusy)
	})
}

// tryWriteUnit merges and writes the row once. done is false if the stored row has changed in the meantime.
func (s *Store) tryWriteUnit(ctx context.Context, c client, r session.Row) (done bool, err error) {
	values, err := c.HMGet(ctx, s.sessionKey(r.Tenant, r.ID), "h", "d", "i").Result()
	if err != nil {
		return false, err
	}
	oldDigest := ""
	if old, ok := decodeRow(r.Tenant, r.ID, values); ok {
		sum := sha1.Sum(old.Data) //nolint:gosec // Lua scripts have only SHA-1; the digest compares rows
		oldDigest = hex.EncodeToString(sum[:])
		if merged, err := session.MergeRows(old, r); err == nil { // an undecodable row is replaced
			r = merged
		}
	}
	args, err := rowArgs(&r)
	if err != nil {
		return false, err
	}
	sequence, err := s.reserveSequences(ctx, c, 1)
	if err != nil {
		return false, err
	}
	args = append(append([]any{"u", oldDigest}, args...), sequence)
	return s.script(ctx, c, "write", sessionLocation(r.Tenant, r.ID), args...).Bool()
}

type batchEncoder struct {
	index      plan // echo keys, and each sample's session
	operations []operation
	tenants    map[string]bool
	indexLists map[session.Ref]*indexEntries
}

// operation is one write.lua operation. The first argument is a letter: "r" for a row, "u" a unit's row, "x" an
// exchange, "m" a sample, "w" the deletion of missing samples, "k" the list of index entries. If sequenced is true, a
// sequence number is appended to args before the write.
type operation struct {
	location  location
	args      []any
	sequenced bool
}

// indexEntries lists a session's new index entries. The list is stored with the session, because deleting the session
// also deletes the index entries.
type indexEntries struct {
	at      time.Time
	entries []byte
}

func (enc *batchEncoder) add(tenant string, id session.ID, sequenced bool, args ...any) {
	enc.tenants[tenant] = true
	enc.operations = append(enc.operations, operation{sessionLocation(tenant, id), args, sequenced})
}

// addIndex adds a session's index entry. kind is "e" for an echo key and "i" for a sample id.
func (enc *batchEncoder) addIndex(tenant string, id session.ID, at time.Time, kind, key string, more ...any) {
	enc.tenants[tenant] = true
	enc.index.script = "write"
	enc.index.add(indexLocation(tenant, key), append([]any{kind, string(id[:]), key}, more...)...)
	ref := session.Ref{Tenant: tenant, ID: id}
	if enc.indexLists[ref] == nil {
		enc.indexLists[ref] = &indexEntries{at: at}
	}
	entryKind := kind // kind in the session's own list of entries: "e" for an echo key, "m" for a sample id
	if kind == "i" {
		entryKind = "m"
	}
	enc.indexLists[ref].entries = append(enc.indexLists[ref].entries, entryKind+key...)
}

func (enc *batchEncoder) encode(b *session.Batch) error {
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
		enc.add(r.Tenant, r.ID, true, append([]any{"r"}, args...)...)
	}
	for i := range b.Echoes {
		e := &b.Echoes[i]
		enc.addIndex(e.Tenant, e.ID, e.At, "e", encodeEchoKey(e.Key), encodeOrdered(micros(e.At)))
	}
	for i := range b.Exchanges {
		e, id, doc := &b.Exchanges[i], docs.Sessions[i], packExchange(docs.Exchanges[i])
		if err := checkSize("exchange "+e.ID, len(doc)); err != nil {
			return err
		}
		enc.add(e.Tenant, id, true, "x", string(id[:]), digest(e.ID), timeScore(e.At), doc, encodeOrdered(micros(e.At)))
	}
	for i := range b.Samples {
		m, doc := &b.Samples[i], string(docs.Samples[i])
		if err := checkSize("sample "+m.Sample.ID, len(doc)); err != nil {
			return err
		}
		enc.addIndex(m.Tenant, m.ID, m.Sample.CreatedAt, "i", digest(m.Sample.ID))
		enc.add(m.Tenant, m.ID, true, "m", string(m.ID[:]), timeScore(m.Sample.CreatedAt), m.Sample.ID, doc,
			m.Tenant, m.Agent, m.Sample.Family, m.Sample.CreatedAt.UTC().Format(time.RFC3339Nano))
	}
	enc.addSampleDeletions(b)
	for ref, t := range enc.indexLists {
		enc.add(ref.Tenant, ref.ID, false, "k", string(ref.ID[:]), timeScore(t.at), string(t.entries))
	}
	return nil
}

func rowArgs(r *session.Row) ([]any, error) {
	return []any{
		string(r.ID[:]), encodeOrdered(micros(r.Started)), encodeOrdered(micros(r.Seen)), timeScore(r.Seen), boolDigit(r.Closed), boolDigit(r.StartedOffline), string(r.Data),
	}, checkSize("session "+r.ID.String(), len(r.Data))
}

func checkSize(name string, bytes int) error {
	if bytes > maxDocumentBytes {
		return fmt.Errorf("%s: %w: %d bytes, the maximum is %d", name, session.ErrInvalid, bytes, maxDocumentBytes)
	}
	return nil
}

// addSampleDeletions adds an operation for each session in b.ReplacedSamples. The operation deletes the stored samples
// that are not in the batch.
func (enc *batchEncoder) addSampleDeletions(b *session.Batch) {
	sampleIDs := make(map[session.Ref][]any, len(b.ReplacedSamples))
	for i := range b.Samples {
		m := &b.Samples[i]
		ref := session.Ref{Tenant: m.Tenant, ID: m.ID}
		sampleIDs[ref] = append(sampleIDs[ref], m.Sample.ID)
	}
	for _, ref := range b.ReplacedSamples {
		enc.add(ref.Tenant, ref.ID, false, append([]any{"w", string(ref.ID[:]), strconv.Itoa(len(sampleIDs[ref]))}, sampleIDs[ref]...)...)
	}
}

func boolDigit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// packExchange encodes an exchange as Data's length (4 bytes), Data, and Items.
func packExchange(enc sample.Encoded) string {
	b := make([]byte, 4, 4+len(enc.Data)+len(enc.Items))
	binary.BigEndian.PutUint32(b, uint32(len(enc.Data))) //nolint:gosec // checkSize refuses documents whose length does not fit
	return string(append(append(b, enc.Data...), enc.Items...))
}

func unpackExchange(doc string) (sample.Exchange, error) {
	if len(doc) < 4 || int64(binary.BigEndian.Uint32([]byte(doc[:4]))) > int64(len(doc)-4) {
		return sample.Exchange{}, fmt.Errorf("%w: an exchange is truncated", ErrCorrupt)
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
