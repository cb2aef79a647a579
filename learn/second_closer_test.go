package learn_test

import (
	"path/filepath"
	"testing"
	"time"

	"precept/bandit/feedback"
	"precept/bandit/trial"
	"precept/store/storetest"
)

// closeAfterOther closes the due sessions at r. After r has read them and before it settles them, other closes them.
func (f *fixture) closeAfterOther(other *fixture) {
	f.t.Helper()
	first := true
	f.backend.hook = func(op string) {
		if op == "settle" && first {
			first = false
			other.closeDue(f.ctx())
		}
	}
	f.closeDue(f.ctx())
	if first {
		f.t.Fatal("closeDue settled no session")
	}
}

// If two replicas close a session at the same time, the second one does not settle it again.
func TestSecondReplicaDoesNotSettleAgain(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	one := newFixture(t, inRedis(t, server, filepath.Join(t.TempDir(), "outbox.db")))
	other := openFixture(t, t.TempDir(), one.clock, inRedis(t, server, filepath.Join(t.TempDir(), "outbox.db")))
	score := func(id string, y float64) feedback.Entry {
		return feedback.Entry{ID: id, At: one.clock.now(), Source: feedback.SourceUser, Type: feedback.TypeScore, Score: y, Tier: feedback.TierUser}
	}
	id := one.addSession("s", trial.Assignment{Decided: true, Day: 22740})
	one.postFeedback(tenantA, id, score("e", 1))
	one.deliverAndCorrect()
	one.clock.add(closeAge + time.Minute)
	one.closeAfterOther(other)
	version := one.applied(id).Version
	one.backend.takeCalls()
	one.recomputeRewards(t.Context())
	for _, op := range one.backend.takeCalls() {
		if op == "write" || op == "settle" {
			t.Errorf("the second replica called %q after the close", op)
		}
	}
	checkEqual(t, "version after a pass of corrections", one.applied(id).Version, version)
	other.postFeedback(tenantA, id, score("late", 0)) // one finds it by its search for unsettled sessions
	one.clock.add(time.Hour)
	one.closeDue(t.Context())
	one.recomputeRewards(t.Context())
	checkEqual(t, "version after late feedback", one.applied(id).Version, version+1)
}

// Only the replica that has a due session in memory closes it. If that replica has stopped, another replica closes the
// session a few close intervals later.
func TestReplicaWithSessionInMemoryClosesIt(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	one := newFixture(t, inRedis(t, server, filepath.Join(t.TempDir(), "outbox.db")))
	other := openFixture(t, t.TempDir(), one.clock, inRedis(t, server, filepath.Join(t.TempDir(), "outbox.db")))
	first := one.addSession("first", trial.Assignment{Decided: true, Day: 22740})
	one.clock.add(closeAge + time.Second)
	other.backend.takeCalls()
	other.closeDue(t.Context())
	for _, op := range other.backend.takeCalls() {
		if op == "samples" || op == "settle" {
			t.Errorf("the other replica called %q", op)
		}
	}
	one.closeDue(t.Context())
	checkEqual(t, "version of the first session", one.applied(first).Version, 1)

	second := one.addSession("second", trial.Assignment{Decided: true, Day: 22740})
	one.stop()
	one.clock.add(closeAge + time.Minute)
	other.closeDue(t.Context())
	checkEqual(t, "version of the second session", other.applied(second).Version, 1)
}
