package redis

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"precept/internal/sample"
	"precept/internal/session"
)

// sequenceSize is the length of the sequence number before a stored exchange's document, in decimal digits.
const sequenceSize = 16

// Exchanges returns a session's exchanges, by turn, then in write order.
func (s *Store) Exchanges(ctx context.Context, tenant string, id session.ID) (list []sample.Exchange, err error) {
	values, err := doValue(ctx, s, "exchanges", func(c client) ([]string, error) {
		return c.HVals(ctx, s.key(sessionLocation(tenant, id), "x:"+id.String())).Result()
	})
	slices.Sort(values) // the values begin with sequence numbers
	for _, v := range values {
		e, err := decodeExchange(v)
		if err != nil {
			return nil, fmt.Errorf("redis: exchanges: %w", err)
		}
		list = append(list, e)
	}
	slices.SortStableFunc(list, func(a, b sample.Exchange) int { return cmp.Compare(a.Turn, b.Turn) })
	return list, err
}

func decodeExchange(v string) (sample.Exchange, error) {
	if len(v) < sequenceSize {
		return sample.Exchange{}, fmt.Errorf("%w: an exchange is truncated", ErrCorrupt)
	}
	return unpackExchange(v[sequenceSize:])
}

// SampleSession returns a sample's session.
func (s *Store) SampleSession(ctx context.Context, tenant, sampleID string) (id session.ID, ok bool, err error) {
	k := digest(sampleID)
	err = s.do(ctx, "sample", func(c client) error {
		v, err := c.HGet(ctx, s.keyspace(indexLocation(tenant, k)).bucket("i", k), k).Result()
		if err != nil {
			return err
		}
		id = idFromBytes(v)
		ok, err = c.HExists(ctx, s.key(sessionLocation(tenant, id), "m:"+id.String()), sampleID).Result() // the index entry stays even if the samples are rebuilt without this sample
		return err
	})
	return id, ok && err == nil, err
}

func decodeSample(fields map[string]any, doc string) (session.StoredSample, error) {
	text := func(name string) string { v, _ := fields[name].(string); return v }
	m := session.StoredSample{Tenant: text("tenant"), Agent: text("agent")}
	id, ok := session.ParseID(text("session"))
	if !ok {
		return m, fmt.Errorf("%w: a sample names the session %q", ErrCorrupt, text("session"))
	}
	m.ID = id
	if err := json.Unmarshal([]byte(doc), &m.Sample); err != nil {
		return m, fmt.Errorf("%w: a sample does not parse: %w", ErrCorrupt, err)
	}
	return m, nil
}

func parseInt(v any) int64 {
	text, _ := v.(string)
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}
