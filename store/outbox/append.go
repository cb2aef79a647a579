package outbox

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Append writes a flush, and returns the sequence number of the newest row. If Append returns ErrQuota or ErrFull,
// nothing was written.
func (b *Outbox) Append(f *Flush) (last int64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.ensureBallast(); err != nil {
		return b.counts.Sequence, err
	}
	if err := b.checkQuota(f); err != nil {
		return b.counts.Sequence, err
	}
	if err := b.writeWithRepair(func() error { return b.transact(func() error { return b.applyFlush(f) }) }); err != nil {
		return b.counts.Sequence, err
	}
	for _, t := range f.Stubs {
		b.openTurns[t.ID] = true
	}
	for _, id := range f.Ended {
		delete(b.openTurns, id)
	}
	b.shares.add(f.Rows)
	b.needsScrub = b.needsScrub || f.Scrub
	return b.counts.Sequence, nil
}

// writeWithRepair calls change, which writes to the file. If the disk is full, writeWithRepair copies SQLite's
// write-ahead log into the file, so that SQLite can reuse the space of the log, and calls change again. If the file is
// damaged, writeWithRepair replaces the file, and calls change again. The caller holds mu.
func (b *Outbox) writeWithRepair(change func() error) error {
	err := classifyError(change())
	if errors.Is(err, ErrFull) && b.checkpoint("RESTART") == nil {
		err = classifyError(change())
	}
	if errors.Is(err, errDamaged) {
		if err = b.replace(err); err == nil {
			err = classifyError(change())
		}
	}
	return err
}

// transact runs change in a transaction that also writes the counts, and the turns that CountBypassed has recorded. If
// the transaction fails, transact restores the counts in memory. The caller holds mu.
func (b *Outbox) transact(change func() error) (err error) {
	before := b.counts.clone()
	defer func() {
		if err != nil {
			b.counts = before
		}
	}()
	end, err := sqlitex.ImmediateTransaction(b.writer)
	if err != nil {
		return err
	}
	err = func() (err error) {
		defer end(&err)
		if err := errors.Join(b.applyFlush(&b.bypassed), change()); err != nil {
			return err
		}
		b.counts.Admitted += b.bypassedExchanges
		b.counts.Stored += b.bypassedExchanges
		return writeCounts(b.writer, &b.storedCounts, &b.counts)
	}()
	if err == nil {
		b.storedCounts = b.counts.clone()
		b.postCount.Store(b.counts.Posts)
		for _, id := range b.bypassed.Ended {
			delete(b.openTurns, id)
		}
		b.bypassed, b.bypassedExchanges = Flush{}, 0
		b.writeAccountCopy()
	}
	return err
}

// applyFlush inserts the rows and stubs of a flush, deletes the stubs of ended turns, and updates the counts in
// memory. The caller has started a transaction.
func (b *Outbox) applyFlush(f *Flush) error {
	n := &b.counts
	for i := range f.Rows {
		if err := b.appendRow(&f.Rows[i]); err != nil {
			return err
		}
		n.Admitted += f.Rows[i].Exchanges
		n.Spooled += f.Rows[i].Exchanges
	}
	for i := range f.Stubs {
		t := &f.Stubs[i]
		err := execute(b.writer, "INSERT OR REPLACE INTO begun (id, tenant, session, document) VALUES (?, ?, ?, ?)", t.ID, t.Tenant, t.Session[:], t.Document)
		if err != nil {
			return err
		}
		n.Admitted++
	}
	for _, id := range f.Ended {
		if err := execute(b.writer, "DELETE FROM begun WHERE id = ?", id); err != nil {
			return err
		}
		n.Admitted -= int64(b.writer.Changes()) // an ended turn is counted again, by its row or as dropped
	}
	for reason, lost := range f.Dropped {
		n.Admitted += lost
		n.addDropped(reason, lost)
	}
	for key, value := range f.Notes {
		if err := b.setMeta(notePrefix+key, value); err != nil {
			return err
		}
	}
	if a := f.Carried; a != nil {
		n.Admitted += a.Admitted
		n.Incomplete += a.Incomplete
		n.Stored += a.Admitted - a.Incomplete
		for reason, lost := range a.Dropped {
			n.Stored -= lost
			n.addDropped(reason, lost)
		}
	}
	return nil
}

// appendRow writes a row with the next sequence number. The caller has started a transaction.
func (b *Outbox) appendRow(r *Row) error {
	r.Sequence = b.counts.Sequence + 1
	if err := insertRow(b.writer, r); err != nil {
		return err
	}
	b.counts.Sequence = r.Sequence
	return nil
}

// insertRow writes a row under its sequence number. It does not use sqlitex, which is slower.
func insertRow(c *sqlite.Conn, r *Row) error {
	s, err := c.Prepare("INSERT OR REPLACE INTO outbox (sequence, kind, tenant, session, exchanges, sum, document) VALUES (?, ?, ?, ?, ?, ?, ?)")
	if err != nil {
		return err
	}
	s.BindInt64(1, r.Sequence)
	s.BindInt64(2, int64(r.Kind))
	s.BindText(3, r.Tenant)
	s.BindBytes(4, r.Session[:])
	s.BindInt64(5, r.Exchanges)
	s.BindInt64(6, r.checksum())
	s.BindBytes(7, r.Document)
	_, err = s.Step()
	return errors.Join(err, s.Reset())
}

// checksum returns the checksum of a row.
func (r *Row) checksum() int64 {
	var head [24]byte
	binary.LittleEndian.PutUint64(head[:], uint64(r.Sequence))
	binary.LittleEndian.PutUint64(head[8:], uint64(r.Kind))
	binary.LittleEndian.PutUint64(head[16:], uint64(r.Exchanges))
	table := crc32.MakeTable(crc32.Castagnoli) // cached by the standard library
	sum := crc32.Update(0, table, head[:])
	sum = crc32.Update(sum, table, []byte(r.Tenant))
	sum = crc32.Update(sum, table, r.Session[:])
	return int64(crc32.Update(sum, table, r.Document))
}
