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
	if d.fleet == nil || d.journal.spool == nil {
		return nil
	}
	if _, err := d.journal.trouble(); !spool.Full(err) {
		return nil
	}
	return d.pass(ctx)
}

// pass hands to the backend what the spool could not take, when all that is in the spool is there
// already. Meanwhile nothing is put into the spool: what stands there must not overtake it in the
// account.
func (d *delivery) pass(ctx context.Context) error {
	if d.journal.spool == nil || !d.tail.empty() {
		return nil
	}
	b, ok := d.journal.unput()
	if !ok {
		return nil
	}
	err := d.handOver(ctx, &b)
	d.journal.passed(&b, err)
	if err != nil {
		return err
	}
	d.settle() // who went back to an earlier place would find turns there that began, and no end of them
	d.keepAt = time.Time{}
	return nil
}
