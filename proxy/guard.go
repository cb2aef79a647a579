package proxy

import (
	"log/slog"
	"net/http"

	"precept/redact"
)

// log is for what is told of one request: every line names it, as its answer's Precept-Request-Id
// does. What a request or a reply holds is in no line.
func (p *Proxy) log(w *clientWriter) *slog.Logger {
	if w.id == "" {
		w.id = p.newID("req_")
	}
	return p.logOf(w.id)
}

// logOf is the same for what follows from a request.
func (p *Proxy) logOf(request string) *slog.Logger { return p.opts.Log.With("request", request) }

// clientOf finds the way to the client below what stands before it.
func clientOf(w http.ResponseWriter) *clientWriter {
	for {
		switch v := w.(type) {
		case *clientWriter:
			return v
		case interface{ Unwrap() http.ResponseWriter }:
			w = v.Unwrap()
		default:
			return &clientWriter{}
		}
	}
}

// guard runs one step of learning for a turn. A panic in it is counted and logged, and the request
// goes on without the step: no fault of ours may change what the agent sees.
func (q *request) guard(step string, f func()) (ok bool) {
	return q.p.guard(step, func() *slog.Logger { return q.p.log(q.w) }, f)
}

func (p *Proxy) guard(step string, log func() *slog.Logger, f func()) (ok bool) {
	defer func() {
		if v := recover(); v != nil {
			p.opts.Metrics.FailedOpen(step)
			log().Error("a step panicked; the request goes on without it", "step", step, "panic", redact.PanicKind(v))
		}
	}()
	f()
	return true
}
