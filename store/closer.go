package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"precept/bandit"
	"precept/feedback"
	"precept/sample"
	"precept/session"
	"precept/store/guard"
	"precept/trial"
)

const closeBatch = 400 // sessions settled in one transaction

// closeTick is how often due sessions are looked for: a tenth of the closing age, between 100 ms
// and 10 s.
func (s *Store) closeTick() time.Duration {
	return min(max(s.opts.CloseAfter/10, 100*time.Millisecond), 10*time.Second)
}

// closeDue closes every session that has reached the fixed age. The age is the same for every arm:
// closing on the arrival of feedback would count the arms whose sessions end sooner first.
func (s *Store) closeDue(ctx context.Context) { s.Still(func() { s.closeNow(ctx) }) }

func (s *Store) closeNow(ctx context.Context) {
	if s.lagging.Load() || s.batch.err != nil {
		return // what was said in a session may still stand in the spool, or wait for a backend that does not take it
	}
	if s.closeAll(ctx) {
		s.expire()
		s.guard.Step("recall", func() { s.recall(ctx) })
	}
	s.pickUp(ctx)
	s.countUnsampled(ctx)
}

// undelivered are the sessions of which something is on its way to the backend: they close when it
// is there.
func (s *Store) undelivered(b *batch) map[session.Ref]bool {
	var out map[session.Ref]bool
	add := func(x *sample.Exchange) {
		if out == nil {
			out = map[session.Ref]bool{}
		}
		out[refOf(x)] = true
	}
	b.mu.Lock()
	for _, list := range [][]sample.Exchange{b.next.exchanges, b.ready.exchanges, b.tail.exchanges} {
		for i := range list {
			add(&list[i])
		}
	}
	b.mu.Unlock()
	s.queueMu.Lock()
	defer s.queueMu.Unlock()
	for i := range s.queue {
		add(s.queue[i].Exchange)
	}
	return out
}

// lateEvery is how often the samples of sessions are built again that went on after they were
// closed: a tenth of the closing age, between 100 ms and 5 minutes. An agent may go on for days,
// and each time all of its session is read.
func (s *Store) lateEvery() time.Duration {
	return min(max(s.opts.CloseAfter/10, 100*time.Millisecond), 5*time.Minute)
}

// pickUp looks for what came to closed sessions and was not settled: exchanges of agents that went
// on, feedback that was taken in before the program died, and on a backend that others write to
// what one of them has left behind.
func (s *Store) pickUp(ctx context.Context) {
	now := s.opts.Now()
	if now.Before(s.pickUpAt) {
		return
	}
	list, err := s.be.Unsettled(ctx, closeBatch)
	if err != nil {
		s.opts.Failed("pick up", err)
		return
	}
	for _, u := range list {
		s.Touch(u.Tenant, u.ID)
	}
	s.pickUpAt = now.Add(s.lateEvery())
	if len(list) >= closeBatch { // there may be more
		s.pickUpAt = now.Add(time.Second)
	}
}

// unsampledEvery is how often it is counted what no sample knows: where others write to the
// backend, that costs a walk over its tenants.
const unsampledEvery = 5 * time.Second

// countUnsampled keeps count of the exchanges that are stored and stand in no sample.
func (s *Store) countUnsampled(ctx context.Context) {
	now := s.opts.Now()
	if now.Before(s.unsampledAt) {
		return
	}
	s.unsampledAt = now.Add(unsampledEvery)
	n, err := s.be.Unsampled(ctx)
	if err != nil {
		s.opts.Failed("count", err)
		return
	}
	s.Tally.Unsampled.Store(n)
}

// closeAll says whether it found all that was due.
func (s *Store) closeAll(ctx context.Context) bool {
	var after session.Row
	for ctx.Err() == nil {
		rows, err := s.be.Due(ctx, s.opts.Now().Add(-s.opts.CloseAfter), after, closeBatch)
		if err != nil {
			s.opts.Failed("close", err)
			return false
		}
		s.saidOf = map[session.Ref][]feedback.Entry{}
		waiting := s.undelivered(s.batch)
		units := s.unitsOf(waiting)
		work := make([]*settling, 0, len(rows))
		for i := range rows {
			at := session.Ref{Tenant: rows[i].Tenant, ID: rows[i].ID}
			if waiting[at] || s.guard.IsAside(at) || units[at] && s.inGrace(&rows[i]) {
				continue
			}
			s.guard.On("close", at, "", func() {
				if st := s.prepare(ctx, &rows[i]); st != nil {
					work = append(work, st)
				}
			})
		}
		s.settle(ctx, work)
		if len(rows) < closeBatch {
			return true
		}
		after = rows[len(rows)-1]
	}
	return false
}

// resettle brings what the counters hold of closed sessions in line with feedback that came later.
func (s *Store) resettle(ctx context.Context) {
	touched := s.Touched()
	if len(touched) == 0 {
		return
	}
	s.Still(func() { s.correctAll(ctx, touched) })
	s.guard.Step("refit", func() { s.refitDue(ctx, touched) })
}

func (s *Store) correctAll(ctx context.Context, touched map[session.Ref]bool) {
	work := make([]*settling, 0, len(touched))
	for t := range touched {
		if s.guard.IsAside(t) {
			continue
		}
		s.guard.On("correct", t, "", func() {
			if st := s.correct(ctx, t.Tenant, t.ID); st != nil {
				work = append(work, st)
			}
		})
	}
	s.settle(ctx, work)
}

// settling is one session on its way into the counters.
type settling struct {
	session.Settlement
	reward  string // the definition of reward that its deltas are under
	rec     *session.Record
	entries []feedback.Entry
	before  bool // a reward was applied already
}

// prepare makes the first settlement of a session.
func (s *Store) prepare(ctx context.Context, row *session.Row) *settling {
	rec := s.closing(row)
	if rec.Unit != "" {
		if err := s.exchangeWithUnit(ctx, rec); err != nil {
			s.opts.Failed("close", err)
			return nil
		}
		rec.Assignment = trial.Assignment{Excluded: true} // what was drawn for it is its unit's
	}
	entries, heard, err := s.be.Heard(ctx, row.Tenant, row.ID)
	if err != nil {
		s.opts.Failed("close", err)
		return nil
	}
	out := feedback.Reward(inTime(entries, row.Started, s.opts.CloseAfter), s.opts.Tiers)
	if rec.Assignment.Reward = s.reward; s.reward == defaultReward {
		rec.Assignment.Reward = ""
	}
	atClosing(&rec.Assignment, out)
	frozen, err := json.Marshal(&rec.Assignment)
	if err != nil {
		s.opts.Failed("encode", err)
		return nil
	}
	st := &settling{reward: s.reward, rec: rec, entries: entries}
	st.Tenant, st.ID, st.Heard = row.Tenant, row.ID, heard
	st.To = session.Applied{Version: 1, Told: out.OK, Reward: out.Reward, Tier: out.Tier, Frozen: frozen}
	st.Deltas = append(rec.Assignment.Closing(), rec.Assignment.Spent(rec.Used)...)
	if out.OK {
		st.Deltas = append(st.Deltas, bandit.Contribution(&rec.Assignment, out.Reward, out.Tier)...)
		st.Deltas = append(st.Deltas, rec.Assignment.Looked(row.ID.String(), out.Reward)...)
	}
	return st
}

// closing is the record of a session that closes. One in memory is newer than its row, unless
// another replica has served the session since. A session of which only exchanges came to the
// backend closes with nothing to count; its samples are made.
func (s *Store) closing(row *session.Row) *session.Record {
	rec := &session.Record{ID: row.ID, Tenant: row.Tenant}
	if len(row.Data) > 0 {
		stored, err := session.Decode(row.ID, row.Data)
		if err == nil {
			rec = stored
		} else { // closed with nothing to count, rather than looked at for ever
			s.opts.Failed("decode", err)
		}
	}
	ses := s.live.peek(row.ID)
	if ses == nil {
		return rec
	}
	defer ses.pins.Add(-1)
	ses.Lock()
	defer ses.Unlock()
	if rec.Turns <= ses.Turns && (rec.StandIn || !ses.StandIn) { // else it has gone on at another replica
		if c, err := session.Decode(row.ID, mustEncode(ses.Record)); err == nil {
			if c.Shared() && c.StandIn == rec.StandIn && len(row.Data) > 0 {
				c.Join(rec)
			}
			rec = c
		}
	}
	return rec
}

// inTime leaves out what the traffic said of a session after it was to close: a session's reward is
// that of one fixed age, also where its agent goes on for days. What people say counts whenever
// they say it.
func inTime(entries []feedback.Entry, started time.Time, age time.Duration) []feedback.Entry {
	if started.IsZero() {
		return entries
	}
	end := started.Add(age)
	return without(entries, func(e *feedback.Entry) bool { return e.Rule != "" && e.At.After(end) })
}

// inTimeOf is inTime for a session of which only the name is known.
func (s *Store) inTimeOf(ctx context.Context, tenant string, id session.ID, entries []feedback.Entry, age time.Duration) ([]feedback.Entry, error) {
	if !slices.ContainsFunc(entries, func(e feedback.Entry) bool { return e.Rule != "" }) {
		return entries, nil
	}
	row, ok, err := s.be.Session(ctx, tenant, id)
	if err != nil || !ok {
		return entries, err
	}
	return inTime(entries, row.Started, age), nil
}

// atClosing freezes what was told of a session by its closing.
func atClosing(a *trial.Assignment, out feedback.Outcome) {
	if a.First = nil; out.OK {
		a.First = &trial.AtClosing{Y: out.Reward, Tier: out.Tier}
	}
}

// mustEncode is the JSON of a record, or nothing.
func mustEncode(r *session.Record) []byte {
	b, err := r.Encode()
	if err != nil {
		return nil
	}
	return b
}

// correct makes the settlement that turns a closed session's applied reward into today's; nil when
// there is none to make.
func (s *Store) correct(ctx context.Context, tenant string, id session.ID) *settling {
	old, err := s.be.Applied(ctx, tenant, id)
	if err != nil {
		s.opts.Failed("correct", err)
		s.Touch(tenant, id)
		return nil
	}
	if err := s.passToMembers(ctx, tenant, id); err != nil {
		s.opts.Failed("correct", err)
		s.Touch(tenant, id)
		return nil
	}
	if old.Version == 0 { // still open: it is counted when it closes
		s.foresee(ctx, tenant, id)
		return nil
	}
	entries, heard, err := s.be.Heard(ctx, tenant, id)
	if err != nil {
		s.opts.Failed("correct", err)
		s.Touch(tenant, id)
		return nil
	}
	var a trial.Assignment
	def, err := defined(old.Frozen, &a)
	if err != nil {
		s.opts.Failed("decode", err)
		return nil
	}
	counted, err := s.inTimeOf(ctx, tenant, id, entries, def.CloseAfter)
	if err != nil {
		s.opts.Failed("correct", err)
		s.Touch(tenant, id)
		return nil
	}
	out := feedback.Reward(counted, def.Tiers)
	st := &settling{reward: def.String(), entries: entries, before: old.Told}
	st.Tenant, st.ID, st.From, st.Heard = tenant, id, old.Version, heard
	st.To = session.Applied{Version: old.Version + 1, Told: out.OK, Reward: out.Reward, Tier: out.Tier, Frozen: old.Frozen}
	if old.Told == out.OK && old.Reward == out.Reward && old.Tier == out.Tier {
		return st // no counter moves, but the samples get the new rating
	}
	if old.Told {
		st.Deltas = trial.Negate(bandit.Contribution(&a, old.Reward, old.Tier))
	}
	if out.OK {
		st.Deltas = append(st.Deltas, bandit.Contribution(&a, out.Reward, out.Tier)...)
	}
	return st
}

// defined reads what a session was closed with, and the definition of reward under which it closed:
// a correction stays under it, whatever a reward is today.
func defined(frozen []byte, a *trial.Assignment) (feedback.Definition, error) {
	if err := json.Unmarshal(frozen, a); err != nil {
		return feedback.Definition{}, err
	}
	return feedback.ParseDefinition(cmp.Or(a.Reward, defaultReward))
}

// settle writes the samples first and moves the counters then: a crash in between repeats both, and
// samples are idempotent by their id.
func (s *Store) settle(ctx context.Context, work []*settling) {
	if len(work) == 0 {
		return
	}
	work, ok := s.writeSamples(ctx, work)
	if !ok {
		s.lookAgain(work)
		return
	}
	err := s.guard.Err("settle", func() error { return s.settleAll(ctx, work) })
	if errors.Is(err, guard.ErrPanicked) { // one of them is to blame: each by itself
		for _, st := range work {
			s.guard.On("settle", session.Ref{Tenant: st.Tenant, ID: st.ID}, "", func() {
				if err := s.settleAll(ctx, []*settling{st}); err != nil {
					s.unsettledAgain([]*settling{st}, err)
				}
			})
		}
		return
	}
	if err != nil {
		s.unsettledAgain(work, err)
	}
}

// unsettledAgain keeps what could not be settled for another time.
func (s *Store) unsettledAgain(work []*settling, err error) {
	s.opts.Failed("settle", err)
	s.lookAgain(work)
}

// settleAll moves the counters, in the backend and in memory.
func (s *Store) settleAll(ctx context.Context, work []*settling) error {
	steps := make([]session.Settlement, len(work))
	for i, st := range work {
		steps[i] = st.Settlement
		steps[i].Deltas = under(st.reward, st.Deltas)
	}
	s.shared.mu.Lock()
	defer s.shared.mu.Unlock()
	done, err := s.be.Settle(ctx, steps)
	if err != nil {
		return err
	}
	byTenant := map[string][]trial.Delta{}
	for i, st := range work {
		s.unforesee(session.Ref{Tenant: st.Tenant, ID: st.ID})
		if !done[i] { // another replica, or an earlier step of ours, was first: look again
			s.Touch(st.Tenant, st.ID)
			continue
		}
		s.settled(st, byTenant)
	}
	for tenant, deltas := range byTenant {
		s.guard.Step("learn", func() { s.learned(ctx, tenant, deltas) })
	}
	return nil
}

// settled takes note of a step that the backend took. The caller holds shared.mu.
func (s *Store) settled(st *settling, byTenant map[string][]trial.Delta) {
	if st.reward == s.reward {
		byTenant[st.Tenant] = append(byTenant[st.Tenant], st.Deltas...)
	}
	if st.From == 0 {
		s.Tally.Closed.Add(1)
	}
	if st.To.Told && !st.before {
		s.Tally.Told.Add(1)
	}
}

// lookAgain keeps the corrections of a step that failed; what is to be closed stays due by itself.
func (s *Store) lookAgain(work []*settling) {
	for _, st := range work {
		if st.From > 0 {
			s.Touch(st.Tenant, st.ID)
		}
	}
}
