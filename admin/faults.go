package admin

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"
)

// errorResponse returns the response to an error. An unexpected error is answered by its status alone.
func errorResponse(err error) *echo.HTTPError {
	if foreseen, ok := errors.AsType[*echo.HTTPError](err); ok {
		return foreseen
	}
	return echo.NewHTTPError(http.StatusInternalServerError, "internal error; the log of precept has the reason").SetInternal(err)
}

// explain returns the client's error for err and logs the cause. The message never repeats the
// client's input.
func (s *Server) explain(c echo.Context, err error) *echo.HTTPError {
	k := errorResponse(err)
	if k.Internal != nil {
		s.log(c).Error("the admin listener could not answer a request", "path", c.Path(), "error", k.Internal)
	}
	return echo.NewHTTPError(k.Code, k.Message)
}

// sentence returns the text of an error for people.
func sentence(err *echo.HTTPError) string {
	text := fmt.Sprint(err.Message)
	return strings.ToUpper(text[:min(1, len(text))]) + text[min(1, len(text)):] + "."
}
