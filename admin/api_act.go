package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/labstack/echo/v4"

	"precept/bandit/feedback"
	"precept/bandit/report"
	"precept/inject/lesson"
	"precept/store"
)

// Request body limits, in bytes.
const (
	actLimit      = 4 << 10
	forgetLimit   = 64 << 10
	feedbackLimit = 1 << 20
	importLimit   = 256 << 20
)

// decode decodes a JSON body and refuses unknown members. decode accepts every content type, because curl sends a
// form's content type by default. checkWrite refuses forms from other sites.
func decode(c echo.Context, limit int64, target any) error {
	d := json.NewDecoder(io.LimitReader(c.Request().Body, limit))
	d.DisallowUnknownFields()
	return d.Decode(target)
}

func badRequest(text string) error { return echo.NewHTTPError(http.StatusBadRequest, text) }

// trialBody is the body of a request for a trial. A trial with picks or detect is planned; dry_run returns the cost
// and starts nothing.
type trialBody struct {
	Epsilon float64 `json:"epsilon"`         // probability of withholding
	Until   float64 `json:"until_halfwidth"` // half-width of the interval that ends an unplanned trial
	Picks   int64   `json:"picks"`           // rewarded picks until the evaluation
	Detect  float64 `json:"detect"`          // effect to find, instead of picks
	Power   float64 `json:"power"`           // probability of finding the effect
	Outcome string  `json:"outcome"`         // outcome of a planned trial; empty: the reward
	DryRun  bool    `json:"dry_run"`
}

const trialForm = `the body must be empty, or for a trial {"epsilon":0.5,"until_halfwidth":0.03} or {"epsilon":0.5,"picks":800} or ` +
	`{"epsilon":0.5,"detect":0.05,"power":0.8} or {"outcome":"recurrence","detect":0.25}, optionally with "dry_run":true`

func (s *Server) apiAct(c echo.Context) error {
	a := lesson.Action(c.Param("action"))
	if !a.Valid() {
		return echo.ErrNotFound
	}
	var b trialBody
	if err := decode(c, actLimit, &b); err != nil && !errors.Is(err, io.EOF) {
		return badRequest(trialForm)
	}
	if b != (trialBody{}) && a != lesson.StartTrial {
		return badRequest("only the action trial accepts a body; send an empty body")
	}
	p := lesson.TrialPlan{Epsilon: b.Epsilon, Until: b.Until, Picks: b.Picks}
	cost, err := s.forecast(c, &b)
	if err != nil {
		return err
	}
	response := map[string]any{}
	if cost != nil {
		p.Picks, p.Outcome, response["forecast"] = cost.Picks, cost.Outcome, cost
	}
	if err := p.Validate(); err != nil {
		return badRequest(err.Error())
	}
	if b.DryRun {
		return sendJSON(c, response, nil)
	}
	l, err := s.options.Write.Lessons.Act(c.Request().Context(), param(c, "slug"), lesson.SeenVersion{}, a, p, requestHolder(c).String())
	switch {
	case errors.Is(err, ErrNoLesson):
		return echo.NewHTTPError(http.StatusNotFound, err.Error())
	case err != nil:
		return echo.NewHTTPError(http.StatusConflict, "the lesson is unchanged: "+err.Error())
	}
	response["slug"], response["state"], response["content_hash"] = l.Slug, l.State, l.ContentHash
	return sendJSON(c, response, nil)
}

// forecast returns the cost of a planned trial, or nil for an unplanned trial.
func (s *Server) forecast(c echo.Context, b *trialBody) (*report.Forecast, error) {
	if b.Picks == 0 && b.Detect == 0 {
		if b.Power != 0 || b.DryRun || b.Outcome != "" {
			return nil, badRequest("power, outcome and dry_run belong to a planned trial; add picks or detect")
		}
		return nil, nil
	}
	q, err := reportQuery(c)
	if err != nil {
		return nil, err
	}
	r, err := s.options.Read.Report.Report(c.Request().Context(), ReportQuery{Tenant: q.Tenant})
	if err != nil {
		return nil, err
	}
	cost, err := r.Forecast(param(c, "slug"), report.Goal{Picks: b.Picks, DetectableEffect: b.Detect, Power: b.Power, Epsilon: b.Epsilon, Outcome: b.Outcome})
	switch {
	case errors.Is(err, report.ErrNoLesson):
		return nil, echo.NewHTTPError(http.StatusNotFound, err.Error())
	case err != nil:
		return nil, badRequest(err.Error())
	}
	return &cost, nil
}

// apiForget handles POST /api/forget with {"tenant","session"} or {"tenant","all":true}. Either session or all is
// required, because a missing session must not delete a tenant's data.
func (s *Server) apiForget(c echo.Context) error {
	var r struct {
		Tenant  string `json:"tenant"`
		Session string `json:"session"`
		All     bool   `json:"all"`
	}
	switch err := decode(c, forgetLimit, &r); {
	case err != nil:
		return badRequest(`the body must be {"tenant":"...","session":"..."} or {"tenant":"...","all":true}`)
	case (r.Session != "") == r.All:
		return badRequest("name a session, or send all: true to delete all the tenant's data")
	case r.All && r.Tenant == "":
		return badRequest("the tenant is missing: name the tenant to delete")
	case r.Tenant == "":
		r.Tenant = "default"
	}
	n, err := s.erase(c, r.Tenant, r.Session)
	subject := "tenant " + r.Tenant
	if !r.All {
		subject = "session " + idOnly(r.Session) + " in the " + subject
	}
	c.Set(detailKey, fmt.Sprintf("%s: %s", subject, ifElse(err != nil, "not completely deleted", fmt.Sprintf("%d deleted", n))))
	return sendJSON(c, map[string]int{"forgotten": n}, err)
}

// apiImport handles POST /api/import. The body has a format that detect.ReadTranscripts reads.
func (s *Server) apiImport(c echo.Context) error {
	p := params{c: c}
	tenant, agent, at := p.tenant(), p.text("agent"), p.time("at")
	if p.err != nil {
		return p.err
	}
	if at.IsZero() {
		at = s.options.Now()
	}
	body := &io.LimitedReader{R: c.Request().Body, N: importLimit + 1}
	sum, err := s.options.Write.Import.Import(c.Request().Context(), tenant, agent, body, at)
	if body.N <= 0 {
		return echo.NewHTTPError(http.StatusRequestEntityTooLarge, "the transcripts are larger than 256 MiB, and the first 256 MiB were imported; split the transcripts and send the parts")
	}
	c.Set(detailKey, fmt.Sprintf("transcripts imported: %d", sum.Transcripts))
	return sendJSON(c, sum, err)
}

// apiFeedback handles POST /api/feedback. The body is one entry as in /v1/feedback.
func (s *Server) apiFeedback(c echo.Context) error {
	p := params{c: c}
	tenant := p.tenant()
	if p.err != nil {
		return p.err
	}
	body, err := io.ReadAll(io.LimitReader(c.Request().Body, feedbackLimit+1))
	if err != nil {
		return err
	}
	if len(body) > feedbackLimit {
		return echo.NewHTTPError(http.StatusRequestEntityTooLarge, "feedback is larger than 1 MiB; send less")
	}
	posts, errs, bulk, err := feedback.Parse(body)
	switch {
	case err != nil:
		return badRequest(err.Error())
	case bulk:
		return badRequest("send one entry; the data listener's /v1/feedback accepts arrays")
	case errs[0] != nil:
		return badRequest(errs[0].Error())
	}
	done, err := s.rate(c, tenant, posts[0])
	if err != nil {
		return err
	}
	work := done.Work
	if work == nil {
		work = &store.Owners{}
	}
	return c.JSON(http.StatusAccepted, struct {
		ID      string       `json:"id"`
		Session string       `json:"session_id,omitempty"`
		Run     string       `json:"run_id,omitempty"`
		Status  store.Status `json:"status"`

		Sessions []string `json:"sessions,omitempty"`
		Runs     []string `json:"runs,omitempty"`
	}{done.ID, done.Session, done.Run, done.Status, work.Sessions, work.Runs})
}
