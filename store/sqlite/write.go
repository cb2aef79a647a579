package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"

	"precept/sample"
	"precept/session"
)

// Write stores the batch in one transaction. It may be repeated at will: rows of a session yield to
// a newer Seen, exchanges that are there already are left alone, a sample takes the place of the
// one with its id, echoes stay what they are.
//
// With session.ErrInvalid, one of its values can never be stored: take it out of the batch.
func (s *Store) Write(ctx context.Context, b session.Batch) error {
	docs, err := b.Documents() // before the writer is taken: encoding is half of the work
	var as packed
	if err == nil {
		as, err = s.pack(&docs)
	}
	if err != nil {
		return fmt.Errorf("sqlite: write: %w", err)
	}
	return s.update(ctx, "write", func(t *tx) error {
		for _, r := range b.Rows {
			if err := t.put(r); err != nil {
				return err
			}
		}
		if err := t.putEchoes(b.Echoes); err != nil {
			return err
		}
		for i, e := range b.Exchanges {
			if err := t.putExchange(e, docs.Sessions[i], as.exchanges[i], as.items[i]); err != nil {
				return err
			}
		}
		for i, m := range b.Samples {
			if err := t.putSample(m, as.samples[i]); err != nil {
				return err
			}
		}
		return t.whole(b)
	})
}

// whole deletes what was built before of the sessions in b.Whole, and is not among the batch's
// samples.
func (t *tx) whole(b session.Batch) error {
	if len(b.Whole) == 0 {
		return nil
	}
	keep := make(map[session.Ref]map[int64]bool, len(b.Whole))
	for _, ref := range b.Whole {
		keep[ref] = map[int64]bool{}
	}
	for i := range b.Samples {
		m := &b.Samples[i]
		if of := keep[session.Ref{Tenant: m.Tenant, ID: m.ID}]; of != nil {
			of[key(m.Sample.ID)] = true
		}
	}
	for ref, of := range keep {
		if err := t.wholeOf(ref, of); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) wholeOf(ref session.Ref, keep map[int64]bool) error {
	tenant, err := t.known(ref.Tenant)
	if err != nil || tenant == 0 {
		return err
	}
	sid, err := t.number("SELECT sid FROM sessions WHERE id = ? AND tenant = ?", ref.ID[:], tenant)
	if err != nil || sid == 0 {
		return err
	}
	var stale []int64
	err = t.query("SELECT k FROM samples WHERE sid = ?", func(row []driver.Value) error {
		if k := integer(row[0]); !keep[k] {
			stale = append(stale, k)
		}
		return nil
	}, sid)
	for _, k := range stale {
		if err == nil {
			_, err = t.exec("DELETE FROM samples WHERE sid = ? AND k = ?", sid, k)
			t.totals[totalSamples]--
		}
	}
	return err
}

// packed are the documents of exchanges and samples, and the items of exchanges, as they are kept.
type packed struct{ exchanges, items, samples [][]byte }

func (s *Store) pack(d *session.Documents) (p packed, err error) {
	pack := func(list *[][]byte, doc []byte) {
		var out []byte
		if err == nil {
			out, err = s.packer.pack(doc)
		}
		*list = append(*list, out)
	}
	for _, e := range d.Exchanges {
		pack(&p.exchanges, e.Data)
		pack(&p.items, e.Items)
	}
	for _, doc := range d.Samples {
		pack(&p.samples, doc)
	}
	return p, err
}

func (t *tx) putExchange(e sample.Exchange, id session.ID, data, items []byte) error {
	tenant, err := t.tenant(e.Tenant)
	if err != nil {
		return err
	}
	of, err := t.named(sessionKey{tenant, id}, e.At)
	if err != nil {
		return err
	}
	fresh, err := inserted(t.exec("INSERT INTO exchanges(sid, k, tenant, at, data, items) VALUES(?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
		of.sid, key(e.ID), tenant, micros(e.At), data, items))
	if err != nil || !fresh {
		return err
	}
	t.totals[totalExchanges]++
	t.totals[totalExchangesEver]++
	return t.await(of)
}

// await sees to it that an exchange becomes a sample: its session is one that closes, or one that
// is settled again.
func (t *tx) await(of *named) (err error) {
	switch of.state {
	case stateNamed:
		of.state = stateOpen
		_, err = t.exec("UPDATE sessions SET state = ? WHERE sid = ?", int64(stateOpen), of.sid)
	case stateClosed:
		if !of.asked {
			n, err := t.number("SELECT 1 FROM settled WHERE sid = ?", of.sid)
			if err != nil {
				return err
			}
			of.settled, of.asked = n == 1, true
		}
		if of.settled { // one that was taken in from elsewhere came with its samples
			_, err = t.exec("INSERT INTO unsettled(sid, n, x) VALUES(?, 1, 1) ON CONFLICT(sid) DO UPDATE SET n = n + 1, x = x + 1", of.sid)
		}
	}
	return err
}

func (t *tx) putSample(m session.StoredSample, data []byte) error {
	tenant, err := t.tenant(m.Tenant)
	if err != nil {
		return err
	}
	sid, err := t.sid(sessionKey{tenant, m.ID}, m.CreatedAt)
	if err != nil {
		return err
	}
	fresh, err := inserted(t.exec("INSERT INTO samples(sid, k, tenant, at, agent, data) VALUES(?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
		sid, key(m.Sample.ID), tenant, micros(m.CreatedAt), m.Agent, data))
	if fresh {
		t.totals[totalSamples]++
		t.totals[totalSamplesEver]++
	} else if err == nil { // built again, with a rating that came later
		_, err = t.exec("UPDATE samples SET at = ?, data = ? WHERE sid = ? AND k = ? AND data <> ?", micros(m.CreatedAt), data, sid, key(m.Sample.ID), data)
	}
	return err
}
