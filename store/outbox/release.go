package outbox

import (
	"errors"
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// MarkDelivered records that the store has the rows up to a sequence number. exchanges is the number of exchanges in
// the rows since the last call. refused counts, by reason, those that the store could not store. The next write saves
// the change.
func (o *Outbox) MarkDelivered(sequence, exchanges int64, refused map[string]int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := &o.counts
	n.Delivered = max(n.Delivered, sequence)
	n.Spooled -= exchanges
	n.Stored += exchanges
	for reason, lost := range refused {
		n.Stored -= lost
		n.addDropped(reason, lost)
	}
}

// DropIncomplete counts incomplete turns with unreadable stubs as dropped.
func (o *Outbox) DropIncomplete(turns int64) {
	if turns == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.counts.Incomplete -= turns
	o.counts.addDropped(DroppedDamaged, turns)
}

// CountBypassed counts exchanges that reached the store without a row in the queue, and applies Ended, Dropped and
// Scrub from f. If the write fails, the next write includes the change.
func (o *Outbox) CountBypassed(exchanges int64, f *Flush) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.bypassedExchanges += exchanges
	o.bypassed.Ended = append(o.bypassed.Ended, f.Ended...)
	for reason, n := range f.Dropped {
		if o.bypassed.Dropped == nil {
			o.bypassed.Dropped = map[string]int64{}
		}
		o.bypassed.Dropped[reason] += n
	}
	o.needsScrub = o.needsScrub || f.Scrub
	_ = o.writeWithRepair(func() error { return o.transact(func() error { return nil }) }) // the next write tries again
}

// Release writes the account (the exchange counts), and deletes the rows up to safe, which the store can no longer
// lose. On a full disk it first deletes the ballast, a file that reserves disk space.
func (o *Outbox) Release(safe int64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if safe <= o.counts.Released && o.counts.equal(&o.storedCounts) && o.bypassed.IsEmpty() && o.bypassedExchanges == 0 {
		return nil
	}
	var released map[string]int64
	deleteRows := func() error {
		return o.transact(func() (err error) {
			o.counts.Released = max(safe, o.counts.Released)
			if released, err = o.usage.bytesByTenant(o.writer, "sequence <= ?", safe); err != nil {
				return err
			}
			return execute(o.writer, "DELETE FROM outbox WHERE sequence <= ?", safe)
		})
	}
	err := o.writeWithRepair(deleteRows)
	if errors.Is(err, ErrFull) {
		o.dropBallast()
		err = o.writeWithRepair(deleteRows)
	}
	if err == nil {
		o.usage.remove(released)
	}
	if err == nil && !o.hasBallast {
		o.shrink()
		_ = o.makeBallast() // each write tries again
	}
	if err == nil && o.hasBallast { // a scrub would need space on a full disk
		// If the queue is idle, deleted text would stay in unused pages and in the write-ahead log. Therefore an empty
		// queue is scrubbed.
		rows, countErr := queryInt(o.writer, "SELECT count(*) FROM (SELECT 1 FROM outbox LIMIT 1)")
		o.needsScrub = o.needsScrub || countErr == nil && rows == 0
	}
	return err
}

// Rewind marks all rows as undelivered, after the store has lost data.
func (o *Outbox) Rewind() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.writeWithRepair(func() error { return o.transact(o.rewind) })
}

// The caller has started a transaction.
func (o *Outbox) rewind() error {
	exchanges, err := queryInt(o.writer, "SELECT coalesce(sum(exchanges), 0) FROM outbox WHERE sequence <= ?", o.counts.Delivered)
	if err != nil {
		return err
	}
	first, err := queryInt(o.writer, "SELECT coalesce(min(sequence), 0) FROM outbox")
	if err != nil {
		return err
	}
	if first > 0 {
		o.counts.Delivered = min(o.counts.Delivered, first-1)
	}
	o.counts.Spooled += exchanges
	o.counts.Stored -= exchanges
	return nil
}

// Spooled returns the number of exchanges that the store does not have yet.
func (o *Outbox) Spooled() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.counts.Spooled
}

// Delivered returns the sequence numbers of the newest row in the store and the newest row in the queue.
func (o *Outbox) Delivered() (delivered, last int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.counts.Delivered, o.counts.Sequence
}

// forgetStep limits the sessions in one statement; SQLite refuses more than 32,766 parameters.
const forgetStep = 1000

// Forget deletes the content of the given sessions of a tenant or, if ids is nil, of all the tenant's sessions and
// posts. The account still counts undelivered exchanges.
func (o *Outbox) Forget(tenant string, ids []SessionID) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if ids != nil && len(ids) == 0 {
		return nil
	}
	o.needsScrub = true
	var freed int64
	err := o.writeWithRepair(func() error {
		freed = 0
		return o.transact(func() error {
			if ids == nil {
				if err := o.deletePosts("tenant = ?", tenant); err != nil {
					return err
				}
				return o.forgetRows(tenant, "tenant = ?", []any{tenant}, &freed)
			}
			for step := range slices.Chunk(ids, forgetStep) {
				args := []any{tenant}
				for i := range step {
					args = append(args, step[i][:])
				}
				where := "tenant = ? AND session IN (" + strings.Repeat("?, ", len(step)-1) + "?)"
				if err := o.forgetRows(tenant, where, args, &freed); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err == nil {
		o.usage.remove(map[string]int64{tenant: freed})
	}
	return err
}

func (o *Outbox) forgetRows(tenant, where string, args []any, freed *int64) error {
	before, err := o.usage.bytesByTenant(o.writer, where, args...)
	if err != nil {
		return err
	}
	if err := o.forget(where, args); err != nil {
		return err
	}
	after, err := o.usage.bytesByTenant(o.writer, where, args...)
	*freed += before[tenant] - after[tenant]
	return err
}

// forget deletes the delivered rows selected by a condition. Undelivered rows become KindForgotten rows, so that the
// account counts the exchanges. Stubs also lose their documents.
func (o *Outbox) forget(where string, args []any) error {
	delivered := append([]any{o.counts.Delivered}, args...)
	if err := execute(o.writer, "DELETE FROM outbox WHERE sequence <= ? AND "+where, delivered...); err != nil {
		return err
	}
	var undelivered []Row
	err := sqlitex.Execute(o.writer, "SELECT sequence, tenant, session, exchanges FROM outbox WHERE "+where, &sqlitex.ExecOptions{
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
		if err := insertRow(o.writer, &undelivered[i]); err != nil {
			return err
		}
	}
	return execute(o.writer, "UPDATE begun SET document = x'' WHERE "+where, args...)
}
