package learn_test

import (
	"path/filepath"
	"testing"
	"time"

	"precept/bandit/feedback"
	"precept/bandit/trial"
	"precept/store/storetest"
)

// closeBehind closes the due sessions at r. After r has read them and before it settles them, other closes them.
func (r *fixture) closeBehind(other *fixture) {
	r.t.Helper()
	first := true
	r.be.hook = func(op string) {
		if op == "settle" && first {
			first = false
			other.closeDue(r.ctx())
		}
	}
	r.closeDue(r.ctx())
	if first {
		r.t.Fatal("closeDue settled no session")
	}
}

// If two replicas close a session at the same time, the second one does not settle it again.
func TestSecondReplicaDoesNotSettleAgain(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	one := newFixture(t, inRedis(t, server, filepath.Join(t.TempDir(), "outbox.db")))
	other := openFixture(t, t.TempDir(), one.clk, inRedis(t, server, filepath.Join(t.TempDir(), "outbox.db")))
	score := func(id string, y float64) feedback.Entry {
		return feedback.Entry{ID: id, At: one.clk.now(), Source: feedback.SourceUser, Type: feedback.TypeScore, Score: y, Tier: feedback.TierUser}
	}
	id := one.addSession("s", trial.Assignment{Decided: true, Day: 22740})
	one.postFeedback(tenantA, id, score("e", 1))
	one.record()
	one.clk.add(closeAge + time.Minute)
	one.closeBehind(other)
	version := one.applied(id).Version
	one.be.takeCalls()
	one.recomputeRewards(t.Context())
	for _, op := range one.be.takeCalls() {
		if op == "write" || op == "settle" {
			t.Errorf("the second replica called %q after the close", op)
		}
	}
	same(t, "version after a pass of corrections", one.applied(id).Version, version)
	other.postFeedback(tenantA, id, score("late", 0)) // one finds it by its search for unsettled sessions
	one.clk.add(time.Hour)
	one.closeDue(t.Context())
	one.recomputeRewards(t.Context())
	same(t, "version after late feedback", one.applied(id).Version, version+1)
}

// Only the replica that has a due session in memory closes it. If that replica has stopped, another replica closes the
// session a few close intervals later.
func TestReplicaWithSessionInMemoryClosesIt(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	one := newFixture(t, inRedis(t, server, filepath.Join(t.TempDir(), "outbox.db")))
	other := openFixture(t, t.TempDir(), one.clk, inRedis(t, server, filepath.Join(t.TempDir(), "outbox.db")))
	first := one.addSession("first", trial.Assignment{Decided: true, Day: 22740})
	one.clk.add(closeAge + time.Second)
	other.be.takeCalls()
	other.closeDue(t.Context())
	for _, op := range other.be.takeCalls() {
		if op == "samples" || op == "settle" {
			t.Errorf("the other replica called %q", op)
		}
	}
	one.closeDue(t.Context())
	same(t, "version of the first session", one.applied(first).Version, 1)

	second := one.addSession("second", trial.Assignment{Decided: true, Day: 22740})
	one.stop()
	one.clk.add(closeAge + time.Minute)
	other.closeDue(t.Context())
	same(t, "version of the second session", other.applied(second).Version, 1)
}
