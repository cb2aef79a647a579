package store

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"precept/internal/label"
	"precept/internal/sample"
	"precept/internal/session"
)

const (
	// waitLimit is the longest time for which a request waits for the backend, for the look-up of its session and the
	// write of its decisions together.
	waitLimit = 65 * time.Millisecond
	// overdueLimit is the longest wait of a request while writes of earlier requests exceed
	// waitLimit.
	overdueLimit = 3 * time.Millisecond
	maxOverdue   = 256 // number of overdue writes above which no write begins
	maxUnawaited = 256 // maximum number of writes by PublishCounts at one time
)

// publisher writes decisions of turns to a shared backend before the client has the whole answer,
// because the client's next request may reach another replica.
type publisher struct {
	backend  batchWriter // nil means this process owns the backend
	optOuts  *optOutFilter
	changes  *changeQueue
	state    *state
	failed   func(step label.Step, err error)
	panicked func(step label.Step, value any)

	writes    sync.WaitGroup
	overdue   atomic.Int64 // writes in progress whose request has stopped waiting
	unawaited atomic.Int64 // writes in progress for which no request waits
}

// canPublish reports whether replicas share the backend, and the backend keeps up with writes.
func (b *publisher) canPublish() bool {
	return b.backend != nil && !b.state.down.Load() && b.overdue.Load() <= maxOverdue
}

// Publish writes the row of a session with new decisions, so that the other replicas can read it. unit is the run or
// the parent session whose coins the session shares; nil means the session has its own coins. A coin is the random
// decision to inject or to withhold a lesson. Publish checks the opt-out rules as the recorder does, so that nothing
// of an opted-out exchange is written. answered holds the arguments of the calls whose results the exchange contains.
// A write that fails or is late loses nothing, because the recorder's next batch has the same rows. waited is the
// time for which the request has already waited for the backend.
//
// If this process owns the backend, Publish does nothing.
func (b *publisher) Publish(ses, unit *Session, x *sample.Exchange, answered []string, waited time.Duration) {
	if !b.canPublish() {
		return
	}
	keys := b.changes.heldKeys(x.RequestID)
	if b.optOuts.OptedOut(x, answered) {
		b.PublishOptOut(ses, waited)
		return
	}
	redactor := b.optOuts.newRedactor() // the recorder has a redactor of its own
	row, ok := b.optOuts.row(redactor, ses)
	if !ok {
		return
	}
	rows := []session.Row{row}
	if unit != nil {
		if row, ok := b.optOuts.row(redactor, unit); ok {
			rows = append(rows, row)
		}
	}
	b.writeSoon(x.RequestID, waited, func(ctx context.Context) error {
		return b.backend.Write(ctx, session.Batch{Rows: rows, Echoes: keys})
	})
}

// PublishCounts starts to write the row of a session after a turn without decisions, and does not wait for the write.
// The recorder writes the row as well, up to a second later. If the next turn reached another replica within this
// second, it would continue with the counts of an earlier turn. The recorder's late row would then be discarded in
// favour of the other replica's newer row. If this process owns the backend, PublishCounts does nothing.
func (b *publisher) PublishCounts(ses *Session, x *sample.Exchange, answered []string) {
	if !b.canPublish() || b.unawaited.Load() >= maxUnawaited {
		return
	}
	keys := b.changes.heldKeys(x.RequestID)
	if b.optOuts.OptedOut(x, answered) {
		return
	}
	row, ok := b.optOuts.row(b.optOuts.newRedactor(), ses)
	if !ok {
		return
	}
	b.unawaited.Add(1)
	b.startWrite(x.RequestID, func(ctx context.Context) error {
		defer b.unawaited.Add(-1)
		return b.backend.Write(ctx, session.Batch{Rows: []session.Row{row}, Echoes: keys})
	})
}

// startWrite starts a write to the backend, and returns a channel that is closed at the end of the write.
func (b *publisher) startWrite(request string, write func(ctx context.Context) error) (written chan struct{}) {
	written = make(chan struct{})
	b.writes.Go(func() {
		defer close(written)
		defer func() {
			if r := recover(); r != nil {
				b.panicked(label.StepPublish, RequestPanic{request, r})
			}
		}()
		ctx, cancel := context.WithTimeout(context.Background(), writeLimit)
		defer cancel()
		if err := write(ctx); err != nil {
			b.failed(label.StepPublish, err)
		}
	})
	return written
}

// writeSoon starts a write to the backend, and waits for its end, but at most until the request has waited waitLimit in
// total. A write that takes longer continues without the request.
func (b *publisher) writeSoon(request string, waited time.Duration, write func(ctx context.Context) error) {
	written := b.startWrite(request, write)
	limit := waitLimit - waited
	if b.overdue.Load() > 0 {
		limit = min(limit, overdueLimit)
	}
	timer := time.NewTimer(max(limit, 0))
	defer timer.Stop()
	select {
	case <-written:
	case <-timer.C:
		b.overdue.Add(1)
		b.writes.Go(func() {
			<-written
			b.overdue.Add(-1)
		})
	}
}

// PublishOptOut writes that the newest turn of a session opted out, so that the other replicas can read it. It writes
// the row of the session or, if the session has none, its opt-out mark. waited is as in Publish.
func (b *publisher) PublishOptOut(ses *Session, waited time.Duration) {
	if !b.canPublish() {
		return
	}
	batch := session.Batch{}
	if row, ok := b.optOuts.row(b.optOuts.newRedactor(), ses); ok {
		batch.Rows = []session.Row{row}
	}
	b.writeSoon(ses.Record.MemberNow().Name, waited, func(ctx context.Context) error {
		if len(batch.Rows) == 0 {
			return b.optOuts.marks.announce(ctx)
		}
		return b.backend.Write(ctx, batch)
	})
}
