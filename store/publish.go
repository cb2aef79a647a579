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
	// waitLimit is the longest total wait for the backend in one request, for looking up the session and writing the
	// decisions.
	waitLimit = 65 * time.Millisecond
	// overdueLimit replaces waitLimit while earlier writes are overdue, that is, still running after waitLimit.
	overdueLimit = 3 * time.Millisecond
	maxOverdue   = 256 // no new write starts while more writes are overdue
	maxUnawaited = 256 // limit for concurrent PublishCounts writes
)

// publisher writes a turn's decisions (chosen lessons and random assignments) to a shared backend before the client has
// received the end of the response, because the client's next request can reach a different replica.
type publisher struct {
	backend   batchWriter // nil means this process owns the backend
	optOuts   *optOutFilter
	changes   *changeQueue
	state     *state
	undoer    *undoer
	onFailure func(step label.Step, err error)
	onPanic   func(step label.Step, value any)

	writes    sync.WaitGroup
	overdue   atomic.Int64 // writes still running after the request has stopped waiting
	unawaited atomic.Int64 // writes that no request waits for
}

func (p *publisher) canPublish() bool {
	return p.backend != nil && !p.state.backendDown.Load() && p.overdue.Load() <= maxOverdue
}

// Publish writes the row for a session with new decisions; see Store.Publish. It applies the opt-out rules as the
// recorder does.
func (p *publisher) Publish(ses, unit *Session, x *sample.Exchange, answered []string, waited time.Duration) {
	if !p.canPublish() {
		return
	}
	keys := p.changes.heldKeys(x.RequestID)
	if p.optOuts.OptedOut(x, answered) {
		p.PublishOptOut(ses, waited)
		return
	}
	redactor := p.optOuts.newRedactor() // the recorder uses a different one
	row, ok := p.optOuts.redactedRow(redactor, ses)
	if !ok {
		return
	}
	rows := []session.Row{row}
	if unit != nil {
		if row, ok := p.optOuts.redactedRow(redactor, unit); ok {
			rows = append(rows, row)
		}
	}
	p.writeAndWait(x.RequestID, waited, func(ctx context.Context) error {
		return p.write(ctx, session.Batch{Rows: rows, Echoes: keys})
	})
}

// PublishCounts starts writing the session's row after a turn without decisions. The recorder writes the row up to a
// second later; a replica that gets the next turn earlier would continue with old counts, and the backend would then
// discard the recorder's row as older.
func (p *publisher) PublishCounts(ses *Session, x *sample.Exchange, answered []string) {
	if !p.canPublish() || p.unawaited.Load() >= maxUnawaited {
		return
	}
	keys := p.changes.heldKeys(x.RequestID)
	if p.optOuts.OptedOut(x, answered) {
		return
	}
	row, ok := p.optOuts.redactedRow(p.optOuts.newRedactor(), ses)
	if !ok {
		return
	}
	p.unawaited.Add(1)
	p.startWrite(x.RequestID, func(ctx context.Context) error {
		defer p.unawaited.Add(-1)
		return p.write(ctx, session.Batch{Rows: []session.Row{row}, Echoes: keys})
	})
}

// write writes a batch without deleted sessions' content. If an erasure has missed the new rows, write deletes them,
// even after an error, because an interrupted write might have succeeded.
func (p *publisher) write(ctx context.Context, b session.Batch) error {
	finished := p.undoer.tombstones.finishedErasures()
	b = p.undoer.tombstones.withoutDeleted(b)
	if len(b.Rows)+len(b.Echoes) == 0 {
		return nil
	}
	err := p.backend.Write(ctx, b)
	for i := range b.Rows {
		p.undoer.undo(ctx, finished, b.Rows[i].Tenant, b.Rows[i].ID)
	}
	for i := range b.Echoes {
		p.undoer.undo(ctx, finished, b.Echoes[i].Tenant, b.Echoes[i].ID)
	}
	return err
}

// startWrite starts a write in a goroutine, which closes written at the end. request is the request id for a panic
// report.
func (p *publisher) startWrite(request string, write func(ctx context.Context) error) (written chan struct{}) {
	written = make(chan struct{})
	p.writes.Go(func() {
		defer close(written)
		defer func() {
			if r := recover(); r != nil {
				p.onPanic(label.StepPublish, RequestPanic{request, r})
			}
		}()
		ctx, cancel := context.WithTimeout(context.Background(), writeLimit)
		defer cancel()
		if err := write(ctx); err != nil {
			p.onFailure(label.StepPublish, err)
		}
	})
	return written
}

// writeAndWait starts a write, and waits for it until the request has waited waitLimit in total.
func (p *publisher) writeAndWait(request string, waited time.Duration, write func(ctx context.Context) error) {
	written := p.startWrite(request, write)
	limit := waitLimit - waited
	if p.overdue.Load() > 0 {
		limit = min(limit, overdueLimit)
	}
	timer := time.NewTimer(max(limit, 0))
	defer timer.Stop()
	select {
	case <-written:
	case <-timer.C:
		p.overdue.Add(1)
		p.writes.Go(func() {
			<-written
			p.overdue.Add(-1)
		})
	}
}

// PublishOptOut writes that a session's newest turn opted out: in the session's row or, if there is none, in an opt-out
// mark. waited is as in Store.Publish.
func (p *publisher) PublishOptOut(ses *Session, waited time.Duration) {
	if !p.canPublish() {
		return
	}
	batch := session.Batch{}
	if row, ok := p.optOuts.redactedRow(p.optOuts.newRedactor(), ses); ok {
		batch.Rows = []session.Row{row}
	}
	p.writeAndWait(ses.Record.MemberNow().Name, waited, func(ctx context.Context) error {
		if len(batch.Rows) == 0 {
			return p.optOuts.marks.announce(ctx)
		}
		return p.write(ctx, batch)
	})
}
