package proxy

import (
	"net/url"
	"strconv"

	"precept/internal/label"
	"precept/internal/sample"
	"precept/proxy/trace"
)

// observe measures a finished turn, and ends its span.
func (t *turn) observe() {
	now := t.p.opts.Now()
	if t.reply.status != 0 {
		t.p.opts.Metrics.operation(t.in.dialect, now.Sub(t.in.started), t.reply.parsed)
	}
	if t.out.span == nil {
		return
	}
	t.runStep(label.StepTrace, func() {
		facts := t.spanFacts()
		t.out.span.End(now, &facts)
	})
}

// spanFacts returns the attributes of the span. A turn that opted out of learning has only the
// attributes that a meter could see.
func (t *turn) spanFacts() trace.Facts {
	r, rep := &t.reply, t.reply.parsed
	out := trace.Facts{
		Request: trace.Request{Provider: vendor(t.in.dialect), API: t.in.dialect.String(), Model: t.in.model},
		Reply:   trace.Reply{Status: r.status, Failure: t.failure(), Input: -1, Cached: -1, Output: -1},
		Skip:    t.skip,
	}
	if u := t.out.target.base; u != nil {
		out.Request.Server, out.Request.Port = u.Hostname(), port(u)
	}
	if !r.first.IsZero() {
		out.Reply.FirstMS = ms(r.first.Sub(t.in.started))
	}
	if rep != nil {
		out.Reply.Model, out.Reply.Finish = rep.Model, rep.Finish
		out.Reply.Input, out.Reply.Cached, out.Reply.Output = rep.Usage.Input, rep.Usage.Cached, rep.Usage.Output
	}
	if t.session.Session == nil || !t.query.Learn {
		return out
	}
	out.Conversation = &trace.Conversation{
		RequestID: t.w.id, Session: t.session.Session.Record.Identity.ID.String(), Agent: t.query.Claim.Agent, Turn: t.plan.number,
		Injected: t.plan.insert.Injected, Withheld: t.plan.insert.Withheld, Loops: t.plan.insert.Loops,
	}
	if rep != nil {
		out.Reply.ID = rep.ID
	}
	return out
}

// failure returns the error.type of the conventions of OpenTelemetry, empty for a successful turn.
func (t *turn) failure() string {
	status, outcome := t.reply.status, t.outcome()
	switch {
	case status >= 400:
		return strconv.Itoa(status)
	case status == 0 && !t.clientGone():
		return "request" // the body could not be read
	case t.session.Session == nil && status != 0, outcome == sample.Complete: // without a session the reply is not read
		return ""
	default:
		return outcome
	}
}

// port returns the port of a URL, or the default port of its scheme.
func port(u *url.URL) int {
	if n, err := strconv.Atoi(u.Port()); err == nil {
		return n
	}
	if u.Scheme == "http" {
		return 80
	}
	return 443
}
