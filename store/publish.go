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
	// waitLimit is how long a request may wait for the backend in all: for its look-up, and until
	// other replicas can find what it decided.
	waitLimit = 65 * time.Millisecond
	// overdueLimit is how long it waits while writes of earlier requests have missed that.
	overdueLimit = 3 * time.Millisecond
	mostOverdue  = 256 // of such writes; while there are more, none is begun
)

// publisher writes to a backend that replicas share what another of them must find at once: before
// the client has the whole answer, since its next request may go to any of them.
type publisher struct {
	be       batchWriter // nil: the backend is this process' own
	out      *optouts
	waiting  *waiting
	state    *state
	failed   func(step label.Step, err error)
	panicked func(step label.Step, value any)

	writes  sync.WaitGroup
	overdue atomic.Int64 // writes that their requests no longer wait for
}

// publishes says that there are other replicas, and that the backend takes what they must find.
func (b *publisher) publishes() bool {
	return b.be != nil && !b.state.down.Load() && b.overdue.Load() <= mostOverdue
}

// Publish writes a session in which something was decided, for the other replicas. unit is the
// session whose coins it shares (its run, or its parent); nil: it has its own. Publish judges the
// exchange as the recorder will, so that nothing is written of one that opted out. A write that
// fails or comes too late loses nothing: the same stands in the recorder's next batch. waited is
// how long the request has waited for the backend before.
//
// On a backend that is this process' own it does nothing.
func (b *publisher) Publish(ses, unit *Session, x *sample.Exchange, answered []string, waited time.Duration) {
	if !b.publishes() {
		return
	}
	keys := b.waiting.heldOf(x.RequestID)
	if b.out.OptedOut(x, answered) {
		b.PublishOptOut(ses, waited)
		return
	}
	redactor := b.out.newRedactor() // the recorder has its own
	row, ok := b.out.row(redactor, ses)
	if !ok {
		return
	}
	rows := []session.Row{row}
	if unit != nil {
		if row, ok := b.out.row(redactor, unit); ok {
			rows = append(rows, row)
		}
	}
	b.soon(x.RequestID, waited, func(ctx context.Context) error {
		return b.be.Write(ctx, session.Batch{Rows: rows, Echoes: keys})
	})
}

// soon begins a write to the backend, and waits for its end as long as a request may. The write
// goes on when that is over.
func (b *publisher) soon(request string, waited time.Duration, write func(ctx context.Context) error) {
	there := make(chan struct{})
	b.writes.Go(func() {
		defer close(there)
		defer func() {
			if r := recover(); r != nil {
				b.panicked(label.StepPublish, AtRequest{request, r})
			}
		}()
		ctx, cancel := context.WithTimeout(context.Background(), writeLimit)
		defer cancel()
		if err := write(ctx); err != nil {
			b.failed(label.StepPublish, err)
		}
	})
	limit := waitLimit - waited
	if b.overdue.Load() > 0 {
		limit = min(limit, overdueLimit)
	}
	timer := time.NewTimer(max(limit, 0))
	defer timer.Stop()
	select {
	case <-there:
	case <-timer.C:
		b.overdue.Add(1)
		b.writes.Go(func() {
			<-there
			b.overdue.Add(-1)
		})
	}
}

// PublishOptOut tells the other replicas that the newest turn of a session opted out: by its row,
// or where it has none by its mark. waited is as in Publish.
func (b *publisher) PublishOptOut(ses *Session, waited time.Duration) {
	if !b.publishes() {
		return
	}
	w := session.Batch{}
	if row, ok := b.out.row(b.out.newRedactor(), ses); ok {
		w.Rows = []session.Row{row}
	}
	b.soon(ses.MemberNow().Name, waited, func(ctx context.Context) error {
		if len(w.Rows) == 0 {
			return b.out.marks.announce(ctx)
		}
		return b.be.Write(ctx, w)
	})
}
