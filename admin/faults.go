package admin

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"
)

// known is an error as it is answered. What nobody foresaw is told by its status alone.
func known(err error) *echo.HTTPError {
	if foreseen, ok := errors.AsType[*echo.HTTPError](err); ok {
		return foreseen
	}
	return echo.NewHTTPError(http.StatusInternalServerError, "internal error").SetInternal(err)
}

// explain is the same, with its cause in the log: a sentence for the caller, never what they sent.
func (s *Server) explain(c echo.Context, err error) *echo.HTTPError {
	k := known(err)
	if k.Internal != nil {
		s.log(c).Error("admin request failed", "path", c.Path(), "error", k.Internal)
	}
	return echo.NewHTTPError(k.Code, k.Message)
}

// sentence is what an error says to people.
func sentence(err *echo.HTTPError) string {
	text := fmt.Sprint(err.Message)
	return strings.ToUpper(text[:min(1, len(text))]) + text[min(1, len(text)):] + "."
}

// fail answers what a handler returned. A person who is logged in gets it on a page, with the way
// to the others.
func (s *Server) fail(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	k := s.explain(c, err)
	if c.Request().Method == http.MethodHead {
		_ = c.NoContent(k.Code) // nobody is left to tell
		return
	}
	_, in := c.Get(holderKey).(holder)
	if in && wantsHTML(c.Request()) && !strings.HasPrefix(c.Request().URL.Path, "/api/") {
		what := when(k.Code == http.StatusNotFound, "No such page", "That did not work")
		if s.show(c, shown{Title: what, Main: failedPage, Err: k}) == nil {
			return
		}
	}
	_ = c.JSON(k.Code, map[string]string{"error": fmt.Sprint(k.Message)})
}
