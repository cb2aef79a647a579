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

	"golang.org/x/sync/errgroup"

	"precept/bandit"
	"precept/bandit/feedback"
	"precept/bandit/trial"
	"precept/internal/label"
	"precept/internal/session"
)

const (
	// countInterval is the minimum time between two counts of unsampled exchanges. A count reads all tenants.
	countInterval = 5 * time.Second
	// unitGracePeriod is the maximum time that a due unit (a run or a parent session) waits for data from its sessions.
	// Otherwise, an active session could delay the closing forever.
	unitGracePeriod = 5 * time.Second
	// maxWaitIntervals is the maximum number of closing intervals that waitsForOthers waits.
	maxWaitIntervals = 5
)

// closer closes and corrects sessions. Only the goroutine of Learner.Run uses it.
type closer struct {
	tools       tools
	deliverer   Deliverer
	memory      Memory
	backend     closingStore
	touches     Touches
	beliefs     *beliefs
	provisional *provisionalTracker
	units       *units
	samples     *sampleBuilder
	metrics     *Metrics
	reward      feedback.Definition
	rewardName  string
	changed     *changedTenants // for Learner.ChangedTenants

	isFleet bool // other replicas also close sessions
	ageNow  func(ctx context.Context) (earliest, latest time.Time, err error)
	seed    maphash.Seed // differs between replicas, so waitsForOthers spreads the waits

	nextTouchAt time.Time // next touchUnsettled run
	nextCountAt time.Time // next countUnsampled run
}

// closeInterval is a tenth of the closing age, but at least 100 ms and at most 10 s.
func (c *closer) closeInterval() time.Duration {
	return min(max(c.reward.CloseAfter/10, 100*time.Millisecond), 10*time.Second)
}

// closeDue closes every session that has reached the closing age. A session does not close earlier when feedback
// arrives, because lessons that get feedback early would then be counted before others.
func (c *closer) closeDue(ctx context.Context) {
	c.deliverer.WithDeliveryPaused(func() {
		if _, ok := c.deliverer.UndeliveredSessions(); !ok {
			return // a session may have data that has not reached the backend
		}
		if c.closeAll(ctx) {
			c.provisional.expire(c.closeInterval())
			c.tools.guard.Run(label.StepRecall, func() { c.provisional.restore(ctx) })
		}
		c.touchUnsettled(ctx)
		c.countUnsampled(ctx)
	})
}

func (c *closer) countUnsampled(ctx context.Context) {
	now := c.tools.now()
	if now.Before(c.nextCountAt) {
		return
	}
	c.nextCountAt = now.Add(countInterval)
	n, err := c.backend.CountUnsampled(ctx)
	if err != nil {
		c.tools.reportFailure(label.StepCount, err)
		return
	}
	c.metrics.Unsampled.Store(n)
}

// closeAll closes the due sessions, and reports whether the backend listed all due sessions.
func (c *closer) closeAll(ctx context.Context) bool {
	earliest, latest, err := c.ageNow(ctx)
	if err != nil {
		c.tools.reportFailure(label.StepClose, err)
		return false
	}
	return c.closeStarted(ctx, time.Time{}, earliest.Add(-c.reward.CloseAfter)) && c.closeStarted(ctx, latest.Add(c.maxLead()), latest.AddDate(1000, 0, 0))
}

// maxLead is how far ahead of the clock a session's start can be. A session with a later start began before the clock
// was set back. Such a session closes at once, because its age is unknown, and because the session would otherwise stay
// open until the clock reaches the start.
func (c *closer) maxLead() time.Duration { return max(c.reward.CloseAfter, time.Hour) }

// closeStarted closes, in batches, the open sessions that started between two times. It reports whether the backend
// listed all these sessions.
func (c *closer) closeStarted(ctx context.Context, from, before time.Time) bool {
	after := session.Row{Started: from}
	for ctx.Err() == nil {
		rows, err := c.backend.DueSessions(ctx, before, after, closeBatchSize)
		if err != nil {
			c.tools.reportFailure(label.StepClose, err)
			return false
		}
		c.units.reset()
		waiting, _ := c.deliverer.UndeliveredSessions()
		units := c.waitingUnits(waiting)
		var due []session.Row
		for i := range rows {
			ref := rowRef(&rows[i])
			if !waiting[ref] && !c.tools.guard.IsSkipped(ref) && (!units[ref] || !c.isInGracePeriod(&rows[i])) && !c.waitsForOthers(ref, rows[i].Started) {
				due = append(due, rows[i])
			}
		}
		stored := c.readFeedback(ctx, due)
		work := make([]*pendingSettlement, 0, len(due))
		for i := range due {
			c.tools.guard.RunOn(label.StepClose, rowRef(&due[i]), "", func() {
				if st := c.prepareSettlement(ctx, &due[i], stored[i]); st != nil {
					work = append(work, st)
				}
			})
		}
		c.settle(ctx, work)
		if len(rows) < closeBatchSize {
			return true
		}
		after = rows[len(rows)-1]
	}
	return false
}

// waitingUnits returns the units of the sessions in waiting, whose data has not reached the backend.
func (c *closer) waitingUnits(waiting map[session.Ref]bool) map[session.Ref]bool {
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

// isInGracePeriod reports whether a due unit may still wait for data from members.
func (c *closer) isInGracePeriod(row *session.Row) bool {
	return c.age(row.Started) < c.reward.CloseAfter+unitGracePeriod
}

// waitsForOthers reports whether this replica waits for another replica to close a due session. A replica with the
// session in memory does not wait. The others wait a random number of closing intervals, so that few replicas do the
// same work.
func (c *closer) waitsForOthers(ref session.Ref, started time.Time) bool {
	if !c.isFleet || c.memory.Snapshot(ref) != nil {
		return false
	}
	intervals := 1 + maphash.Comparable(c.seed, ref)%maxWaitIntervals
	return c.age(started) < c.reward.CloseAfter+time.Duration(intervals)*c.closeInterval()
}

// age returns a session's age. If the start is further ahead than maxLead, the result is the longest duration.
func (c *closer) age(started time.Time) time.Duration {
	age := c.tools.now().Sub(started)
	if age < -c.maxLead() {
		return math.MaxInt64
	}
	return age
}

func rowRef(row *session.Row) session.Ref { return session.Ref{Tenant: row.Tenant, ID: row.ID} }

// sessionFeedback is a session's stored feedback.
type sessionFeedback struct {
	entries []feedback.Entry
	state   int64 // feedback version, for Settlement.FeedbackState
}

// readFeedback reads sessions' feedback in parallel from a shared backend. If a read fails, the session's element is
// nil, and prepareSettlement reads the feedback again.
func (c *closer) readFeedback(ctx context.Context, rows []session.Row) []*sessionFeedback {
	stored := make([]*sessionFeedback, len(rows))
	if !c.isFleet {
		return stored
	}
	inParallel(len(rows), maxParallelReads, func(i int) {
		c.tools.guard.Run(label.StepClose, func() {
			if entries, state, err := c.backend.SessionFeedback(ctx, rows[i].Tenant, rows[i].ID); err == nil {
				stored[i] = &sessionFeedback{entries, state}
			}
		})
	})
	return stored
}

// inParallel calls fn with 0 to n-1, at most limit calls at a time, and waits for all calls.
func inParallel(n, limit int, fn func(i int)) {
	var g errgroup.Group
	g.SetLimit(limit)
	for i := range n {
		g.Go(func() error {
			fn(i)
			return nil
		})
	}
	_ = g.Wait()
}

// prepareSettlement returns a closing session's settlement, or nil after an error. A session without a stored record
// changes no counter, but gets samples. stored is the session's feedback, or nil if the feedback was not read yet.
func (c *closer) prepareSettlement(ctx context.Context, row *session.Row, stored *sessionFeedback) *pendingSettlement {
	rec := c.memory.NewestRecord(row)
	if rec.Unit.ID != "" {
		stored = nil // the unit's feedback is added below
		if err := c.units.shareFeedback(ctx, rec); err != nil {
			c.tools.reportFailure(label.StepClose, err)
			return nil
		}
		rec.Assignment = trial.MemberAssignment()
	}
	var entries []feedback.Entry
	var state int64
	if stored != nil {
		entries, state = stored.entries, stored.state
	} else if !row.Unrated {
		var err error
		if entries, state, err = c.backend.SessionFeedback(ctx, row.Tenant, row.ID); err != nil {
			c.tools.reportFailure(label.StepClose, err)
			return nil
		}
	}
	out := feedback.Reward(dropLateImplicit(entries, row.Started, c.reward.CloseAfter), c.reward.Tiers)
	rec.Assignment.Reward = c.rewardName
	if c.rewardName == defaultReward {
		rec.Assignment.Reward = ""
	}
	deltas := closingDeltas(c.beliefs.peekChooser(row.Tenant), rec, out)
	frozen, err := json.Marshal(&rec.Assignment)
	if err != nil {
		c.tools.reportFailure(label.StepEncode, err)
		return nil
	}
	st := &pendingSettlement{rewardName: c.rewardName, entries: entries, isRun: rec.Unit.IsRun, storedExchanges: row.Exchanges}
	st.settlement.Tenant, st.settlement.ID, st.settlement.FeedbackState, st.settlement.Deltas = row.Tenant, row.ID, state, deltas
	st.settlement.To = session.SettledState{Version: 1, Rewarded: out.OK, Reward: out.Reward, Tier: out.Tier, AssignmentAtClose: frozen}
	reward := math.NaN()
	if out.OK {
		reward = out.Reward
	}
	st.settlement.Deltas = append(st.settlement.Deltas, rec.Assignment.TrialEntries(row.ID.String(), reward)...)
	return st
}

// closingDeltas stores the reward in the session's assignment, and returns the session's deltas.
func closingDeltas(c *bandit.Chooser, rec *session.Record, out feedback.SessionReward) []trial.Delta {
	a := &rec.Assignment
	c.BoundNames(a)
	a.RewardAtClose = nil
	if out.OK {
		a.RewardAtClose = &trial.RewardAtClose{Y: out.Reward, Tier: out.Tier}
	}
	a.Observe(rec.Thread.Totals)
	deltas := append(a.ClosingDeltas(), a.CostDeltas(rec.Thread.Used)...)
	if out.OK {
		deltas = append(deltas, bandit.Contribution(a, out.Reward, out.Tier)...)
	}
	return deltas
}

const maxChanged = 4096 // tenants in changedTenants

// changedTenants holds the tenants whose sessions were settled since the last take call.
type changedTenants struct {
	mu         sync.Mutex
	names      map[string]bool
	incomplete bool // more than maxChanged tenants have changed
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

// take returns the sorted tenants and empties the list. ok is false if more tenants changed than the list holds.
func (c *changedTenants) take() (names []string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	names, ok = slices.Sorted(maps.Keys(c.names)), !c.incomplete
	c.names, c.incomplete = nil, false
	return names, ok
}
