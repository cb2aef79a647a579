package inject

import (
	"slices"

	"precept/bandit/trial"
	"precept/detect"
	"precept/inject/lesson"
	"precept/internal/session"
)

// observe adds the loops, errors and corrections in the new content to the sums of the session's unit (the session or
// run). It runs before this turn's picks, so that content that triggers a pick is not an outcome of the pick. It also
// observes sessions with a request that the upstream refused: only requests with insertions are refused, so leaving out
// these sessions would bias the comparison with control.
func (w *work) observe() {
	if w.plan.Kind == session.Retry {
		return
	}
	var counts trial.Totals
	var recurred []string
	if w.plan.Kind == session.NewTurn {
		if !w.injector.cfg.NoLoopDetection && !w.isExcluded() {
			counts.Loops = w.findLoops()
		}
		if measured := w.measuredSlugs(); len(measured) > 0 {
			toolErrors := w.findNewErrors()
			counts.Errors = int64(len(toolErrors))
			counts.Corrections = w.countCorrections()
			recurred = w.recurredSlugs(measured, toolErrors)
		}
	}
	w.withUnitRecord(func(u *session.Record) {
		counts.Turns = 1
		u.AddTotals(counts)
		for i := range u.Assignment.Picks {
			if p := &u.Assignment.Picks[i]; slices.Contains(recurred, p.Slug) {
				p.Measurement.Recurred = true
			}
		}
		u.RecordActivity(w.input.Now)
	})
}

// measuredSlugs returns the slugs of the unit's picks whose outcomes are measured.
func (w *work) measuredSlugs() (slugs []string) {
	w.withUnitRecord(func(u *session.Record) {
		for i := range u.Assignment.Picks {
			if p := &u.Assignment.Picks[i]; p.Measurement.Outcomes != 0 {
				slugs = append(slugs, p.Slug)
			}
		}
	})
	return slugs
}

// findNewErrors returns the tool errors that no earlier request in the session contained.
func (w *work) findNewErrors() (out []lesson.ErrorText) {
	for _, found := range w.input.Request.NewResults() {
		r := found.Result
		if !w.rec.IsNewResult(w.input.Request, found.Item, r.CallID) {
			continue
		}
		call := w.callByID(r.CallID)
		if v := w.input.Results.Classify(call, r); v.Outcome == detect.Error {
			out = append(out, lesson.ErrorText{CallID: r.CallID, Tool: call.Name, Text: detect.Signature(r.Text), Kinds: w.input.Results.Kinds(call, r)})
		}
	}
	return out
}

func (w *work) countCorrections() (n int64) {
	for _, s := range w.input.Results.Signals(w.input.Request, w.earlierCall) {
		if s.Tier == detect.TierImplicit && (s.Feeling == detect.Correction || s.Feeling == detect.Rejection) {
			n++
		}
	}
	return n
}

// recurredSlugs returns the slugs of lessons about an error that occurs again in toolErrors.
func (w *work) recurredSlugs(slugs []string, toolErrors []lesson.ErrorText) (out []string) {
	if len(toolErrors) == 0 || w.input.Book == nil {
		return nil
	}
	claim := &w.input.Claim
	q := lesson.Query{
		Tenant: w.rec.Identity.Tenant, Agent: claim.Agent, Role: claim.Role, Skill: claim.Skill, Model: w.input.Request.Model, Tools: w.input.Request.Tools,
		Errors: toolErrors, Now: w.input.Now,
	}
	w.injector.cfg.Tags.Tag(&q)
	for _, h := range w.input.Book.Match(&q) {
		if h.CallID == "" {
			continue
		}
		if h.Resemblance == nil && slices.Contains(slugs, h.Lesson.Slug) {
			out = append(out, h.Lesson.Slug)
		}
		if like := trial.LikenessSlug(h.Lesson.Slug); slices.Contains(slugs, like) {
			out = append(out, like)
		}
	}
	for _, slug := range slugs {
		if l, ok := w.input.Book.Get(slug); ok && l.ShouldPrevent(toolErrors) {
			out = append(out, slug)
		}
	}
	return out
}

func (w *work) startMeasuring(u *session.Record, picks []trial.Pick) {
	u.RecordActivity(w.input.Now)
	for i := range picks {
		p := &picks[i]
		p.Measurement = w.input.Beliefs.NewMeasurement(p.Arm, p.Eps, w.outcomes(p.Slug), u.Thread.Totals)
	}
}

// outcomes returns the outcomes to measure for a lesson. trial.Recurrence (the error occurred again) is included only
// if the lesson is about an error.
func (w *work) outcomes(slug string) trial.OutcomeSet {
	set := trial.NewOutcomeSet(trial.Errors, trial.Corrections, trial.Turns, trial.Tokens, trial.Seconds)
	if !w.injector.cfg.NoLoopDetection {
		set |= trial.NewOutcomeSet(trial.Loops)
	}
	if w.input.Book == nil {
		return set
	}
	if l, ok := w.input.Book.Get(trial.LessonSlug(slug)); ok && l.IsAboutError() {
		set |= trial.NewOutcomeSet(trial.Recurrence)
	}
	return set
}
