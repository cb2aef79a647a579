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

// playSessions adds and closes n sessions, each with a reward of 0 or 1. Sessions with the lesson injected have the
// higher mean reward.
func (r *fixture) playSessions(from, n int) {
	r.t.Helper()
	for i := from; i < from+n; i++ {
		injected := i%5 > 0
		id := r.beginSession(tenantA, fmt.Sprint("s", i), picked(injected))
		y := float64(i % 2)
		if injected && i%3 == 0 {
			y = 1
		}
		r.postFeedback(tenantA, id, score("a", 1, y))
	}
	r.advancePastClose()
}

// refit adds and closes n sessions, the last of which makes the learner fit the priors again.
func (r *fixture) refit(from, n int) {
	r.t.Helper()
	r.Beliefs(tenantA)
	r.RefitAfter(tenantA, n)
	r.playSessions(from, n)
}

// reported returns the report of tenantA.
func (r *fixture) reported(q learn.ReportQuery) report.Report {
	r.t.Helper()
	q.Tenant = tenantA
	rep, err := r.Report(r.ctx(), q)
	if err != nil {
		r.t.Fatal(err)
	}
	return rep
}

func asText(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestRestartKeepsTheReport(t *testing.T) {
	t.Parallel()
	withoutContent := func(o *options) { o.Content.Keep = false }
	r := newFixture(t, withoutContent)
	r.refit(0, 60)
	before, priors := asText(t, r.reported(learn.ReportQuery{Bands: true})), r.Beliefs(tenantA).Priors()
	if len(before) < 500 || priors.Version == 0 {
		t.Fatalf("report = %s, priors = %+v, want at least 500 bytes and fitted priors", before, priors)
	}
	if st := r.Beliefs(tenantA).Measured().Stats("look-twice@0123456789ab"); st.Proof.LogUp == 0 && st.Proof.LogDown == 0 {
		t.Errorf("before the restart: LogUp = %v, LogDown = %v, want at least one above 0", st.Proof.LogUp, st.Proof.LogDown)
	}
	counted := r.Beliefs(tenantA).Counted(looked)
	for range 2 {
		r = r.reopen(withoutContent)
		same(t, "report", asText(t, r.reported(learn.ReportQuery{Bands: true})), before)
		same(t, "priors", r.Beliefs(tenantA).Priors(), priors)
		same(t, "posterior", r.Beliefs(tenantA).Counted(looked), counted)
		same(t, "belief of the chooser", r.Beliefs(tenantA).Posterior(looked), counted)
	}
	same(t, "definition", r.reported(learn.ReportQuery{}).RewardDefinition, "user>verifier>implicit@1h0m0s")
	r.refit(1000, 30) // the next fit starts from the stored state
	same(t, "version of the next priors", r.Beliefs(tenantA).Priors().Version, priors.Version+1)
	sameList(t, "failures", r.failed(), nil)
}

// The maxima of the evidence (Proof.LogUp, Proof.LogDown) do not decrease after corrections and a restart.
func TestMaximaSurviveCorrectionAndRestart(t *testing.T) {
	t.Parallel()
	r := newFixture(t, func(o *options) { o.Content.Keep = false })
	r.playSessions(0, 100)
	before := r.Beliefs(tenantA).Measured().Stats("look-twice@0123456789ab")
	for i := range 100 {
		r.postFeedback(tenantA, session.KeyOf(tenantA, session.SpaceName, fmt.Sprint("s", i)), score("b", 2, .5))
	}
	r.record()
	r = r.reopen(nil)
	got := r.Beliefs(tenantA).Measured().Stats("look-twice@0123456789ab")
	if got.Proof.LogUp < before.Proof.LogUp || got.Proof.LogDown < before.Proof.LogDown || before.Proof.LogUp <= 0 {
		t.Errorf("LogUp = %v, LogDown = %v, want at least %v (above 0) and %v", got.Proof.LogUp, got.Proof.LogDown, before.Proof.LogUp, before.Proof.LogDown)
	}
}

// A replica adopts the priors that another replica has published, and its next fit starts from them.
func TestPriorsOfAnotherReplicaAreAdopted(t *testing.T) {
	t.Parallel()
	r := newFixture(t, func(o *options) { o.Content.Keep = false })
	published := bandit.DefaultPriors()
	published.Version, published.Mu0 = 7, .0123
	r.Beliefs(tenantA)
	r.RefitAfter(tenantA, 30) // reads the tenant before the other replica publishes
	data, err := json.Marshal(published)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := r.be.backend.PutPriors(r.ctx(), tenantA, 0, data); !ok || err != nil {
		t.Fatalf("PutPriors = %v, %v, want true and no error", ok, err)
	}
	r.refit(0, 30)
	same(t, "priors in use", r.Beliefs(tenantA).Priors(), published)
	r.refit(1000, 30)
	same(t, "version of the next priors", r.Beliefs(tenantA).Priors().Version, published.Version+1)
	version, _, err := r.be.Priors(r.ctx(), tenantA)
	same(t, "stored version of the priors", version, 2)
	same(t, "error of Priors", err, nil)
}

func TestUnpublishedPriorsAreFittedAgain(t *testing.T) {
	t.Parallel()
	r := newFixture(t, func(o *options) { o.Content.Keep = false })
	r.be.failNext("priors", 1, errDown)
	r.refit(0, 30)
	sameList(t, "failures", r.failed(), []string{"refit"})
	r.refit(1000, 30)
	if v := r.Beliefs(tenantA).Priors().Version; v == 0 {
		t.Error("version of the priors after the second fit = 0, want above 0")
	}
}

func TestProvisionalReportCountsOpenSessions(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	open := r.addSession("open", picked(true))
	r.addSession("unrewarded", picked(false))
	other := r.beginSession("other", "s", picked(true))
	r.postFeedback(tenantA, open, score("a", 1, 1))
	r.postFeedback("other", other, score("a", 1, 1))
	r.clk.add(time.Minute)
	r.record()
	row := func(rep report.Report) report.Row {
		for _, l := range rep.Lessons {
			if l.Slug == "look-twice" {
				return l
			}
		}
		return report.Row{}
	}
	closed := r.reported(learn.ReportQuery{})
	same(t, "Matched in the final report", row(closed).Matched, 0)
	same(t, "open sessions", closed.Open.Sessions, 2)
	same(t, "open sessions with an inserted lesson", closed.Open.Inserted, 1)
	same(t, "FirstCloses is after now", closed.Open.FirstCloses.After(r.clk.now()), true)
	rep := r.reported(learn.ReportQuery{Provisional: true})
	same(t, "open sessions with a match", closed.Open.MatchedArm(row(rep).Arm), 2)
	same(t, "the report is marked as provisional", rep.Provisional, true)
	same(t, "Matched in the provisional report", row(rep).Matched, 2)
	same(t, "Rewarded in the provisional report", row(rep).Rewarded, 1)
	counts := func(l report.Row) string {
		return fmt.Sprint(l.Matched, l.Picked, l.NInjected, l.NWithheld, l.Rewarded)
	}
	provisional := counts(row(rep))
	same(t, "Matched in a second provisional report", row(r.reported(learn.ReportQuery{Provisional: true})).Matched, 2)
	same(t, "Matched in a second final report", row(r.reported(learn.ReportQuery{})).Matched, 0)
	r.advancePastClose()
	same(t, "counts of the final report after close", counts(row(r.reported(learn.ReportQuery{}))), provisional)
	same(t, "counts of a provisional report after close", counts(row(r.reported(learn.ReportQuery{Provisional: true}))), provisional)
	r.be.failNext("due", 1, errDown)
	if _, err := r.Report(r.ctx(), learn.ReportQuery{Tenant: tenantA, Provisional: true}); err == nil {
		t.Error("Report succeeded although the open sessions could not be read")
	}
}

func TestReportListsLessons(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	book := lesson.NewBook([]*lesson.Lesson{
		{Slug: "candidate", Title: "Newer.", State: lesson.Quarantined, ContentHash: "dddddddddddddddd", Supersedes: []string{"new-way"}},
		{Slug: "old-way", Title: "Old.", State: lesson.Active, ContentHash: "aaaaaaaaaaaaaaaa"},
		{Slug: "new-way", Title: "New.", State: lesson.Active, ContentHash: "bbbbbbbbbbbbbbbb", Supersedes: []string{"gone", "old-way"}},
		{Slug: "too-late", Title: "Late.", ContentHash: "cccccccccccccccc", ExpiresAt: r.clk.now()},
	})
	got := learn.LessonsOf(&learn.ReportQuery{Book: book}, bandit.New(), r.clk.now())
	var slugs []string
	for _, l := range got {
		slugs = append(slugs, l.Slug)
		same(t, l.Slug+" superseded", l.Superseded, l.Slug == "old-way")
		same(t, l.Slug+" expired", l.Expired, l.Slug == "too-late")
		same(t, l.Slug+" has a parent", l.Parent != "", l.Slug == "new-way" || l.Slug == "candidate")
	}
	sameList(t, "lessons", slugs, []string{"candidate", "new-way", "old-way", "too-late"})
	same(t, "number of lessons without a book", len(learn.LessonsOf(&learn.ReportQuery{}, bandit.New(), r.clk.now())), 0)
	var rows []string
	for _, l := range r.reported(learn.ReportQuery{Book: book}).Lessons {
		rows = append(rows, l.Slug)
	}
	slices.Sort(rows)
	sameList(t, "slugs in the report", rows, slugs)
}

func TestNewTenantHasEmptyBeliefs(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	c := r.Beliefs("new")
	same(t, "second call of Beliefs", r.Beliefs("new"), c)
	same(t, "rewarded sessions", c.Measured().Global().All.Rewarded, 0)
}
