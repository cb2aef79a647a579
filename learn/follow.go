package learn

import (
	"context"
	"errors"
	"time"

	"precept/internal/guard"
	"precept/internal/label"
	"precept/internal/session"
)

// toldBatch is the number of open sessions that one step reads.
const toldBatch = 500

// follower adds to the beliefs what other replicas have settled and heard.
type follower struct {
	tools
	beliefs *beliefs
	open    *provisional
	fleet   Fleet // nil: there are none
}

func (f *follower) run(ctx context.Context, every time.Duration) error {
	if f.fleet == nil {
		return nil
	}
	for {
		begin := f.now()
		if err := f.guard.Err(label.StepFollow, func() error { return f.refresh(ctx) }); err != nil && ctx.Err() == nil {
			f.failed(label.StepFollow, err)
		}
		// Where there is so much to read that it takes long, it is read less often.
		wait := max(every, 20*f.now().Sub(begin))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(min(wait, 10*every)):
		}
	}
}

// start reads the counters once. run retries a backend that is away.
func (f *follower) start(ctx context.Context) error {
	err := f.guard.Err(label.StepLoad, func() error { return f.refresh(ctx) })
	if errors.Is(err, session.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, guard.ErrPanicked) {
		f.failed(label.StepLoad, err)
		return nil
	}
	return err
}

// refresh reads the counters of every tenant whose counters have moved since the last time. They
// replace the counters in memory, which are part of them.
func (f *follower) refresh(ctx context.Context) error {
	if f.fleet == nil {
		return nil
	}
	moved, err := f.fleet.Moved(ctx)
	if err != nil {
		return err
	}
	for name, stand := range moved {
		if !f.beliefs.room(name) { // nobody asked for it lately
			continue
		}
		err := f.guard.Err(label.StepFollow, func() error {
			settled := func(ids []session.ID) ([]bool, error) { return f.fleet.Settled(ctx, name, ids) }
			if err := f.beliefs.follow(ctx, name, stand.Counters, settled); err != nil {
				return err
			}
			return f.listen(ctx, name, stand.Told)
		})
		if err != nil && !errors.Is(err, guard.ErrPanicked) { // of one tenant nothing is followed; the others' are
			return err
		}
	}
	return nil
}

// listen gives the chooser the feedback on open sessions that other replicas have received.
func (f *follower) listen(ctx context.Context, name string, latest int64) error {
	for ctx.Err() == nil {
		from := f.beliefs.listenedTo(name)
		if from == latest {
			return nil
		}
		rows, said, last, err := f.fleet.OpenFeedback(ctx, name, from, toldBatch)
		if err != nil {
			return err
		}
		for i := range rows {
			if !rows[i].Closed {
				f.guard.On(label.StepFollow, session.Ref{Tenant: name, ID: rows[i].ID}, "", func() { f.open.tell(f.open.record(&rows[i]), said[i]) })
			}
		}
		f.beliefs.listened(name, last)
		if last == from { // what told it is gone again
			return nil
		}
	}
	return ctx.Err()
}
