package learn

import (
	"context"
	"errors"

	"precept/bandit/feedback"
	"precept/bandit/trial"
	"precept/internal/guard"
	"precept/internal/label"
	"precept/internal/session"
)

// settling is a session whose settlement is in progress.
type settling struct {
	settlement session.Settlement
	reward     string // definition of reward of the deltas
	entries    []feedback.Entry
	hadReward  bool // a reward was applied already
	isRun      bool // a run: the tally counts only its sessions
	stored     int  // number of stored exchanges of a session that closes; 0 means unknown
}

func (st *settling) ref() session.Ref {
	return session.Ref{Tenant: st.settlement.Tenant, ID: st.settlement.ID}
}

// settle writes the samples first and moves the counters second. After a crash between the two steps, the next pass
// repeats both: a sample that is written again replaces the sample with the same id.
func (c *closer) settle(ctx context.Context, work []*settling) {
	if len(work) == 0 {
		return
	}
	work, ok := c.samples.write(ctx, work)
	if !ok {
		c.retryCorrections(work)
		return
	}
	err := c.tools.guard.Err(label.StepSettle, func() error { return c.settleAll(ctx, work) })
	if errors.Is(err, guard.ErrPanicked) { // one session panicked, so settle each session by itself
		for _, st := range work {
			c.tools.guard.On(label.StepSettle, st.ref(), "", func() {
				if err := c.settleAll(ctx, []*settling{st}); err != nil {
					c.retry([]*settling{st}, err)
				}
			})
		}
		return
	}
	if err != nil {
		c.retry(work, err)
	}
}

// settleAll moves the counters in the backend and in memory.
func (c *closer) settleAll(ctx context.Context, work []*settling) error {
	steps := make([]session.Settlement, len(work))
	for i, st := range work {
		steps[i] = st.settlement
		steps[i].Deltas = underDefinition(st.reward, st.settlement.Deltas)
	}
	return c.beliefs.move(ctx, func() (sessions []session.Ref, deltas map[string][]trial.Delta, err error) {
		done, err := c.backend.Settle(ctx, steps)
		if err != nil {
			return nil, nil, err
		}
		deltas = map[string][]trial.Delta{}
		for i, st := range work {
			sessions = append(sessions, st.ref())
			// If the step was not applied, another replica or an earlier step of this replica has settled the session.
			// No correction follows, because replicas would then settle the session one after another. pickUp finds
			// feedback that the applied step lacks.
			if done[i] {
				c.countApplied(st, deltas)
			}
		}
		return sessions, deltas, nil
	})
}

// countApplied counts a step that the backend applied.
func (c *closer) countApplied(st *settling, byTenant map[string][]trial.Delta) {
	c.changed.add(st.settlement.Tenant)
	if st.reward == c.name {
		byTenant[st.settlement.Tenant] = append(byTenant[st.settlement.Tenant], st.settlement.Deltas...)
	}
	if st.isRun {
		return
	}
	if st.settlement.From == 0 {
		c.tally.Closed.Add(1)
	}
	if st.settlement.To.Rewarded && !st.hadReward {
		c.tally.Rewarded.Add(1)
	}
}

// retry schedules steps that could not be settled.
func (c *closer) retry(work []*settling, err error) {
	c.tools.failed(label.StepSettle, err)
	c.retryCorrections(work)
}

// retryCorrections schedules the corrections of a failed step. Sessions that are still open remain due in
// any case.
func (c *closer) retryCorrections(work []*settling) {
	for _, st := range work {
		if st.settlement.From > 0 {
			c.touches.Touch(st.settlement.Tenant, st.settlement.ID)
		}
	}
}
