package proxy

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"precept/wire"
)

// problem is an error of precept's own, for a client.
type problem struct {
	dialect wire.Dialect
	status  int
	message string
}

func (p *problem) Error() string { return p.message }

// refusal is the error of a request that precept answers itself.
func refusal(d wire.Dialect, status int, message string) error {
	return &problem{dialect: d, status: status, message: message}
}

// fault is the one place where errors become HTTP.
func (p *Proxy) fault(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	var own *problem
	var he *echo.HTTPError
	switch {
	case errors.As(err, &own):
	case errors.As(err, &he):
		own = &problem{status: he.Code, message: http.StatusText(he.Code)}
	default:
		p.opts.Metrics.FailedOpen("handler")
		p.opts.Log.Error("a request failed in precept itself", "error", err)
		own = &problem{status: http.StatusServiceUnavailable, message: "precept could not handle the request; try again"}
	}
	if c.Request().ProtoMajor == 1 && own.status == http.StatusRequestEntityTooLarge {
		c.Response().Header().Set("Connection", "close") // the rest of the body is not read
	}
	write(c.Response(), own.dialect, own.status, own.message)
}

// write answers in the dialect's own error shape.
func write(w http.ResponseWriter, d wire.Dialect, status int, message string) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	_, _ = w.Write(wire.ErrorBody(d, status, message))
}
