package inject

import (
	"slices"

	"precept/bandit"
	"precept/bandit/trial"
	"precept/detect"
	"precept/inject/lesson"
	"precept/internal/session"
	"precept/internal/wire"
)

// observe adds the new content of a turn to the sums of the session's unit. observe runs before the
// picks of the turn, so the content that triggers a pick is not an outcome of the pick. observe also
// runs in a session that gets no more insertions after a refusal by the upstream: only treated sessions
// can be refused, and without their outcomes the arms would not be comparable. No step reads a coin.
func (w *work) observe() {
	if w.plan.Kind == session.Retry {
		return
	}
	var seen trial.Tally
	var recurred []string
	if w.plan.Kind == session.NewTurn {
		if !w.in.cfg.NoLoops && !w.excluded() {
			seen.Loops = w.findLoops()
		}
		if watched := w.watched(); len(watched) > 0 {
			errors := w.newErrors()
			seen.Errors = int64(len(errors))
			seen.Corrections = w.corrections()
			recurred = w.recurred(watched, errors)
		}
	}
	w.withCoins(func(u *session.Record) {
		seen.Turns = 1
		u.Observe(seen)
		for i := range u.Assignment.Picks {
			if p := &u.Assignment.Picks[i]; slices.Contains(recurred, p.Slug) {
				p.Watch.Recurred = true
			}
		}
		u.Active(w.input.Now)
	})
}

// watched returns the slugs of the picks whose outcomes are measured.
func (w *work) watched() (slugs []string) {
	w.withCoins(func(u *session.Record) {
		for i := range u.Assignment.Picks {
			if p := &u.Assignment.Picks[i]; p.Watch.Outcomes != 0 {
				slugs = append(slugs, p.Slug)
			}
		}
	})
	return slugs
}

// newErrors returns the failed results that no earlier request of the session had.
func (w *work) newErrors() (out []lesson.ErrorText) {
	for _, found := range w.input.Request.NewResults() {
		r := found.Result
		if !w.rec.IsNewResult(w.input.Request, found.Item, r.CallID) {
			continue
		}
		call := w.call(r.CallID)
		if v := w.input.Results.Classify(call, r); v.Outcome == detect.Error {
			out = append(out, lesson.ErrorText{CallID: r.CallID, Tool: call.Name, Text: detect.Signature(r.Text), Kinds: w.input.Results.Kinds(call, r)})
		}
	}
	return out
}

// corrections returns the number of corrections and rejections of a person in the new content.
func (w *work) corrections() (n int64) {
	recall := func(id string) (wire.Call, bool) {
		c, ok := w.rec.Thread.Calls[id]
		return c, ok
	}
	for _, s := range w.input.Results.Signals(w.input.Request, recall) {
		if s.Tier == detect.TierImplicit && (s.Feeling == detect.Correction || s.Feeling == detect.Rejection) {
			n++
		}
	}
	return n
}

// recurred returns the lessons among slugs that one of the errors is about.
func (w *work) recurred(slugs []string, errors []lesson.ErrorText) (out []string) {
	if len(errors) == 0 || w.input.Book == nil {
		return nil
	}
	c := &w.input.Claim
	q := lesson.Query{
		Tenant: w.rec.Identity.Tenant, Agent: c.Agent, Role: c.Role, Skill: c.Skill, Model: w.input.Request.Model, Tools: w.input.Request.Tools,
		Errors: errors, Now: w.input.Now,
	}
	w.in.cfg.Tags.Tag(&q)
	for _, h := range w.input.Book.Match(&q) {
		if h.CallID == "" {
			continue
		}
		if h.Like == nil && slices.Contains(slugs, h.Lesson.Slug) {
			out = append(out, h.Lesson.Slug)
		}
		if like := trial.LikeSlug(h.Lesson.Slug); slices.Contains(slugs, like) {
			out = append(out, like)
		}
	}
	for _, slug := range slugs {
		if l, ok := w.input.Book.Get(slug); ok && l.Prevented(errors) {
			out = append(out, slug)
		}
	}
	return out
}

// watcher returns the measurement of a pick from the outcomes of closed sessions.
type watcher interface {
	Watch(k trial.Arm, eps float64, outcomes trial.OutcomeSet, from trial.Tally) trial.Watch
}

// watch starts the measurement of new picks. The numbers of a measurement follow from closed sessions
// and from the session before the pick, so the numbers do not depend on the coin, although the coin is
// already flipped.
func (w *work) watch(u *session.Record, picks []trial.Pick, actions []bandit.Action) {
	beliefs, ok := w.input.Beliefs.(watcher)
	if !ok {
		return
	}
	u.Active(w.input.Now)
	for i := range picks {
		p := &picks[i]
		at := slices.IndexFunc(actions, func(a bandit.Action) bool { return a.Slug == p.Slug })
		if at >= 0 {
			p.Watch = beliefs.Watch(p.Arm, p.Eps, w.outcomes(p.Slug), u.Thread.Tally)
		}
	}
}

// outcomes returns the outcomes that are measured for a lesson. trial.Recurrence, the return of an error, is measured
// for lessons about an error only.
func (w *work) outcomes(slug string) trial.OutcomeSet {
	set := trial.SetOf(trial.Errors, trial.Corrections, trial.Turns, trial.Tokens, trial.Seconds)
	if !w.in.cfg.NoLoops {
		set |= trial.SetOf(trial.Loops)
	}
	if w.input.Book == nil {
		return set
	}
	if l, ok := w.input.Book.Get(trial.LessonSlug(slug)); ok && l.AboutError() {
		set |= trial.SetOf(trial.Recurrence)
	}
	return set
}
