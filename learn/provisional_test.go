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

var looked = bandit.Action{Slug: "look-twice", Arm: "look-twice@0123456789ab", Confidence: 0.5} //nolint:gochecknoglobals // the lesson of picked

// The chooser learns from the rewards of open sessions. The counters, from which the report is made, do not count a
// session before its closing.
func TestChooserLearnsFromOpenSessions(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	mean := func() float64 { return r.Beliefs(tenantA).Posterior(looked).Mean }
	id := r.addSession("s", picked(true))
	prior := mean()
	r.postFeedback(tenantA, id, score("f1", 1, 1))
	r.recomputeRewards(r.ctx())
	up := mean()
	if up <= prior {
		t.Fatalf("after a success: got mean %v, want more than %v", up, prior)
	}
	same(t, "counters of an open session", r.counters(tenantA), none)
	r.postFeedback(tenantA, id, score("f2", 2, 0))
	r.recomputeRewards(r.ctx())
	if down := mean(); down >= prior {
		t.Fatalf("after a failure: got mean %v, want less than %v", down, prior)
	}
	r.advancePastClose()
	same(t, "open sessions with a reward", r.OpenRewards(), 0)
	closed := mean()
	reopened := openFixture(t, r.dir, r.clk, nil)
	if fresh := reopened.Beliefs(tenantA).Posterior(looked).Mean; fresh != closed {
		t.Errorf("after close the mean is %v, want %v as after a restart", closed, fresh)
	}
}

// After a restart the rewards of open sessions count again, until this or another process closes
// the sessions.
func TestProvisionalRewardsSurviveARestart(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	id := r.addSession("s", picked(true))
	r.postFeedback(tenantA, id, score("f1", 1, 1))
	r.recomputeRewards(r.ctx())
	want := r.Beliefs(tenantA).Posterior(looked)
	r.clk.add(time.Minute)
	reopened := openFixture(t, r.dir, r.clk, nil)
	reopened.closeDue(reopened.ctx())
	sameList(t, "failures", reopened.failed(), nil)
	if got := reopened.Beliefs(tenantA).Posterior(looked); got != want {
		t.Errorf("after a restart the belief is %+v, want %+v", got, want)
	}
	same(t, "recalled", reopened.Restored(), true)
	r.advancePastClose() // the other replica closes the session
	same(t, "open sessions with a reward, before this replica knows", reopened.OpenRewards(), 1)
	r.clk.add(time.Minute)
	reopened.closeDue(reopened.ctx())
	same(t, "open sessions with a reward, after the next pass", reopened.OpenRewards(), 0)
}

// Replicas on one Redis have the same belief after a reward of an open session, no matter which replica received the
// reward. After one replica closes the session, each replica counts the session once.
func TestReplicasShareProvisionalRewards(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	open := func() *fixture {
		dir := t.TempDir()
		return openFixture(t, dir, &clock{at: time.Date(2032, 4, 5, 6, 7, 8, 0, time.UTC)}, inRedis(t, server, filepath.Join(dir, "outbox.db")))
	}
	a, b := open(), open()
	follow := func(r *fixture) {
		t.Helper()
		if err := r.Learner.Refresh(r.ctx()); err != nil {
			t.Error(err)
		}
	}
	beliefs := func(r *fixture) bandit.Posterior { return r.Beliefs(tenantA).Posterior(looked) }
	checkEqual := func(when string) {
		t.Helper()
		if x, y := beliefs(a), beliefs(b); math.Abs(x.Mean-y.Mean) > 1e-6 || math.Abs(x.Match-y.Match) > 1e-6 || x.Var != y.Var {
			t.Errorf("%s: got belief %+v at one replica and %+v at the other, want equal beliefs", when, x, y)
		}
	}
	id := a.addSession("s", picked(true))
	prior := beliefs(b)
	beliefs(a)                                     // a replica follows the tenants that its requests use
	b.postFeedback(tenantA, id, score("f1", 1, 1)) // a replica that does not serve the session receives the feedback
	b.recomputeRewards(b.ctx())
	rewarded := beliefs(b)
	if rewarded.Mean <= prior.Mean {
		t.Fatalf("after a success: got mean %v, want more than %v", rewarded.Mean, prior.Mean)
	}
	follow(a)
	checkEqual("when the other follows")
	a.postFeedback(tenantA, id, score("f2", 2, 0))
	a.recomputeRewards(a.ctx())
	var both sync.WaitGroup
	for range 2 { // a reader of the report also follows, and counts no session twice
		both.Go(func() { follow(b) })
	}
	both.Wait()
	checkEqual("after a correction")
	if beliefs(b).Mean >= prior.Mean {
		t.Errorf("after a failure: got mean %v, want less than %v", beliefs(b).Mean, prior.Mean)
	}
	a.advancePastClose()
	b.clk.add(closeAge + time.Second)
	follow(b)
	same(t, "open sessions", b.OpenRewards(), 0)
	checkEqual("after close")
	sameList(t, "failures", append(a.failed(), b.failed()...), nil)
}
