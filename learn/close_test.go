package learn_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"precept/bandit/feedback"
	"precept/bandit/trial"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/learn"
	"precept/store"
)

// Sessions close at a fixed age, with or without a reward. Otherwise sessions with early rewards would be counted
// first.
func TestSessionClosesAtFixedAge(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	rewarded := r.addSession("rewarded", picked(true))
	unrewarded := r.addSession("unrewarded", picked(false))
	r.postFeedback(tenantA, rewarded, score("f1", 1, 1))
	for _, step := range []time.Duration{time.Minute, 58 * time.Minute, 59 * time.Second} {
		r.clk.add(step)
		r.record()
		r.closeDue(r.ctx())
		same(t, "version before the closing age", r.applied(rewarded).Version, 0)
		same(t, "counters of an open session", r.counters(tenantA), none)
	}
	r.clk.add(time.Second + time.Microsecond)
	r.closeDue(r.ctx())
	same(t, "version of the rewarded session", r.applied(rewarded).Version, 1)
	same(t, "version of the unrewarded session", r.applied(unrewarded).Version, 1)
	same(t, "closed sessions in the counters", r.counter("", "closed"), 2)
	same(t, "rewarded sessions in the counters", r.counter("", "told"), 1)
	same(t, "closed sessions in the tally", r.Learner.Tally.Closed.Load(), 2)
	same(t, "rewarded sessions in the tally", r.Learner.Tally.Rewarded.Load(), 1)
	if a := r.applied(unrewarded); a.Rewarded || a.Reward != 0 {
		t.Errorf("applied state of the unrewarded session = %+v, want no reward", a)
	}
	r.closeDue(r.ctx())
	same(t, "closed sessions in the tally after a second pass", r.Learner.Tally.Closed.Load(), 2)
}

// One pass closes more sessions than fit into one transaction.
func TestManySessionsCloseInOnePass(t *testing.T) {
	t.Parallel()
	r := newFixture(t, func(o *options) { o.Content.Keep = false })
	const n = learn.CloseBatch + 30
	for i := range n {
		r.beginSession(tenantA, "s"+string(rune('a'+i%26))+strings.Repeat("x", i/26), picked(i%5 > 0))
	}
	r.record()
	r.advancePastClose()
	same(t, "closed sessions in the counters", r.counter("", "closed"), float64(n))
	same(t, "closed sessions in the tally", r.Learner.Tally.Closed.Load(), int64(n))
}

func TestSamplesAreWrittenBeforeCounters(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	id := r.addSession("a", picked(true))
	r.postFeedback(tenantA, id, score("f1", 1, 1))
	r.be.takeCalls()
	r.be.failNext("samples", 1, errDown)
	r.advancePastClose()
	if calls := r.be.takeCalls(); slices.Contains(calls, "settle") {
		t.Errorf("calls after samples could not be written = %v, want no settle", calls)
	}
	same(t, "counters after a failed write of samples", r.counters(tenantA), none)
	sameList(t, "failures", r.failed(), []string{"samples"})
	r.be.failNext("settle", 1, errDown)
	r.closeDue(r.ctx())
	calls := r.be.takeCalls()
	if i, j := slices.Index(calls, "samples"), slices.Index(calls, "settle"); i < 0 || j < i {
		t.Errorf("calls = %v, want samples before settle", calls)
	}
	same(t, "counters after a failed settlement", r.counters(tenantA), none)
	r.closeDue(r.ctx())
	same(t, "rewarded sessions", r.counter("", "told"), 1)
	// The repeated write of the sample changed nothing, because the id of a sample is derived from the session.
	var families []string
	each := r.be.backend.(interface {
		EachSample(ctx context.Context, tenant string, since, until time.Time, fn func(session.StoredSample) error) error
	})
	if err := each.EachSample(r.ctx(), tenantA, time.Time{}, time.Time{}, func(s session.StoredSample) error {
		families = append(families, s.Sample.Family)
		same(t, "label of the sample", s.Sample.Meta["human_feedback_label"].(string), sample.Approved)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	sameList(t, "families of the samples", families, []string{sample.DialogResponse})
}

// If a session has another turn after its close has failed, it remains due. The next pass closes it, in the same
// process or after a restart.
func TestFailedCloseIsRetriedAfterMoreTraffic(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"samples", "settle"} {
		for _, restart := range []bool{false, true} {
			r := newFixture(t, nil)
			id := r.addSession("s", picked(true))
			r.be.failNext(step, 1, errDown)
			r.advancePastClose()
			ses, _ := r.Acquire(r.ctx(), tenantA, id)
			ses.Record.Mutex.Lock()
			ses.Record.Thread.Turns++
			ses.Record.Mutex.Unlock()
			r.Release(ses, store.Decided)
			r.record()
			if restart {
				r = r.reopen(nil)
			}
			same(t, step+" failed: version before the retry", r.applied(id).Version, 0)
			r.closeDue(r.ctx())
			same(t, step+" failed: version after the retry", r.applied(id).Version, 1)
			same(t, step+" failed: closed sessions in the counters", r.counter("", "closed"), 1)
			same(t, step+" failed: number of samples", len(r.samplesOf(id)), 1)
		}
	}
}

// Feedback after close leads to the same counters as the same feedback before close, except for the counts of rewards
// at close and late rewards.
func TestLateFeedbackCorrectsCounters(t *testing.T) {
	t.Parallel()
	user := func(id string, minute int, y float64) feedback.Entry { return score(id, minute, y) }
	verifier := func(id string, minute int, y float64) feedback.Entry {
		e := score(id, minute, y)
		e.Source, e.Tier = feedback.SourceSystem, feedback.TierVerifier
		return e
	}
	rated := func(e feedback.Entry, rater string) feedback.Entry { e.Rater = rater; return e }
	for name, c := range map[string]struct {
		entries []feedback.Entry
		reward  float64
		tier    int
	}{
		"one entry":                    {[]feedback.Entry{user("a", 1, 1)}, 1, 1},
		"same entry three times":       {[]feedback.Entry{user("a", 1, 1), user("a", 1, 1), user("a", 1, 1)}, 1, 1},
		"newer entry replaces older":   {[]feedback.Entry{user("a", 1, 1), user("b", 2, 0)}, 0, 1},
		"older entry arrives last":     {[]feedback.Entry{user("b", 2, 0), user("a", 1, 1)}, 0, 1},
		"two raters":                   {[]feedback.Entry{rated(user("a", 1, 1), "kim"), rated(user("b", 2, .5), "lee")}, .75, 1},
		"user, then verifier":          {[]feedback.Entry{user("a", 1, 1), verifier("b", 9, 0)}, 1, 1},
		"verifier, then user":          {[]feedback.Entry{verifier("b", 9, 0), user("a", 1, 1)}, 1, 1},
		"two verifier entries":         {[]feedback.Entry{verifier("b", 9, 1), verifier("c", 10, 0)}, 0, 2},
		"later entry with the same id": {[]feedback.Entry{user("a", 1, 0), user("a", 2, .7)}, .7, 1},
	} {
		t.Run(name, func(t *testing.T) {
			early := newFixture(t, nil)
			id := early.addSession("s", picked(true))
			for _, e := range c.entries {
				early.postFeedback(tenantA, id, e)
			}
			early.advancePastClose()
			late := newFixture(t, nil)
			late.addSession("s", picked(true))
			late.advancePastClose()
			for _, e := range c.entries {
				late.postFeedback(tenantA, id, e)
				late.record()
			}
			same(t, "counters after late feedback", late.sums(tenantA), early.sums(tenantA))
			same(t, "late feedback: late rewards", late.counter("look-twice@0123456789ab", "late1@200000"), 1)
			same(t, "early feedback: late rewards", early.counter("look-twice@0123456789ab", "late1@200000"), 0)
			same(t, "early feedback: rewards at close", early.counter("look-twice@0123456789ab", fmt.Sprintf("heard1.%d@200000", c.tier)), 1)
			same(t, "late feedback: rewards at close", late.counter("look-twice@0123456789ab", fmt.Sprintf("heard1.%d@200000", c.tier)), 0)
			for _, r := range []*fixture{early, late} {
				a := r.applied(id)
				same(t, "reward", a.Reward, c.reward)
				same(t, "tier", a.Tier, c.tier)
				same(t, "rewarded sessions in the counters", r.counter("", "told"), 1)
				same(t, "rewarded sessions in the tally", r.Learner.Tally.Rewarded.Load(), 1)
				same(t, "rewarded sessions in memory", r.Beliefs(tenantA).Measured().Global().All.Rewarded, 1)
			}
		})
	}
}

func TestOnlyConfiguredTiersCount(t *testing.T) {
	t.Parallel()
	r := newFixture(t, func(o *options) { o.Reward.Tiers = []int{feedback.TierVerifier} })
	id := r.addSession("s", picked(true))
	r.postFeedback(tenantA, id, score("a", 1, 1))
	r.advancePastClose()
	if a := r.applied(id); a.Rewarded || a.Version != 1 {
		t.Errorf("applied state after feedback of another tier = %+v, want no reward and version 1", a)
	}
	same(t, "definition", r.Definition(), "verifier@1h0m0s")
}

// An excluded session adds only one counter, for the reason of its exclusion. Its feedback changes no counter.
func TestExcludedSessionCountsOnlyItsReason(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	a := picked(true)
	a.Exclude(trial.ExcludedLate)
	id := r.addSession("s", a)
	r.postFeedback(tenantA, id, score("a", 1, 1))
	r.advancePastClose()
	r.postFeedback(tenantA, id, score("b", 2, 0))
	r.record()
	same(t, "counters", r.counters(tenantA), `[{"Key":{"Scope":"r:user\u003everifier\u003eimplicit@1h0m0s|","Field":"excluded.late","Day":0},"Value":1000000}]`)
	same(t, "reward", r.applied(id).Reward, 0)
	same(t, "version", r.applied(id).Version, 2)
}

// A close counts the newest assignment in memory, not the stored row. Later changes of the assignment have no effect.
func TestCloseFreezesNewestAssignment(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	id := r.addSession("s", trial.Assignment{Day: 1})
	ses, _ := r.Acquire(r.ctx(), tenantA, id)
	ses.Record.Mutex.Lock()
	ses.Record.Assignment = picked(false)
	ses.Record.Mutex.Unlock()
	r.advancePastClose()
	same(t, "counter picked", r.counter("look-twice@0123456789ab", "picked"), 1)
	ses.Record.Mutex.Lock()
	ses.Record.Assignment.Picks[0].Injected = true
	ses.Record.Mutex.Unlock()
	r.Release(ses, store.Decided)
	r.record()
	r.postFeedback(tenantA, id, score("a", 1, 1))
	r.record()
	same(t, "rewarded sessions with the lesson withheld", r.counter("look-twice@0123456789ab", "m0"), 1)
	var frozen trial.Assignment
	if err := json.Unmarshal(r.applied(id).Frozen, &frozen); err != nil || frozen.Picks[0].Injected {
		t.Errorf("frozen assignment = %+v, decode error %v, want the pick withheld", frozen, err)
	}
}

func TestCorrectionIsRetriedAfterFailureOfAnyStep(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"applied", "read feedback", "samples", "settle"} {
		t.Run(op, func(t *testing.T) {
			r := newFixture(t, nil)
			id := r.addSession("s", picked(true))
			r.advancePastClose()
			r.postFeedback(tenantA, id, score("a", 1, 1))
			r.be.failNext(op, 3, errDown)
			for range 3 {
				r.record()
				same(t, "rewarded sessions during the failure", r.counter("", "told"), 0)
			}
			same(t, "reported failures", len(r.failed()), 3)
			r.record()
			same(t, "rewarded sessions after the failure", r.counter("", "told"), 1)
		})
	}
}

func TestCloseIsRetriedAfterFailureOfAnyStep(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"due", "read feedback", "samples", "settle"} {
		t.Run(op, func(t *testing.T) {
			r := newFixture(t, nil)
			id := r.addSession("s", picked(true))
			r.postFeedback(tenantA, id, score("a", 1, 1)) // a session without feedback closes without reading feedback
			r.record()
			r.be.failNext(op, 2, errDown)
			r.advancePastClose()
			r.closeDue(r.ctx())
			same(t, "version during the failure", r.applied(id).Version, 0)
			r.closeDue(r.ctx())
			same(t, "version after the failure", r.applied(id).Version, 1)
			same(t, "closed sessions in the counters", r.counter("", "closed"), 1)
		})
	}
}

// A session whose row is unreadable closes without being counted. Otherwise it would be due forever.
func TestSessionWithDamagedRowClosesUncounted(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	id := session.KeyOf(tenantA, session.SpaceName, "damaged")
	row := session.Row{Tenant: tenantA, ID: id, Started: r.clk.now(), Seen: r.clk.now(), Data: []byte("{half")}
	if err := r.be.Write(r.ctx(), session.Batch{Rows: []session.Row{row}}); err != nil {
		t.Fatal(err)
	}
	r.advancePastClose()
	same(t, "version", r.applied(id).Version, 1)
	sameList(t, "failures", r.failed(), []string{"decode"})
	r.closeDue(r.ctx())
	sameList(t, "failures in the second pass", r.failed(), nil)
}

func TestRunClosesDueSessions(t *testing.T) {
	t.Parallel()
	r := newFixture(t, func(o *options) { o.Reward.CloseAfter = time.Second })
	id := r.addSession("s", picked(true))
	r.postFeedback(tenantA, id, score("a", 1, 1))
	r.clk.add(2 * time.Second)
	ctx, cancel := context.WithCancel(r.ctx())
	defer cancel()
	r.be.hook = func(op string) {
		if op == "settle" {
			cancel()
		}
	}
	learned := make(chan error, 1)
	go func() { learned <- r.Learner.Run(ctx, r.Done()) }()
	if err := errors.Join(r.Store.Run(ctx), <-learned); err != nil {
		t.Fatal(err)
	}
	r.be.hook = nil
	r.closeDue(r.ctx()) // the cancellation may have interrupted the pass
	same(t, "rewarded sessions", r.counter("", "told"), 1)
}

func TestCloseTickIsBounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ age, want time.Duration }{
		{time.Millisecond, 100 * time.Millisecond}, {5 * time.Second, 500 * time.Millisecond}, {24 * time.Hour, 10 * time.Second},
	} {
		same(t, fmt.Sprintf("CloseTick(%v)", c.age), learn.CloseTick(c.age), c.want)
	}
}

// Another replica settles a session while this replica closes it. This replica does not overwrite the settlement, and
// its later correction uses the assignment of the other replica.
func TestCloseKeepsSettlementOfAnotherReplica(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	id := r.addSession("s", picked(true))
	r.postFeedback(tenantA, id, score("a", 1, 1))
	a := picked(false)
	a.Reward = r.Definition()
	frozen, _ := json.Marshal(a)
	r.be.hook = func(op string) {
		if op != "settle" {
			return
		}
		r.be.hook = nil
		done, err := r.be.backend.Settle(r.ctx(), []session.Settlement{{
			Tenant: tenantA, ID: id, To: session.Applied{Version: 1, Frozen: frozen}, Deltas: learn.UnderDefinition(a.Reward, a.Closing()),
		}})
		if err != nil || !done[0] {
			t.Errorf("Settle of the other replica = %v, %v, want true and no error", done, err)
		}
	}
	r.advancePastClose()
	same(t, "sessions closed by this replica", r.Learner.Tally.Closed.Load(), 0)
	r.record()
	same(t, "version", r.applied(id).Version, 2)
	same(t, "closed sessions in the counters", r.counter("", "closed"), 1)
	same(t, "sessions with the lesson withheld (assignment of the other replica)", r.counter("look-twice@0123456789ab", "m0"), 1)
	same(t, "sessions with the lesson injected (assignment of this replica)", r.counter("look-twice@0123456789ab", "m1"), 0)
}

// If the program stops after it has stored feedback on a closed session, the next start makes the correction.
func TestPendingCorrectionIsMadeAfterRestart(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	id := r.addSession("s", picked(true))
	r.postFeedback(tenantA, id, score("a", 1, 1))
	r.advancePastClose()
	same(t, "reward", r.applied(id).Reward, 1.0)
	e := score("b", 2, .25)
	r.postFeedback(tenantA, id, e) // stored, but not applied
	r = r.reopen(nil)
	same(t, "reward after the restart, before the first pass", r.applied(id).Reward, 1.0)
	r.closeDue(r.ctx())
	r.record()
	same(t, "reward after the restart and the first pass", r.applied(id).Reward, .25)
	same(t, "rewarded sessions", r.counter("", "told"), 1)
	same(t, "version", r.applied(id).Version, 2)

	// More feedback arrives during the settlement of a correction, and the program stops before the next pass.
	e.At, e.Score = e.At.Add(time.Hour), .5
	r.be.hook = func(op string) {
		if op == "settle" {
			r.be.hook = nil
			later := e
			later.At, later.Score = e.At.Add(time.Hour), .75
			if _, err := r.be.backend.AddFeedback(r.ctx(), tenantA, map[session.ID][]feedback.Entry{id: {later}}); err != nil {
				t.Error(err)
			}
		}
	}
	r.postFeedback(tenantA, id, e)
	r.recomputeRewards(r.ctx())
	same(t, "reward after the interrupted correction", r.applied(id).Reward, .5)
	r = r.reopen(nil)
	r.closeDue(r.ctx())
	r.record()
	same(t, "reward after the second restart and a pass", r.applied(id).Reward, .75)
	unsettled, err := r.be.Unsettled(r.ctx(), 10)
	if err != nil || len(unsettled) > 0 {
		t.Errorf("Unsettled = %v, %v, want no sessions and no error", unsettled, err)
	}
	sameList(t, "failures", r.failed(), nil)
}

// If the backend fails to list the unsettled sessions, the next pass lists them again. After a successful listing, the
// next pass does not list them again.
func TestUnsettledSessionsAreListedUntilSuccess(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	id := r.addSession("s", picked(true))
	r.advancePastClose()
	r.postFeedback(tenantA, id, score("a", 1, 1))
	r = r.reopen(nil)
	r.be.failNext("unsettled", 1, errDown)
	r.closeDue(r.ctx())
	r.record()
	same(t, "rewarded after the failed listing", r.applied(id).Rewarded, false)
	r.closeDue(r.ctx())
	r.record()
	same(t, "rewarded after the next listing", r.applied(id).Rewarded, true)
	sameList(t, "failures", r.failed(), []string{"pick_up"})
	r.be.takeCalls()
	r.closeDue(r.ctx())
	for _, op := range r.be.takeCalls() {
		if op == "unsettled" {
			t.Error("closeDue called Unsettled again after a successful listing")
		}
	}
}

// A run closes like a session, but the tally counts only its member sessions, whether the reward arrives before or
// after close.
func TestTallyCountsMembersOfRunButNotRun(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"reward before close": false, "late reward": true} {
		r := newFixture(t, nil)
		id := session.RunKey(tenantA, "nightly")
		nightly := session.NewRun(tenantA, session.Claim{Agent: "coder"}, "nightly", id, r.clk.now())
		nightly.OptOut.HasStorableSession = true // as after the first turn of a session
		run := r.Add(nightly)
		for i, member := range []string{"one", "two"} {
			rec := &session.Record{
				Identity: session.Identity{ID: session.KeyOf(tenantA, session.SpaceName, member), Tenant: tenantA, Agent: "coder", Name: member, Method: session.ByHeader, Started: r.clk.now(), Seen: r.clk.now()},
				Thread:   session.Thread{Turns: 1},
			}
			r.AddMember(run, rec)
			r.AddEchoes(session.Echo{Tenant: tenantA, Key: session.MemberKey(tenantA, id, i+1), ID: rec.Identity.ID, At: r.clk.now()})
			r.Release(r.Add(rec), store.Decided)
			r.offer(member, 1)
		}
		r.Release(run, store.Decided)
		r.record()
		if !late {
			r.postFeedback(tenantA, id, score("f1", 1, 1))
		}
		for range 3 {
			r.advancePastClose()
		}
		if late {
			r.postFeedback(tenantA, id, score("f1", 1, 1))
			for range 3 {
				r.record()
			}
		}
		same(t, name+": version of the run is above 0", r.applied(id).Version > 0, true)
		same(t, name+": run is rewarded", r.applied(id).Rewarded, true)
		same(t, name+": closed sessions in the tally", r.Learner.Tally.Closed.Load(), 2)
		same(t, name+": rewarded sessions in the tally", r.Learner.Tally.Rewarded.Load(), 2)
	}
}
