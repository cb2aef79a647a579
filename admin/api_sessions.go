package admin

import (
	"io"
	"net/http"

	"github.com/labstack/echo/v4"

	"precept/feedback"
	"precept/store"
)

// browse answers what a request asks of the sessions, for the page and for programs alike.
func (s *Server) browse(c echo.Context) (store.SessionQuery, store.SessionList, error) {
	p := params{c: c}
	q := store.SessionQuery{
		Tenant: p.tenant(), Since: p.time("since"), Until: p.time("until"),
		After: p.text("after"), Limit: p.number("limit"), Session: p.text("session"),
		Agent: p.text("agent"), Model: p.text("model"), Lesson: p.text("lesson"),
		Verdict: p.oneOf("verdict", store.Verdicts()), Loops: p.yes("loops"),
		MinReward: p.share("min_reward"), MaxReward: p.share("max_reward"),
		Words: p.text("words"), Tool: p.text("tool"), Error: p.text("error"),
	}
	if p.err != nil {
		return q, store.SessionList{}, p.err
	}
	if s.options.Archive == nil {
		return q, store.SessionList{}, noArchive()
	}
	l, err := s.options.Archive.Browse(c.Request().Context(), q)
	if err != nil {
		return q, store.SessionList{}, s.archiveError(c, err)
	}
	return q, l, nil
}

// apiSessions answers GET /api/sessions.
func (s *Server) apiSessions(c echo.Context) error {
	_, l, err := s.browse(c)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, l)
}

// apiSession answers GET /api/sessions/{session}.
func (s *Server) apiSession(c echo.Context) error {
	t, err := s.transcript(c)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, t)
}

func (s *Server) transcript(c echo.Context) (store.Transcript, error) {
	p := params{c: c}
	tenant, from := p.tenant(), p.number("from")
	if p.err != nil {
		return store.Transcript{}, p.err
	}
	if s.options.Archive == nil {
		return store.Transcript{}, noArchive()
	}
	t, err := s.options.Archive.Transcript(c.Request().Context(), tenant, param(c, "session"), from)
	if err != nil {
		return store.Transcript{}, s.archiveError(c, err)
	}
	return t, nil
}

// rateLimit bounds one body of POST /api/feedback.
const rateLimit = 1 << 20

// apiFeedback answers POST /api/feedback: one entry in the form of the data listener's
// /v1/feedback, for the tenant of the query.
func (s *Server) apiFeedback(c echo.Context) error {
	p := params{c: c}
	tenant := p.tenant()
	if p.err != nil {
		return p.err
	}
	body, err := io.ReadAll(io.LimitReader(c.Request().Body, rateLimit+1))
	if err != nil {
		return err
	}
	if len(body) > rateLimit {
		return echo.NewHTTPError(http.StatusRequestEntityTooLarge, "a feedback may have 1 MiB here")
	}
	posts, errs, bulk, err := feedback.Parse(body)
	if err == nil && bulk {
		err = echo.NewHTTPError(http.StatusBadRequest, "one feedback at a time; the data listener's /v1/feedback takes many")
	}
	if err == nil {
		err = errs[0]
	}
	if err != nil {
		return echo.NewHTTPError(http.StatusBadRequest, err.Error())
	}
	done, err := s.rate(c, tenant, posts[0])
	if err != nil {
		return err
	}
	return c.JSON(http.StatusAccepted, struct {
		ID      string       `json:"id"`
		Session string       `json:"session_id,omitempty"`
		Run     string       `json:"run_id,omitempty"`
		Status  store.Status `json:"status"`
	}{done.ID, done.Session, done.Run, done.Status})
}

// rate takes a checked feedback in.
func (s *Server) rate(c echo.Context, tenant string, p feedback.Post) (store.Posted, error) {
	if s.options.Rate == nil {
		return store.Posted{}, noArchive()
	}
	done, err := s.options.Rate.Rate(c.Request().Context(), tenant, p)
	if err != nil {
		return done, s.archiveError(c, err)
	}
	return done, nil
}
