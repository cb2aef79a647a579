package admin

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"
)

// errorResponse returns err if it is an HTTP error. Otherwise, errorResponse returns status 500 with a fixed text,
// and with err as Internal for the log.
func errorResponse(err error) *echo.HTTPError {
	if httpError, ok := errors.AsType[*echo.HTTPError](err); ok {
		return httpError
	}
	return echo.NewHTTPError(http.StatusInternalServerError, "internal error; the reason is in precept's log").SetInternal(err)
}

// clientError returns the HTTP error for the client and logs the cause.
func (s *Server) clientError(c echo.Context, err error) *echo.HTTPError {
	response := errorResponse(err)
	if response.Internal != nil {
		s.log(c).Error("the admin listener could not answer a request", "path", c.Path(), "error", response.Internal)
	}
	return echo.NewHTTPError(response.Code, response.Message)
}

// errorSentence returns the message with a capital letter and a full stop.
func errorSentence(err *echo.HTTPError) string {
	return sentence(fmt.Sprint(err.Message))
}

// sentence returns text with a capital letter and a full stop.
func sentence(text string) string {
	return strings.ToUpper(text[:min(1, len(text))]) + text[min(1, len(text)):] + "."
}
