package store

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"precept/internal/guard"
	"precept/internal/label"
	"precept/internal/sample"
	"precept/internal/session"
)

const (
	epochEvery = time.Second
	startLimit = 20 * time.Millisecond  // what a start may wait for what the last run left behind
	roundLimit = 150 * time.Millisecond // of reading back, before the delivery looks after other things
	stopLimit  = 3 * time.Second        // what a stop may wait for a backlog: it lies in the spool
	tailBytes  = 2 << 20                // of exchanges, beyond which the backend is not left alone any longer
)

// epochs is a backend of a fleet. The epoch changes when it has lost something that it had taken.
type epochs interface {
	Epoch(ctx context.Context) (string, error)
}

// delivery hands to the backend what is put down, and knows how far that came. It belongs to
// whoever has handing: one at a time hands over, forgets or closes.
type delivery struct {
	checkpoints
	journal *journal
	writer  *writer
	fleet   epochs // nil: the backend is this process' own
	guard   *guard.Guard
	tally   *Tally
	state   *state
	hold    int64         // bytes of exchanges in memory, at most
	every   time.Duration // how long the backend may be left alone
	now     func() time.Time
	failed  func(step label.Step, err error)
	// before is called before anything is handed over, caughtUp when nothing of an earlier time is
	// left in the spool: what other replicas have forgotten must not be written anew.
	before   func(ctx context.Context, now time.Time) error
	caughtUp func(ctx context.Context) error

	handing sync.Mutex

	tail      batch     // taken up, and not delivered
	err       error     // of the last attempt
	retryAt   time.Time // after a failed one
	deliverAt time.Time
	epochAt   time.Time

	started  bool // Open has returned
	volatile bool // the backend keeps nothing
	last     bool // the program stops: nothing waits any longer
}

// deliver hands over what is due. What fails is tried again, whole: every step of it may be
// repeated.
func (d *delivery) deliver(ctx context.Context, now time.Time) error {
	if err := d.watchEpoch(ctx, now); err != nil {
		return err
	}
	if err := d.before(ctx, now); err != nil {
		return err
	}
	if done, err := d.catchUp(ctx, now); err != nil || !done {
		return err
	}
	if d.started {
		if err := d.caughtUp(ctx); err != nil {
			return err
		}
	}
	d.journal.take(&d.tail)
	due := d.last || !now.Before(d.deliverAt) || len(d.tail.exchanges) >= 4*flushAt || d.tail.held >= tailBytes
	if !due || d.tail.empty() {
		return nil
	}
	if err := d.handOver(ctx, &d.tail); err != nil {
		d.makeRoom(err)
		return err
	}
	d.tail.reset()
	d.deliverAt = now.Add(d.every)
	return nil
}

// catchUp hands over what is in the spool alone, for as long as this may take. It says whether
// nothing is left of it.
func (d *delivery) catchUp(ctx context.Context, now time.Time) (done bool, err error) {
	limit, most := roundLimit, replayBytes
	switch {
	case d.last:
		limit = stopLimit
	case !d.started:
		limit, most = startLimit, startBytes
	}
	for {
		from, lagging := d.journal.backlog(d.delivered.At)
		if !lagging {
			return true, nil
		}
		if d.now().Sub(now) > limit {
			return false, nil
		}
		d.state.held.Add(-d.tail.held) // it is read back with the rest
		d.tail = batch{}
		r := reader{from: d.journal.spool.Reader(), most: most, guard: d.guard}
		b, err := r.next(d.delivered.At, from)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(b.voids, func(v void) bool { return v.Reason == droppedOptOut }) {
			d.journal.setScrub(true) // a run that was killed did not come to it
		}
		if err := d.handOver(ctx, &b); err != nil {
			return false, err
		}
	}
}

// makeRoom lets go of what the backend does not take and the spool holds anyway.
func (d *delivery) makeRoom(err error) {
	switch {
	case d.journal.spool == nil:
		d.tail.rows = newestRows(d.tail.rows)
		d.tail.echoes = d.tail.echoes[max(0, len(d.tail.echoes)-maxEchoes):]
	case errors.Is(err, context.Canceled), d.tail.held < d.hold/4 && len(d.tail.rows) < manyRows:
	default:
		d.journal.putBack(&d.tail)
	}
}

// watchEpoch looks whether the backend has lost what it had taken, and goes back to where it was
// safe.
func (d *delivery) watchEpoch(ctx context.Context, now time.Time) error {
	if d.fleet == nil || d.journal.spool == nil || now.Before(d.epochAt) {
		return nil
	}
	epoch, err := d.fleet.Epoch(ctx)
	if err != nil {
		return err
	}
	d.epochAt = now.Add(epochEvery)
	if d.epoch != "" && epoch != d.epoch {
		d.state.held.Add(-d.tail.held)
		d.tail = batch{}
		d.rewind()
		d.journal.readAgain()
	}
	d.epoch = epoch
	return nil
}

// handOver gives a batch to the backend, and advances behind it. A batch that begins a run of the
// program ends what was under way in the one before: the backend gets the stubs of that.
func (d *delivery) handOver(ctx context.Context, b *batch) error {
	stubs := 0
	if b.crashed {
		left := d.writer.tombs.left(session.Batch{Exchanges: d.delivered.stubs()})
		if err := d.writer.put(ctx, left); err != nil {
			return &stepError{label.StepWrite, err}
		}
		stubs = len(left.Exchanges)
	}
	err := d.writer.write(ctx, b)
	if errors.Is(err, ErrVolatile) { // nobody else knows the sessions: they stay within reach
		d.tally.DroppedReadOnly.Add(int64(len(b.exchanges)))
		d.state.held.Add(-b.held)
		d.state.delivered.Store(b.flush)
		d.volatile = true
		d.state.healthy(false)
		return nil
	}
	if err != nil {
		return err
	}
	d.tally.Incomplete.Add(int64(stubs))
	d.advance(b)
	return nil
}

// advance goes on behind a batch that the backend has.
func (d *delivery) advance(b *batch) {
	d.delivered.advance(b)
	for i := range b.exchanges {
		switch b.exchanges[i].Outcome {
		case refused:
			d.delivered.drop(droppedBad, 1)
			d.tally.DroppedBad.Add(1)
			continue
		case sample.Complete:
		default:
			d.tally.Incomplete.Add(1)
		}
		d.tally.Exchanges.Add(1)
	}
	d.state.held.Add(-b.held)
	if b.flush > 0 {
		d.state.delivered.Store(b.flush)
	}
	d.state.healthy(true)
}

// behind says why not everything is where it can be deleted.
func (d *delivery) behind() error {
	lagging, putErr := d.journal.trouble()
	switch {
	case errors.Is(d.err, ErrVolatile):
		return nil
	case putErr == nil && d.err == nil && lagging:
		return errBacklog
	}
	return errors.Join(putErr, d.err)
}
