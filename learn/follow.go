package learn

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"precept/internal/guard"
	"precept/internal/label"
	"precept/internal/session"
)

// feedbackBatch is the maximum number of open sessions per RatedOpenSessions call.
const feedbackBatch = 500

// follower updates the beliefs with data from other replicas.
type follower struct {
	tools       tools
	beliefs     *beliefs
	provisional *provisionalTracker
	fleet       Fleet       // nil if there are no other replicas
	hasStarted  atomic.Bool // Fleet.Positions has returned a result
}

func (f *follower) run(ctx context.Context, every time.Duration) error {
	if f.fleet == nil {
		return nil
	}
	for {
		begin := f.tools.now()
		if err := f.tools.guard.RunErr(label.StepFollow, func() error { return f.refresh(ctx) }); err != nil && ctx.Err() == nil {
			f.tools.reportFailure(label.StepFollow, err)
		}
		// Wait longer after a slow read, so reads take only a small share of the time.
		wait := max(every, 20*f.tools.now().Sub(begin))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(min(wait, 10*every)):
		}
	}
}

// start reads the counters once. If the read fails, start reports the failure, and run tries again.
func (f *follower) start(ctx context.Context) {
	if err := f.tools.guard.RunErr(label.StepLoad, func() error { return f.refresh(ctx) }); err != nil {
		f.tools.reportFailure(label.StepLoad, err)
	}
}

// refresh updates those tenants in memory whose counters have changed. The first call also reads tenants that are not
// in memory.
func (f *follower) refresh(ctx context.Context) error {
	if f.fleet == nil {
		return nil
	}
	positions, err := f.fleet.Positions(ctx, f.beliefs.names())
	if err != nil {
		return err
	}
	first, readCount := !f.hasStarted.Swap(true), 0
	var errs []error
	for name, progress := range positions {
		f.beliefs.noteTenant(name)
		if f.beliefs.tenant(name) == nil { // the tenant is not in memory
			if !first || readCount >= tenantsAtStart {
				continue
			}
			readCount++
		}
		err := f.tools.guard.RunErr(label.StepFollow, func() error {
			settled := func(ids []session.ID) ([]bool, error) { return f.fleet.AreSettled(ctx, name, ids) }
			if err := f.beliefs.follow(ctx, name, progress.Counters, f.fleet.Changes, settled); err != nil {
				return err
			}
			return f.followFeedback(ctx, name, progress.ProvisionalRewards)
		})
		switch {
		case err == nil, errors.Is(err, guard.ErrPanicked):
		case ctx.Err() != nil, errors.Is(err, session.ErrUnavailable):
			return err
		default: // other tenants may be intact
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// followFeedback adds the feedback on open sessions that other replicas received.
func (f *follower) followFeedback(ctx context.Context, name string, latest string) error {
	for ctx.Err() == nil {
		from := f.beliefs.feedbackPosition(name)
		if from == latest {
			return nil
		}
		rows, entries, last, err := f.fleet.RatedOpenSessions(ctx, name, from, feedbackBatch)
		if err != nil {
			return err
		}
		for i := range rows {
			if !rows[i].Closed {
				f.tools.guard.RunOn(label.StepFollow, session.Ref{Tenant: name, ID: rows[i].ID}, "", func() { f.provisional.addReward(f.provisional.newestRecord(&rows[i]), entries[i]) })
			}
		}
		f.beliefs.setFeedbackPosition(name, last)
		if last == from { // the session with the newest feedback was deleted
			return nil
		}
	}
	return ctx.Err()
}
