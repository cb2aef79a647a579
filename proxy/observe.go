package proxy

import (
	"net/url"
	"strconv"

	"precept/internal/label"
	"precept/proxy/trace"
)

// observe measures a turn that is over, and ends its span.
func (w *watch) observe() {
	now := w.opts.Now()
	if w.status != 0 {
		w.opts.Metrics.operation(w.dialect, now.Sub(w.started), w.reply)
	}
	if w.span == nil {
		return
	}
	w.guard(label.StepTrace, func() {
		facts := w.spanFacts()
		w.span.End(now, &facts)
	})
}

// spanFacts are what the span tells. Of a turn that is opted out of learning it tells what a meter
// could.
func (w *watch) spanFacts() trace.Turn {
	out := trace.Turn{
		Provider: vendor(w.dialect), API: w.dialect.String(), Model: w.model, Status: w.status, Failure: w.failure(),
		Input: -1, Cached: -1, Output: -1, Skip: w.skip,
	}
	if u := w.target.base; u != nil {
		out.Server, out.Port = u.Hostname(), port(u)
	}
	if !w.first.IsZero() {
		out.FirstMS = ms(w.first.Sub(w.started))
	}
	if rep := w.reply; rep != nil {
		out.ReplyModel, out.Finish = rep.Model, rep.Finish
		out.Input, out.Cached, out.Output = rep.Usage.Input, rep.Usage.Cached, rep.Usage.Output
	}
	if w.ses == nil || !w.query.Learn {
		return out
	}
	out.Known, out.RequestID, out.Session, out.Agent, out.Number = true, w.w.id, w.ses.Identity.ID.String(), w.query.Claim.Agent, w.number
	out.Injected, out.Withheld, out.Loops = w.plan.Injected, w.plan.Withheld, w.plan.Loops
	if w.reply != nil {
		out.ReplyID = w.reply.ID
	}
	return out
}

// port is the one that is meant where none is written.
func port(u *url.URL) int {
	if n, err := strconv.Atoi(u.Port()); err == nil {
		return n
	}
	if u.Scheme == "http" {
		return 80
	}
	return 443
}
