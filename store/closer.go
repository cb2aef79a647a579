package store

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"precept/bandit"
	"precept/feedback"
	"precept/session"
)

const closeBatch = 400 // sessions settled in one transaction

// closeTick is how often due sessions are looked for: a tenth of the closing age, between 100 ms and 10 s.
func (s *Store) closeTick() time.Duration {
	return min(max(s.opts.CloseAfter/10, 100*time.Millisecond), 10*time.Second)
}

// closeDue closes every session that has reached the fixed age. The age is the same for every arm: closing on the
// arrival of feedback would count the arms whose sessions end sooner first.
func (s *Store) closeDue(ctx context.Context) {
	if s.lagging.Load() {
		return // what was said in a session may still stand in the spool
	}
	if s.closeAll(ctx) {
		s.expire()
		s.recall(ctx)
	}
	s.pickUp(ctx)
}

// unsettledEvery is how often replicas look for what another one has left behind.
const unsettledEvery = time.Minute

// pickUp looks for feedback on closed sessions that was taken in, and not settled before the program died. Where others write
// to the backend, it is looked for again now and then: they may die, too.
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
		s.touch(u.Tenant, u.ID)
	}
	switch {
	case len(list) >= closeBatch: // there may be more
		s.pickUpAt = now.Add(time.Second)
	case s.Shared():
		s.pickUpAt = now.Add(unsettledEvery)
	default:
		s.pickUpAt = now.Add(100 * 365 * 24 * time.Hour) // nobody else can leave anything here
	}
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
		work := make([]*settling, 0, len(rows))
		for i := range rows {
			if st := s.prepare(ctx, rows[i].Tenant, rows[i].ID, rows[i].Data); st != nil {
				work = append(work, st)
			}
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
	s.touchedMu.Lock()
	touched := s.touched
	s.touched = map[touch]bool{}
	s.touchedMu.Unlock()
	work := make([]*settling, 0, len(touched))
	for t := range touched {
		if st := s.correct(ctx, t.tenant, t.id); st != nil {
			work = append(work, st)
		}
	}
	s.settle(ctx, work)
	s.refitDue(ctx, touched)
}

// touch names a session that got feedback.
type touch struct {
	tenant string
	id     session.ID
}

// settling is one session on its way into the counters.
type settling struct {
	session.Settlement
	reward  string // the definition of reward that its deltas are under
	rec     *session.Record
	frozen  *bandit.Assignment
	entries []feedback.Entry
	before  bool // a reward was applied already
}

// prepare makes the first settlement of a session. A record in memory is newer than its row, unless another
// replica has served the session since.
func (s *Store) prepare(ctx context.Context, tenant string, id session.ID, data []byte) *settling {
	rec, err := session.Decode(id, data)
	if err != nil {
		s.opts.Failed("decode", err)
		rec = &session.Record{ID: id, Tenant: tenant} // closed with nothing to count, rather than looked at for ever
	}
	if ses := s.live.get(id, s.opts.Now()); ses != nil {
		ses.Lock()
		ses.Closed = true
		if rec.Turns <= ses.Turns && (rec.StandIn || !ses.StandIn) { // else it has gone on at another replica
			if c, err := session.Decode(id, mustEncode(ses.Record)); err == nil {
				rec = c
			}
		}
		ses.Unlock()
		ses.pins.Add(-1)
	}
	entries, heard, err := s.be.Heard(ctx, tenant, id)
	if err != nil {
		s.opts.Failed("close", err)
		return nil
	}
	out := feedback.Reward(entries, s.opts.Tiers)
	if rec.Assignment.Reward = s.reward; s.reward == defaultReward {
		rec.Assignment.Reward = ""
	}
	if rec.Assignment.First = nil; out.OK {
		rec.Assignment.First = &bandit.AtClosing{Y: out.Reward, Tier: out.Tier}
	}
	frozen, err := json.Marshal(&rec.Assignment)
	if err != nil {
		s.opts.Failed("encode", err)
		return nil
	}
	st := &settling{reward: s.reward, rec: rec, frozen: &rec.Assignment, entries: entries}
	st.Tenant, st.ID, st.Heard = tenant, id, heard
	st.To = session.Applied{Version: 1, Told: out.OK, Reward: out.Reward, Tier: out.Tier, Frozen: frozen}
	st.Deltas = append(rec.Assignment.Closing(), rec.Assignment.Spent(rec.Used)...)
	if out.OK {
		st.Deltas = append(st.Deltas, rec.Assignment.Contribution(out.Reward, out.Tier)...)
		st.Deltas = append(st.Deltas, rec.Assignment.Looked(id.String(), out.Reward)...)
	}
	return st
}

// mustEncode is the JSON of a record, or nothing.
func mustEncode(r *session.Record) []byte {
	b, err := r.Encode()
	if err != nil {
		return nil
	}
	return b
}

// correct makes the settlement that turns a closed session's applied reward into today's; nil when there is none to make.
func (s *Store) correct(ctx context.Context, tenant string, id session.ID) *settling {
	old, err := s.be.Applied(ctx, tenant, id)
	if err != nil {
		s.opts.Failed("correct", err)
		s.touch(tenant, id)
		return nil
	}
	if old.Version == 0 { // still open: it is counted when it closes
		s.foresee(ctx, tenant, id)
		return nil
	}
	entries, heard, err := s.be.Heard(ctx, tenant, id)
	if err != nil {
		s.opts.Failed("correct", err)
		s.touch(tenant, id)
		return nil
	}
	var a bandit.Assignment
	def, err := defined(old.Frozen, &a)
	if err != nil {
		s.opts.Failed("decode", err)
		return nil
	}
	out := feedback.Reward(entries, def.Tiers)
	st := &settling{reward: def.String(), frozen: &a, entries: entries, before: old.Told}
	st.Tenant, st.ID, st.From, st.Heard = tenant, id, old.Version, heard
	st.To = session.Applied{Version: old.Version + 1, Told: out.OK, Reward: out.Reward, Tier: out.Tier, Frozen: old.Frozen}
	if old.Told == out.OK && old.Reward == out.Reward && old.Tier == out.Tier {
		return st // no counter moves, but the samples get the new rating
	}
	if old.Told {
		st.Deltas = bandit.Negate(a.Contribution(old.Reward, old.Tier))
	}
	if out.OK {
		st.Deltas = append(st.Deltas, a.Contribution(out.Reward, out.Tier)...)
	}
	return st
}

// defined reads what a session was closed with, and the definition of reward under which it closed: a correction stays under it,
// whatever a reward is today.
func defined(frozen []byte, a *bandit.Assignment) (feedback.Definition, error) {
	if err := json.Unmarshal(frozen, a); err != nil {
		return feedback.Definition{}, err
	}
	return feedback.ParseDefinition(cmp.Or(a.Reward, defaultReward))
}

// settle writes the samples first and moves the counters then: a crash in between repeats both, and samples are
// idempotent by their id.
func (s *Store) settle(ctx context.Context, work []*settling) {
	if len(work) == 0 {
		return
	}
	if !s.writeSamples(ctx, work) {
		s.lookAgain(work)
		return
	}
	steps := make([]session.Settlement, len(work))
	for i, st := range work {
		steps[i] = st.Settlement
		steps[i].Deltas = under(st.reward, st.Deltas)
	}
	s.shared.mu.Lock()
	defer s.shared.mu.Unlock()
	done, err := s.be.Settle(ctx, steps)
	if err != nil {
		s.opts.Failed("settle", err)
		s.lookAgain(work)
		return
	}
	byTenant := map[string][]bandit.Delta{}
	for i, ok := range done {
		if !ok { // another replica, or an earlier step of ours, was first: look again
			s.unforesee(touch{work[i].Tenant, work[i].ID})
			s.touch(work[i].Tenant, work[i].ID)
			continue
		}
		st := work[i]
		s.unforesee(touch{st.Tenant, st.ID})
		if st.reward == s.reward {
			byTenant[st.Tenant] = append(byTenant[st.Tenant], st.Deltas...)
			if st.To.Told {
				s.Beliefs(st.Tenant).Recall(st.ID.Key(), st.frozen)
			}
		}
		if st.From == 0 {
			s.Tally.Closed.Add(1)
		}
		if st.To.Told && !st.before {
			s.Tally.Told.Add(1)
		}
	}
	for tenant, deltas := range byTenant {
		s.learned(ctx, tenant, deltas)
	}
}

// lookAgain keeps the corrections of a step that failed; what is to be closed stays due by itself.
func (s *Store) lookAgain(work []*settling) {
	for _, st := range work {
		if st.From > 0 {
			s.touch(st.Tenant, st.ID)
		}
	}
}

// touch asks for a session's reward to be looked at again.
func (s *Store) touch(tenant string, id session.ID) {
	s.touchedMu.Lock()
	s.touched[touch{tenant, id}] = true
	s.touchedMu.Unlock()
}
