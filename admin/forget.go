package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/labstack/echo/v4"
)

// Forgetter deletes what is kept of a session, or of a whole tenant where session is empty, and
// says how many sessions there were.
type Forgetter interface {
	Forget(ctx context.Context, tenant, session string) (int, error)
}

// forgetRequest is the body of POST /api/forget. Exactly one of session and all is given: a tenant
// is not forgotten because somebody left a field out.
type forgetRequest struct {
	Tenant  string `json:"tenant"`
	Session string `json:"session"`
	All     bool   `json:"all"`
}

const forgetLimit = 64 << 10

// forget answers POST /api/forget {"tenant","session"} or {"tenant","all":true} with {"forgotten":
// sessions}.
func (s *Server) forget(c echo.Context) error {
	r, err := readForget(c.Request().Body)
	if err != nil {
		return echo.NewHTTPError(http.StatusBadRequest, err.Error())
	}
	c.Set(detailKey, when(r.All, "everything of a tenant deleted", "a session deleted"))
	n, err := s.erase(c, r.Tenant, r.Session)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, map[string]int{"forgotten": n})
}

// erase deletes what is kept of a session, or of a tenant.
func (s *Server) erase(c echo.Context, tenant, session string) (int, error) {
	if s.options.Forget == nil {
		return 0, echo.NewHTTPError(http.StatusServiceUnavailable, "there is nothing to forget yet")
	}
	n, err := s.options.Forget.Forget(c.Request().Context(), tenant, session)
	if err != nil {
		s.log(c).Error("forgetting failed", "error", err)
		err = echo.NewHTTPError(http.StatusServiceUnavailable,
			"not everything could be deleted; try again: "+err.Error())
	}
	return n, err
}

func readForget(body io.Reader) (forgetRequest, error) {
	var r forgetRequest
	d := json.NewDecoder(io.LimitReader(body, forgetLimit))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return r, errors.New(`the body is {"tenant":"...","session":"..."} or {"tenant":"...","all":true}`)
	}
	switch {
	case r.Session != "" && r.All, r.Session == "" && !r.All:
		return r, errors.New("name a session, or say all: true for everything of the tenant")
	case r.All && r.Tenant == "":
		return r, errors.New("name the tenant of which everything is to be forgotten")
	case r.Tenant == "":
		r.Tenant = "default"
	}
	return r, nil
}
