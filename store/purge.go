package store

import "context"

// purge empties the spool's files: what was forgotten shall not stand there either. What was put
// down so far is delivered first; what comes meanwhile stands in files of its own.
func (d *delivery) purge(ctx context.Context) error {
	if d.journal.spool == nil {
		return nil
	}
	at, err := d.journal.turnOver(&d.tail)
	if err != nil {
		return err
	}
	if !d.tail.empty() {
		if err := d.handOver(ctx, &d.tail); err != nil {
			return err
		}
		d.tail = batch{}
	}
	if err := d.be.Sync(ctx); err != nil {
		return err
	}
	d.delivered.At = at
	d.delivered.forget(d.writer.tombs.cover)
	d.settle()
	d.journal.setScrub(false)
	if err := d.keep(d.journal.spool, d.now()); err != nil {
		return err
	}
	return d.journal.spool.EmptyQuarantine()
}
