package proxy

import (
	"log/slog"

	"precept/internal/label"
	"precept/internal/redact"
)

// log is for what is told of one request: every line names it, as its answer's Precept-Request-Id
// does. What a request or a reply holds is in no line.
func (o *Options) log(w *clientWriter) *slog.Logger {
	if w.id == "" {
		w.id = o.newID("req_")
	}
	return o.logOf(w.id)
}

// logOf is the same for what follows from a request.
func (o *Options) logOf(request string) *slog.Logger { return o.Log.With("request", request) }

// guard runs one step of learning. A panic in it is counted and logged, and the request goes on
// without the step: no fault of ours may change what the agent sees.
func (o *Options) guard(step label.Step, log func() *slog.Logger, f func()) (ok bool) {
	defer func() {
		if v := recover(); v != nil {
			o.Metrics.FailedOpen(step)
			log().Error("a step panicked; the request goes on without it", "step", step, "panic", redact.PanicKind(v))
		}
	}()
	f()
	return true
}
