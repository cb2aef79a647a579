package outbox

import (
	"errors"
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Advance records that the store has the rows up to a sequence number. exchanges is the number of exchanges in these
// rows since the last call. refused is the number of these exchanges that the store has not stored, by reason; they
// count as dropped. The next write stores the change of the account.
func (b *Outbox) Advance(sequence, exchanges int64, refused map[string]int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := &b.counts
	n.Delivered = max(n.Delivered, sequence)
	n.Spooled -= exchanges
	n.Stored += exchanges
	for reason, lost := range refused {
		n.Stored -= lost
		n.addDropped(reason, lost)
	}
}

// DropIncomplete counts a number of incomplete turns as dropped, because their stubs cannot be read.
func (b *Outbox) DropIncomplete(turns int64) {
	if turns == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts.Incomplete -= turns
	b.counts.addDropped(DroppedDamaged, turns)
}

// CountBypassed records exchanges that were delivered to the store without a row in the queue. The fields Ended,
// Dropped and Scrub of f describe the turns of these exchanges. The change is stored by the next successful write.
func (b *Outbox) CountBypassed(exchanges int64, f *Flush) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bypassedExchanges += exchanges
	b.bypassed.Ended = append(b.bypassed.Ended, f.Ended...)
	for reason, n := range f.Dropped {
		if b.bypassed.Dropped == nil {
			b.bypassed.Dropped = map[string]int64{}
		}
		b.bypassed.Dropped[reason] += n
	}
	b.needsScrub = b.needsScrub || f.Scrub
	_ = b.writeWithRepair(func() error { return b.transact(func() error { return nil }) }) // the next write tries again
}

// Release writes the account, and deletes the rows up to the sequence number safe, which the store can no longer lose.
// If the disk is full, Release first deletes the ballast to get space.
func (b *Outbox) Release(safe int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if safe <= b.counts.Released && b.counts.equal(&b.storedCounts) && b.bypassed.Empty() && b.bypassedExchanges == 0 {
		return nil
	}
	var released map[string]int64
	deleteRows := func() error {
		return b.transact(func() (err error) {
			b.counts.Released = max(safe, b.counts.Released)
			if released, err = b.shares.bytesByTenant(b.writer, "sequence <= ?", safe); err != nil {
				return err
			}
			return execute(b.writer, "DELETE FROM outbox WHERE sequence <= ?", safe)
		})
	}
	err := b.writeWithRepair(deleteRows)
	if errors.Is(err, ErrFull) {
		b.dropBallast()
		err = b.writeWithRepair(deleteRows)
	}
	if err == nil {
		b.shares.remove(released)
	}
	if err == nil && !b.hasBallast {
		b.shrink()
		_ = b.makeBallast() // tried again before each write
	}
	if err == nil && b.hasBallast { // without a ballast the disk is full, and a scrub would need space
		// Deleted text stays in unused pages and in the write-ahead log until SQLite reuses both, which never happens
		// in an idle queue. An empty queue is therefore scrubbed.
		rows, countErr := queryInt(b.writer, "SELECT count(*) FROM (SELECT 1 FROM outbox LIMIT 1)")
		b.needsScrub = b.needsScrub || countErr == nil && rows == 0
	}
	return err
}

// Rewind makes every remaining row undelivered. It is called after the store has lost data.
func (b *Outbox) Rewind() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.writeWithRepair(func() error { return b.transact(b.rewind) })
}

// rewind makes every remaining row undelivered. The caller has started a transaction.
func (b *Outbox) rewind() error {
	exchanges, err := queryInt(b.writer, "SELECT coalesce(sum(exchanges), 0) FROM outbox WHERE sequence <= ?", b.counts.Delivered)
	if err != nil {
		return err
	}
	first, err := queryInt(b.writer, "SELECT coalesce(min(sequence), 0) FROM outbox")
	if err != nil {
		return err
	}
	if first > 0 {
		b.counts.Delivered = min(b.counts.Delivered, first-1)
	}
	b.counts.Spooled += exchanges
	b.counts.Stored -= exchanges
	return nil
}

// Spooled returns the number of exchanges that the store does not have yet.
func (b *Outbox) Spooled() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.counts.Spooled
}

// Delivered returns the sequence numbers of the last row that the store has, and of the last row of the queue.
func (b *Outbox) Delivered() (delivered, last int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.counts.Delivered, b.counts.Sequence
}

// forgetStep is the largest number of sessions in one statement of Forget. SQLite refuses a statement with more than
// 32,766 parameters.
const forgetStep = 1000

// Forget deletes the content of sessions of a tenant from the file. If ids is nil, Forget deletes the content of all
// sessions of the tenant, and its posts. The account still counts undelivered exchanges.
func (b *Outbox) Forget(tenant string, ids []SessionID) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ids != nil && len(ids) == 0 {
		return nil
	}
	b.needsScrub = true
	var freed int64
	err := b.writeWithRepair(func() error {
		freed = 0
		return b.transact(func() error {
			if ids == nil {
				if err := b.deletePosts("tenant = ?", tenant); err != nil {
					return err
				}
				return b.forgetRows(tenant, "tenant = ?", []any{tenant}, &freed)
			}
			for step := range slices.Chunk(ids, forgetStep) {
				args := []any{tenant}
				for i := range step {
					args = append(args, step[i][:])
				}
				where := "tenant = ? AND session IN (" + strings.Repeat("?, ", len(step)-1) + "?)"
				if err := b.forgetRows(tenant, where, args, &freed); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err == nil {
		b.shares.remove(map[string]int64{tenant: freed})
	}
	return err
}

// forgetRows calls forget, and adds the bytes that the rows of the tenant lost to freed.
func (b *Outbox) forgetRows(tenant, where string, args []any, freed *int64) error {
	before, err := b.shares.bytesByTenant(b.writer, where, args...)
	if err != nil {
		return err
	}
	if err := b.forget(where, args); err != nil {
		return err
	}
	after, err := b.shares.bytesByTenant(b.writer, where, args...)
	*freed += before[tenant] - after[tenant]
	return err
}

// forget deletes the delivered rows that a condition selects. It replaces the undelivered rows by rows of KindForgotten
// without a document, so that the account still counts their exchanges. Stubs lose their documents, too.
func (b *Outbox) forget(where string, args []any) error {
	delivered := append([]any{b.counts.Delivered}, args...)
	if err := execute(b.writer, "DELETE FROM outbox WHERE sequence <= ? AND "+where, delivered...); err != nil {
		return err
	}
	var undelivered []Row
	err := sqlitex.Execute(b.writer, "SELECT sequence, tenant, session, exchanges FROM outbox WHERE "+where, &sqlitex.ExecOptions{
		Args: args, ResultFunc: func(s *sqlite.Stmt) error {
			undelivered = append(undelivered, Row{
				Sequence: s.ColumnInt64(0), Kind: KindForgotten, Tenant: s.ColumnText(1), Session: scanID(s, 2), Exchanges: s.ColumnInt64(3),
			})
			return nil
		},
	})
	if err != nil {
		return err
	}
	for i := range undelivered {
		if err := insertRow(b.writer, &undelivered[i]); err != nil {
			return err
		}
	}
	return execute(b.writer, "UPDATE begun SET document = x'' WHERE "+where, args...)
}
