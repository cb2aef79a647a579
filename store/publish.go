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
	// waitLimit is the longest wait of a request for the backend: for its look-up, and for the
	// write of its decisions.
	waitLimit = 65 * time.Millisecond
	// overdueLimit is the longest wait of a request while writes of earlier requests exceed
	// waitLimit.
	overdueLimit = 3 * time.Millisecond
	maxOverdue   = 256 // number of overdue writes above which no write begins
	maxUnawaited = 256 // number of writes by PublishCounts at one time
)

// publisher writes decisions of turns to a shared backend before the client has the whole answer,
// because the client's next request may reach another replica.
type publisher struct {
	be       batchWriter // nil means this process owns the backend
	optOuts  *optouts
	changes  *changeQueue
	state    *state
	failed   func(step label.Step, err error)
	panicked func(step label.Step, value any)

	writes    sync.WaitGroup
	overdue   atomic.Int64 // writes in progress whose request has stopped waiting
	unawaited atomic.Int64 // writes in progress for which no request waits
}

// publishes reports whether replicas share the backend and the backend takes writes.
func (b *publisher) publishes() bool {
	return b.be != nil && !b.state.down.Load() && b.overdue.Load() <= maxOverdue
}

// Publish writes a session with new decisions for the other replicas. unit is the session with the
// shared coins (the run, or the parent); nil means the session has its own coins. A coin is the random decision to
// inject or to withhold a lesson. Publish checks the opt-out rules as the recorder does, so that nothing of
// an opted-out exchange is written. answered holds the arguments of the calls whose results the exchange
// contains. A write that fails or is late loses nothing: the recorder's next batch has the same rows. waited
// is the time for which the request has waited for the backend.
//
// If this process owns the backend, Publish does nothing.
func (b *publisher) Publish(ses, unit *Session, x *sample.Exchange, answered []string, waited time.Duration) {
	if !b.publishes() {
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
		return b.be.Write(ctx, session.Batch{Rows: rows, Echoes: keys})
	})
}

// PublishCounts starts to write a session after a turn without decisions, and does not wait for the write. The
// recorder writes the row as well, up to a second later. Without PublishCounts, a next turn at another replica within
// this second would continue with the counts of an earlier turn, and the late row would yield to the newer row of the
// other replica. If this process owns the backend, PublishCounts does nothing.
func (b *publisher) PublishCounts(ses *Session, x *sample.Exchange, answered []string) {
	if !b.publishes() || b.unawaited.Load() >= maxUnawaited {
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
	b.start(x.RequestID, func(ctx context.Context) error {
		defer b.unawaited.Add(-1)
		return b.be.Write(ctx, session.Batch{Rows: []session.Row{row}, Echoes: keys})
	})
}

// start starts a write to the backend, and returns a channel that is closed at the end of the write.
func (b *publisher) start(request string, write func(ctx context.Context) error) (written chan struct{}) {
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

// writeSoon starts a write to the backend, and waits for its end, at most for the remaining wait of
// the request. After this time the write continues without the request.
func (b *publisher) writeSoon(request string, waited time.Duration, write func(ctx context.Context) error) {
	written := b.start(request, write)
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

// PublishOptOut writes the opt-out of a session's newest turn for the other replicas: the row of
// the session, or its mark. waited is as in Publish.
func (b *publisher) PublishOptOut(ses *Session, waited time.Duration) {
	if !b.publishes() {
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
		return b.be.Write(ctx, batch)
	})
}
