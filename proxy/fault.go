package proxy

import (
	"net/http"

	"precept/internal/session"
	"precept/internal/wire"
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

// write gives the error in the dialect's own shape.
func (p *problem) write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if p.status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(p.status)
	_, _ = w.Write(wire.ErrorBody(p.dialect, p.status, p.message)) //nolint:gosec // JSON, and its Content-Type says so
}

// spoken is the dialect in which the client of a request reads errors.
func spoken(r *http.Request) wire.Dialect {
	_, path, _ := session.ParsePath(r.URL.EscapedPath())
	return family(path, r.Header)
}
