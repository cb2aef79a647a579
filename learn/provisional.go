package learn

import (
	"context"
	"slices"
	"time"

	"precept/bandit/feedback"
	"precept/internal/label"
	"precept/internal/session"
)

// closingGrace is added to the longest time between the closing age of a session and the moment at which a replica
// closes the session. A provisional reward that is older belongs to a session that another replica has closed; see
// expire.
const closingGrace = 5 * time.Second

// provisional adds the rewards of open sessions to the beliefs as soon as feedback arrives. Without
// provisional rewards the chooser would ignore the newest feedback until the closing age, a day by
// default.
type provisional struct {
	tools   tools
	beliefs *beliefs
	memory  Memory
	backend openSessions
	reward  feedback.Definition

	startedAt time.Time   // sessions before this time were started by an earlier process
	after     session.Row // last of these sessions that was read
	restored  bool        // all of these sessions were read
}

// learn reads the record of an open session, and adds the session's reward to the beliefs.
func (p *provisional) learn(ctx context.Context, ref session.Ref) {
	rec := p.memory.Snapshot(ref)
	if rec == nil {
		row, ok, err := p.backend.Session(ctx, ref.Tenant, ref.ID)
		if err != nil || !ok || row.Closed {
			return // closing counts the session
		}
		rec = p.record(&row)
	}
	p.learnFrom(ctx, rec)
}

// record returns the newest record of a session with a row, nil for a row that does not decode.
// Closing reports such a row.
func (p *provisional) record(row *session.Row) *session.Record {
	rec, err := session.Decode(row.ID, row.Data)
	if err != nil {
		return nil
	}
	inMemory := p.memory.Snapshot(session.Ref{Tenant: row.Tenant, ID: row.ID})
	if inMemory != nil && inMemory.Thread.Turns >= rec.Thread.Turns { // otherwise the session has continued at another replica
		return inMemory
	}
	return rec
}

// learnFrom reads the feedback of a session and adds the session's reward to the beliefs.
func (p *provisional) learnFrom(ctx context.Context, rec *session.Record) {
	if rec == nil {
		return
	}
	entries, err := p.backend.Feedback(ctx, rec.Identity.Tenant, rec.Identity.ID)
	if err != nil {
		p.tools.failed(label.StepEarly, err)
		return
	}
	p.addReward(rec, entries)
}

// addReward computes the reward of a session from its feedback, and adds the reward to the beliefs.
func (p *provisional) addReward(rec *session.Record, entries []feedback.Entry) {
	if rec == nil || rec.Unit.ID != "" { // the unit of the session counts the feedback
		return
	}
	out := feedback.Reward(dropLateImplicit(entries, rec.Identity.Started, p.reward.CloseAfter), p.reward.Tiers)
	p.beliefs.setProvisional(rec, out, rec.Identity.Started.Add(p.reward.CloseAfter))
}

// expire removes the rewards of sessions that are so old that another replica has closed them. tick is the interval
// between two rounds of closing.
func (p *provisional) expire(tick time.Duration) {
	p.beliefs.expire(p.tools.now().Add(-closingGrace - (2+maxIntervals)*tick))
}

// restore adds the rewards of sessions that an earlier process left open to the beliefs, at most closeBatch per call.
func (p *provisional) restore(ctx context.Context) {
	if p.restored {
		return
	}
	p.restored = true // reset below if the read fails or sessions remain
	rows, err := p.backend.Due(ctx, p.startedAt, p.after, closeBatch)
	if err != nil {
		p.restored = false
		p.tools.failed(label.StepEarly, err)
		return
	}
	for i := range rows {
		p.tools.guard.On(label.StepRecall, session.Ref{Tenant: rows[i].Tenant, ID: rows[i].ID}, "", func() {
			p.learnFrom(ctx, p.record(&rows[i]))
		})
	}
	if len(rows) == closeBatch {
		p.restored, p.after = false, rows[len(rows)-1]
	}
}

// dropLateImplicit returns the entries without the implicit feedback that is later than age after the start of the
// session. The implicit reward is computed at one fixed age, even if the agent continues for days. Explicit feedback
// counts at any time.
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
