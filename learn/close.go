package learn

import (
	"context"
	"encoding/json"
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"precept/bandit"
	"precept/bandit/feedback"
	"precept/bandit/trial"
	"precept/internal/label"
	"precept/internal/session"
)

const (
	// unsampledEvery is the interval between counts of exchanges without a sample. In a shared
	// backend the count walks over all tenants.
	unsampledEvery = 5 * time.Second
	// unitGrace is the time that a due unit (a run) waits for data of its member sessions. Without a
	// limit, an active member could delay the closing for ever.
	unitGrace = 5 * time.Second
	// maxIntervals is the number of closing intervals after which each replica closes a due session that no
	// other replica has closed.
	maxIntervals = 5
)

// closer closes sessions and corrects closed sessions. Only the goroutine of Learner.Run uses a closer.
type closer struct {
	tools     tools
	deliverer Deliverer
	memory    Memory
	backend   closings
	touches   Touches
	beliefs   *beliefs
	open      *provisional
	units     *units
	samples   *samples
	tally     *Tally
	reward    feedback.Definition
	name      string          // name of the reward definition
	changed   *changedTenants // tenants with settled sessions, for Learner.ChangedTenants

	isFleet bool         // other replicas close the sessions of the backend, too
	seed    maphash.Seed // gives each session a different order of the replicas

	pickUpAt    time.Time // earliest time of the next pickUp
	unsampledAt time.Time // earliest time of the next countUnsampled
}

// closeEvery returns the interval in which due sessions are closed: a tenth of the closing age, between
// 100 ms and 10 s.
func (c *closer) closeEvery() time.Duration {
	return min(max(c.reward.CloseAfter/10, 100*time.Millisecond), 10*time.Second)
}

// closeDue closes every session that has reached the closing age. The age is the same for every arm, because
// closing at the arrival of feedback would count the arms with shorter sessions first.
func (c *closer) closeDue(ctx context.Context) {
	c.deliverer.WithDeliveryPaused(func() {
		if _, ok := c.deliverer.Undelivered(); !ok {
			return // data of a session may still wait in the outbox, or wait for a failed backend
		}
		if c.closeAll(ctx) {
			c.open.expire(c.closeEvery())
			c.tools.guard.Step(label.StepRecall, func() { c.open.restore(ctx) })
		}
		c.pickUp(ctx)
		c.countUnsampled(ctx)
	})
}

// countUnsampled updates the count of stored exchanges that are part of no sample.
func (c *closer) countUnsampled(ctx context.Context) {
	now := c.tools.now()
	if now.Before(c.unsampledAt) {
		return
	}
	c.unsampledAt = now.Add(unsampledEvery)
	n, err := c.backend.Unsampled(ctx)
	if err != nil {
		c.tools.failed(label.StepCount, err)
		return
	}
	c.tally.Unsampled.Store(n)
}

// closeAll closes the due sessions in batches, and reports whether the backend listed all of them.
func (c *closer) closeAll(ctx context.Context) bool {
	var after session.Row
	for ctx.Err() == nil {
		rows, err := c.backend.Due(ctx, c.tools.now().Add(-c.reward.CloseAfter), after, closeBatch)
		if err != nil {
			c.tools.failed(label.StepClose, err)
			return false
		}
		c.units.reset()
		waiting, _ := c.deliverer.Undelivered()
		units := c.unitsOf(waiting)
		work := make([]*settling, 0, len(rows))
		for i := range rows {
			ref := session.Ref{Tenant: rows[i].Tenant, ID: rows[i].ID}
			if waiting[ref] || c.tools.guard.IsAside(ref) || units[ref] && c.inGrace(&rows[i]) || c.leavesToOthers(ref, rows[i].Started) {
				continue
			}
			c.tools.guard.On(label.StepClose, ref, "", func() {
				if st := c.prepare(ctx, &rows[i]); st != nil {
					work = append(work, st)
				}
			})
		}
		c.settle(ctx, work)
		if len(rows) < closeBatch {
			return true
		}
		after = rows[len(rows)-1]
	}
	return false
}

// unitsOf returns the units of sessions with data that the backend does not have yet.
func (c *closer) unitsOf(waiting map[session.Ref]bool) map[session.Ref]bool {
	units := map[session.Ref]bool{}
	for ref := range waiting {
		if rec := c.memory.Snapshot(ref); rec != nil {
			if id, ok := rec.UnitID(); ok {
				units[session.Ref{Tenant: ref.Tenant, ID: id}] = true
			}
		}
	}
	return units
}

// inGrace reports whether a due unit may still wait for data of members.
func (c *closer) inGrace(row *session.Row) bool {
	return c.tools.now().Sub(row.Started) < c.reward.CloseAfter+unitGrace
}

// leavesToOthers reports whether a due session is left to other replicas for now. A replica with the session in memory
// closes the session at once. The other replicas wait one to maxIntervals intervals, by chance, so that few of them
// prepare a session that no replica has in memory.
func (c *closer) leavesToOthers(ref session.Ref, started time.Time) bool {
	if !c.isFleet || c.memory.Snapshot(ref) != nil {
		return false
	}
	intervals := 1 + maphash.Comparable(c.seed, ref)%maxIntervals
	return c.tools.now().Sub(started) < c.reward.CloseAfter+time.Duration(intervals)*c.closeEvery()
}

// prepare returns the first settlement of a session, nil after an error. A session with exchanges but
// without a stored record adds nothing to the counters, but gets its samples.
func (c *closer) prepare(ctx context.Context, row *session.Row) *settling {
	rec := c.memory.Newest(row)
	if rec.Unit.ID != "" {
		if err := c.units.share(ctx, rec); err != nil {
			c.tools.failed(label.StepClose, err)
			return nil
		}
		rec.Assignment = trial.MemberOf()
	}
	var entries []feedback.Entry
	var state int64
	if !row.Unrated {
		var err error
		if entries, state, err = c.backend.SessionFeedback(ctx, row.Tenant, row.ID); err != nil {
			c.tools.failed(label.StepClose, err)
			return nil
		}
	}
	out := feedback.Reward(dropLateImplicit(entries, row.Started, c.reward.CloseAfter), c.reward.Tiers)
	rec.Assignment.Reward = c.name
	if c.name == defaultReward {
		rec.Assignment.Reward = ""
	}
	deltas := atClosing(c.beliefs.chooserAtClosing(row.Tenant), rec, out)
	frozen, err := json.Marshal(&rec.Assignment)
	if err != nil {
		c.tools.failed(label.StepEncode, err)
		return nil
	}
	st := &settling{reward: c.name, entries: entries, isRun: rec.Unit.IsRun, stored: row.Exchanges}
	st.settlement.Tenant, st.settlement.ID, st.settlement.FeedbackState, st.settlement.Deltas = row.Tenant, row.ID, state, deltas
	st.settlement.To = session.Applied{Version: 1, Rewarded: out.OK, Reward: out.Reward, Tier: out.Tier, Frozen: frozen}
	reward := math.NaN()
	if out.OK {
		reward = out.Reward
	}
	st.settlement.Deltas = append(st.settlement.Deltas, rec.Assignment.TrialEntries(row.ID.String(), reward)...)
	return st
}

// atClosing stores the reward at closing in the assignment of a session and returns the deltas that
// the session adds to the counters.
func atClosing(c *bandit.Chooser, rec *session.Record, out feedback.Outcome) []trial.Delta {
	a := &rec.Assignment
	c.Admit(a)
	a.First = nil
	if out.OK {
		a.First = &trial.AtClosing{Y: out.Reward, Tier: out.Tier}
	}
	a.Observe(rec.Thread.Tally)
	deltas := append(a.Closing(), a.CostDeltas(rec.Thread.Used)...)
	if out.OK {
		deltas = append(deltas, bandit.Contribution(a, out.Reward, out.Tier)...)
	}
	return deltas
}

// maxChanged bounds the list of changed tenants.
const maxChanged = 4096

// changedTenants are the tenants with settled sessions since the last call of take.
type changedTenants struct {
	mu         sync.Mutex
	names      map[string]bool
	incomplete bool // tenants beyond maxChanged were left out
}

func (c *changedTenants) add(tenant string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.incomplete = c.incomplete || len(c.names) >= maxChanged; c.incomplete {
		return
	}
	if c.names == nil {
		c.names = map[string]bool{}
	}
	c.names[tenant] = true
}

// take returns the tenants and empties the list. ok is false for an incomplete list.
func (c *changedTenants) take() (names []string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	names, ok = slices.Sorted(maps.Keys(c.names)), !c.incomplete
	c.names, c.incomplete = nil, false
	return names, ok
}
