package proxy

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"precept/session"
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
func refusal(d wire.Dialect, status int, message string) *problem {
	return &problem{dialect: d, status: status, message: message}
}

// fault is the one place where errors become HTTP.
func (p *Proxy) fault(err error, c echo.Context) {
	if !c.Response().Committed {
		p.fail(err, c.Response(), c.Request())
	}
}

// fail answers a request that came to an error.
func (p *Proxy) fail(err error, w http.ResponseWriter, r *http.Request) {
	var own *problem
	var he *echo.HTTPError
	switch {
	case errors.As(err, &own):
	case errors.As(err, &he):
		own = &problem{dialect: spoken(r), status: he.Code, message: http.StatusText(he.Code)}
	default:
		p.opts.Metrics.FailedOpen("handler")
		p.log(clientOf(w)).Error("a request failed in precept itself", "error", err)
		own = &problem{dialect: spoken(r), status: http.StatusServiceUnavailable, message: "precept could not handle the request; try again"}
	}
	write(w, own.dialect, own.status, own.message)
}

// spoken is the dialect in which the client of a request reads errors.
func spoken(r *http.Request) wire.Dialect {
	_, path, _ := session.ParsePath(r.URL.EscapedPath())
	return family(path, r.Header)
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
