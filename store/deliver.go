package store

import (
	"context"
	"errors"
	"sync"
	"time"

	"precept/internal/guard"
	"precept/internal/label"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/store/outbox"
)

const (
	epochEvery = time.Second
	syncEvery  = 5 * time.Second
	keepEvery  = time.Second
	startLimit = 20 * time.Millisecond  // a start may wait so long for what the last run left behind
	roundLimit = 150 * time.Millisecond // of reading back, before the shipper looks after other things
	stopLimit  = 3 * time.Second        // a stop may wait so long for a backlog, which stays in the outbox
	tailBytes  = 2 << 20                // of exchanges, beyond which the backend is not left alone any longer
	readBytes  = 4 << 20                // read back for one delivery
	startBytes = 1 << 17                // the same while a start waits
	// safeAge is how old a delivery to a server must be before its rows leave the outbox: a server
	// may lose what it acknowledged in its last seconds.
	safeAge = 15 * time.Second
)

// epochNote is the name of the note that holds the backend's epoch.
const epochNote = "epoch"

// syncer makes writes survive a power cut, where the backend does not do so by itself.
type syncer interface {
	Sync(ctx context.Context) error
}

// epochs is a backend of a fleet. The epoch changes when the backend has lost something that it had
// taken.
type epochs interface {
	Epoch(ctx context.Context) (string, error)
}

// shipper brings what is durable to the backend, and deletes from the outbox what is safe there. It
// belongs to the owner of handing: one at a time delivers, forgets or closes.
type shipper struct {
	be      syncer
	fleet   epochs // nil: the backend is this process' own
	handoff *handoff
	writer  *writer
	guard   *guard.Guard
	tally   *Tally
	state   *state
	limits  shipperLimits
	now     func() time.Time
	failed  func(step label.Step, err error)
	// before is called before anything is delivered: what other replicas have forgotten must not be
	// written again.
	before func(ctx context.Context, now time.Time) error

	handing sync.Mutex

	tail  batch // taken from the handoff, and not delivered
	err   error // of the last attempt
	due   shipperDue
	safe  safety
	phase shipperPhase
}

// shipperLimits are what a shipper keeps within.
type shipperLimits struct {
	hold  int64         // bytes of exchanges in memory
	every time.Duration // how long the backend may be left alone
}

// shipperDue is when each work is due.
type shipperDue struct{ deliver, retry, epoch, sync, keep time.Time }

// shipperPhase is where a shipper is in its life.
type shipperPhase uint8

const (
	starting shipperPhase = iota // Open waits, a moment
	running
	stopping // nothing waits any longer
	volatile // the backend keeps nothing
)

// safety knows which rows the backend cannot lose any more.
type safety struct {
	age    time.Duration // after which what was synced is safe
	marks  []mark
	synced int64  // the last row at the last sync
	upTo   int64  // rows up to here are safe
	epoch  string // of the backend
}

// mark is a sequence number up to which the backend had synced at a time.
type mark struct {
	at time.Time
	to int64
}

// ship delivers what is due, and looks after the outbox. A failure leaves the recorder alone: it
// appends to the outbox meanwhile.
func (d *shipper) ship(ctx context.Context, now time.Time) {
	if now.Before(d.due.retry) {
		return
	}
	// A stop must not tear a write that is under way: the write is bounded by itself.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeLimit)
	defer cancel()
	d.err = d.guard.Err(label.StepDeliver, func() error {
		if err := d.deliver(ctx, now); err != nil || d.phase == stopping {
			return err
		}
		return d.passBy(ctx)
	})
	tight := d.handoff.outbox != nil && errors.Is(d.err, session.ErrDiskFull)
	if tight {
		d.handoff.giveWay(now)
	}
	if failed := d.err; d.phase != starting { // a start does not wait for the disk
		d.err = d.guard.Err(label.StepSecure, func() error { return d.secure(ctx, now, failed, tight) })
	}
	if d.err != nil && !errors.Is(d.err, ErrVolatile) {
		d.tally.WriteErrors.Add(1)
		d.failed(stepOf(d.err), d.err)
		d.due.retry = now.Add(retryAfter)
	}
}

// deliver hands over what is due. After a failure everything is tried again: each step may be
// repeated.
func (d *shipper) deliver(ctx context.Context, now time.Time) error {
	if err := d.watchEpoch(ctx, now); err != nil {
		return err
	}
	if err := d.before(ctx, now); err != nil {
		return err
	}
	if done, err := d.catchUp(ctx, now); err != nil || !done {
		return err
	}
	d.handoff.take(&d.tail)
	due := d.phase == stopping || !now.Before(d.due.deliver) || len(d.tail.exchanges) >= 4*flushAt || d.tail.held >= tailBytes
	if !due || d.tail.empty() {
		return nil
	}
	if err := d.handOver(ctx, &d.tail); err != nil {
		d.makeRoom(err)
		return err
	}
	d.tail.reset()
	d.due.deliver = now.Add(d.limits.every)
	return nil
}

// watchEpoch looks whether the backend has lost what it had taken. Then every row that is left is
// delivered again.
func (d *shipper) watchEpoch(ctx context.Context, now time.Time) error {
	if d.fleet == nil || d.handoff.outbox == nil || now.Before(d.due.epoch) {
		return nil
	}
	epoch, err := d.fleet.Epoch(ctx)
	if err != nil {
		return err
	}
	d.due.epoch = now.Add(epochEvery)
	if epoch == d.safe.epoch {
		return nil
	}
	if d.safe.epoch != "" {
		if err := d.handoff.outbox.Rewind(); err != nil {
			return &stepError{label.StepSpool, err}
		}
		d.safe.marks, d.safe.synced = nil, 0
		d.dropTail()
		d.handoff.readAgain()
	}
	d.safe.epoch = epoch
	if err := d.handoff.outbox.SetNote(epochNote, epoch); err != nil { // a restart then delivers more than it must
		d.failed(label.StepSpool, err)
	}
	return nil
}

// dropTail lets go of what was taken: it is read back with the rest.
func (d *shipper) dropTail() {
	d.state.held.Add(-d.tail.held)
	d.tail = batch{}
}

// catchUp delivers what is in the outbox alone, for as long as this may take. It reports whether
// nothing is left of that.
func (d *shipper) catchUp(ctx context.Context, now time.Time) (done bool, err error) {
	limit, most := roundLimit, int64(readBytes)
	switch d.phase {
	case stopping:
		limit = stopLimit
	case starting:
		limit, most = startLimit, startBytes
	default:
	}
	if d.state.reread.Swap(false) {
		d.dropTail()
		d.handoff.readAgain()
	}
	for {
		until, lagging := d.handoff.backlog()
		if !lagging {
			return true, nil
		}
		if d.now().Sub(now) > limit {
			return false, nil
		}
		d.dropTail()
		at, _ := d.handoff.outbox.Delivered()
		rows, err := d.handoff.outbox.Read(at, until, most)
		if err != nil {
			return false, &stepError{label.StepReadBack, err}
		}
		if len(rows) == 0 { // what stood there is lost, and counted
			d.handoff.arrived(until)
			continue
		}
		var b batch
		for i := range rows {
			b.add(&rows[i], d.guard)
		}
		if err := d.handOver(ctx, &b); err != nil {
			return false, err
		}
	}
}

// makeRoom lets go of what the backend does not take and the outbox holds anyway.
func (d *shipper) makeRoom(err error) {
	switch {
	case d.handoff.outbox == nil:
		d.tail.rows = newestRows(d.tail.rows)
		d.tail.echoes = d.tail.echoes[max(0, len(d.tail.echoes)-maxEchoes):]
	case errors.Is(err, context.Canceled), d.tail.held < d.limits.hold/4 && len(d.tail.rows) < manyRows:
	default:
		d.handoff.putBack(&d.tail)
	}
}

// handOver gives a batch to the backend, and notes that in the account.
func (d *shipper) handOver(ctx context.Context, b *batch) error {
	stubs := d.writer.tombs.left(session.Batch{Exchanges: b.stubs})
	if err := d.writer.put(ctx, stubs); err != nil {
		return &stepError{label.StepWrite, err}
	}
	err := d.writer.write(ctx, b)
	if errors.Is(err, ErrVolatile) { // nobody else knows the sessions: they stay within reach
		d.tally.DroppedReadOnly.Add(int64(len(b.exchanges)))
		d.state.held.Add(-b.held)
		d.state.delivered.Store(b.flush)
		d.phase = volatile
		d.state.healthy(false)
		return nil
	}
	if err != nil {
		return err
	}
	refused := d.count(b)
	d.tally.Incomplete.Add(int64(len(stubs.Exchanges)))
	if d.handoff.outbox != nil {
		d.handoff.outbox.Advance(b.last, int64(len(b.exchanges))+b.counted+b.damaged, refused)
		d.handoff.arrived(b.last)
	}
	return nil
}

// count counts a batch that the backend has, and returns how many of its exchanges are dropped, by
// reason.
func (d *shipper) count(b *batch) (refused map[string]int64) {
	refused = map[string]int64{}
	if b.damaged > 0 {
		refused[outbox.DroppedDamaged] = b.damaged
	}
	for i := range b.exchanges {
		switch b.exchanges[i].Outcome {
		case refusedOutcome:
			refused[droppedBad]++
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
	return refused
}

// passBy delivers to a backend that is elsewhere what this machine's full disk has no room for, so
// that capture goes on. What it takes is in no outbox, and cannot be written again if the backend
// loses it.
func (d *shipper) passBy(ctx context.Context) error {
	if d.fleet == nil || d.handoff.outbox == nil {
		return nil
	}
	if _, err := d.handoff.trouble(); !errors.Is(err, outbox.ErrFull) {
		return nil
	}
	return d.pass(ctx)
}

// pass delivers what the outbox could not take, when everything in the outbox is delivered.
// Meanwhile nothing is appended.
func (d *shipper) pass(ctx context.Context) error {
	if d.handoff.outbox == nil || !d.tail.empty() {
		return nil
	}
	b, ok := d.handoff.unput()
	if !ok {
		return nil
	}
	err := d.writer.write(ctx, &b)
	d.handoff.passed(&b, err)
	if err != nil {
		return err
	}
	refused := d.count(&b)
	f := outbox.Flush{Ended: b.ended, Dropped: b.dropped, Scrub: b.scrub}
	for reason, n := range refused {
		if f.Dropped == nil {
			f.Dropped = map[string]int64{}
		}
		f.Dropped[reason] += n
	}
	d.handoff.outbox.Pass(int64(len(b.exchanges))+b.counted-refused[droppedBad], &f)
	return nil
}

// secure finds out which rows are safe, and deletes them, whatever failed before. On a full disk it
// does so at once: the outbox's room may be all that is missing.
func (d *shipper) secure(ctx context.Context, now time.Time, failed error, tight bool) error {
	box := d.handoff.outbox
	full := d.handoff.wasFull()
	due := box != nil && (!now.Before(d.due.sync) || full)
	if due && (failed == nil || tight) {
		if err := d.sync(ctx, now); err != nil {
			failed = errors.Join(failed, &stepError{label.StepSync, err})
		}
	}
	if failed != nil {
		d.state.healthy(false)
	} else if d.tail.empty() && d.phase != volatile { // also after an outage in which nothing came
		d.state.healthy(true)
	}
	if box == nil {
		return failed
	}
	var err error
	if !now.Before(d.due.keep) || full || d.phase == stopping {
		d.due.keep = now.Add(keepEvery)
		err = box.Release(d.safe.upTo)
	}
	if err == nil && due {
		err = box.Tidy()
	}
	if tight {
		box.GiveWay()
	}
	if err != nil && failed == nil {
		failed = &stepError{label.StepSpool, err}
	}
	return failed
}

// sync finds out which of the delivered rows are safe.
func (d *shipper) sync(ctx context.Context, now time.Time) error {
	d.due.sync = now.Add(syncEvery)
	s := &d.safe
	if to, _ := d.handoff.outbox.Delivered(); to != s.synced {
		if err := d.be.Sync(ctx); err != nil {
			return err
		}
		s.synced = to
		s.marks = append(s.marks, mark{now, to})
	}
	for len(s.marks) > 0 && now.Sub(s.marks[0].at) >= s.age {
		s.upTo, s.marks = s.marks[0].to, s.marks[1:]
	}
	return nil
}

// shut writes down how far everything came, and closes the outbox.
func (d *shipper) shut() error {
	if d.handoff.outbox == nil {
		return nil
	}
	return errors.Join(d.handoff.outbox.Release(d.safe.upTo), d.handoff.outbox.Close())
}

// behind returns why not everything is where it can be deleted.
func (d *shipper) behind() error {
	lagging, putErr := d.handoff.trouble()
	switch {
	case errors.Is(d.err, ErrVolatile):
		return nil
	case putErr == nil && d.err == nil && lagging:
		return errBacklog
	}
	return errors.Join(putErr, d.err)
}

// batchWriter is a backend that takes what happened in sessions.
type batchWriter interface {
	Write(ctx context.Context, b session.Batch) error
}

// writer writes batches to the backend, without what was forgotten meanwhile.
type writer struct {
	be       batchWriter
	cache    *ExchangeCache // nil: none
	feedback *feedbackWriter
	tombs    *tombstones
	guard    *guard.Guard
	failed   func(step label.Step, err error)
}

// refusedOutcome marks an exchange that the backend can never take.
const refusedOutcome = "refused"

// write writes a batch: the sessions and what was said in them, then what the traffic said of them,
// then the feedback that waited for them. What the backend can never take is marked as refused.
func (w *writer) write(ctx context.Context, b *batch) error {
	left := w.tombs.left(session.Batch{Rows: newestRows(b.rows), Echoes: b.echoes, Exchanges: b.exchanges})
	b.counted += int64(len(b.exchanges) - len(left.Exchanges)) // what was forgotten stays in the account
	b.exchanges = left.Exchanges
	if err := w.put(ctx, left); err != nil {
		return &stepError{label.StepWrite, err}
	}
	if err := w.feedback.addSignals(ctx, w.tombs.heard(b.signals)); err != nil {
		return &stepError{label.StepImplicit, err}
	}
	if err := w.feedback.unpark(ctx, left.Echoes); err != nil {
		return &stepError{label.StepUnpark, err}
	}
	return nil
}

// put writes to the backend at once, and piece by piece where something can never be stored.
func (w *writer) put(ctx context.Context, b session.Batch) error {
	if len(b.Rows)+len(b.Echoes)+len(b.Exchanges) == 0 {
		return nil
	}
	defer w.cache.wrote(b.Exchanges) // also after an error: the end of ctx leaves the result open
	err := w.guard.Err(label.StepWrite, func() error { return w.be.Write(ctx, b) })
	if guard.Poisoned(err) {
		err = w.sift(ctx, b)
	}
	return err
}

// sift writes a batch in which something can never be stored: each thing by itself. What is refused,
// or makes the backend panic, is dropped, so that everything beside it is kept.
func (w *writer) sift(ctx context.Context, b session.Batch) error {
	for i := range b.Rows {
		r := &b.Rows[i]
		if _, err := w.alone(ctx, session.Ref{Tenant: r.Tenant, ID: r.ID}, "", session.Batch{Rows: b.Rows[i : i+1]}); err != nil {
			return err
		}
	}
	if err := w.siftEchoes(ctx, b.Echoes); err != nil {
		return err
	}
	for i := range b.Exchanges {
		x := &b.Exchanges[i]
		ok, err := w.alone(ctx, refOf(x), x.ID, session.Batch{Exchanges: b.Exchanges[i : i+1]})
		if err != nil {
			return err
		}
		if !ok {
			x.Outcome = refusedOutcome
		}
	}
	return nil
}

// siftEchoes writes echoes together where that works, else by halves.
func (w *writer) siftEchoes(ctx context.Context, echoes []session.Echo) error {
	if len(echoes) == 0 {
		return nil
	}
	err := w.guard.Err(label.StepWrite, func() error { return w.be.Write(ctx, session.Batch{Echoes: echoes}) })
	if !guard.Poisoned(err) {
		return err
	}
	if len(echoes) == 1 {
		w.failed(label.StepWrite, err)
		return nil
	}
	half := len(echoes) / 2
	return errors.Join(w.siftEchoes(ctx, echoes[:half]), w.siftEchoes(ctx, echoes[half:]))
}

// alone writes one thing of a session, which is set aside if that panics. It reports whether the
// backend has it.
func (w *writer) alone(ctx context.Context, of session.Ref, exchange string, b session.Batch) (ok bool, err error) {
	if !w.guard.On(label.StepWrite, of, exchange, func() { err = w.be.Write(ctx, b) }) {
		return false, nil
	}
	if errors.Is(err, session.ErrInvalid) {
		w.failed(label.StepWrite, err)
		return false, nil
	}
	return err == nil, err
}

// stepError names the step that failed.
type stepError struct {
	step label.Step
	err  error
}

func (e *stepError) Error() string { return e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }

// stepOf returns the step of a delivery that failed.
func stepOf(err error) label.Step {
	if e, ok := errors.AsType[*stepError](err); ok {
		return e.step
	}
	return label.StepDeliver
}
