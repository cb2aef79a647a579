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

// Sessions close at a fixed age, with or without a reward: otherwise sessions with early rewards would count
// first.
func TestSessionClosesAtAFixedAge(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	rewarded := r.addSession("rewarded", picked(true))
	silent := r.addSession("silent", picked(false))
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
	same(t, "version of the session without feedback", r.applied(silent).Version, 1)
	same(t, "sessions closed", r.counter("", "closed"), 2)
	same(t, "rewarded sessions", r.counter("", "told"), 1)
	same(t, "closed sessions in the tally", r.Learner.Tally.Closed.Load(), 2)
	same(t, "rewarded sessions in the tally", r.Learner.Tally.Rewarded.Load(), 1)
	if a := r.applied(silent); a.Rewarded || a.Reward != 0 {
		t.Errorf("the session without feedback: got %+v, want no reward", a)
	}
	r.closeDue(r.ctx())
	same(t, "closed sessions in the tally after a second pass", r.Learner.Tally.Closed.Load(), 2)
}

// More sessions than one transaction takes are closed in one pass.
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

func TestSamplesComeBeforeCounters(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	id := r.addSession("a", picked(true))
	r.postFeedback(tenantA, id, score("f1", 1, 1))
	r.be.takeCalls()
	r.be.failNext("samples", 1, errDown)
	r.advancePastClose()
	if calls := r.be.takeCalls(); slices.Contains(calls, "settle") {
		t.Errorf("after a failed write of samples: got calls %v, want no settle", calls)
	}
	same(t, "counters without the samples", r.counters(tenantA), none)
	sameList(t, "failures", r.failed(), []string{"samples"})
	r.be.failNext("settle", 1, errDown)
	r.closeDue(r.ctx())
	calls := r.be.takeCalls()
	if i, j := slices.Index(calls, "samples"), slices.Index(calls, "settle"); i < 0 || j < i {
		t.Errorf("got calls %v, want samples before settle", calls)
	}
	same(t, "counters after a failed settlement", r.counters(tenantA), none)
	r.closeDue(r.ctx())
	same(t, "rewarded sessions", r.counter("", "told"), 1)
	// A second write changes nothing, because the ids of the samples follow from the session.
	var seen []string
	each := r.be.backend.(interface {
		EachSample(ctx context.Context, tenant string, since, until time.Time, fn func(session.StoredSample) error) error
	})
	if err := each.EachSample(r.ctx(), tenantA, time.Time{}, time.Time{}, func(s session.StoredSample) error {
		seen = append(seen, s.Sample.Family)
		same(t, "the sample's label", s.Sample.Meta["human_feedback_label"].(string), sample.Approved)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	sameList(t, "samples", seen, []string{sample.DialogResponse})
}

// A closing fails, and the session has another turn. The session remains due: the next search closes
// the session, in the same process or after a restart.
func TestFailedClosingIsRetriedAfterMoreTraffic(t *testing.T) {
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
			same(t, step+" failed: version", r.applied(id).Version, 0)
			r.closeDue(r.ctx())
			same(t, step+" failed: version after the retry", r.applied(id).Version, 1)
			same(t, "counter closed", r.counter("", "closed"), 1)
			same(t, "samples", len(r.samplesOf(id)), 1)
		}
	}
}

// Feedback after the session closes leads to the same counters as the same feedback before close.
func TestLateFeedbackIsACorrection(t *testing.T) {
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
		"one entry":                     {[]feedback.Entry{user("a", 1, 1)}, 1, 1},
		"repeated feedback counts once": {[]feedback.Entry{user("a", 1, 1), user("a", 1, 1), user("a", 1, 1)}, 1, 1},
		"a change of mind":              {[]feedback.Entry{user("a", 1, 1), user("b", 2, 0)}, 0, 1},
		"the older entry arrives last":  {[]feedback.Entry{user("b", 2, 0), user("a", 1, 1)}, 0, 1},
		"two raters":                    {[]feedback.Entry{rated(user("a", 1, 1), "kim"), rated(user("b", 2, .5), "lee")}, .75, 1},
		"user, then verifier":           {[]feedback.Entry{user("a", 1, 1), verifier("b", 9, 0)}, 1, 1},
		"verifier, then user":           {[]feedback.Entry{verifier("b", 9, 0), user("a", 1, 1)}, 1, 1},
		"a verifier alone":              {[]feedback.Entry{verifier("b", 9, 1), verifier("c", 10, 0)}, 0, 2},
		"a later entry with an old id":  {[]feedback.Entry{user("a", 1, 0), user("a", 2, .7)}, .7, 1},
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
			same(t, "counters of late feedback", late.sums(tenantA), early.sums(tenantA))
			same(t, "late rewards of late feedback", late.counter("look-twice@0123456789ab", "late1@200000"), 1)
			same(t, "late rewards of early feedback", early.counter("look-twice@0123456789ab", "late1@200000"), 0)
			same(t, "rewards at close, of early feedback", early.counter("look-twice@0123456789ab", fmt.Sprintf("heard1.%d@200000", c.tier)), 1)
			same(t, "rewards at close, of late feedback", late.counter("look-twice@0123456789ab", fmt.Sprintf("heard1.%d@200000", c.tier)), 0)
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
		t.Errorf("feedback of a tier that is not configured: got %+v, want no reward and version 1", a)
	}
	same(t, "definition", r.Definition(), "verifier@1h0m0s")
}

// An excluded session counts once, by its reason. Feedback changes nothing.
func TestExcludedSessionContributesOnlyItsReason(t *testing.T) {
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

// The closing uses the newest assignment in memory, not the stored row. Later changes of the
// assignment do not count.
func TestClosingFreezesTheNewestAssignment(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	id := r.addSession("s", trial.Assignment{Day: 1})
	ses, _ := r.Acquire(r.ctx(), tenantA, id)
	ses.Record.Mutex.Lock()
	ses.Record.Assignment = picked(false)
	ses.Record.Mutex.Unlock()
	r.advancePastClose()
	same(t, "picked", r.counter("look-twice@0123456789ab", "picked"), 1)
	ses.Record.Mutex.Lock()
	ses.Record.Assignment.Picks[0].Injected = true
	ses.Record.Mutex.Unlock()
	r.Release(ses, store.Decided)
	r.record()
	r.postFeedback(tenantA, id, score("a", 1, 1))
	r.record()
	same(t, "counted as withheld", r.counter("look-twice@0123456789ab", "m0"), 1)
	var frozen trial.Assignment
	if err := json.Unmarshal(r.applied(id).Frozen, &frozen); err != nil || frozen.Picks[0].Injected {
		t.Errorf("got frozen assignment %+v, error %v, want the pick withheld", frozen, err)
	}
}

// A failed correction is retried later, for a failure of any step.
func TestCorrectionsAreRetried(t *testing.T) {
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

// A failed closing is retried at the next tick, for any failure.
func TestClosingIsRetried(t *testing.T) {
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
			same(t, "closed sessions", r.counter("", "closed"), 1)
		})
	}
}

// An unreadable row closes without a contribution; otherwise the session would be due forever.
func TestDamagedRowClosesWithoutCounting(t *testing.T) {
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
	sameList(t, "failures of the second pass", r.failed(), nil)
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
	r.closeDue(r.ctx()) // a stop may have interrupted the closing
	same(t, "rewarded sessions", r.counter("", "told"), 1)
}

func TestCloseTickIsBounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ age, want time.Duration }{
		{time.Millisecond, 100 * time.Millisecond}, {5 * time.Second, 500 * time.Millisecond}, {24 * time.Hour, 10 * time.Second},
	} {
		same(t, c.age.String(), learn.CloseTick(c.age), c.want)
	}
}

// Another replica settles a session while this replica closes the session. This replica does not overwrite the
// settlement; its later correction uses the assignment of the other replica.
func TestClosingKeepsTheSettlementOfAnotherReplica(t *testing.T) {
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
			t.Errorf("the settlement of the other replica: got %v, error %v, want accepted", done, err)
		}
	}
	r.advancePastClose()
	same(t, "sessions closed by this replica", r.Learner.Tally.Closed.Load(), 0)
	r.record()
	same(t, "version", r.applied(id).Version, 2)
	same(t, "closed sessions in the counters", r.counter("", "closed"), 1)
	same(t, "withheld sessions (the assignment of the other replica)", r.counter("look-twice@0123456789ab", "m0"), 1)
	same(t, "injected sessions (the assignment of this replica)", r.counter("look-twice@0123456789ab", "m1"), 0)
}

// Feedback on a closed session is stored, and the program stops before the correction. The next run makes the
// correction.
func TestStoredCorrectionSurvivesARestart(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	id := r.addSession("s", picked(true))
	r.postFeedback(tenantA, id, score("a", 1, 1))
	r.advancePastClose()
	same(t, "reward", r.applied(id).Reward, 1.0)
	e := score("b", 2, .25)
	r.postFeedback(tenantA, id, e) // stored, not applied
	r = r.reopen(nil)
	same(t, "reward before the first pass of the next run", r.applied(id).Reward, 1.0)
	r.closeDue(r.ctx())
	r.record()
	same(t, "reward after the first pass", r.applied(id).Reward, .25)
	same(t, "rewarded sessions", r.counter("", "told"), 1)
	same(t, "version", r.applied(id).Version, 2)

	// Feedback arrives during the settlement of a correction, and the program stops before the next pass.
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
	same(t, "applied reward", r.applied(id).Reward, .5)
	r = r.reopen(nil)
	r.closeDue(r.ctx())
	r.record()
	same(t, "the reward after the correction", r.applied(id).Reward, .75)
	left, err := r.be.Unsettled(r.ctx(), 10)
	if err != nil || len(left) > 0 {
		t.Errorf("got unsettled sessions %v, error %v, want none", left, err)
	}
	sameList(t, "failures", r.failed(), nil)
}

// The backend fails to list the unsettled sessions, and the next pass lists them again. After a successful listing,
// the learner makes no second listing at the same time.
func TestFailedListingOfUnsettledSessionsIsRepeated(t *testing.T) {
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
			t.Error("closeDue calls unsettled after a successful listing, want no second listing")
		}
	}
}

// A run closes like a session. The tally counts the sessions of the run, without the run, for a reward before the
// closing and for a late reward.
func TestTallyCountsTheSessionsOfARunWithoutTheRun(t *testing.T) {
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
		same(t, name+": version of the run", r.applied(id).Version > 0, true)
		same(t, name+": reward of the run", r.applied(id).Rewarded, true)
		same(t, name+": closed sessions in the tally", r.Learner.Tally.Closed.Load(), 2)
		same(t, name+": rewarded sessions in the tally", r.Learner.Tally.Rewarded.Load(), 2)
	}
}
