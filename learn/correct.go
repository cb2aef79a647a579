package learn

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"precept/bandit"
	"precept/bandit/feedback"
	"precept/bandit/trial"
	"precept/internal/label"
	"precept/internal/session"
)

// resettle corrects the counters of closed sessions by late feedback.
func (c *closer) resettle(ctx context.Context) {
	touched := c.touches.Touched()
	if len(touched) == 0 {
		return
	}
	c.deliverer.WithDeliveryPaused(func() { c.correctAll(ctx, touched) })
	c.tools.guard.Step(label.StepRefit, func() { c.beliefs.refitDue(ctx, touched) })
}

// correctAll corrects the given sessions, except sessions that the guard has set aside.
func (c *closer) correctAll(ctx context.Context, touched map[session.Ref]bool) {
	work := make([]*settling, 0, len(touched))
	for ref := range touched {
		if c.tools.guard.IsAside(ref) {
			continue
		}
		c.tools.guard.On(label.StepCorrect, ref, "", func() {
			if st := c.correct(ctx, ref); st != nil {
				work = append(work, st)
			}
		})
	}
	c.settle(ctx, work)
}

// finish makes the waiting corrections at shutdown.
func (c *closer) finish(ctx context.Context) {
	c.deliverer.WithDeliveryPaused(func() {
		if _, ok := c.deliverer.Undelivered(); ok {
			c.pickUpAt = time.Time{}
			c.pickUp(ctx)
		}
	})
	c.resettle(ctx)
}

// lateEvery returns the interval between rebuilds of the samples of sessions that continue after
// closing: a tenth of the closing age, between 100 ms and 5 minutes. An agent may continue for
// days, and each rebuild reads the whole session.
func (c *closer) lateEvery() time.Duration {
	return min(max(c.reward.CloseAfter/10, 100*time.Millisecond), 5*time.Minute)
}

// pickUp finds closed sessions with unsettled data: exchanges of agents that continued, feedback
// that was stored before the program ended, and in a shared backend sessions that other replicas have not
// corrected.
func (c *closer) pickUp(ctx context.Context) {
	now := c.tools.now()
	if now.Before(c.pickUpAt) {
		return
	}
	list, err := c.backend.Unsettled(ctx, closeBatch)
	if err != nil {
		c.tools.failed(label.StepPickUp, err)
		return
	}
	for _, u := range list {
		c.touches.Touch(u.Tenant, u.ID)
	}
	c.pickUpAt = now.Add(c.lateEvery())
	if len(list) >= closeBatch { // the list may be incomplete
		c.pickUpAt = now.Add(time.Second)
	}
}

// correct returns the settlement that replaces the applied reward of a closed session by the reward
// of all present feedback, nil for an open session and after an error. A failed correction is repeated.
func (c *closer) correct(ctx context.Context, ref session.Ref) *settling {
	retry := func(err error) *settling {
		c.tools.failed(label.StepCorrect, err)
		c.touches.Touch(ref.Tenant, ref.ID)
		return nil
	}
	old, err := c.backend.Applied(ctx, ref.Tenant, ref.ID)
	if err != nil {
		return retry(err)
	}
	isRun, err := c.units.passToMembers(ctx, ref)
	if err != nil {
		return retry(err)
	}
	if old.Version == 0 { // still open: counted at closing
		c.open.learn(ctx, ref)
		return nil
	}
	entries, state, err := c.backend.SessionFeedback(ctx, ref.Tenant, ref.ID)
	if err != nil {
		return retry(err)
	}
	var a trial.Assignment
	def, err := decodeFrozen(old.Frozen, &a)
	if err != nil {
		c.tools.failed(label.StepDecode, err)
		return nil
	}
	counted, err := c.dropLateFeedback(ctx, ref, entries, def.CloseAfter)
	if err != nil {
		return retry(err)
	}
	out := feedback.Reward(counted, def.Tiers)
	st := &settling{reward: def.String(), entries: entries, hadReward: old.Rewarded, isRun: isRun}
	st.settlement.Tenant, st.settlement.ID, st.settlement.From, st.settlement.FeedbackState = ref.Tenant, ref.ID, old.Version, state
	st.settlement.To = session.Applied{Version: old.Version + 1, Rewarded: out.OK, Reward: out.Reward, Tier: out.Tier, Frozen: old.Frozen}
	if old.Rewarded == out.OK && old.Reward == out.Reward && old.Tier == out.Tier {
		return st // the counters do not change, but the samples get the new rating
	}
	if old.Rewarded {
		st.settlement.Deltas = trial.Negate(bandit.Contribution(&a, old.Reward, old.Tier))
	}
	if out.OK {
		st.settlement.Deltas = append(st.settlement.Deltas, bandit.Contribution(&a, out.Reward, out.Tier)...)
	}
	return st
}

// decodeFrozen decodes the assignment of a closed session and the definition of reward at its closing.
// Corrections keep that definition, whatever definition is configured today.
func decodeFrozen(frozen []byte, a *trial.Assignment) (feedback.Definition, error) {
	if err := json.Unmarshal(frozen, a); err != nil {
		return feedback.Definition{}, err
	}
	return feedback.ParseDefinition(cmp.Or(a.Reward, defaultReward))
}

// dropLateFeedback is dropLateImplicit for a session whose start is not loaded, and reads the start if any
// entry depends on the start.
func (c *closer) dropLateFeedback(ctx context.Context, ref session.Ref, entries []feedback.Entry, age time.Duration) ([]feedback.Entry, error) {
	if !slices.ContainsFunc(entries, func(e feedback.Entry) bool { return e.Rule != "" }) {
		return entries, nil
	}
	row, ok, err := c.backend.Session(ctx, ref.Tenant, ref.ID)
	if err != nil || !ok {
		return entries, err
	}
	return dropLateImplicit(entries, row.Started, age), nil
}
