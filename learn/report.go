package learn

import (
	"cmp"
	"context"
	"slices"
	"time"

	"precept/bandit"
	"precept/bandit/feedback"
	"precept/bandit/report"
	"precept/bandit/trial"
	"precept/inject"
	"precept/inject/lesson"
	"precept/inject/rules"
	"precept/internal/label"
	"precept/internal/session"
)

// ReportQuery selects a report.
type ReportQuery struct {
	Tenant        string
	Window        time.Duration // 0 means all time
	Provisional   bool          // also count the rewards in open sessions
	SkipOpenCount bool          // leave out Report.Open; counting needs a search
	WhatIf        float64       // share of withheld picks for a projected time to a verdict; 0 means no projection
	EffectHistory bool
	Explain       string   // slug of the lesson to explain, or ""
	Guardrails    []string // outcomes; an increase is shown next to the verdict
	Book          *lesson.Book
	Rules         *rules.Registry // rules file sections, or nil
	Config        bandit.Config
	Inject        inject.Config
}

const maxProvisionalSessions = 100_000 // open sessions read for a report with provisional rewards

// Report builds a tenant's report from the counters in memory, after reading other replicas' counters.
func (l *Learner) Report(ctx context.Context, q ReportQuery) (report.Report, error) {
	if err := l.follower.refresh(ctx); err != nil { // on error, use the last counters
		l.tools.reportFailure(label.StepFollow, err)
	}
	if err := l.beliefs.load(ctx, q.Tenant); err != nil {
		l.tools.reportFailure(label.StepLoad, err)
	}
	c := l.beliefs.chooser(q.Tenant)
	if q.Provisional {
		var err error
		if c, err = l.addOpenSessions(ctx, q.Tenant, c); err != nil {
			return report.Report{}, err
		}
	}
	policy := ReportPolicy(q.Config)
	policy.NoCautions = q.Inject.NoCautions
	build := func(c *bandit.Chooser) report.Report {
		var archived func(slug string) bool
		if q.Book != nil {
			archived = q.Book.Archived
		}
		return report.Build(report.Input{
			Now: l.tools.now(), Tenant: q.Tenant, RewardDefinition: l.rewardName, OtherDefinitions: reportOtherDefinitions(l.beliefs.otherDefinitions(q.Tenant)), Counters: c.TrialCounters(), Chooser: ReportChooser(c, q.Config), Policy: policy,
			Lessons: append(reportLessons(&q, c, l.tools.now()), newestSections(q.Rules)...), Archived: archived, Window: q.Window, Provisional: q.Provisional, WhatIf: q.WhatIf, Bands: q.EffectHistory, Explain: q.Explain, Guardrails: q.Guardrails,
		})
	}
	r := build(c)
	if !q.Provisional && !q.SkipOpenCount {
		r.Open, _ = CountOpen(ctx, l.provisional.backend, q.Tenant, l.provisional.reward.CloseAfter, l.tools.now()) // on error, only this count is missing
	}
	for i := range r.Lessons {
		r.Lessons[i].OpenMatched = r.Open.MatchedArm(r.Lessons[i].Arm)
	}
	if r.Open != nil && !r.Open.IsLowerBound && r.Global.NTreated+r.Global.NControl == 0 {
		if withOpen, err := l.addOpenSessions(ctx, q.Tenant, c); err == nil {
			g := build(withOpen).Global
			r.Open.NTreated, r.Open.NControl = g.NTreated, g.NControl
		}
	}
	return r, nil
}

// CountOpen stops after maxOpenCounted sessions of the tenant, or after maxOpenRead sessions in total, because the
// store lists all tenants' open sessions by age.
const (
	maxOpenCounted = 2000
	maxOpenRead    = 20_000
)

// CountOpen returns how many sessions are open, how many of them have an inserted lesson and, by arm (treatment), how
// many have a match. It counts one tenant's sessions, or all tenants' sessions if tenant is "". It returns nil if no
// session is open. The count is a lower bound if CountOpen stopped early.
func CountOpen(ctx context.Context, backend interface {
	DueSessions(ctx context.Context, before time.Time, after session.Row, limit int) ([]session.Row, error)
}, tenant string, closeAfter time.Duration, now time.Time,
) (*report.OpenSessions, error) {
	open := report.OpenSessions{CloseAfter: closeAfter.String()}
	var after session.Row
	for read := 0; ; {
		rows, err := backend.DueSessions(ctx, now, after, closeBatchSize)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			if tenant == "" || rows[i].Tenant == tenant {
				countOpenSession(&open, &rows[i], closeAfter)
			}
		}
		read += len(rows)
		if len(rows) < closeBatchSize {
			break
		}
		if open.Sessions >= maxOpenCounted || read >= maxOpenRead {
			open.IsLowerBound = true
			break
		}
		after = rows[len(rows)-1]
	}
	if open.Sessions == 0 && !open.IsLowerBound {
		return nil, nil //nolint:nilnil // no session is open
	}
	return &open, nil
}

// countOpenSession adds a session to open. A run is not counted as a session, but the matches and picks of its sessions
// are in the run's record.
func countOpenSession(open *report.OpenSessions, row *session.Row, closeAfter time.Duration) {
	if open.FirstCloses.IsZero() { // the rows are sorted by start
		open.FirstCloses = row.Started.Add(closeAfter)
	}
	rec, err := session.Decode(row.ID, row.Data)
	if err != nil || !rec.Unit.IsRun {
		open.Sessions++
	}
	if err != nil || rec.Unit.ID != "" { // the matches are in the session's unit: the run or parent session
		return
	}
	if open.Matched == nil {
		open.Matched = map[trial.Arm]int{}
	}
	for _, m := range rec.Assignment.Matched {
		open.Matched[m.Arm]++
	}
	if slices.ContainsFunc(rec.Assignment.Picks, func(p trial.Pick) bool { return p.Injected && !p.Arm.IsRule() }) {
		open.Inserted++
	}
}

// addOpenSessions returns a copy of the counters with the rewards in open sessions.
func (l *Learner) addOpenSessions(ctx context.Context, tenant string, closed *bandit.Chooser) (*bandit.Chooser, error) {
	c := closed.Clone()
	var after session.Row
	for seen := 0; seen < maxProvisionalSessions; {
		rows, err := l.provisional.backend.DueSessions(ctx, l.tools.now(), after, closeBatchSize)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			if rows[i].Tenant == tenant {
				c.Add(l.deltasIfClosed(ctx, c, &rows[i]))
			}
		}
		seen += len(rows)
		if len(rows) < closeBatchSize {
			break
		}
		after = rows[len(rows)-1]
	}
	return c, nil
}

func (l *Learner) deltasIfClosed(ctx context.Context, c *bandit.Chooser, row *session.Row) []trial.Delta {
	rec, err := session.Decode(row.ID, row.Data)
	if err != nil {
		return nil
	}
	if rec.Unit.ID != "" { // the reward counts in the session's unit
		member := trial.MemberAssignment()
		return member.ClosingDeltas()
	}
	entries, err := l.provisional.backend.Feedback(ctx, row.Tenant, row.ID)
	if err != nil {
		return nil
	}
	out := feedback.Reward(dropLateImplicit(entries, row.Started, l.provisional.reward.CloseAfter), l.provisional.reward.Tiers)
	return closingDeltas(c, rec, out)
}

func reportLessons(q *ReportQuery, c *bandit.Chooser, now time.Time) []report.Lesson {
	book := q.Book
	if book == nil {
		return nil
	}
	var out []report.Lesson
	for _, l := range book.Lessons() {
		shown := q.Inject.Present(l, book.Text(l), c)
		r := report.Lesson{
			Slug: l.Slug, Arm: shown.Arm, Caution: shown.Caution, Tokens: shown.Tokens, ContentHash: l.ContentHash, State: string(l.State),
			Outcome: l.Outcome, Confidence: l.Confidence,
			Expired: !l.ExpiresAt.IsZero() && !now.Before(l.ExpiresAt), Superseded: len(book.Successors(l.Slug, now)) > 0,
		}
		if l.State == lesson.Trial {
			r.Epsilon, r.Until, r.Trial = cmp.Or(l.Plan.Epsilon, trial.Epsilon), l.Plan.Until, l.PlannedTrialName()
		}
		for _, old := range l.Supersedes {
			if parent, ok := book.Get(old); ok {
				r.Parent = q.Inject.Present(parent, book.Text(parent), c).Arm
				break
			}
		}
		out = append(out, r)
		if l.Trigger.ByLikeness {
			r.Slug, r.Arm, r.Trial, r.Parent = trial.LikenessSlug(r.Slug), r.Arm.LikenessArm(), "", ""
			out = append(out, r)
		}
	}
	return out
}

// newestSections returns each section's newest version. The report adds older versions that were measured.
func newestSections(registry *rules.Registry) []report.Lesson {
	if registry == nil {
		return nil
	}
	var out []report.Lesson
	listed := map[string]bool{}
	for i := len(registry.Sections) - 1; i >= 0; i-- {
		s := &registry.Sections[i]
		if s.State == rules.Stopped || listed[s.Slug()] {
			continue
		}
		listed[s.Slug()] = true
		l := report.Lesson{Slug: s.Slug(), Arm: s.Arm(), State: string(s.State), Confidence: 0.5, Tokens: rules.Tokens(s.Text), Share: s.CutProbability}
		if s.Picks > 0 {
			l.Epsilon, l.Trial = s.CutProbability, s.Trial()
		}
		out = append(out, l)
	}
	return out
}

// ReportChooser returns a chooser's beliefs under a configuration. The beliefs depend only on the counters, so the
// beliefs are equal on every replica.
func ReportChooser(c *bandit.Chooser, cfg bandit.Config) report.Chooser {
	return configuredChooser{c, cfg}
}

// ReportPolicy converts bandit settings to the report's type.
func ReportPolicy(cfg bandit.Config) report.Policy {
	return report.Policy{
		Objective: string(cfg.Objective), Holdout: string(cfg.Holdout), Control: cfg.Control, TokenCost: cfg.TokenCost,
	}
}

type configuredChooser struct {
	beliefs *bandit.Chooser
	cfg     bandit.Config
}

func (c configuredChooser) Belief(l report.Lesson) report.Belief {
	if l.Arm.IsRule() { // a rules file section, registered by a person; the chooser has no belief about it
		return report.Belief{Epsilon: l.Share}
	}
	k := newAction(l)
	p := c.beliefs.PosteriorFromCounters(k)
	better, worse := c.beliefs.CautionEvidence(l.Arm)
	return report.Belief{Mean: p.Mean, Var: p.Var, Benched: p.Benched, Epsilon: c.cfg.NextEpsilon(k, p), PassOver: 1 - c.cfg.PickProbability(k, p), Better: better, Worse: worse}
}

func (c configuredChooser) BelievedAt(l report.Lesson, day int32) float64 {
	if l.Arm.IsRule() {
		return 0
	}
	return c.beliefs.MeanBefore(newAction(l), day)
}

func (c configuredChooser) Sigma2() float64 { return c.beliefs.Priors().RewardVariance }

func newAction(l report.Lesson) bandit.Action {
	return bandit.Action{
		Slug: l.Slug, Arm: l.Arm, Confidence: l.Confidence, Parent: l.Parent, Epsilon: l.Epsilon, Until: l.Until, Trial: l.Trial,
		Tokens: l.Tokens, Forced: l.Arm == trial.LoopArm,
	}
}
