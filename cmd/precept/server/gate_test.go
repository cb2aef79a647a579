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

// A trial that the automatic gate began ends by its planned evaluation, with any style of the
// block: a lesson that helps stays, a lesson that harms is left to the chooser, and a lesson
// without a finding is retired. A lesson that harms by the interval for all times is retired during
// the trial. The numbers stay in each case. A running trial, and a trial that a person began, are
// left alone.
func TestAutomaticTrialEndsByPlannedEvaluation(t *testing.T) {
	for _, style := range []string{"advice", "pitfalls"} {
		for name, c := range map[string]struct {
			with, without int // successes of 200
			picks         int64
			by            string
			want          lesson.State
		}{
			"helps":       {150, 100, 400, distill.AutoGate, lesson.Active},
			"harms":       {75, 105, 400, distill.AutoGate, lesson.Trial},
			"early harm":  {20, 150, 1000, distill.AutoGate, lesson.Archived},
			"his harm":    {20, 150, 1000, "somebody", lesson.Trial},
			"neither":     {101, 100, 400, distill.AutoGate, lesson.Archived},
			"still going": {101, 100, 401, distill.AutoGate, lesson.Trial},
			"a person's":  {101, 100, 400, "somebody", lesson.Trial},
		} {
			t.Run(style+", "+name, func(t *testing.T) {
				g := newGate(t, style)
				l := g.begin(c.by, c.picks)
				g.play(l, c.with, c.without)
				v, ends, d := g.open()
				if err := ends.endTrials(t.Context(), d); err != nil {
					t.Fatal(err)
				}
				if got := g.state(); got != c.want {
					t.Errorf("got state %s, want %s: %+v", got, c.want, g.row(v))
				}
				book, _, err := lesson.Load(g.cfg.Lessons)
				if err != nil {
					t.Fatal(err)
				}
				v.lessons.book.Store(book)
				row := g.row(v)
				if row.NInjected != 200 || row.NWithheld != 200 || len(row.PlannedTrials) != 1 || row.PlannedTrials[0].Taken != (c.picks == 400) {
					t.Errorf("the row is %+v, want 200 injected, 200 withheld, and one planned evaluation that is taken after 400 picks", row)
				}
				if name == "harms" && row.Verdict != report.TrialHarms && row.Verdict != report.ProvenHarms {
					t.Errorf("the verdict of harms is %s, want %s or %s", row.Verdict, report.TrialHarms, report.ProvenHarms)
				}
			})
		}
	}
}

// The expectation of the chooser does not keep a lesson in a trial that has ended.
func TestEndedTrialIgnoresChooserExpectation(t *testing.T) {
	for verdict, want := range map[report.Verdict]lesson.State{
		report.TrialHelps: lesson.Active, report.Benched: lesson.Archived, report.Unproven: lesson.Archived, report.NoEffect: lesson.Archived,
		report.LikelyHarms: lesson.Archived, report.TrialHarms: lesson.Trial, report.Invalid: lesson.Trial,
	} {
		g := newGate(t, "advice")
		l := g.begin(distill.AutoGate, 400)
		_, ends, d := g.open()
		if err := ends.endTrial(t.Context(), d, l.Slug, verdict); err != nil {
			t.Fatal(err)
		}
		if got := g.state(); got != want {
			t.Errorf("%s: got state %s, want %s", verdict, got, want)
		}
	}
}

// gate is the automatic gate over a store with the data of a test.
type gate struct {
	*testing.T
	w   *Tools
	cfg *configs.Config
}

func newGate(t *testing.T, style string) *gate {
	t.Helper()
	cfg := configs.Default()
	cfg.DataDir, cfg.Lessons, cfg.Inject.Style = t.TempDir(), t.TempDir(), style
	cfg.Distill.Gate = "auto"
	w := &Tools{Now: time.Now, Random: rand.Reader}
	banktest.WriteLesson(t, cfg.Lessons, "on-trial", "targets")
	return &gate{T: t, w: w, cfg: cfg}
}

// begin sets the lesson in trial.
func (g *gate) begin(by string, picks int64) *lesson.Lesson {
	g.Helper()
	b, done, err := g.w.OpenWriter(g.cfg)
	if err != nil {
		g.Fatal(err)
	}
	defer done()
	r, err := b.Act(g.Context(), "on-trial", bank.Decision{Action: lesson.StartTrial, Plan: lesson.TrialPlan{Epsilon: 0.5, Picks: picks}, By: by})
	if err != nil {
		g.Fatal(err)
	}
	return r.Lesson
}

// play counts 400 rewarded sessions of the trial, half of them withheld.
func (g *gate) play(l *lesson.Lesson, with, without int) {
	g.Helper()
	db, err := sqlite.Open(g.Context(), sqlite.Options{Path: g.cfg.StoreURL(), Now: g.w.Now})
	if err != nil {
		g.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // what was settled is settled
	arm := inject.Config{Style: inject.Style(g.cfg.Inject.Style)}.Present(l, lesson.NewBook([]*lesson.Lesson{l}).Text(l), nil).Arm
	steps := make([]session.Settlement, 400)
	for i := range steps {
		a := trial.Assignment{At: g.w.Now().Unix(), Decided: true, Picks: []trial.Pick{{
			Slug: l.Slug, Arm: arm, Eps: 0.5, Injected: i%2 == 0, C: 0.5, Trial: trial.Name(l.Plan.Started, l.Plan.Picks, ""),
		}}}
		wins, y := without, 0.0
		if i%2 == 0 {
			wins = with
		}
		if i/2 < wins {
			y = 1
		}
		s := session.Settlement{Tenant: "default", To: session.Applied{Rewarded: true, Reward: y, Tier: 1}}
		copy(s.ID[:], fmt.Sprintf("%-16d", i)) // the first bytes distinguish the ids
		s.Deltas = append(append(a.Closing(), bandit.Contribution(&a, y, 1)...), a.TrialEntries(s.ID.String(), y)...)
		steps[i] = s
	}
	if _, err := db.Settle(g.Context(), steps); err != nil {
		g.Fatal(err)
	}
}

// open sets up a server without starting the server, and returns the gate and a distiller.
func (g *gate) open() (*services, *trialGate, *Distiller) {
	g.Helper()
	s := New(Options{Tools: *g.w, Config: g.cfg, Console: io.Discard})
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
	st, ok := v.backend.(DistillStore)
	if !ok {
		g.Fatalf("%T", v.backend)
	}
	d, err := g.w.NewDistiller(g.cfg, st, v.store.OptOut, v.lessons.place)
	if err != nil {
		g.Fatal(err)
	}
	return v, &trialGate{log: s.log, lessons: v.lessons, learner: v.learner, proxy: v.proxy}, d
}

// state returns the state of the lesson in the bank or in the archive.
func (g *gate) state() lesson.State {
	g.Helper()
	b, done, err := g.w.OpenWriter(g.cfg)
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
	gone, _, err := b.Archived(g.Context())
	if err != nil || len(gone) != 1 {
		g.Fatal(gone, err)
	}
	return gone[0].State
}

func (g *gate) row(v *services) report.Row {
	g.Helper()
	r, err := v.Report(g.Context(), admin.Query{Tenant: "default"})
	if err != nil || len(r.Lessons) != 1 {
		g.Fatal(r.Lessons, err)
	}
	return r.Lessons[0]
}

// The distiller of a server reads all tenants at the start, once a day, and after a run that left work. Other
// runs read only the tenants whose sessions have changed.
func TestDistillerReadsTheTenantsThatChanged(t *testing.T) {
	now := time.Date(2032, 4, 5, 6, 7, 8, 0, time.UTC)
	var names []string
	d := Distiller{Options: distill.Options{Now: func() time.Time { return now }}, changed: func() ([]string, bool) { return names, len(names) < 3 }}
	for _, c := range []struct {
		when    string
		changed []string
		before  distill.Summary
		after   time.Duration
		all     bool
	}{
		{when: "at the start", all: true},
		{when: "without a change"},
		{when: "after a change", changed: []string{"acme"}},
		{when: "after a run that stopped early", before: distill.Summary{Stopped: "distill.max_tokens"}, all: true},
		{when: "after a run that ended", changed: []string{"acme", "other"}},
		{when: "after more changes than the list holds", changed: []string{"a", "b", "c"}, all: true},
		{when: "a day later", after: readAllEvery, all: true},
	} {
		d.noteResult(c.before, nil)
		now, names = now.Add(c.after), c.changed
		d.selectTenants()
		if got := d.Options.Select.Tenants; (got == nil) != c.all || !c.all && !slices.Equal(got, c.changed) {
			t.Errorf("%s: got %v, want all = %v, otherwise %v", c.when, got, c.all, c.changed)
		}
	}
}
