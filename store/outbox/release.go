package outbox

import (
	"errors"
	"strings"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Advance records that the store has the rows up to a sequence number, with the given number of
// exchanges. refused is the number of these exchanges that count as dropped, by reason. The next write
// stores the change of the account.
func (b *Outbox) Advance(sequence, exchanges int64, refused map[string]int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := &b.counts
	n.Delivered = max(n.Delivered, sequence)
	n.Spooled -= exchanges
	n.Stored += exchanges
	for reason, lost := range refused {
		n.Stored -= lost
		n.drop(reason, lost)
	}
}

// DropIncomplete counts incomplete turns as damaged, because their stubs cannot be read.
func (b *Outbox) DropIncomplete(turns int64) {
	if turns == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts.Incomplete -= turns
	b.counts.drop(DroppedDamaged, turns)
}

// CountBypassed records exchanges that the store got without a row in the queue, and the turns that ended
// with these exchanges (fields Ended, Dropped and Scrub of f). The next successful write stores the
// change.
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
	b.scrub = b.scrub || f.Scrub
	_ = b.write(func() error { return b.transact(func() error { return nil }) }) // the next write tries again
}

// Release writes the account, and deletes the rows up to the sequence number safe, which the store
// cannot lose any more. On a full disk Release deletes the ballast to get space.
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
			if released, err = b.shares.sum(b.writer, "sequence <= ?", safe); err != nil {
				return err
			}
			return execute(b.writer, "DELETE FROM outbox WHERE sequence <= ?", safe)
		})
	}
	err := b.write(deleteRows)
	if errors.Is(err, ErrFull) {
		b.dropBallast()
		err = b.write(deleteRows)
	}
	if err == nil {
		b.shares.remove(released)
	}
	if err == nil && !b.ballast {
		b.shrink()
		_ = b.makeBallast() // tried again before each write
	}
	if err == nil && b.ballast { // without the ballast the disk is full, and a scrub needs space
		// Deleted text stays in unused pages and in the write-ahead log until SQLite reuses both. In an
		// idle queue SQLite never does. An empty queue therefore requests a scrub.
		rows, failed := number(b.writer, "SELECT count(*) FROM (SELECT 1 FROM outbox LIMIT 1)")
		b.scrub = b.scrub || failed == nil && rows == 0
	}
	return err
}

// Rewind makes every remaining row undelivered. Call Rewind after the store has lost data.
func (b *Outbox) Rewind() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.write(func() error { return b.transact(b.rewind) })
}

// rewind makes the rows undelivered, in the transaction of the caller.
func (b *Outbox) rewind() error {
	exchanges, err := number(b.writer, "SELECT coalesce(sum(exchanges), 0) FROM outbox WHERE sequence <= ?", b.counts.Delivered)
	if err != nil {
		return err
	}
	first, err := number(b.writer, "SELECT coalesce(min(sequence), 0) FROM outbox")
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

// Delivered returns the sequence number of the last row that the store has, and of the last row of the
// queue.
func (b *Outbox) Delivered() (delivered, last int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.counts.Delivered, b.counts.Sequence
}

// Forget deletes the text of sessions of a tenant from the file. If ids is nil, Forget deletes the text
// of all sessions and posts of the tenant. The account still counts undelivered exchanges.
func (b *Outbox) Forget(tenant string, ids []SessionID) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	where, args := "tenant = ?", []any{tenant}
	if ids != nil {
		for i := range ids {
			args = append(args, ids[i][:])
		}
		where += " AND session IN (" + strings.Repeat("?, ", max(len(ids)-1, 0)) + "?)"
	}
	if ids != nil && len(ids) == 0 {
		return nil
	}
	b.scrub = true
	var before, after map[string]int64
	err := b.write(func() error {
		return b.transact(func() (err error) {
			if ids == nil {
				if err := b.deletePosts("tenant = ?", tenant); err != nil {
					return err
				}
			}
			if before, err = b.shares.sum(b.writer, where, args...); err != nil {
				return err
			}
			if err = b.forget(where, args); err == nil {
				after, err = b.shares.sum(b.writer, where, args...)
			}
			return err
		})
	})
	if err == nil {
		b.shares.remove(map[string]int64{tenant: before[tenant] - after[tenant]})
	}
	return err
}

// forget deletes the delivered rows that the condition selects, and replaces the undelivered rows by
// rows without text, so that the account still counts the exchanges of these rows.
func (b *Outbox) forget(where string, args []any) error {
	delivered := append([]any{b.counts.Delivered}, args...)
	if err := execute(b.writer, "DELETE FROM outbox WHERE sequence <= ? AND "+where, delivered...); err != nil {
		return err
	}
	var undelivered []Row
	err := sqlitex.Execute(b.writer, "SELECT sequence, tenant, session, exchanges FROM outbox WHERE "+where, &sqlitex.ExecOptions{
		Args: args, ResultFunc: func(s *sqlite.Stmt) error {
			undelivered = append(undelivered, Row{
				Sequence: s.ColumnInt64(0), Kind: KindForgotten, Tenant: s.ColumnText(1), Session: idOf(s, 2), Exchanges: s.ColumnInt64(3),
			})
			return nil
		},
	})
	if err != nil {
		return err
	}
	for i := range undelivered {
		if err := put(b.writer, &undelivered[i]); err != nil {
			return err
		}
	}
	return execute(b.writer, "UPDATE begun SET document = x'' WHERE "+where, args...)
}
