package learn

import (
	"context"
	"slices"
	"time"

	"precept/bandit/feedback"
	"precept/internal/label"
	"precept/internal/session"
)

// closingGrace is how long after its closing age an open session is still taken for open: then
// another replica has closed it.
const closingGrace = 5 * time.Second

// provisional is how the chooser learns from an open session's feedback at once. It is the rewards
// of the last closing age, and where there is little history that is much of it.
type provisional struct {
	tools
	beliefs *beliefs
	memory  Memory
	be      openSessions
	reward  feedback.Definition

	begun    time.Time   // sessions that began before are of an earlier run
	after    session.Row // how far those have been looked at
	recalled bool        // all of them
}

// learn lets the chooser learn what an open session has told.
func (p *provisional) learn(ctx context.Context, at session.Ref) {
	rec := p.memory.InUse(at)
	if rec == nil {
		row, ok, err := p.be.Session(ctx, at.Tenant, at.ID)
		if err != nil || !ok || row.Closed {
			return // closing will see it
		}
		rec = p.record(&row)
	}
	p.learnFrom(ctx, rec)
}

// record is what is known of a session of which there is a row; nil for one that does not decode,
// which closing tells of.
func (p *provisional) record(row *session.Row) *session.Record {
	rec, err := session.Decode(row.ID, row.Data)
	if err != nil {
		return nil
	}
	here := p.memory.InUse(session.Ref{Tenant: row.Tenant, ID: row.ID})
	if here != nil && here.Thread.Turns >= rec.Thread.Turns { // else it has gone on at another replica
		return here
	}
	return rec
}

func (p *provisional) learnFrom(ctx context.Context, rec *session.Record) {
	if rec == nil {
		return
	}
	entries, err := p.be.Feedback(ctx, rec.Identity.Tenant, rec.Identity.ID)
	if err != nil {
		p.failed(label.StepEarly, err)
		return
	}
	p.tell(rec, entries)
}

func (p *provisional) tell(rec *session.Record, entries []feedback.Entry) {
	if rec == nil || rec.Unit.ID != "" { // its unit was told as well
		return
	}
	out := feedback.Reward(inTime(entries, rec.Identity.Started, p.reward.CloseAfter), p.reward.Tiers)
	p.beliefs.setProvisional(rec, out, rec.Identity.Started.Add(p.reward.CloseAfter))
}

// expire takes back what was told of sessions that must have been closed elsewhere. tick is how
// often sessions are closed.
func (p *provisional) expire(tick time.Duration) {
	p.beliefs.expire(p.now().Add(-closingGrace - 2*tick))
}

// recall learns from the sessions that an earlier run left open, a bounded step a call.
func (p *provisional) recall(ctx context.Context) {
	if p.recalled {
		return
	}
	p.recalled = true // unless what follows comes to its end
	rows, err := p.be.Due(ctx, p.begun, p.after, closeBatch)
	if err != nil {
		p.recalled = false
		p.failed(label.StepEarly, err)
		return
	}
	for i := range rows {
		p.guard.On(label.StepRecall, session.Ref{Tenant: rows[i].Tenant, ID: rows[i].ID}, "", func() {
			p.learnFrom(ctx, p.record(&rows[i]))
		})
	}
	if len(rows) == closeBatch {
		p.recalled, p.after = false, rows[len(rows)-1]
	}
}

// inTime leaves out what the traffic said of a session after it was to close: a session's reward is
// that of one fixed age, also where its agent goes on for days. What people say counts whenever
// they say it.
func inTime(entries []feedback.Entry, started time.Time, age time.Duration) []feedback.Entry {
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
