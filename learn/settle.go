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

type pendingSettlement struct {
	settlement      session.Settlement
	rewardName      string // reward definition for the deltas
	entries         []feedback.Entry
	hadReward       bool // an earlier settlement had a reward
	isRun           bool // a run's record, which the metrics omit
	isImport        bool // an imported conversation, which the metrics omit
	storedExchanges int  // number of a closing session's exchanges in the backend; 0 if unknown
}

func (p *pendingSettlement) ref() session.Ref {
	return session.Ref{Tenant: p.settlement.Tenant, ID: p.settlement.ID}
}

// settle writes samples and then changes the counters. After a crash in between, the next start repeats both steps; a
// sample replaces an earlier sample with the same id.
func (c *closer) settle(ctx context.Context, work []*pendingSettlement) {
	if len(work) == 0 {
		return
	}
	work, ok := c.samples.write(ctx, work)
	if !ok {
		c.retryCorrections(work)
		return
	}
	err := c.tools.guard.RunErr(label.StepSettle, func() error { return c.applySettlements(ctx, work) })
	if errors.Is(err, guard.ErrPanicked) { // settle each session alone, so only the failing session is lost
		for _, st := range work {
			c.tools.guard.RunOn(label.StepSettle, st.ref(), "", func() {
				if err := c.applySettlements(ctx, []*pendingSettlement{st}); err != nil {
					c.reportAndRetry([]*pendingSettlement{st}, err)
				}
			})
		}
		return
	}
	if err != nil {
		c.reportAndRetry(work, err)
	}
}

func (c *closer) applySettlements(ctx context.Context, work []*pendingSettlement) error {
	steps := make([]session.Settlement, len(work))
	for i, st := range work {
		steps[i] = st.settlement
		steps[i].Deltas = addDefinitionPrefix(st.rewardName, st.settlement.Deltas)
	}
	return c.beliefs.updateCounters(ctx, func() (sessions []session.Ref, deltas map[string][]trial.Delta, err error) {
		done, err := c.backend.Settle(ctx, steps)
		if err != nil {
			return nil, nil, err
		}
		deltas = map[string][]trial.Delta{}
		for i, st := range work {
			sessions = append(sessions, st.ref())
			// If the step was not applied, another replica or an earlier step settled the session. If this replica made
			// a correction now, the replicas would take turns settling the session; touchUnsettled finds missing
			// feedback.
			if done[i] {
				c.countApplied(st, deltas)
			}
		}
		return sessions, deltas, nil
	})
}

// countApplied counts an applied settlement, and adds the deltas to byTenant.
func (c *closer) countApplied(st *pendingSettlement, byTenant map[string][]trial.Delta) {
	c.changed.add(st.settlement.Tenant)
	if st.rewardName == c.rewardName {
		byTenant[st.settlement.Tenant] = append(byTenant[st.settlement.Tenant], st.settlement.Deltas...)
	}
	if st.isRun || st.isImport {
		return
	}
	if st.settlement.From == 0 {
		c.metrics.Closed.Add(1)
	}
	if st.settlement.To.Rewarded && !st.hadReward {
		c.metrics.Rewarded.Add(1)
	}
}

func (c *closer) reportAndRetry(work []*pendingSettlement, err error) {
	c.tools.reportFailure(label.StepSettle, err)
	c.retryCorrections(work)
}

// retryCorrections schedules failed corrections again. An open session needs no retry, because it is still due.
func (c *closer) retryCorrections(work []*pendingSettlement) {
	for _, st := range work {
		if st.settlement.From > 0 {
			c.touches.QueueCorrection(st.settlement.Tenant, st.settlement.ID)
		}
	}
}
