package learn_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"precept/bandit/report"
	"precept/bandit/trial"
	"precept/internal/session"
	"precept/learn"
	"precept/store"
	"precept/store/storetest"
)

// addExcludedAndOtherSessions adds five excluded sessions, a session of a run, and three others. The excluded session
// "older" has no reason, as from an older release.
func (f *fixture) addExcludedAndOtherSessions() {
	for name, reason := range map[string]trial.ExclusionReason{
		"late-1": trial.ExcludedLate, "late-2": trial.ExcludedLate, "twin": trial.ExcludedTwin, "keys": trial.ExcludedKeys, "older": "",
	} {
		var a trial.Assignment
		a.Exclude(reason)
		f.postFeedback(tenantA, f.addSession(name, a), userScore("a", 1, 1))
	}
	member, uncertain := f.Acquire(f.ctx(), tenantA, f.addSession("member", trial.Assignment{}))
	if member == nil {
		f.t.Fatalf("Acquire(session of the run): got no session, uncertain = %v, want a session", uncertain)
	}
	member.Record.Mutex.Lock()
	member.Record.Unit.ID, member.Record.State.Dirty = sessionID("run").String(), true
	member.Record.Mutex.Unlock()
	f.Release(member, store.DecisionsChanged)

	f.postFeedback(tenantA, f.addSession("injected", newAssignment(injected)), userScore("a", 1, 1))
	control := newAssignment(withheld)
	control.Control, control.Picks = true, nil
	f.addSession("control", control)
	f.addSession("unmatched", trial.Assignment{Decided: true})
	f.deliverAndCorrect()
}

// A second replica, late feedback and a restart must not change how many sessions the report counts as excluded.
func TestReportCountsExcludedSessionsOnce(t *testing.T) {
	t.Parallel()
	want := report.Flow{
		Closed: 8, InExperiment: 3, Excluded: 5,
		ExcludedBy: []report.Excluded{{Reason: trial.ExcludedLate, Sessions: 2}, {Reason: trial.ExcludedTwin, Sessions: 1}, {Reason: trial.ExcludedKeys, Sessions: 1}, {Reason: trial.ExcludedUnknown, Sessions: 1}},
		Treated:    1, Control: 1, Unmatched: 1, Rewarded: 1, Unrewarded: 2, Members: 1,
	}
	check := func(t *testing.T, when string, f *fixture) {
		t.Helper()
		assertEqual(t, when+": flow", toJSON(t, f.mustReport(learn.ReportQuery{}).Flow), toJSON(t, want))
		stored := map[string]float64{}
		for _, reason := range []string{"late", "member", "secret", "twin", "unknown"} {
			stored[reason] = f.counter("", "excluded."+reason)
		}
		assertEqual(t, when+": stored counters", fmt.Sprint(stored), "map[late:2 member:1 secret:1 twin:1 unknown:1]")
	}
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, nil)
		f.addExcludedAndOtherSessions()
		f.clock.add(time.Minute)
		assertEqual(t, "Closed before close", f.mustReport(learn.ReportQuery{}).Flow.Closed, 0)
		assertEqual(t, "provisional flow", toJSON(t, f.mustReport(learn.ReportQuery{Provisional: true}).Flow), toJSON(t, want))
		f.advancePastClose()
		check(t, "after close", f)
		f.closeDue(f.ctx())
		f.postFeedback(tenantA, session.NamedID(tenantA, session.NamespaceSession, "late-1"), userScore("b", 2, 0))
		f.deliverAndCorrect()
		check(t, "after late feedback", f)
		f = f.reopen(nil)
		f.advancePastClose()
		check(t, "after a restart", f)
	})
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		server := storetest.StartRedis(t)
		replica := newFixture(t, inRedis(t, server, filepath.Join(t.TempDir(), "outbox.db")))
		otherReplica := openFixture(t, t.TempDir(), replica.clock, inRedis(t, server, filepath.Join(t.TempDir(), "outbox.db")))
		replica.addExcludedAndOtherSessions()
		replica.clock.add(closeAge + time.Minute)
		replica.closeAfterOther(otherReplica)
		check(t, "after both replicas closed the sessions", replica)
		check(t, "after both replicas closed the sessions, at the other replica", otherReplica)
		otherReplica.postFeedback(tenantA, session.NamedID(tenantA, session.NamespaceSession, "late-1"), userScore("b", 2, 0))
		replica.clock.add(time.Hour)
		replica.closeDue(t.Context())
		replica.recomputeRewards(t.Context())
		check(t, "after late feedback", replica)
		otherReplica.stop()
		check(t, "after a restart", openFixture(t, t.TempDir(), replica.clock, inRedis(t, server, filepath.Join(t.TempDir(), "outbox.db"))))
	})
}
