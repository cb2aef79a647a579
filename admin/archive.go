package admin

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"precept/bandit/feedback"
	"precept/internal/sample"
	sessionpkg "precept/internal/session"
	"precept/store"
)

// transcript returns a session's transcript. The "from" query key is the number of exchanges to skip. If "from" is 0,
// the transcript also lists the lessons that nearly matched.
func (s *Server) transcript(c echo.Context) (store.Transcript, error) {
	p := params{c: c}
	tenant, from := p.tenant(), p.number("from")
	if p.err != nil {
		return store.Transcript{}, p.err
	}
	t, err := s.options.Read.Archive.Transcript(c.Request().Context(), tenant, nameParam(c, "session"), from)
	if err != nil {
		return t, storeError(err)
	}
	prices := s.options.Program.Prices()
	prices.setCosts(&t.SessionItem)
	if from > 0 {
		return t, nil
	}
	near, err := s.options.Read.Survey.Nearest(c.Request().Context(), tenant, t.ID, t.Matched)
	if err != nil { // the transcript is sent without the lessons that nearly matched
		s.log(c).Warn("the lessons that nearly matched a session cannot be read; the session page shows only the lessons that matched",
			"session", t.ID, "error", err)
	}
	for _, m := range near {
		if m.Matched {
			if i := slices.IndexFunc(t.Fates, func(x store.Fate) bool { return x.Slug == m.Slug }); i >= 0 {
				t.Fates[i].Triggers = m.Why
			}
			continue
		}
		t.Fates = append(t.Fates, store.Fate{Slug: m.Slug, State: store.NotMatched, Why: m.Why})
	}
	return t, nil
}

// Families lists the sample families.
func Families() []string {
	return []string{sample.IntentResolution, sample.DialogResponse, sample.ErrorCorrection, sample.PlanOptimization}
}

// Qualities lists the sample quality labels.
func Qualities() []string {
	return []string{sample.Good, sample.Acceptable, sample.Poor, store.Unrated}
}

func sampleQuery(p *params, now time.Time) *store.SampleQuery {
	q := &store.SampleQuery{
		Filter:  sample.Filter{Tenant: p.tenant(), Lesson: p.text("lesson")},
		Session: p.text("session"), Agent: p.text("agent"), After: p.text("after"), Limit: p.number("limit"),
	}
	q.Filter.From, q.Filter.To = p.timeBounds(now)
	q.Filter.Families, q.Filter.Quality = p.values("family", Families()), p.values("quality", Qualities())
	return q
}

// appliesToExperiment reports whether all filters in a selection also apply to random assignments, which can be
// selected by tenant, lesson and time only.
func appliesToExperiment(q *store.SampleQuery) bool {
	return len(q.Filter.Families)+len(q.Filter.Quality) == 0 && q.Agent+q.Session == ""
}

func (s *Server) browseSamples(c echo.Context) (*store.SampleQuery, store.SampleList, error) {
	p := params{c: c}
	q := sampleQuery(&p, s.options.Now())
	if arm := c.QueryParam("arm"); arm != "" && arm != store.FateInjected { // a sample names only injected lessons
		q.Filter.Lesson = ""
	}
	if p.err != nil {
		return q, store.SampleList{}, p.err
	}
	l, err := s.options.Read.Archive.BrowseSamples(c.Request().Context(), q)
	return q, l, storeError(err)
}

func (s *Server) rate(c echo.Context, tenant string, p feedback.Post) (store.Posted, error) {
	done, err := s.options.Write.Rate.Rate(c.Request().Context(), tenant, p)
	return done, storeError(err)
}

// erase deletes a session's data, or a tenant's if session is empty, and returns the number of deleted sessions.
func (s *Server) erase(c echo.Context, tenant, session string) (int, error) {
	n, err := s.options.Write.Forget.Forget(c.Request().Context(), tenant, session)
	s.ClearCaches() // even after an error, because some of the data may be deleted already
	if err != nil {
		err = echo.NewHTTPError(http.StatusServiceUnavailable,
			"the data could not be deleted completely; try again: "+err.Error()).SetInternal(err)
	}
	return n, err
}

// ClearCaches removes deleted data from the caches. Every deletion calls ClearCaches, whether it comes from the
// dashboard, another replica or the retention. Surveys and scans name sessions and sections, so they are computed
// again.
func (s *Server) ClearCaches() {
	s.recentSessions.clear()
	s.surveys.expire()
	s.scans.expire()
}

func (s *Server) health(c echo.Context) Health {
	h := s.options.Program.Health(c.Request().Context())
	h.Audit = s.audit.latest()
	return h
}

// storeError converts a store error to an HTTP error with a remedy. storeError returns nil, context.Canceled and HTTP
// errors unchanged.
func storeError(err error) error {
	if _, ok := errors.AsType[*echo.HTTPError](err); ok {
		return err
	}
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, sessionpkg.ErrUnknownPosition):
		return echo.NewHTTPError(http.StatusBadRequest,
			"after: not a list position; use next from the previous answer, or omit after")
	case errors.Is(err, store.ErrNoSession):
		return echo.NewHTTPError(http.StatusNotFound, "the session has no stored data: it is unknown, deleted, opted out, or the first turn is not stored yet")
	}
	if errors.Is(err, errComputing) {
		return echo.NewHTTPError(http.StatusServiceUnavailable, "the sessions are being counted; try again in a few seconds").SetInternal(err)
	}
	if fault, ok := errors.AsType[*store.WorkError](err); ok {
		return echo.NewHTTPError(fault.Status, fault.Advice)
	}
	if advice, ok := store.LimitAdvice(err); ok {
		return echo.NewHTTPError(http.StatusTooManyRequests, advice)
	}
	return echo.NewHTTPError(http.StatusServiceUnavailable, "the store cannot be read; "+
		"requests are not affected. Try again; the log has the reason").SetInternal(err)
}
