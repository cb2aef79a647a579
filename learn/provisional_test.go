package learn_test

import (
	"math"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"precept/bandit"
	"precept/store/storetest"
)

var lookTwice = bandit.Action{Slug: "look-twice", Arm: "look-twice@0123456789ab", Confidence: 0.5} //nolint:gochecknoglobals // the lesson in the assignments that newAssignment returns

// The reward of an open session changes the chooser's beliefs at once, but the counters for the report include a
// session only after the session closes.
func TestChooserLearnsFromOpenSessions(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	mean := func() float64 { return f.Beliefs(tenantA).Posterior(lookTwice).Mean }
	id := f.addSession("s", newAssignment(injected))
	prior := mean()
	f.postFeedback(tenantA, id, userScore("f1", 1, 1))
	f.recomputeRewards(f.ctx())
	up := mean()
	if up <= prior {
		t.Fatalf("mean of the belief after a success: got %v, want above %v", up, prior)
	}
	assertEqual(t, "counters while the session is open", f.counters(tenantA), noCounters)
	f.postFeedback(tenantA, id, userScore("f2", 2, 0))
	f.recomputeRewards(f.ctx())
	if down := mean(); down >= prior {
		t.Fatalf("mean of the belief after a failure: got %v, want below %v", down, prior)
	}
	f.advancePastClose()
	assertEqual(t, "open sessions with a reward", f.CountProvisional(), 0)
	closed := mean()
	reopened := openFixture(t, f.dir, f.clock, nil)
	if restarted := reopened.Beliefs(tenantA).Posterior(lookTwice).Mean; restarted != closed {
		t.Errorf("mean of the belief after a restart: got %v, want %v as before the restart", restarted, closed)
	}
}

func TestProvisionalRewardsSurviveRestart(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := f.addSession("s", newAssignment(injected))
	f.postFeedback(tenantA, id, userScore("f1", 1, 1))
	f.recomputeRewards(f.ctx())
	want := f.Beliefs(tenantA).Posterior(lookTwice)
	f.clock.add(time.Minute)
	reopened := openFixture(t, f.dir, f.clock, nil)
	reopened.closeDue(reopened.ctx())
	assertEqualList(t, "failures", reopened.takeFailures(), nil)
	if got := reopened.Beliefs(tenantA).Posterior(lookTwice); got != want {
		t.Errorf("belief after a restart: got %+v, want %+v", got, want)
	}
	assertEqual(t, "Restored", reopened.Restored(), true)
	f.advancePastClose() // f now acts as a second replica, and closes the session
	assertEqual(t, "open sessions with a reward after a second replica closed the session", reopened.CountProvisional(), 1)
	f.clock.add(time.Minute)
	reopened.closeDue(reopened.ctx())
	assertEqual(t, "open sessions with a reward after the next pass", reopened.CountProvisional(), 0)
}

func TestReplicasShareProvisionalRewards(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	open := func() *fixture {
		dir := t.TempDir()
		return openFixture(t, dir, &clock{at: time.Date(2032, 4, 5, 6, 7, 8, 0, time.UTC)}, inRedis(t, server, filepath.Join(dir, "outbox.db")))
	}
	replica, otherReplica := open(), open()
	follow := func(f *fixture) {
		t.Helper()
		if err := f.Learner.Refresh(f.ctx()); err != nil {
			t.Error(err)
		}
	}
	belief := func(f *fixture) bandit.Posterior { return f.Beliefs(tenantA).Posterior(lookTwice) }
	checkEqualBeliefs := func(when string) {
		t.Helper()
		if x, y := belief(replica), belief(otherReplica); math.Abs(x.Mean-y.Mean) > 1e-6 {
			t.Errorf("%s: the replicas' means differ by %v, want at most 1e-6", when, math.Abs(x.Mean-y.Mean))
		} else if math.Abs(x.MatchEffect-y.MatchEffect) > 1e-6 {
			t.Errorf("%s: the replicas' match effects differ by %v, want at most 1e-6", when, math.Abs(x.MatchEffect-y.MatchEffect))
		} else if x.Var != y.Var {
			t.Errorf("%s: the replicas' variances are %v and %v, want equal variances", when, x.Var, y.Var)
		}
	}
	id := replica.addSession("s", newAssignment(injected))
	prior := belief(otherReplica)
	belief(replica)                                               // reading a belief makes the replica serve, and so follow, the tenant
	otherReplica.postFeedback(tenantA, id, userScore("f1", 1, 1)) // the client posts the feedback to a replica that does not serve the session
	otherReplica.recomputeRewards(otherReplica.ctx())
	rewarded := belief(otherReplica)
	if rewarded.Mean <= prior.Mean {
		t.Fatalf("mean of the belief after a success: got %v, want above %v", rewarded.Mean, prior.Mean)
	}
	follow(replica)
	checkEqualBeliefs("after the first replica's refresh")
	replica.postFeedback(tenantA, id, userScore("f2", 2, 0))
	replica.recomputeRewards(replica.ctx())
	var both sync.WaitGroup
	for range 2 { // two refreshes at the same time must not count a session twice
		both.Go(func() { follow(otherReplica) })
	}
	both.Wait()
	checkEqualBeliefs("after a correction")
	if belief(otherReplica).Mean >= prior.Mean {
		t.Errorf("mean of the belief after a failure: got %v, want below %v", belief(otherReplica).Mean, prior.Mean)
	}
	replica.advancePastClose()
	otherReplica.clock.add(closeAge + time.Second)
	follow(otherReplica)
	assertEqual(t, "open sessions with a reward", otherReplica.CountProvisional(), 0)
	checkEqualBeliefs("after close")
	assertEqualList(t, "failures", append(replica.takeFailures(), otherReplica.takeFailures()...), nil)
}
