package store

import (
	"context"
	"time"

	"precept/store/spool"
)

// passBy hands to a backend that is elsewhere what this machine's full disk has no room for, so
// that capture goes on. What it takes is in no spool, and cannot be written again if the backend
// loses it.
func (d *delivery) passBy(ctx context.Context) error {
	if d.rec.spool == nil || !d.Shared() {
		return nil
	}
	d.rec.mu.Lock()
	stuck := spool.Full(d.rec.putErr)
	d.rec.mu.Unlock()
	if !stuck {
		return nil
	}
	return d.pass(ctx)
}

// pass hands to the backend what the spool could not take, when all that is in the spool is there
// already. Meanwhile nothing is put into the spool: what stands there must not overtake it in the
// books.
func (d *delivery) pass(ctx context.Context) error {
	p, ok := d.unput()
	if !ok {
		return nil
	}
	err := d.handOver(ctx, &p)
	d.rec.mu.Lock()
	defer d.rec.mu.Unlock()
	d.rec.passing = 0
	if err != nil {
		flush := max(p.flush, d.rec.next.flush)
		p.merge(&d.rec.next)
		p.flush = flush
		d.rec.next = p
		return err
	}
	if d.rec.next.empty() {
		d.rec.putErr = nil
	}
	// Who went back to an earlier place would find turns there that began, and no end of them.
	d.safe, d.marks, d.synced = d.delivered.clone(), nil, d.delivered.At
	d.rec.spool.Skip(p.admitted())
	d.cursorAt = time.Time{}
	return nil
}

// unput takes what waits to be put into the spool.
func (d *delivery) unput() (p batch, ok bool) {
	d.rec.mu.Lock()
	defer d.rec.mu.Unlock()
	if d.rec.lagging || !d.tail.empty() || !d.rec.ready.empty() || d.rec.next.empty() {
		return p, false
	}
	p, d.rec.next = d.rec.next, batch{}
	p.end = d.delivered.At
	d.rec.passing = max(len(p.exchanges), 1)
	return p, true
}
