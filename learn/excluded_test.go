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

// playFlow adds nine sessions: five excluded sessions, a member of a run, and three sessions in the experiment.
func (r *fixture) playFlow() {
	for name, why := range map[string]trial.ExclusionReason{
		"late-1": trial.ExcludedLate, "late-2": trial.ExcludedLate, "twin": trial.ExcludedTwin, "keys": trial.ExcludedKeys, "older": "",
	} {
		var a trial.Assignment
		a.Exclude(why)
		r.postFeedback(tenantA, r.addSession(name, a), score("a", 1, 1))
	}
	member, uncertain := r.Acquire(r.ctx(), tenantA, r.addSession("member", trial.Assignment{}))
	if member == nil {
		r.t.Fatalf("Acquire returned no session, uncertain = %v", uncertain)
	}
	member.Record.Mutex.Lock()
	member.Record.Unit.ID, member.Record.State.Dirty = sessionOf("run").String(), true
	member.Record.Mutex.Unlock()
	r.Release(member, store.Decided)

	r.postFeedback(tenantA, r.addSession("injected", picked(true)), score("a", 1, 1))
	control := picked(false)
	control.Control, control.Picks = true, nil
	r.addSession("control", control)
	r.addSession("unmatched", trial.Assignment{Decided: true})
	r.record()
}

// The report counts each closed session once: in the experiment, as excluded for a reason, or as a member of a run. A
// second replica that closes the same sessions, late feedback and a restart do not change the counts.
func TestReportCountsExcludedSessionsOnce(t *testing.T) {
	t.Parallel()
	want := report.Flow{
		Closed: 8, InExperiment: 3, Excluded: 5,
		ExcludedBy: []report.Excluded{{Reason: trial.ExcludedLate, Sessions: 2}, {Reason: trial.ExcludedTwin, Sessions: 1}, {Reason: trial.ExcludedKeys, Sessions: 1}, {Reason: trial.ExcludedUnknown, Sessions: 1}},
		Treated:    1, Control: 1, Unmatched: 1, Rewarded: 1, Unrewarded: 2, Members: 1,
	}
	check := func(t *testing.T, when string, r *fixture) {
		t.Helper()
		same(t, when+": flow", asText(t, r.reported(learn.ReportQuery{}).Flow), asText(t, want))
		stored := map[string]float64{}
		for _, why := range []string{"late", "member", "secret", "twin", "unknown"} {
			stored[why] = r.counter("", "excluded."+why)
		}
		same(t, when+": stored counters", fmt.Sprint(stored), "map[late:2 member:1 secret:1 twin:1 unknown:1]")
	}
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		r := newFixture(t, nil)
		r.playFlow()
		r.clk.add(time.Minute)
		same(t, "Closed before close", r.reported(learn.ReportQuery{}).Flow.Closed, 0)
		same(t, "provisional flow", asText(t, r.reported(learn.ReportQuery{Provisional: true}).Flow), asText(t, want))
		r.advancePastClose()
		check(t, "after close", r)
		r.closeDue(r.ctx())
		r.postFeedback(tenantA, session.KeyOf(tenantA, session.SpaceName, "late-1"), score("b", 2, 0))
		r.record()
		check(t, "after late feedback", r)
		r = r.reopen(nil)
		r.advancePastClose()
		check(t, "after a restart", r)
	})
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		server := storetest.StartRedis(t)
		one := newFixture(t, inRedis(t, server, filepath.Join(t.TempDir(), "outbox.db")))
		other := openFixture(t, t.TempDir(), one.clk, inRedis(t, server, filepath.Join(t.TempDir(), "outbox.db")))
		one.playFlow()
		one.clk.add(closeAge + time.Minute)
		one.closeBehind(other)
		check(t, "after both replicas closed the sessions", one)
		check(t, "after both replicas closed the sessions, at the other replica", other)
		other.postFeedback(tenantA, session.KeyOf(tenantA, session.SpaceName, "late-1"), score("b", 2, 0))
		one.clk.add(time.Hour)
		one.closeDue(t.Context())
		one.recomputeRewards(t.Context())
		check(t, "after late feedback", one)
		other.stop()
		check(t, "after a restart", openFixture(t, t.TempDir(), one.clk, inRedis(t, server, filepath.Join(t.TempDir(), "outbox.db"))))
	})
}
