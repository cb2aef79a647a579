package learn_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"precept/bandit"
	"precept/bandit/report"
	"precept/inject/lesson"
	"precept/internal/session"
	"precept/learn"
)

// addRewardedSessions adds and closes n sessions with rewards. Sessions with the lesson have a higher mean reward.
func (f *fixture) addRewardedSessions(from, n int) {
	f.t.Helper()
	for i := from; i < from+n; i++ {
		injected := i%5 > 0
		id := f.beginSession(tenantA, fmt.Sprint("s", i), newAssignment(injected))
		y := float64(i % 2)
		if injected && i%3 == 0 {
			y = 1
		}
		f.postFeedback(tenantA, id, userScore("a", 1, y))
	}
	f.advancePastClose()
}

// refit closes n sessions with rewards, so that the learner fits the priors again.
func (f *fixture) refit(from, n int) {
	f.t.Helper()
	f.Beliefs(tenantA)
	f.RefitAfter(tenantA, n)
	f.addRewardedSessions(from, n)
}

func (f *fixture) mustReport(q learn.ReportQuery) report.Report {
	f.t.Helper()
	q.Tenant = tenantA
	rep, err := f.Report(f.ctx(), q)
	if err != nil {
		f.t.Fatal(err)
	}
	return rep
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestRestartKeepsTheReport(t *testing.T) {
	t.Parallel()
	withoutContent := func(o *options) { o.Content.StoreContent = false }
	f := newFixture(t, withoutContent)
	f.refit(0, 60)
	before, priors := toJSON(t, f.mustReport(learn.ReportQuery{EffectHistory: true})), f.Beliefs(tenantA).Priors()
	if len(before) < 500 {
		t.Fatalf("before the restart = %d bytes, want at least 500", len(before))
	}
	if priors.Version == 0 {
		t.Fatal("before the restart: Version = 0, want at least 1")
	}
	if st := f.Beliefs(tenantA).TrialCounters().Stats("look-twice@0123456789ab"); st.Maxima.LogEHelps == 0 && st.Maxima.LogEHarms == 0 {
		t.Errorf("maxima before the restart: got LogEHelps = %v, LogEHarms = %v, want at least one of them above 0", st.Maxima.LogEHelps, st.Maxima.LogEHarms)
	}
	counted := f.Beliefs(tenantA).PosteriorFromCounters(lookTwice)
	for range 2 {
		f = f.reopen(withoutContent)
		assertEqual(t, "report", toJSON(t, f.mustReport(learn.ReportQuery{EffectHistory: true})), before)
		assertEqual(t, "priors", f.Beliefs(tenantA).Priors(), priors)
		assertEqual(t, "posterior", f.Beliefs(tenantA).PosteriorFromCounters(lookTwice), counted)
		assertEqual(t, "chooser belief", f.Beliefs(tenantA).Posterior(lookTwice), counted)
	}
	assertEqual(t, "reward definition in the report", f.mustReport(learn.ReportQuery{}).RewardDefinition, "user>verifier>implicit@1h0m0s")
	f.refit(1000, 30) // the next fit must continue from the stored state
	assertEqual(t, "next priors version", f.Beliefs(tenantA).Priors().Version, priors.Version+1)
	assertEqualList(t, "failures", f.takeFailures(), nil)
}

func TestMaximaSurviveCorrectionAndRestart(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *options) { o.Content.StoreContent = false })
	f.addRewardedSessions(0, 100)
	before := f.Beliefs(tenantA).TrialCounters().Stats("look-twice@0123456789ab")
	for i := range 100 {
		f.postFeedback(tenantA, session.NamedID(tenantA, session.NamespaceSession, fmt.Sprint("s", i)), userScore("b", 2, .5))
	}
	f.deliverAndCorrect()
	f = f.reopen(nil)
	got := f.Beliefs(tenantA).TrialCounters().Stats("look-twice@0123456789ab")
	if got.Maxima.LogEHelps < before.Maxima.LogEHelps {
		t.Errorf("maxima after the correction and the restart: LogEHelps = %v, want at least %v", got.Maxima.LogEHelps, before.Maxima.LogEHelps)
	}
	if got.Maxima.LogEHarms < before.Maxima.LogEHarms {
		t.Errorf("maxima after the correction and the restart: LogEHarms = %v, want at least %v", got.Maxima.LogEHarms, before.Maxima.LogEHarms)
	}
	if before.Maxima.LogEHelps <= 0 {
		t.Errorf("maxima after the correction and the restart: LogEHelps = %v, want above 0", before.Maxima.LogEHelps)
	}
}

func TestOtherReplicasPriorsAreAdopted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *options) { o.Content.StoreContent = false })
	published := bandit.DefaultPriors()
	published.Version, published.MeanEffect = 7, .0123
	f.Beliefs(tenantA)
	f.RefitAfter(tenantA, 30) // so that this replica reads the tenant before the other replica publishes priors
	data, err := json.Marshal(published)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := f.backend.backend.PutPriors(f.ctx(), tenantA, 0, data); err != nil {
		t.Fatal(err)
	} else if !ok {
		t.Fatal("PutPriors: ok = false, want true")
	}
	f.refit(0, 30)
	assertEqual(t, "priors in use", f.Beliefs(tenantA).Priors(), published)
	f.refit(1000, 30)
	assertEqual(t, "next priors version", f.Beliefs(tenantA).Priors().Version, published.Version+1)
	version, _, err := f.backend.Priors(f.ctx(), tenantA)
	assertEqual(t, "stored priors version", version, 2)
	assertEqual(t, "Priors error", err, nil)
}

func TestUnpublishedPriorsAreFittedAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *options) { o.Content.StoreContent = false })
	f.backend.failNext("priors", 1, errDown)
	f.refit(0, 30)
	assertEqualList(t, "failures", f.takeFailures(), []string{"refit"})
	f.refit(1000, 30)
	if v := f.Beliefs(tenantA).Priors().Version; v == 0 {
		t.Error("version of the priors after the second fit: got 0, want above 0")
	}
}

func TestProvisionalReportCountsOpenSessions(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	open := f.addSession("open", newAssignment(injected))
	f.addSession("unrewarded", newAssignment(withheld))
	other := f.beginSession("other", "s", newAssignment(injected))
	f.postFeedback(tenantA, open, userScore("a", 1, 1))
	f.postFeedback("other", other, userScore("a", 1, 1))
	f.clock.add(time.Minute)
	f.deliverAndCorrect()
	row := func(rep report.Report) report.Row {
		for _, l := range rep.Lessons {
			if l.Slug == "look-twice" {
				return l
			}
		}
		return report.Row{}
	}
	closed := f.mustReport(learn.ReportQuery{})
	assertEqual(t, "Matched in the final report", row(closed).Matched, 0)
	assertEqual(t, "open sessions", closed.Open.Sessions, 2)
	assertEqual(t, "open sessions with an inserted lesson", closed.Open.Inserted, 1)
	assertEqual(t, "FirstCloses is after now", closed.Open.FirstCloses.After(f.clock.now()), true)
	rep := f.mustReport(learn.ReportQuery{Provisional: true})
	assertEqual(t, "open sessions with a match", closed.Open.MatchedArm(row(rep).Arm), 2)
	book := lesson.NewBook([]*lesson.Lesson{{Slug: "look-twice", Title: "Look twice.", State: lesson.Active, ContentHash: "0123456789abcdef"}})
	assertEqual(t, "OpenMatched in the final report", row(f.mustReport(learn.ReportQuery{Book: book})).OpenMatched, 2)
	assertEqual(t, "OpenMatched in the provisional report", row(rep).OpenMatched, 0)
	assertEqual(t, "the report is marked as provisional", rep.Provisional, true)
	assertEqual(t, "Matched in the provisional report", row(rep).Matched, 2)
	assertEqual(t, "Rewarded in the provisional report", row(rep).Rewarded, 1)
	counts := func(l report.Row) string {
		return fmt.Sprint(l.Matched, l.Picked, l.NInjected, l.NWithheld, l.Rewarded)
	}
	provisional := counts(row(rep))
	assertEqual(t, "Matched in a second provisional report", row(f.mustReport(learn.ReportQuery{Provisional: true})).Matched, 2)
	assertEqual(t, "Matched in a second final report", row(f.mustReport(learn.ReportQuery{})).Matched, 0)
	f.advancePastClose()
	assertEqual(t, "final report counts after close", counts(row(f.mustReport(learn.ReportQuery{}))), provisional)
	assertEqual(t, "provisional report counts after close", counts(row(f.mustReport(learn.ReportQuery{Provisional: true}))), provisional)
	f.backend.failNext("due", 1, errDown)
	if _, err := f.Report(f.ctx(), learn.ReportQuery{Tenant: tenantA, Provisional: true}); err == nil {
		t.Error("Report after open sessions could not be read: got no error, want an error")
	}
}

func TestReportListsLessons(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	book := lesson.NewBook([]*lesson.Lesson{
		{Slug: "candidate", Title: "Newer.", State: lesson.Quarantined, ContentHash: "dddddddddddddddd", Supersedes: []string{"new-way"}},
		{Slug: "old-way", Title: "Old.", State: lesson.Active, ContentHash: "aaaaaaaaaaaaaaaa"},
		{Slug: "new-way", Title: "New.", State: lesson.Active, ContentHash: "bbbbbbbbbbbbbbbb", Supersedes: []string{"gone", "old-way"}},
		{Slug: "too-late", Title: "Late.", ContentHash: "cccccccccccccccc", ExpiresAt: f.clock.now()},
	})
	got := learn.ReportLessons(&learn.ReportQuery{Book: book}, bandit.New(), f.clock.now())
	var slugs []string
	for _, l := range got {
		slugs = append(slugs, l.Slug)
		assertEqual(t, l.Slug+" superseded", l.Superseded, l.Slug == "old-way")
		assertEqual(t, l.Slug+" expired", l.Expired, l.Slug == "too-late")
		assertEqual(t, l.Slug+" has a parent", l.Parent != "", l.Slug == "new-way" || l.Slug == "candidate")
	}
	assertEqualList(t, "lessons", slugs, []string{"candidate", "new-way", "old-way", "too-late"})
	assertEqual(t, "number of lessons in a report without a book", len(learn.ReportLessons(&learn.ReportQuery{}, bandit.New(), f.clock.now())), 0)
	var rows []string
	for _, l := range f.mustReport(learn.ReportQuery{Book: book}).Lessons {
		rows = append(rows, l.Slug)
	}
	slices.Sort(rows)
	assertEqualList(t, "slugs in the report", rows, slugs)
}

func TestNewTenantHasEmptyBeliefs(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	c := f.Beliefs("new")
	assertEqual(t, "second Beliefs call", f.Beliefs("new"), c)
	assertEqual(t, "rewarded sessions", c.TrialCounters().Global().All.Rewarded, 0)
}
