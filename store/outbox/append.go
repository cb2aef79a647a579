package outbox

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Append writes a flush, and returns the newest row's sequence number. After ErrQuota or ErrFull, nothing was written.
func (o *Outbox) Append(f *Flush) (last int64, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.ensureBallast(); err != nil { // the file that reserves disk space
		return o.counts.Sequence, err
	}
	if err := o.checkQuota(f); err != nil {
		return o.counts.Sequence, err
	}
	if err := o.writeWithRepair(func() error { return o.transact(func() error { return o.applyFlush(f) }) }); err != nil {
		return o.counts.Sequence, err
	}
	for _, t := range f.Stubs {
		o.openTurns[t.ID] = true
	}
	for _, id := range f.Ended {
		delete(o.openTurns, id)
	}
	o.usage.add(f.Rows)
	o.needsScrub = o.needsScrub || f.Scrub
	return o.counts.Sequence, nil
}

// writeWithRepair calls change, which writes to the file. After a failure it repairs the file and calls change again:
// on a full disk SQLite must reuse the write-ahead log, and a damaged file is replaced. The caller holds mu.
func (o *Outbox) writeWithRepair(change func() error) error {
	err := classifyError(change())
	if errors.Is(err, ErrFull) && o.checkpoint("RESTART") == nil {
		err = classifyError(change())
	}
	if errors.Is(err, errDamaged) {
		if err = o.replaceDamaged(err); err == nil {
			err = classifyError(change())
		}
	}
	return err
}

// transact runs change in a transaction, which also writes the counts and everything that CountBypassed has recorded.
// If the transaction fails, transact restores the counts in memory. The caller holds mu.
func (o *Outbox) transact(change func() error) (err error) {
	before := o.counts.clone()
	defer func() {
		if err != nil {
			o.counts = before
		}
	}()
	end, err := sqlitex.ImmediateTransaction(o.writer)
	if err != nil {
		return err
	}
	err = func() (err error) {
		defer end(&err)
		if err := errors.Join(o.applyFlush(&o.bypassed), change()); err != nil {
			return err
		}
		o.counts.Admitted += o.bypassedExchanges
		o.counts.Stored += o.bypassedExchanges
		return writeCounts(o.writer, &o.storedCounts, &o.counts)
	}()
	if err == nil {
		o.storedCounts = o.counts.clone()
		o.postCount.Store(o.counts.Posts)
		for _, id := range o.bypassed.Ended {
			delete(o.openTurns, id)
		}
		o.bypassed, o.bypassedExchanges = Flush{}, 0
		o.writeAccountCopy()
	}
	return err
}

// applyFlush writes a flush's rows and stubs, deletes ended turns' stubs, and updates the counts in memory. The caller
// has started a transaction.
func (o *Outbox) applyFlush(f *Flush) error {
	n := &o.counts
	for i := range f.Rows {
		if err := o.appendRow(&f.Rows[i]); err != nil {
			return err
		}
		n.Admitted += f.Rows[i].Exchanges
		n.Spooled += f.Rows[i].Exchanges
	}
	for i := range f.Stubs {
		t := &f.Stubs[i]
		err := execute(o.writer, "INSERT OR REPLACE INTO begun (id, tenant, session, document) VALUES (?, ?, ?, ?)", t.ID, t.Tenant, t.Session[:], t.Document)
		if err != nil {
			return err
		}
		n.Admitted++
	}
	for _, id := range f.Ended {
		if err := execute(o.writer, "DELETE FROM begun WHERE id = ?", id); err != nil {
			return err
		}
		n.Admitted -= int64(o.writer.Changes()) // the turn is counted again, through a row or as dropped
	}
	for reason, lost := range f.Dropped {
		n.Admitted += lost
		n.addDropped(reason, lost)
	}
	for key, value := range f.Notes {
		if err := o.setMeta(notePrefix+key, value); err != nil {
			return err
		}
	}
	if a := f.EarlierAccount; a != nil {
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
func (o *Outbox) appendRow(r *Row) error {
	r.Sequence = o.counts.Sequence + 1
	if err := insertRow(o.writer, r); err != nil {
		return err
	}
	o.counts.Sequence = r.Sequence
	return nil
}

// insertRow binds each value directly, because sqlitex is slower.
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
