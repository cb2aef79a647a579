package learn

import (
	"context"
	"slices"
	"time"

	"precept/bandit/feedback"
	"precept/internal/label"
	"precept/internal/session"
)

// closingGracePeriod is how late a replica may close a session; expire keeps provisional rewards until then.
const closingGracePeriod = 5 * time.Second

// provisionalTracker adds the rewards in open sessions to the beliefs. Without these rewards, the chooser would learn
// from new feedback only when sessions close, by default after a day.
type provisionalTracker struct {
	tools    tools
	beliefs  *beliefs
	memory   Memory
	backend  openSessionReader
	reward   feedback.Definition
	parallel int // sessions read at the same time

	// Feedback on sessions that began before startedAt is read from the backend.
	startedAt    time.Time
	restoreAfter session.Row // the next read continues after this row
	isRestored   bool
}

func (p *provisionalTracker) addSession(ctx context.Context, ref session.Ref) {
	rec := p.memory.Snapshot(ref)
	if rec == nil {
		row, ok, err := p.backend.Session(ctx, ref.Tenant, ref.ID)
		if err != nil || !ok || row.Closed {
			return // the session is counted when it closes
		}
		rec = p.newestRecord(&row)
	}
	p.addRecord(ctx, rec)
}

// newestRecord returns the newer record: the one in memory or the one in the row. The result is nil if the row is
// damaged; closing the session reports the damage.
func (p *provisionalTracker) newestRecord(row *session.Row) *session.Record {
	rec, err := session.Decode(row.ID, row.Data)
	if err != nil {
		return nil
	}
	inMemory := p.memory.Snapshot(session.Ref{Tenant: row.Tenant, ID: row.ID})
	if inMemory != nil && inMemory.Thread.Turns >= rec.Thread.Turns { // more turns in the row: the session continued at another replica
		return inMemory
	}
	return rec
}

func (p *provisionalTracker) addRecord(ctx context.Context, rec *session.Record) {
	if rec == nil {
		return
	}
	entries, err := p.backend.Feedback(ctx, rec.Identity.Tenant, rec.Identity.ID)
	if err != nil {
		p.tools.reportFailure(label.StepEarlyVerdict, err)
		return
	}
	p.addReward(rec, entries)
}

func (p *provisionalTracker) addReward(rec *session.Record, entries []feedback.Entry) {
	if rec == nil || rec.Unit.ID != "" { // the feedback counts in the session's unit: the run or parent session
		return
	}
	out := feedback.Reward(dropLateImplicit(entries, rec.Identity.Started, p.reward.CloseAfter), p.reward.Tiers)
	p.beliefs.setProvisional(rec, out, rec.Identity.Started.Add(p.reward.CloseAfter))
}

// expire removes the rewards for sessions that are so old that another replica must have closed them. interval is the
// pause between two closing rounds.
func (p *provisionalTracker) expire(interval time.Duration) {
	p.beliefs.expire(p.tools.now().Add(-closingGracePeriod - (2+maxWaitIntervals)*interval))
}

// restore adds the rewards for sessions that an earlier process left open, one batch per call.
func (p *provisionalTracker) restore(ctx context.Context) {
	if p.isRestored {
		return
	}
	p.isRestored = true // reset below if the read fails or sessions remain
	rows, err := p.backend.DueSessions(ctx, p.startedAt, p.restoreAfter, closeBatchSize)
	if err != nil {
		p.isRestored = false
		p.tools.reportFailure(label.StepEarlyVerdict, err)
		return
	}
	inParallel(len(rows), p.parallel, func(i int) {
		p.tools.guard.RunOn(label.StepRecall, rowRef(&rows[i]), "", func() { p.addRecord(ctx, p.newestRecord(&rows[i])) })
	})
	if len(rows) == closeBatchSize {
		p.isRestored, p.restoreAfter = false, rows[len(rows)-1]
	}
}

// dropLateImplicit removes implicit feedback that arrived when the session was older than age. The implicit reward is
// computed at a fixed age.
func dropLateImplicit(entries []feedback.Entry, started time.Time, age time.Duration) []feedback.Entry {
	if started.IsZero() {
		return entries
	}
	end := started.Add(age)
	late := func(e feedback.Entry) bool { return e.Rule != "" && e.At.After(end) }
	if !slices.ContainsFunc(entries, late) {
		return entries
	}
	return slices.DeleteFunc(slices.Clone(entries), late)
}
