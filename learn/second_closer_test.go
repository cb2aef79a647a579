package learn_test

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"precept/bandit/feedback"
	"precept/bandit/trial"
	"precept/internal/session"
	"precept/store/storetest"
)

// closeAfterOther closes the due sessions on f. After f has read the sessions, and before f settles them, otherReplica
// closes them.
func (f *fixture) closeAfterOther(otherReplica *fixture) {
	f.t.Helper()
	first := true
	f.backend.hook = func(op string) {
		if op == "settle" && first {
			first = false
			otherReplica.closeDue(f.ctx())
		}
	}
	f.closeDue(f.ctx())
	if first {
		f.t.Fatal("closeDue did not call Settle, want a call while sessions are due")
	}
}

func TestSecondReplicaDoesNotSettleAgain(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	replica := newFixture(t, inRedis(t, server, filepath.Join(t.TempDir(), "outbox.db")))
	otherReplica := openFixture(t, t.TempDir(), replica.clock, inRedis(t, server, filepath.Join(t.TempDir(), "outbox.db")))
	score := func(id string, y float64) feedback.Entry {
		return feedback.Entry{ID: id, At: replica.clock.now(), Source: feedback.SourceUser, Type: feedback.TypeScore, Score: y, Tier: feedback.TierUser}
	}
	id := replica.addSession("s", trial.Assignment{Decided: true, Day: 22740})
	replica.postFeedback(tenantA, id, score("e", 1))
	replica.deliverAndCorrect()
	replica.clock.add(closeAge + time.Minute)
	replica.closeAfterOther(otherReplica)
	version := replica.settledState(id).Version
	replica.backend.takeCalls()
	replica.recomputeRewards(t.Context())
	for _, op := range replica.backend.takeCalls() {
		if op == "write" || op == "samples" || op == "settle" {
			t.Errorf("the second replica called %q", op)
		}
	}
	assertEqual(t, "version of the settled state after a correction pass", replica.settledState(id).Version, version)
	otherReplica.postFeedback(tenantA, id, score("late", 0)) // the replica finds this feedback when it searches for unsettled sessions
	replica.clock.add(time.Hour)
	replica.closeDue(t.Context())
	replica.recomputeRewards(t.Context())
	assertEqual(t, "version of the settled state after late feedback", replica.settledState(id).Version, version+1)
}

// A replica must read several sessions at the same time, because reading them one after the other takes too long if
// Redis is far away.
func TestFleetReadsClosingSessionsInParallel(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	replica := newFixture(t, inRedis(t, server, filepath.Join(t.TempDir(), "outbox.db")))
	ids := []session.ID{replica.addSession("a", trial.Assignment{Decided: true, Day: 22740}), replica.addSession("b", trial.Assignment{Decided: true, Day: 22740})}
	replica.clock.add(closeAge + time.Minute)
	var mu sync.Mutex
	reads := map[string]int{}
	bothRead := map[string]chan struct{}{"read feedback": make(chan struct{}), "read exchanges": make(chan struct{})}
	replica.backend.hook = func(op string) {
		if bothRead[op] == nil {
			return
		}
		mu.Lock()
		if reads[op]++; reads[op] == len(ids) {
			close(bothRead[op])
		}
		mu.Unlock()
		select {
		case <-bothRead[op]:
		case <-time.After(10 * time.Second):
			t.Errorf("%s: timed out waiting for a second call during the first call", op)
		}
	}
	replica.closeDue(t.Context())
	for _, id := range ids {
		assertEqual(t, "version of the settled state", replica.settledState(id).Version, 1)
	}
}

// The replica that has a session in memory closes the session. If this replica has stopped, another replica closes the
// session a few intervals later.
func TestReplicaWithSessionInMemoryClosesFirst(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	replica := newFixture(t, inRedis(t, server, filepath.Join(t.TempDir(), "outbox.db")))
	otherReplica := openFixture(t, t.TempDir(), replica.clock, inRedis(t, server, filepath.Join(t.TempDir(), "outbox.db")))
	first := replica.addSession("first", trial.Assignment{Decided: true, Day: 22740})
	replica.clock.add(closeAge + time.Second)
	otherReplica.backend.takeCalls()
	otherReplica.closeDue(t.Context())
	for _, op := range otherReplica.backend.takeCalls() {
		if op == "samples" || op == "settle" {
			t.Errorf("the other replica called %q", op)
		}
	}
	replica.closeDue(t.Context())
	assertEqual(t, "version of the first session's settled state", replica.settledState(first).Version, 1)

	second := replica.addSession("second", trial.Assignment{Decided: true, Day: 22740})
	replica.stop()
	replica.clock.add(closeAge + time.Minute)
	otherReplica.closeDue(t.Context())
	assertEqual(t, "version of the second session's settled state", otherReplica.settledState(second).Version, 1)
}
