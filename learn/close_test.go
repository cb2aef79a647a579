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

// A session with an early reward does not close earlier.
func TestSessionClosesAtFixedAge(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	rewarded := f.addSession("rewarded", newAssignment(injected))
	unrewarded := f.addSession("unrewarded", newAssignment(withheld))
	f.postFeedback(tenantA, rewarded, userScore("f1", 1, 1))
	for _, step := range []time.Duration{time.Minute, 58 * time.Minute, 59 * time.Second} {
		f.clock.add(step)
		f.deliverAndCorrect()
		f.closeDue(f.ctx())
		assertEqual(t, "version of the settled state before the closing age", f.settledState(rewarded).Version, 0)
		assertEqual(t, "counters while the session is open", f.counters(tenantA), noCounters)
	}
	f.clock.add(time.Second + time.Microsecond)
	f.closeDue(f.ctx())
	assertEqual(t, "rewarded session's version", f.settledState(rewarded).Version, 1)
	assertEqual(t, "unrewarded session's version", f.settledState(unrewarded).Version, 1)
	assertEqual(t, "closed sessions in the counters", f.counter("", "closed"), 2)
	assertEqual(t, "rewarded sessions in the counters", f.counter("", trial.FieldRewarded), 1)
	assertEqual(t, "closed sessions in the metrics", f.Learner.Metrics.Closed.Load(), 2)
	assertEqual(t, "rewarded sessions in the metrics", f.Learner.Metrics.Rewarded.Load(), 1)
	if a := f.settledState(unrewarded); a.Rewarded {
		t.Error("settled state of the unrewarded session: Rewarded = true, want false")
	} else if a.Reward != 0 {
		t.Errorf("settled state of the unrewarded session: Reward = %v, want 0", a.Reward)
	}
	f.closeDue(f.ctx())
	assertEqual(t, "closed sessions in the metrics after a second pass", f.Learner.Metrics.Closed.Load(), 2)
}

// The clock was set back, so two sessions seem to start in two days and in ten minutes. Only the first closes at once.
func TestSessionFromFastClockCloses(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	near := f.addSession("near", newAssignment(injected))
	f.clock.add(48 * time.Hour)
	far := f.addSession("far", newAssignment(injected))
	f.clock.add(-48*time.Hour - 10*time.Minute)
	f.postFeedback(tenantA, far, userScore("f1", 1, 1))
	f.deliverAndCorrect()
	f.closeDue(f.ctx())
	assertEqual(t, "version of the settled state of the session that started two days ahead", f.settledState(far).Version, 1)
	assertEqual(t, "version of the settled state of the session that started ten minutes ahead", f.settledState(near).Version, 0)
	assertEqual(t, "rewarded sessions in the counters", f.counter("", trial.FieldRewarded), 1)
	f.clock.add(10*time.Minute + closeAge + time.Second)
	f.closeDue(f.ctx())
	assertEqual(t, "version of the settled state of the session that started ten minutes ahead, at the closing age", f.settledState(near).Version, 1)
}

// This replica's clock is a day ahead of the other replicas' clocks.
func TestClockAheadClosesNoSessionEarly(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *options) {
		o.AgeNow = func(context.Context) (earliest, latest time.Time, err error) {
			return o.Now().Add(-24 * time.Hour), o.Now(), nil
		}
	})
	id := f.addSession("s", newAssignment(injected))
	f.advancePastClose()
	assertEqual(t, "version of the settled state while the session is young by the other clocks", f.settledState(id).Version, 0)
	f.clock.add(24 * time.Hour)
	f.closeDue(f.ctx())
	assertEqual(t, "version of the settled state a day later", f.settledState(id).Version, 1)
}

// This replica's clock is two days behind, so the other replicas' sessions seem to start in the future.
func TestClockBehindClosesNoSessionEarly(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *options) {
		o.AgeNow = func(context.Context) (earliest, latest time.Time, err error) {
			return o.Now(), o.Now().Add(48 * time.Hour), nil
		}
	})
	f.clock.add(48 * time.Hour)
	id := f.addSession("s", newAssignment(injected))
	f.clock.add(-48 * time.Hour)
	f.closeDue(f.ctx())
	assertEqual(t, "version of the settled state of a session that began now by the other clocks", f.settledState(id).Version, 0)
}

func TestManySessionsCloseInOnePass(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *options) { o.Content.StoreContent = false })
	const n = learn.CloseBatch + 30
	for i := range n {
		f.beginSession(tenantA, "s"+string(rune('a'+i%26))+strings.Repeat("x", i/26), newAssignment(i%5 > 0))
	}
	f.deliverAndCorrect()
	f.advancePastClose()
	assertEqual(t, "closed sessions in the counters", f.counter("", "closed"), float64(n))
	assertEqual(t, "closed sessions in the metrics", f.Learner.Metrics.Closed.Load(), int64(n))
}

func TestSamplesAreWrittenBeforeCounters(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := f.addSession("a", newAssignment(injected))
	f.postFeedback(tenantA, id, userScore("f1", 1, 1))
	f.backend.takeCalls()
	f.backend.failNext("samples", 1, errDown)
	f.advancePastClose()
	if calls := f.backend.takeCalls(); slices.Contains(calls, "settle") {
		t.Errorf("backend calls after a failed sample write: got %v, want no settle", calls)
	}
	assertEqual(t, "counters after a failed sample write", f.counters(tenantA), noCounters)
	assertEqualList(t, "failures", f.takeFailures(), []string{"samples"})
	f.backend.failNext("settle", 1, errDown)
	f.closeDue(f.ctx())
	calls := f.backend.takeCalls()
	if i, j := slices.Index(calls, "samples"), slices.Index(calls, "settle"); i < 0 {
		t.Errorf("backend calls = %q, want samples in the list", calls)
	} else if j < i {
		t.Errorf("backend calls = %q, want samples before settle", calls)
	}
	assertEqual(t, "counters after a failed settlement", f.counters(tenantA), noCounters)
	f.closeDue(f.ctx())
	assertEqual(t, "rewarded sessions", f.counter("", trial.FieldRewarded), 1)
	// The id of a sample is derived from the session, so writing the samples again must not have added any.
	var families []string
	samplesReader := f.backend.backend.(interface {
		EachSample(ctx context.Context, tenant string, since, until time.Time, fn func(session.StoredSample) error) error
	})
	if err := samplesReader.EachSample(f.ctx(), tenantA, time.Time{}, time.Time{}, func(s session.StoredSample) error {
		families = append(families, s.Sample.Family)
		assertEqual(t, "human_feedback_label of the sample", s.Sample.Meta["human_feedback_label"].(string), sample.Approved)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	assertEqualList(t, "families of the stored samples", families, []string{sample.DialogResponse})
}

func TestFailedCloseIsRetriedAfterMoreTraffic(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"samples", "settle"} {
		for _, restart := range []bool{false, true} {
			f := newFixture(t, nil)
			id := f.addSession("s", newAssignment(injected))
			f.backend.failNext(step, 1, errDown)
			f.advancePastClose()
			ses, _ := f.Acquire(f.ctx(), tenantA, id)
			ses.Record.Mutex.Lock()
			ses.Record.Thread.Turns++
			ses.Record.Mutex.Unlock()
			f.Release(ses, store.DecisionsChanged)
			f.deliverAndCorrect()
			if restart {
				f = f.reopen(nil)
			}
			assertEqual(t, step+" failed: version of the settled state before the retry", f.settledState(id).Version, 0)
			f.closeDue(f.ctx())
			assertEqual(t, step+" failed: version of the settled state after the retry", f.settledState(id).Version, 1)
			assertEqual(t, step+" failed: closed sessions in the counters", f.counter("", "closed"), 1)
			assertEqual(t, step+" failed: samples", len(f.storedSamples(id)), 1)
		}
	}
}

// Only the two counters that tell rewards at close from rewards after close may differ.
func TestLateFeedbackCorrectsCounters(t *testing.T) {
	t.Parallel()
	user := func(id string, minute int, y float64) feedback.Entry { return userScore(id, minute, y) }
	verifier := func(id string, minute int, y float64) feedback.Entry {
		e := userScore(id, minute, y)
		e.Source, e.Tier = feedback.SourceSystem, feedback.TierVerifier
		return e
	}
	withRater := func(e feedback.Entry, rater string) feedback.Entry { e.Rater = rater; return e }
	for name, tc := range map[string]struct {
		entries []feedback.Entry
		reward  float64
		tier    int
	}{
		"one entry":                    {[]feedback.Entry{user("a", 1, 1)}, 1, 1},
		"same entry three times":       {[]feedback.Entry{user("a", 1, 1), user("a", 1, 1), user("a", 1, 1)}, 1, 1},
		"newer entry replaces older":   {[]feedback.Entry{user("a", 1, 1), user("b", 2, 0)}, 0, 1},
		"older entry arrives last":     {[]feedback.Entry{user("b", 2, 0), user("a", 1, 1)}, 0, 1},
		"two raters":                   {[]feedback.Entry{withRater(user("a", 1, 1), "kim"), withRater(user("b", 2, .5), "lee")}, .75, 1},
		"user, then verifier":          {[]feedback.Entry{user("a", 1, 1), verifier("b", 9, 0)}, 1, 1},
		"verifier, then user":          {[]feedback.Entry{verifier("b", 9, 0), user("a", 1, 1)}, 1, 1},
		"two verifier entries":         {[]feedback.Entry{verifier("b", 9, 1), verifier("c", 10, 0)}, 0, 2},
		"later entry with the same id": {[]feedback.Entry{user("a", 1, 0), user("a", 2, .7)}, .7, 1},
	} {
		t.Run(name, func(t *testing.T) {
			early := newFixture(t, nil)
			id := early.addSession("s", newAssignment(injected))
			for _, e := range tc.entries {
				early.postFeedback(tenantA, id, e)
			}
			early.advancePastClose()
			late := newFixture(t, nil)
			late.addSession("s", newAssignment(injected))
			late.advancePastClose()
			for _, e := range tc.entries {
				late.postFeedback(tenantA, id, e)
				late.deliverAndCorrect()
			}
			assertEqual(t, "counters after late feedback", late.countersWithoutTiming(tenantA), early.countersWithoutTiming(tenantA))
			assertEqual(t, "late feedback: late rewards", late.counter("look-twice@0123456789ab", "late1@200000"), 1)
			assertEqual(t, "early feedback: late rewards", early.counter("look-twice@0123456789ab", "late1@200000"), 0)
			assertEqual(t, "early feedback: rewards at close", early.counter("look-twice@0123456789ab", fmt.Sprintf("heard1.%d@200000", tc.tier)), 1)
			assertEqual(t, "late feedback: rewards at close", late.counter("look-twice@0123456789ab", fmt.Sprintf("heard1.%d@200000", tc.tier)), 0)
			for _, f := range []*fixture{early, late} {
				a := f.settledState(id)
				assertEqual(t, "reward", a.Reward, tc.reward)
				assertEqual(t, "tier", a.Tier, tc.tier)
				assertEqual(t, "rewarded sessions in the counters", f.counter("", trial.FieldRewarded), 1)
				assertEqual(t, "rewarded sessions in the metrics", f.Learner.Metrics.Rewarded.Load(), 1)
				assertEqual(t, "rewarded sessions in memory", f.Beliefs(tenantA).TrialCounters().Global().All.Rewarded, 1)
			}
		})
	}
}

func TestRewardIgnoresUncountedTiers(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *options) { o.Reward.Tiers = []int{feedback.TierVerifier} })
	id := f.addSession("s", newAssignment(injected))
	f.postFeedback(tenantA, id, userScore("a", 1, 1))
	f.advancePastClose()
	if a := f.settledState(id); a.Rewarded {
		t.Error("settled state after feedback in an uncounted tier: Rewarded = true, want false")
	} else if a.Version != 1 {
		t.Errorf("settled state after feedback in an uncounted tier: Version = %d, want 1", a.Version)
	}
	assertEqual(t, "RewardDefinition", f.RewardDefinition(), "verifier@1h0m0s")
}

func TestExcludedSessionCountsOneReason(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	a := newAssignment(injected)
	a.Exclude(trial.ExcludedLate)
	id := f.addSession("s", a)
	f.postFeedback(tenantA, id, userScore("a", 1, 1))
	f.advancePastClose()
	f.postFeedback(tenantA, id, userScore("b", 2, 0))
	f.deliverAndCorrect()
	assertEqual(t, "counters", f.counters(tenantA), `[{"Key":{"Scope":"r:user\u003everifier\u003eimplicit@1h0m0s|","Field":"excluded.late","Day":0},"Value":1000000}]`)
	assertEqual(t, "reward", f.settledState(id).Reward, 0)
	assertEqual(t, "version of the settled state", f.settledState(id).Version, 2)
}

func TestCloseFreezesNewestAssignment(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := f.addSession("s", trial.Assignment{Day: 1})
	ses, _ := f.Acquire(f.ctx(), tenantA, id)
	ses.Record.Mutex.Lock()
	ses.Record.Assignment = newAssignment(withheld)
	ses.Record.Mutex.Unlock()
	f.advancePastClose()
	assertEqual(t, `counter "picked"`, f.counter("look-twice@0123456789ab", "picked"), 1)
	ses.Record.Mutex.Lock()
	ses.Record.Assignment.Picks[0].Injected = true
	ses.Record.Mutex.Unlock()
	f.Release(ses, store.DecisionsChanged)
	f.deliverAndCorrect()
	f.postFeedback(tenantA, id, userScore("a", 1, 1))
	f.deliverAndCorrect()
	assertEqual(t, "rewarded sessions with the lesson withheld", f.counter("look-twice@0123456789ab", "m0"), 1)
	var frozen trial.Assignment
	if err := json.Unmarshal(f.settledState(id).AssignmentAtClose, &frozen); err != nil {
		t.Error(err)
	} else if frozen.Picks[0].Injected {
		t.Error("assignment stored at close: Injected = true, want false")
	}
}

func TestCorrectionIsRetriedAfterAnyStepFails(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"settled state", "read feedback", "samples", "settle"} {
		t.Run(op, func(t *testing.T) {
			f := newFixture(t, nil)
			id := f.addSession("s", newAssignment(injected))
			f.advancePastClose()
			f.postFeedback(tenantA, id, userScore("a", 1, 1))
			f.backend.failNext(op, 3, errDown)
			for range 3 {
				f.deliverAndCorrect()
				assertEqual(t, "rewarded sessions during the failure", f.counter("", trial.FieldRewarded), 0)
			}
			assertEqual(t, "number of reported failures", len(f.takeFailures()), 3)
			f.deliverAndCorrect()
			assertEqual(t, "rewarded sessions after the failure", f.counter("", trial.FieldRewarded), 1)
		})
	}
}

func TestCloseIsRetriedAfterAnyStepFails(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"due", "read feedback", "samples", "settle"} {
		t.Run(op, func(t *testing.T) {
			f := newFixture(t, nil)
			id := f.addSession("s", newAssignment(injected))
			f.postFeedback(tenantA, id, userScore("a", 1, 1)) // so that the close has feedback to read
			f.deliverAndCorrect()
			f.backend.failNext(op, 2, errDown)
			f.advancePastClose()
			f.closeDue(f.ctx())
			assertEqual(t, "version of the settled state during the failure", f.settledState(id).Version, 0)
			f.closeDue(f.ctx())
			assertEqual(t, "version of the settled state after the failure", f.settledState(id).Version, 1)
			assertEqual(t, "closed sessions in the counters", f.counter("", "closed"), 1)
		})
	}
}

// Otherwise the session would stay due forever.
func TestSessionWithDamagedRowClosesUncounted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := session.NamedID(tenantA, session.NamespaceSession, "damaged")
	row := session.Row{Tenant: tenantA, ID: id, Started: f.clock.now(), Seen: f.clock.now(), Data: []byte("{half")}
	if err := f.backend.Write(f.ctx(), session.Batch{Rows: []session.Row{row}}); err != nil {
		t.Fatal(err)
	}
	f.advancePastClose()
	assertEqual(t, "version of the settled state", f.settledState(id).Version, 1)
	assertEqualList(t, "failures", f.takeFailures(), []string{"decode"})
	f.closeDue(f.ctx())
	assertEqualList(t, "failures in the second pass", f.takeFailures(), nil)
}

func TestLearnerRunClosesDueSessions(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *options) { o.Reward.CloseAfter = time.Second })
	id := f.addSession("s", newAssignment(injected))
	f.postFeedback(tenantA, id, userScore("a", 1, 1))
	f.clock.add(2 * time.Second)
	ctx, cancel := context.WithCancel(f.ctx())
	defer cancel()
	f.backend.hook = func(op string) {
		if op == "settle" {
			cancel()
		}
	}
	learned := make(chan error, 1)
	go func() { learned <- f.Learner.Run(ctx, f.Done()) }()
	if err := errors.Join(f.Store.Run(ctx), <-learned); err != nil {
		t.Fatal(err)
	}
	f.backend.hook = nil
	f.closeDue(f.ctx()) // the cancellation may have interrupted the learner's last pass
	assertEqual(t, "rewarded sessions", f.counter("", trial.FieldRewarded), 1)
}

func TestCloseIntervalIsBounded(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ age, want time.Duration }{
		{time.Millisecond, 100 * time.Millisecond}, {5 * time.Second, 500 * time.Millisecond}, {24 * time.Hour, 10 * time.Second},
	} {
		assertEqual(t, fmt.Sprintf("CloseInterval(%v)", tc.age), learn.CloseInterval(tc.age), tc.want)
	}
}

// Another replica closes the session first. This replica must correct the reward with the stored assignment.
func TestCloseKeepsOtherReplicasSettlement(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := f.addSession("s", newAssignment(injected))
	f.postFeedback(tenantA, id, userScore("a", 1, 1))
	a := newAssignment(withheld)
	a.Reward = f.RewardDefinition()
	frozen, _ := json.Marshal(a)
	f.backend.hook = func(op string) {
		if op != "settle" {
			return
		}
		f.backend.hook = nil
		done, err := f.backend.backend.Settle(f.ctx(), []session.Settlement{{
			Tenant: tenantA, ID: id, To: session.SettledState{Version: 1, AssignmentAtClose: frozen}, Deltas: learn.AddDefinitionPrefix(a.Reward, a.ClosingDeltas()),
		}})
		if err != nil {
			t.Error(err)
		} else if !done[0] {
			t.Error("Settle on the other replica: done[0] = false, want true")
		}
	}
	f.advancePastClose()
	assertEqual(t, "sessions closed by this replica", f.Learner.Metrics.Closed.Load(), 0)
	f.deliverAndCorrect()
	assertEqual(t, "version of the settled state", f.settledState(id).Version, 2)
	assertEqual(t, "closed sessions in the counters", f.counter("", "closed"), 1)
	assertEqual(t, "sessions with the lesson withheld (other replica's assignment)", f.counter("look-twice@0123456789ab", "m0"), 1)
	assertEqual(t, "sessions with the lesson injected (this replica's assignment)", f.counter("look-twice@0123456789ab", "m1"), 0)
}

func TestPendingCorrectionIsMadeAfterRestart(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := f.addSession("s", newAssignment(injected))
	f.postFeedback(tenantA, id, userScore("a", 1, 1))
	f.advancePastClose()
	assertEqual(t, "reward", f.settledState(id).Reward, 1.0)
	e := userScore("b", 2, .25)
	f.postFeedback(tenantA, id, e) // the store saves the feedback, but the learner does not apply it before the restart
	f = f.reopen(nil)
	assertEqual(t, "reward after the restart, before the first pass", f.settledState(id).Reward, 1.0)
	f.closeDue(f.ctx())
	f.deliverAndCorrect()
	assertEqual(t, "reward after the restart and the first pass", f.settledState(id).Reward, .25)
	assertEqual(t, "rewarded sessions", f.counter("", trial.FieldRewarded), 1)
	assertEqual(t, "version of the settled state", f.settledState(id).Version, 2)

	// More feedback arrives while the learner writes a correction, and the program stops before the learner's next
	// pass.
	e.At, e.Score = e.At.Add(time.Hour), .5
	f.backend.hook = func(op string) {
		if op == "settle" {
			f.backend.hook = nil
			later := e
			later.At, later.Score = e.At.Add(time.Hour), .75
			if _, err := f.backend.backend.AddFeedback(f.ctx(), tenantA, map[session.ID][]feedback.Entry{id: {later}}); err != nil {
				t.Error(err)
			}
		}
	}
	f.postFeedback(tenantA, id, e)
	f.recomputeRewards(f.ctx())
	assertEqual(t, "reward after the interrupted correction", f.settledState(id).Reward, .5)
	f = f.reopen(nil)
	f.closeDue(f.ctx())
	f.deliverAndCorrect()
	assertEqual(t, "reward after the second restart and a pass", f.settledState(id).Reward, .75)
	unsettled, err := f.backend.UnsettledSessions(f.ctx(), 10)
	if err != nil {
		t.Fatal(err)
	}
	if len(unsettled) > 0 {
		t.Errorf("UnsettledSessions: unsettled = %+v, want none", unsettled)
	}
	assertEqualList(t, "failures", f.takeFailures(), nil)
}

func TestFailedUnsettledListingIsRetried(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := f.addSession("s", newAssignment(injected))
	f.advancePastClose()
	f.postFeedback(tenantA, id, userScore("a", 1, 1))
	f = f.reopen(nil)
	f.backend.failNext("unsettled", 1, errDown)
	f.closeDue(f.ctx())
	f.deliverAndCorrect()
	assertEqual(t, "the session is rewarded after the failed listing", f.settledState(id).Rewarded, false)
	f.closeDue(f.ctx())
	f.deliverAndCorrect()
	assertEqual(t, "the session is rewarded after the next listing", f.settledState(id).Rewarded, true)
	assertEqualList(t, "failures", f.takeFailures(), []string{"pick_up"})
	f.backend.takeCalls()
	f.closeDue(f.ctx())
	for _, op := range f.backend.takeCalls() {
		if op == "unsettled" {
			t.Error("closeDue called UnsettledSessions again after a successful listing")
		}
	}
}

// The sessions of a run share one reward. The metrics count these sessions, but not the run itself, which is not a
// session.
func TestMetricsCountMembersButNotTheRun(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"reward before close": false, "late reward": true} {
		f := newFixture(t, nil)
		id := session.RunID(tenantA, "nightly")
		nightly := session.NewRun(tenantA, session.Claim{Agent: "coder"}, "nightly", id, f.clock.now())
		nightly.OptOut.HasStorableSession = true // this field is set when a session of the run has its first turn
		run := f.Add(nightly)
		for i, member := range []string{"one", "two"} {
			rec := &session.Record{
				Identity: session.Identity{ID: session.NamedID(tenantA, session.NamespaceSession, member), Tenant: tenantA, Agent: "coder", Name: member, Method: session.ByHeader, Started: f.clock.now(), Seen: f.clock.now()},
				Thread:   session.Thread{Turns: 1},
			}
			f.AddMember(run, rec)
			f.AddEchoes(session.Echo{Tenant: tenantA, Key: session.MemberKey(tenantA, id, i+1), ID: rec.Identity.ID, At: f.clock.now()})
			f.Release(f.Add(rec), store.DecisionsChanged)
			f.offer(member, 1)
		}
		f.Release(run, store.DecisionsChanged)
		f.deliverAndCorrect()
		if !late {
			f.postFeedback(tenantA, id, userScore("f1", 1, 1))
		}
		for range 3 {
			f.advancePastClose()
		}
		if late {
			f.postFeedback(tenantA, id, userScore("f1", 1, 1))
			for range 3 {
				f.deliverAndCorrect()
			}
		}
		assertEqual(t, name+": run version is above 0", f.settledState(id).Version > 0, true)
		assertEqual(t, name+": run is rewarded", f.settledState(id).Rewarded, true)
		assertEqual(t, name+": closed sessions in the metrics", f.Learner.Metrics.Closed.Load(), 2)
		assertEqual(t, name+": rewarded sessions in the metrics", f.Learner.Metrics.Rewarded.Load(), 2)
	}
}
