package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/labstack/echo/v4"

	"precept/lesson"
)

// ErrNoLesson is a Keeper's answer to a slug that it does not have.
var ErrNoLesson = errors.New("there is no such lesson")

// Keeper changes the state of lessons where they are kept. The change is in force when whoever watches that place has seen it.
type Keeper interface {
	Act(ctx context.Context, slug string, a lesson.Action, plan lesson.TrialPlan, by string) (*lesson.Lesson, error)
}

const actLimit = 4 << 10

// act answers POST /api/lessons/{slug}/{approve|reject|trial|pause|retire}. A trial may say {"epsilon","until_halfwidth"}.
func (s *Server) act(c echo.Context) error {
	a := lesson.Action(c.Param("action"))
	if !a.Valid() {
		return echo.ErrNotFound
	}
	if s.options.Keep == nil {
		return echo.NewHTTPError(http.StatusServiceUnavailable, "the lessons cannot be changed here")
	}
	var plan struct {
		Epsilon float64 `json:"epsilon"`
		Until   float64 `json:"until_halfwidth"`
	}
	if c.Request().Header.Get(echo.HeaderContentType) != echo.MIMEApplicationForm { // a page's button has its token there
		d := json.NewDecoder(io.LimitReader(c.Request().Body, actLimit))
		d.DisallowUnknownFields()
		if err := d.Decode(&plan); err != nil && !errors.Is(err, io.EOF) {
			return echo.NewHTTPError(http.StatusBadRequest, `the body is empty, or of a trial {"epsilon":0.5,"until_halfwidth":0.03}`)
		}
	}
	p := lesson.TrialPlan{Epsilon: plan.Epsilon, Until: plan.Until}
	if err := p.Validate(); err != nil || (p != lesson.TrialPlan{} && a != lesson.StartTrial) {
		return echo.NewHTTPError(http.StatusBadRequest, "epsilon and until_halfwidth are of a trial, and lie between 0 and 1")
	}
	l, err := s.options.Keep.Act(c.Request().Context(), c.Param("slug"), a, p, "admin")
	switch {
	case errors.Is(err, ErrNoLesson):
		return echo.NewHTTPError(http.StatusNotFound, err.Error())
	case err != nil:
		return echo.NewHTTPError(http.StatusConflict, "the lesson stays as it is: "+err.Error())
	}
	return c.JSON(http.StatusOK, map[string]any{"slug": l.Slug, "state": l.State, "content_hash": l.ContentHash})
}
