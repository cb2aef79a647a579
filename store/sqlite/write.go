package sqlite

import (
	"context"
	"fmt"

	"precept/internal/sample"
	"precept/internal/session"
)

// Write stores a batch in one transaction. It keeps stored rows with a newer Seen, stored exchanges and stored echoes.
// A sample replaces the stored sample with the same id. A batch can therefore be written again.
//
// If the error is session.ErrInvalid, nothing was stored, and at least one of the values can never be stored.
func (s *Store) Write(ctx context.Context, b session.Batch) error {
	docs, err := b.Documents() // encoding is half the work, and needs no write connection
	var compressed packedDocuments
	if err == nil {
		compressed, err = s.pack(&docs)
	}
	if err != nil {
		return fmt.Errorf("sqlite: write: %w", err)
	}
	return s.update(ctx, "write", func(t *tx) {
		for _, r := range b.Rows {
			t.putRow(r)
		}
		t.putEchoes(b.Echoes)
		for i, e := range b.Exchanges {
			t.putExchange(e, docs.Sessions[i], compressed.exchanges[i], compressed.items[i])
		}
		for i, m := range b.Samples {
			t.putSample(m, compressed.samples[i])
		}
		t.deleteStaleSamples(b)
	})
}

// deleteStaleSamples deletes all samples in the sessions of b.ReplacedSamples, except the samples in b.
func (t *tx) deleteStaleSamples(b session.Batch) {
	if len(b.ReplacedSamples) == 0 {
		return
	}
	keep := make(map[session.Ref]map[int64]bool, len(b.ReplacedSamples))
	for _, ref := range b.ReplacedSamples {
		keep[ref] = map[int64]bool{}
	}
	for i := range b.Samples {
		m := &b.Samples[i]
		if keys := keep[session.Ref{Tenant: m.Tenant, ID: m.ID}]; keys != nil {
			keys[hashKey(m.Sample.ID)] = true
		}
	}
	for ref, keys := range keep {
		sid := t.find(sessionKey{t.tenantNumber(ref.Tenant), ref.ID})
		var stale []int64
		for r := range t.db.query("SELECT k FROM samples WHERE sid = ?", sid) {
			var k int64
			if r.scan(&k); !keys[k] {
				stale = append(stale, k)
			}
		}
		for _, k := range stale {
			t.totals[totalSamples] -= t.db.exec("DELETE FROM samples WHERE sid = ? AND k = ?", sid, k)
		}
	}
}

type packedDocuments struct{ exchanges, items, samples [][]byte }

func (s *Store) pack(d *session.Documents) (p packedDocuments, err error) {
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

// putExchange adds an exchange, unless the session has one with the same id. data and items are compressed.
func (t *tx) putExchange(e sample.Exchange, id session.ID, data, items []byte) {
	tenant := t.findOrAddTenant(e.Tenant)
	ses := t.findOrAdd(sessionKey{tenant, id}, e.At)
	added := t.db.exec("INSERT INTO exchanges(sid, k, tenant, at, data, items) VALUES(?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
		ses.sid, hashKey(e.ID), tenant, e.At, data, items)
	if added == 0 {
		return
	}
	t.totals[totalExchanges]++
	t.totals[totalExchangesEver]++
	t.markForSettlement(ses)
}

// markForSettlement makes the learner build a sample from a new exchange. A session without a row becomes open, and a
// settled session becomes unsettled.
func (t *tx) markForSettlement(ses *txSession) {
	switch ses.state {
	case stateWithoutData:
		ses.state = stateOpen
		t.db.exec("UPDATE sessions SET state = ? WHERE sid = ?", stateOpen, ses.sid)
	case stateClosed:
		if !ses.settledKnown {
			ses.settled, ses.settledKnown = t.db.queryInt("SELECT 1 FROM settled WHERE sid = ?", ses.sid) == 1, true
		}
		if ses.settled { // an imported session is closed but not settled, and already has samples
			t.db.exec("INSERT INTO unsettled(sid, n, x) VALUES(?, 1, 1) ON CONFLICT(sid) DO UPDATE SET n = n + 1, x = x + 1", ses.sid)
		}
	}
}

func (t *tx) putSample(m session.StoredSample, data []byte) {
	tenant, k := t.findOrAddTenant(m.Tenant), hashKey(m.Sample.ID)
	sid := t.findOrAdd(sessionKey{tenant, m.ID}, m.Sample.CreatedAt).sid
	added := t.db.exec("INSERT INTO samples(rid, sid, k, tenant, at, agent, data) VALUES(?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
		t.nextSample(), sid, k, tenant, m.Sample.CreatedAt, m.Agent, data)
	t.sampleRow += added
	t.totals[totalSamples] += added
	t.totals[totalSamplesEver] += added
	if added == 0 { // the sample was built again, with later feedback
		t.db.exec("UPDATE samples SET at = ?, data = ? WHERE sid = ? AND k = ? AND data <> ?", m.Sample.CreatedAt, data, sid, k, data)
	}
}

// nextSample returns the next sample's row number. If the newest sample was deleted, SQLite would reuse its number, and
// a reader would miss the new sample.
func (t *tx) nextSample() int64 {
	if t.sampleRow == 0 {
		t.sampleRow = 1 + max(
			t.db.queryInt("SELECT max(rid) FROM samples"), t.db.queryInt("SELECT n FROM totals WHERE name = ?", totalSamplesEver),
		)
	}
	return t.sampleRow
}
