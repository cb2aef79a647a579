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

// correctTouched settles touched sessions again, so that the counters include late feedback.
func (c *closer) correctTouched(ctx context.Context) {
	touched := c.touches.TakeQueuedCorrections()
	if len(touched) == 0 {
		return
	}
	c.deliverer.WithDeliveryPaused(func() { c.correctAll(ctx, touched) })
	c.tools.guard.Run(label.StepRefit, func() { c.beliefs.refitDue(ctx, touched) })
}

func (c *closer) correctAll(ctx context.Context, touched map[session.Ref]bool) {
	work := make([]*pendingSettlement, 0, len(touched))
	for ref := range touched {
		if c.tools.guard.IsSkipped(ref) {
			continue
		}
		c.tools.guard.RunOn(label.StepCorrect, ref, "", func() {
			if st := c.prepareCorrection(ctx, ref); st != nil {
				work = append(work, st)
			}
		})
	}
	c.settle(ctx, work)
}

// correctRemaining makes the pending corrections at shutdown.
func (c *closer) correctRemaining(ctx context.Context) {
	c.deliverer.WithDeliveryPaused(func() {
		if _, ok := c.deliverer.UndeliveredSessions(); ok {
			c.nextTouchAt = time.Time{}
			c.touchUnsettled(ctx)
		}
	})
	c.correctTouched(ctx)
}

// rebuildInterval is how often samples are rebuilt for sessions that continue after closing. Each build reads the whole
// session.
func (c *closer) rebuildInterval() time.Duration {
	return min(max(c.reward.CloseAfter/10, 100*time.Millisecond), 5*time.Minute)
}

// touchUnsettled queues corrections for closed sessions with unsettled data: exchanges from agents that continued,
// feedback stored before the program ended, and feedback that other replicas stored but did not settle.
func (c *closer) touchUnsettled(ctx context.Context) {
	now := c.tools.now()
	if now.Before(c.nextTouchAt) {
		return
	}
	list, err := c.backend.UnsettledSessions(ctx, closeBatchSize)
	if err != nil {
		c.tools.reportFailure(label.StepReadCorrections, err)
		return
	}
	for _, u := range list {
		c.touches.QueueCorrection(u.Tenant, u.ID)
	}
	c.nextTouchAt = now.Add(c.rebuildInterval())
	if len(list) >= closeBatchSize { // the list may be incomplete
		c.nextTouchAt = now.Add(time.Second)
	}
}

// prepareCorrection returns the settlement that replaces a closed session's reward with the reward from all stored
// feedback. It returns nil for an open session and after an error. After a failed read, the correction is retried.
func (c *closer) prepareCorrection(ctx context.Context, ref session.Ref) *pendingSettlement {
	retry := func(err error) *pendingSettlement {
		c.tools.reportFailure(label.StepCorrect, err)
		c.touches.QueueCorrection(ref.Tenant, ref.ID)
		return nil
	}
	old, err := c.backend.SettledState(ctx, ref.Tenant, ref.ID)
	if err != nil {
		return retry(err)
	}
	isRun, err := c.units.copyToMembers(ctx, ref)
	if err != nil {
		return retry(err)
	}
	if old.Version == 0 {
		imported, err := c.prepareImport(ctx, ref)
		if err != nil {
			return retry(err)
		}
		if imported == nil { // still open: counted at closing
			c.provisional.addSession(ctx, ref)
		}
		return imported
	}
	entries, state, err := c.backend.SessionFeedback(ctx, ref.Tenant, ref.ID)
	if err != nil {
		return retry(err)
	}
	var a trial.Assignment
	def, err := decodeFrozen(old.AssignmentAtClose, &a)
	if err != nil {
		c.tools.reportFailure(label.StepDecode, err)
		return nil
	}
	counted, err := c.dropLateFeedback(ctx, ref, entries, def.CloseAfter)
	if err != nil {
		return retry(err)
	}
	out := feedback.Reward(counted, def.Tiers)
	st := &pendingSettlement{
		rewardName: def.String(), entries: entries, hadReward: old.Rewarded, isRun: isRun, isImport: a.ExcludedFor == trial.ExcludedImport,
	}
	st.settlement.Tenant, st.settlement.ID, st.settlement.From, st.settlement.FeedbackState = ref.Tenant, ref.ID, old.Version, state
	st.settlement.To = session.SettledState{Version: old.Version + 1, Rewarded: out.OK, Reward: out.Reward, Tier: out.Tier, AssignmentAtClose: old.AssignmentAtClose}
	if old.Rewarded == out.OK && old.Reward == out.Reward && old.Tier == out.Tier {
		return st // the counters do not change, but the samples get the new feedback
	}
	if old.Rewarded {
		st.settlement.Deltas = trial.Negate(bandit.Contribution(&a, old.Reward, old.Tier))
	}
	if out.OK {
		st.settlement.Deltas = append(st.settlement.Deltas, bandit.Contribution(&a, out.Reward, out.Tier)...)
	}
	return st
}

// prepareImport returns the first settlement for a session that an earlier release imported and closed without
// settling, or nil.
func (c *closer) prepareImport(ctx context.Context, ref session.Ref) (*pendingSettlement, error) {
	row, ok, err := c.backend.Session(ctx, ref.Tenant, ref.ID)
	if err != nil || !ok || !row.Closed {
		return nil, err
	}
	rec, err := session.Decode(ref.ID, row.Data)
	if err != nil || rec.Identity.Method != session.ByImport {
		return nil, nil //nolint:nilerr // closing the session reports an unreadable row
	}
	entries, state, err := c.backend.SessionFeedback(ctx, ref.Tenant, ref.ID)
	if err != nil {
		return nil, err
	}
	step, err := importSettlement(ref, session.SettledState{}, entries, state)
	return &pendingSettlement{settlement: step, rewardName: defaultReward, entries: entries, isImport: true}, err
}

// decodeFrozen decodes a closed session's assignment and reward definition. A correction uses this definition, which
// may differ from the configured one.
func decodeFrozen(frozen []byte, a *trial.Assignment) (feedback.Definition, error) {
	if err := json.Unmarshal(frozen, a); err != nil {
		return feedback.Definition{}, err
	}
	return feedback.ParseDefinition(cmp.Or(a.Reward, defaultReward))
}

// dropLateFeedback calls dropLateImplicit with the session start, which is read only if there is implicit feedback.
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
