package proxy

import (
	"net/url"
	"strconv"

	"precept/internal/label"
	"precept/internal/sample"
	"precept/proxy/trace"
)

// observe records the turn's metrics, and ends the span.
func (t *turn) observe() {
	now := t.p.opts.Now()
	if t.reply.status != 0 {
		t.p.opts.Metrics.observeOperation(t.in.dialect, now.Sub(t.in.started), t.reply.parsed)
	}
	if t.out.span == nil {
		return
	}
	t.runStep(label.StepTrace, func() {
		facts := t.spanFacts()
		t.out.span.End(now, &facts)
	})
}

// spanFacts returns the turn's facts for the span. Without a session, or after an opt-out, spanFacts omits the
// conversation and the reply id.
func (t *turn) spanFacts() trace.Facts {
	r, rep := &t.reply, t.reply.parsed
	facts := trace.Facts{
		Request: trace.Request{Provider: vendor(t.in.dialect), API: t.in.dialect.String(), Model: t.in.model},
		Reply:   trace.Reply{Status: r.status, Failure: t.failure(), Input: -1, Cached: -1, Output: -1},
		Skip:    t.skip,
	}
	if u := t.out.target.base; u != nil {
		facts.Request.Server, facts.Request.Port = u.Hostname(), port(u)
	}
	if !r.headersAt.IsZero() {
		facts.Reply.FirstMS = milliseconds(r.headersAt.Sub(t.in.started))
	}
	if rep != nil {
		facts.Reply.Model, facts.Reply.Finish = t.settings.cleanName(rep.Model), rep.Finish
		facts.Reply.Input, facts.Reply.Cached, facts.Reply.Written, facts.Reply.Output = rep.Usage.Input, rep.Usage.Cached, rep.Usage.Written, rep.Usage.Output
	}
	if t.session.Session == nil || !t.query.Learn {
		return facts
	}
	facts.Conversation = &trace.Conversation{
		RequestID: t.w.id, Session: t.session.Session.Record.Identity.ID.String(), Agent: t.query.Claim.Agent, Turn: t.plan.number,
		Injected: t.plan.insert.Injected, Withheld: t.plan.insert.Withheld, Loops: t.plan.insert.Loops,
	}
	if rep != nil {
		facts.Reply.ID = rep.ID
	}
	return facts
}

// failure returns error.type as in the OpenTelemetry conventions, or "" for a success.
func (t *turn) failure() string {
	status, outcome := t.reply.status, t.outcome()
	switch {
	case status >= 400:
		return strconv.Itoa(status)
	case status == 0 && !t.clientGone():
		return "request" // the request body could not be read
	case t.session.Session == nil && status != 0, outcome == sample.Complete: // no reply is read without a session
		return ""
	default:
		return outcome
	}
}

func port(u *url.URL) int {
	if n, err := strconv.Atoi(u.Port()); err == nil {
		return n
	}
	if u.Scheme == "http" {
		return 80
	}
	return 443
}
