package outbox

import (
	"errors"
	"strings"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Advance notes that the store has the rows up to a sequence number, with the given number of
// exchanges. Refused exchanges are counted as dropped. The next write stores the change of the
// account.
func (b *Outbox) Advance(to, exchanges int64, refused map[string]int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := &b.counts
	n.Delivered = max(n.Delivered, to)
	n.Spooled -= exchanges
	n.Stored += exchanges
	for reason, lost := range refused {
		n.Stored -= lost
		n.drop(reason, lost)
	}
}

// LoseIncomplete counts incomplete turns as damaged: the records of their starts cannot be read.
func (b *Outbox) LoseIncomplete(turns int64) {
	if turns == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts.Incomplete -= turns
	b.counts.drop(DroppedDamaged, turns)
}

// Pass notes exchanges that the store got without a row, because the queue had no room, and the
// turns that ended with the exchanges. The next successful write stores the change.
func (b *Outbox) Pass(exchanges int64, f *Flush) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deferredExchanges += exchanges
	b.deferred.Ended = append(b.deferred.Ended, f.Ended...)
	for reason, n := range f.Dropped {
		if b.deferred.Dropped == nil {
			b.deferred.Dropped = map[string]int64{}
		}
		b.deferred.Dropped[reason] += n
	}
	b.scrub = b.scrub || f.Scrub
	_ = b.write(func() error { return b.transact(func() error { return nil }) }) // the next write tries again
}

// Release writes the delivered sequence number, and deletes the rows up to safe, which the store
// cannot lose any more. On a full disk Release gives up the ballast.
func (b *Outbox) Release(safe int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if safe <= b.counts.Released && b.counts.equal(&b.storedCounts) && b.deferred.Empty() && b.deferredExchanges == 0 {
		return nil
	}
	var released map[string]int64
	free := func() error {
		return b.transact(func() (err error) {
			b.counts.Released = max(safe, b.counts.Released)
			if released, err = b.shares.sum(b.writer, "sequence <= ?", safe); err != nil {
				return err
			}
			return execute(b.writer, "DELETE FROM outbox WHERE sequence <= ?", safe)
		})
	}
	err := b.write(free)
	if errors.Is(err, ErrFull) {
		b.dropBallast()
		err = b.write(free)
	}
	if err == nil {
		b.shares.remove(released)
	}
	if err == nil && !b.ballast {
		b.shrink()
		_ = b.makeBallast() // tried again before each write
	}
	if err == nil && b.ballast { // not on a full disk, where the ballast is gone: taking text out needs room
		// Deleted text stays in unused pages and in the write-ahead log until SQLite reuses both,
		// which never happens in an idle queue. Retention and forgetting promise the removal of the
		// text.
		left, failed := number(b.writer, "SELECT count(*) FROM (SELECT 1 FROM outbox LIMIT 1)")
		b.scrub = b.scrub || failed == nil && left == 0
	}
	return err
}

// Rewind makes every remaining row undelivered, because the store has lost data.
func (b *Outbox) Rewind() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.write(func() error { return b.transact(b.rewind) })
}

func (b *Outbox) rewind() error {
	again, err := number(b.writer, "SELECT coalesce(sum(exchanges), 0) FROM outbox WHERE sequence <= ?", b.counts.Delivered)
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
	b.counts.Spooled += again
	b.counts.Stored -= again
	return nil
}

// Spooled returns the number of exchanges that the store does not have yet.
func (b *Outbox) Spooled() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.counts.Spooled
}

// Delivered returns the last sequence number that the store has, and the last sequence number of
// the queue.
func (b *Outbox) Delivered() (to, end int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.counts.Delivered, b.counts.Sequence
}

// Forget deletes the text of sessions of a tenant from the file; nil ids mean all sessions and all
// posts. Undelivered exchanges stay counted.
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

func (b *Outbox) forget(where string, args []any) error {
	delivered := append([]any{b.counts.Delivered}, args...)
	if err := execute(b.writer, "DELETE FROM outbox WHERE sequence <= ? AND "+where, delivered...); err != nil {
		return err
	}
	var waiting []Row
	err := sqlitex.Execute(b.writer, "SELECT sequence, tenant, session, exchanges FROM outbox WHERE "+where, &sqlitex.ExecOptions{
		Args: args, ResultFunc: func(s *sqlite.Stmt) error {
			waiting = append(waiting, Row{
				Sequence: s.ColumnInt64(0), Kind: KindForgotten, Tenant: s.ColumnText(1), Session: idOf(s, 2), Exchanges: s.ColumnInt64(3),
			})
			return nil
		},
	})
	if err != nil {
		return err
	}
	for i := range waiting {
		if err := put(b.writer, &waiting[i]); err != nil {
			return err
		}
	}
	return execute(b.writer, "UPDATE begun SET document = x'' WHERE "+where, args...)
}
