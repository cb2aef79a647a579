package proxy

import (
	"net/url"
	"strconv"

	"precept/sample"
	"precept/trace"
	"precept/wire"
)

// observe measures a turn that is over, and ends its span.
func (t *turn) observe() {
	now := t.p.opts.Now()
	if t.watch.status != 0 {
		t.p.opts.Metrics.operation(t.dialect, now.Sub(t.started), t.watch.reply)
	}
	if t.span == nil {
		return
	}
	t.guard("trace", func() {
		facts := t.spanFacts()
		t.span.End(now, &facts)
	})
}

// spanFacts are what the span tells. Of a turn that is opted out of learning it tells what a meter
// could.
func (t *turn) spanFacts() trace.Turn {
	out := trace.Turn{
		Provider: vendor(t.dialect), API: t.dialect.String(), Model: t.model, Status: t.watch.status, Failure: t.failure(),
		Input: -1, Cached: -1, Output: -1, Skip: t.skip,
	}
	if u := t.target.base; u != nil {
		out.Server, out.Port = u.Hostname(), port(u)
	}
	if !t.watch.first.IsZero() {
		out.FirstMS = ms(t.watch.first.Sub(t.started))
	}
	if rep := t.watch.reply; rep != nil {
		out.ReplyModel, out.Finish = rep.Model, rep.Finish
		out.Input, out.Cached, out.Output = rep.Usage.Input, rep.Usage.Cached, rep.Usage.Output
	}
	if t.ses == nil || !t.learn {
		return out
	}
	out.Known, out.RequestID, out.Session, out.Agent, out.Number = true, t.w.id, t.ses.ID.String(), t.claim.Agent, t.turn
	out.Injected, out.Withheld, out.Loops = t.plan.Injected, t.plan.Withheld, t.plan.Loops
	if t.watch.reply != nil {
		out.ReplyID = t.watch.reply.ID
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

// failure is the conventions' error.type; "" for a turn that ended well.
func (t *turn) failure() string {
	w := &t.watch
	switch {
	case w.status >= 400:
		return strconv.Itoa(w.status)
	case w.status == 0 && t.r.Context().Err() == nil:
		return "request" // it could not be read, or was refused
	case t.ses == nil && w.status != 0:
		return "" // nobody read the reply
	}
	switch outcome := t.outcome(); outcome {
	case sample.Complete:
		return ""
	default:
		return outcome
	}
}

// vendor is whose API a dialect is. Who answers may be another one that speaks it.
func vendor(d wire.Dialect) string {
	if d == wire.Messages {
		return "anthropic"
	}
	return "openai"
}
