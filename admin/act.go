package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/labstack/echo/v4"

	"precept/lesson"
	"precept/report"
)

// ErrNoLesson is a Keeper's answer to a slug that it does not have.
var ErrNoLesson = errors.New("there is no such lesson")

// Keeper changes the state of lessons where they are kept. The change is in force when whoever
// watches that place has seen it.
type Keeper interface {
	Act(ctx context.Context, slug string, seen lesson.Sight, a lesson.Action, plan lesson.TrialPlan, by string) (*lesson.Lesson, error)
}

const actLimit = 4 << 10

// trialBody is what a trial may say. With picks or detect it is planned; dry_run tells what it
// would cost, and begins nothing.
type trialBody struct {
	Epsilon float64 `json:"epsilon"`
	Until   float64 `json:"until_halfwidth"`
	Picks   int64   `json:"picks"`
	Detect  float64 `json:"detect"`
	Power   float64 `json:"power"`
	DryRun  bool    `json:"dry_run"`
}

const trialForm = `the body is empty, or of a trial {"epsilon":0.5,"until_halfwidth":0.03} or {"epsilon":0.5,"picks":800} or ` +
	`{"epsilon":0.5,"detect":0.05,"power":0.8}, each with "dry_run":true if you like`

// act answers POST /api/lessons/{slug}/{approve|reject|trial|pause|retire}.
func (s *Server) act(c echo.Context) error {
	a := lesson.Action(c.Param("action"))
	if !a.Valid() {
		return echo.ErrNotFound
	}
	if s.options.Keep == nil {
		return echo.NewHTTPError(http.StatusServiceUnavailable, "the lessons cannot be changed here")
	}
	var b trialBody
	// Of any type, as curl calls a body a form. A form of a browser's holds its CSRF token, and has
	// been read by checkWrite.
	d := json.NewDecoder(io.LimitReader(c.Request().Body, actLimit))
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil && !errors.Is(err, io.EOF) {
		return echo.NewHTTPError(http.StatusBadRequest, trialForm)
	}
	if b != (trialBody{}) && a != lesson.StartTrial {
		return echo.NewHTTPError(http.StatusBadRequest, "a body is of a trial only")
	}
	p := lesson.TrialPlan{Epsilon: b.Epsilon, Until: b.Until, Picks: b.Picks}
	cost, err := s.forecast(c, &b)
	if err != nil {
		return err
	}
	if cost != nil {
		p.Picks = cost.Picks
	}
	if err := p.Validate(); err != nil {
		return echo.NewHTTPError(http.StatusBadRequest, err.Error())
	}
	answer := map[string]any{}
	if cost != nil {
		answer["forecast"] = cost
	}
	if b.DryRun {
		return c.JSON(http.StatusOK, answer)
	}
	l, err := s.options.Keep.Act(c.Request().Context(), param(c, "slug"), lesson.Sight{}, a, p, holderOf(c).String())
	switch {
	case errors.Is(err, ErrNoLesson):
		return echo.NewHTTPError(http.StatusNotFound, err.Error())
	case err != nil:
		return echo.NewHTTPError(http.StatusConflict, "the lesson stays as it is: "+err.Error())
	}
	answer["slug"], answer["state"], answer["content_hash"] = l.Slug, l.State, l.ContentHash
	return c.JSON(http.StatusOK, answer)
}

// forecast is what a planned trial costs; nil for one that is not planned.
func (s *Server) forecast(c echo.Context, b *trialBody) (*report.Forecast, error) {
	if b.Picks == 0 && b.Detect == 0 {
		if b.Power != 0 || b.DryRun {
			return nil, echo.NewHTTPError(http.StatusBadRequest, "power and dry_run are of a planned trial: add picks or detect")
		}
		return nil, nil
	}
	if s.options.Report == nil {
		return nil, echo.NewHTTPError(http.StatusServiceUnavailable, "there is no report yet to plan by")
	}
	q, err := query(c)
	if err != nil {
		return nil, err
	}
	r, err := s.options.Report.Report(c.Request().Context(), Query{Tenant: q.Tenant})
	if err != nil {
		return nil, err
	}
	cost, err := r.Forecast(param(c, "slug"), report.Goal{Picks: b.Picks, Detect: b.Detect, Power: b.Power, Epsilon: b.Epsilon})
	if errors.Is(err, report.ErrNoLesson) {
		return nil, echo.NewHTTPError(http.StatusNotFound, err.Error())
	}
	if err != nil {
		return nil, echo.NewHTTPError(http.StatusBadRequest, err.Error())
	}
	return &cost, nil
}
