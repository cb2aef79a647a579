package server

import (
	"crypto/rand"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"precept/admin"
	"precept/bandit"
	"precept/bandit/report"
	"precept/bandit/trial"
	"precept/configs"
	"precept/distill"
	"precept/inject"
	"precept/inject/bank"
	"precept/inject/bank/banktest"
	"precept/inject/lesson"
	"precept/internal/session"
	"precept/store/sqlite"
)

// An automatic trial ends with one evaluation after a planned number of picks. A pick is a session in which precept
// decides at random whether to inject the lesson. If the evaluation finds harm, the lesson stays on trial, because the
// chooser rarely picks such a lesson. If the harm is clear before the evaluation, precept archives the lesson at once.
// A trial that a user started never ends automatically.
func TestAutomaticTrialEndsByPlannedEvaluation(t *testing.T) {
	for _, style := range []string{"advice", "pitfalls"} {
		for name, tc := range map[string]struct {
			successesWith, successesWithout int // successes in 200 sessions with and 200 without the lesson
			plannedPicks                    int64
			startedBy                       string
			want                            lesson.State
		}{
			"helpful lesson":                  {150, 100, 400, distill.AutoGate, lesson.Active},
			"harmful lesson":                  {75, 105, 400, distill.AutoGate, lesson.Trial},
			"clear harm before the end":       {20, 150, 1000, distill.AutoGate, lesson.Archived},
			"clear harm in a user's trial":    {20, 150, 1000, "ann", lesson.Trial},
			"no effect":                       {101, 100, 400, distill.AutoGate, lesson.Archived},
			"no effect, one pick is missing":  {101, 100, 401, distill.AutoGate, lesson.Trial},
			"no effect, in a trial by a user": {101, 100, 400, "ann", lesson.Trial},
		} {
			t.Run(style+", "+name, func(t *testing.T) {
				g := newGateFixture(t, style)
				l := g.startTrial(tc.startedBy, tc.plannedPicks)
				g.storeSessions(l, tc.successesWith, tc.successesWithout)
				v, trials, d := g.setUpServer()
				if err := trials.endTrials(t.Context(), d); err != nil {
					t.Fatal(err)
				}
				if got := g.lessonState(); got != tc.want {
					t.Errorf("lesson state after endTrials: got %s, want %s; row of the report: %+v", got, tc.want, g.reportRow(v))
				}
				book, _, err := lesson.Load(g.cfg.Lessons)
				if err != nil {
					t.Fatal(err)
				}
				v.lessons.book.Store(book)
				row := g.reportRow(v)
				if row.NInjected != 200 || row.NWithheld != 200 || len(row.PlannedTrials) != 1 || row.PlannedTrials[0].Evaluated != (tc.plannedPicks == 400) {
					t.Errorf("row of the report: got %+v, want 200 injected and 200 withheld sessions, and one planned trial, which is evaluated if and only if it has 400 planned picks", row)
				}
				if name == "harmful lesson" && row.Verdict != report.TrialHarms && row.Verdict != report.ProvenHarms {
					t.Errorf("verdict on the harmful lesson: got %s, want %s or %s", row.Verdict, report.TrialHarms, report.ProvenHarms)
				}
			})
		}
	}
}

// After the verdicts Benched and LikelyHarms, which predict an effect but do not prove it, endTrial archives the
// lesson.
func TestEndTrialSetsStateByVerdict(t *testing.T) {
	for verdict, want := range map[report.Verdict]lesson.State{
		report.TrialHelps: lesson.Active, report.Benched: lesson.Archived, report.Unproven: lesson.Archived, report.NoEffect: lesson.Archived,
		report.LikelyHarms: lesson.Archived, report.TrialHarms: lesson.Trial, report.Invalid: lesson.Trial,
	} {
		g := newGateFixture(t, "advice")
		l := g.startTrial(distill.AutoGate, 400)
		_, trials, d := g.setUpServer()
		if err := trials.endTrial(t.Context(), d, l.Slug, verdict); err != nil {
			t.Fatal(err)
		}
		if got := g.lessonState(); got != want {
			t.Errorf("lesson state after endTrial with verdict %s: got %s, want %s", verdict, got, want)
		}
	}
}

// gateFixture contains a configuration with a data directory and one lesson, "on-trial".
type gateFixture struct {
	*testing.T
	tools *Tools
	cfg   *configs.Config
}

// newGateFixture returns a fixture whose configuration sets inject.style to style.
func newGateFixture(t *testing.T, style string) *gateFixture {
	t.Helper()
	cfg := configs.Default()
	cfg.DataDir, cfg.Lessons, cfg.Inject.Style = t.TempDir(), t.TempDir(), style
	cfg.Distill.Gate = "auto"
	tools := &Tools{Now: time.Now, Random: rand.Reader}
	banktest.WriteLesson(t, cfg.Lessons, "on-trial", "targets")
	return &gateFixture{T: t, tools: tools, cfg: cfg}
}

func (g *gateFixture) startTrial(author string, picks int64) *lesson.Lesson {
	g.Helper()
	b, done, err := g.tools.OpenBank(g.cfg)
	if err != nil {
		g.Fatal(err)
	}
	defer done()
	r, err := b.Act(g.Context(), "on-trial", bank.Decision{Action: lesson.StartTrial, Plan: lesson.TrialPlan{Epsilon: 0.5, Picks: picks}, By: author})
	if err != nil {
		g.Fatal(err)
	}
	return r.Lesson
}

// storeSessions stores 200 rewarded sessions with the lesson and 200 without it.
func (g *gateFixture) storeSessions(l *lesson.Lesson, successesWith, successesWithout int) {
	g.Helper()
	db, err := sqlite.Open(g.Context(), sqlite.Options{Path: g.cfg.StoreURL(), Now: g.tools.Now})
	if err != nil {
		g.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // Settle has already written
	arm := inject.Config{Style: inject.Style(g.cfg.Inject.Style)}.Present(l, lesson.NewBook([]*lesson.Lesson{l}).Text(l), nil).Arm
	settlements := make([]session.Settlement, 400)
	for i := range settlements {
		a := trial.Assignment{StartUnix: g.tools.Now().Unix(), Decided: true, Picks: []trial.Pick{{
			Slug: l.Slug, Arm: arm, Eps: 0.5, Injected: i%2 == 0, Centre: 0.5, Trial: trial.PlannedName(l.Plan.Started, l.Plan.Picks, ""),
		}}}
		successes, reward := successesWithout, 0.0
		if i%2 == 0 {
			successes = successesWith
		}
		if i/2 < successes {
			reward = 1
		}
		s := session.Settlement{Tenant: "default", To: session.SettledState{Rewarded: true, Reward: reward, Tier: 1}}
		copy(s.ID[:], fmt.Sprintf("%-16d", i)) // the ids must differ in their first bytes
		s.Deltas = append(append(a.ClosingDeltas(), bandit.Contribution(&a, reward, 1)...), a.TrialEntries(s.ID.String(), reward)...)
		settlements[i] = s
	}
	if _, err := db.Settle(g.Context(), settlements); err != nil {
		g.Fatal(err)
	}
}

// setUpServer sets up the services of a server, which does not listen for requests.
func (g *gateFixture) setUpServer() (*services, *trialGate, *Distiller) {
	g.Helper()
	s := New(Options{Tools: *g.tools, Config: g.cfg, Console: io.Discard})
	g.Cleanup(func() { _ = s.stop() })
	l, err := listenTCP(g.Context(), "listen", "127.0.0.1:0")
	if err != nil {
		g.Fatal(err)
	}
	s.onStop("listener", closeQuietly(l))
	if err := s.setup(g.Context(), l, l); err != nil {
		g.Fatal(err)
	}
	v := s.services
	d, err := g.tools.NewDistiller(g.cfg, v.durable, v.store.OptOut, v.lessons.storage)
	if err != nil {
		g.Fatal(err)
	}
	return v, &trialGate{log: s.log, lessons: v.lessons, learner: v.learner, proxy: v.proxy}, d
}

func (g *gateFixture) lessonState() lesson.State {
	g.Helper()
	b, done, err := g.tools.OpenBank(g.cfg)
	if err != nil {
		g.Fatal(err)
	}
	defer done()
	book, _, err := b.List(g.Context())
	if err != nil {
		g.Fatal(err)
	}
	if l, ok := book.Get("on-trial"); ok {
		return l.State
	}
	archived, _, err := b.Archived(g.Context())
	if err != nil || len(archived) != 1 {
		g.Fatalf("archived lessons: got %d, error %v, want one lesson, no error", len(archived), err)
	}
	return archived[0].State
}

func (g *gateFixture) reportRow(v *services) report.Row {
	g.Helper()
	r, err := v.Report(g.Context(), admin.ReportQuery{Tenant: "default"})
	if err != nil || len(r.Lessons) != 1 {
		g.Fatalf("Report: got rows %+v, error %v, want one row, no error", r.Lessons, err)
	}
	return r.Lessons[0]
}

func TestSelectTenants(t *testing.T) {
	now := time.Date(2032, 4, 5, 6, 7, 8, 0, time.UTC)
	var names []string
	d := Distiller{Options: distill.Options{Now: func() time.Time { return now }}, changed: func() ([]string, bool) { return names, len(names) < 3 }}
	for _, tc := range []struct {
		when     string
		changed  []string        // tenants that changed since the previous run
		previous distill.Summary // result of the previous run
		elapsed  time.Duration   // time since the previous run
		all      bool            // whether the next run reads all tenants
	}{
		{when: "at startup", all: true},
		{when: "without a change"},
		{when: "after a change", changed: []string{"acme"}},
		{when: "after a run that stopped early", previous: distill.Summary{Stopped: "distill.max_tokens"}, all: true},
		{when: "after a complete run", changed: []string{"acme", "other"}},
		{when: "after more changes than the list can hold", changed: []string{"a", "b", "c"}, all: true},
		{when: "a day later", elapsed: fullRunInterval, all: true},
	} {
		d.noteResult(tc.previous, nil)
		now, names = now.Add(tc.elapsed), tc.changed
		d.selectTenants()
		if got := d.Options.Select.Tenants; (got == nil) != tc.all || !tc.all && !slices.Equal(got, tc.changed) {
			t.Errorf("tenants of a run %s: got %#v, want %q, or nil if the run reads all tenants = %v", tc.when, got, tc.changed, tc.all)
		}
	}
}
