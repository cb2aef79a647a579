package store

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"precept/sample"
	"precept/session"
)

const (
	waitLimit    = 65 * time.Millisecond // how long a request may wait for the backend in all: for its look-up, and until others can find it
	overdueLimit = 3 * time.Millisecond  // the same while others have waited in vain
	mostOverdue  = 256                   // of those, beyond which no more are begun
)

// publisher tells other replicas of a session before the client has the whole answer.
type publisher struct {
	be       batchWriter // nil: the backend is this process' own
	out      *optouts
	waiting  *waiting
	state    *state
	failed   func(step string, err error)
	panicked func(step string, value any)

	writes  sync.WaitGroup
	overdue atomic.Int64 // sessions that were to be published and are not yet
}

// publishes says that others are to be told, and can be.
func (b *publisher) publishes() bool {
	return b.be != nil && !b.state.down.Load() && b.overdue.Load() <= mostOverdue
}

// Publish lets the other replicas find a session in which something was decided, before the client
// has the whole answer: its next turn may reach one of them at once. unit is what it draws through,
// nil: itself. It judges the exchange as the recorder will, so that of what opted out nothing is
// written. What fails comes with the next batch as ever. waited is what the request has waited for
// the backend before. On a backend that is this process' own there is nothing to do.
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

// soon writes to the backend what others must find, and waits for it as long as a request may.
func (b *publisher) soon(request string, waited time.Duration, write func(ctx context.Context) error) {
	there := make(chan struct{})
	b.writes.Go(func() {
		defer close(there)
		defer func() {
			if r := recover(); r != nil {
				b.panicked("publish", AtRequest{request, r})
			}
		}()
		ctx, cancel := context.WithTimeout(context.Background(), writeLimit)
		defer cancel()
		if err := write(ctx); err != nil {
			b.failed("publish", err)
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

// PublishOptOut lets the other replicas know that the newest turn of a session opted out, before
// the client has the whole answer. waited is what the request has waited for the backend before.
func (b *publisher) PublishOptOut(ses *Session, waited time.Duration) {
	if !b.publishes() {
		return
	}
	w := session.Batch{}
	if row, ok := b.out.row(b.out.newRedactor(), ses); ok {
		w.Rows = []session.Row{row}
	}
	b.soon(ses.Name, waited, func(ctx context.Context) error {
		if len(w.Rows) == 0 {
			return b.out.marks.announce(ctx)
		}
		return b.be.Write(ctx, w)
	})
}
