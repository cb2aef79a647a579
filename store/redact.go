package store

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"precept/bandit/feedback"
	"precept/internal/label"
	"precept/internal/redact"
	"precept/internal/sample"
	"precept/internal/session"
)

// newRedactor returns a redactor for the present settings.
func (o *optouts) newRedactor() *redact.Redactor {
	r := redact.New(o.personal.Load())
	r.Remember(o.clean)
	return r
}

// redact takes secrets and personal data out of everything that an agent, a tool or a model wrote.
func (o *optouts) redact(r *redact.Redactor, x *sample.Exchange) {
	r.Fresh()
	x.SessionName, x.Run = r.Text(x.SessionName), r.Text(x.Run)
	x.Redact(r)
	for _, n := range x.Redacted {
		o.tally.Redactions.Add(int64(n))
	}
}

// Cleanse redacts exchanges that no request brought, and leaves out those of which nothing may be
// kept. answered are the arguments of the calls whose results came with each.
func (o *optouts) Cleanse(list []sample.Exchange, answered [][]string) []sample.Exchange {
	rules, redactor := o.rules.Load(), o.newRedactor()
	kept := make([]sample.Exchange, 0, len(list))
	for i := range list {
		x := &list[i]
		if rules != nil && (rules.Tenant(x.Tenant) || rules.Agent(x.Agent) || rules.Named(x) || slices.ContainsFunc(answered[i], rules.Hits)) {
			o.tally.OptedOut.Add(1)
			continue
		}
		o.redact(redactor, x)
		kept = append(kept, *x)
	}
	return kept
}

// cleanEntry takes secrets and personal data out of what a person wrote with a feedback.
func (o *optouts) cleanEntry(e feedback.Entry) feedback.Entry {
	r := o.newRedactor()
	e.Comment, e.Rater = r.Text(e.Comment), r.Text(e.Rater)
	if r.Text(e.ID) != e.ID { // the sender's own key, with a secret in it: equal ones must stay equal, and others apart
		sum := sha256.Sum256([]byte("feedback id " + e.ID))
		e.ID = "h_" + hex.EncodeToString(sum[:16])
	}
	if len(e.Correction) > 0 {
		e.Correction = r.JSON(nil, e.Correction)
	}
	if len(e.Details) > 0 {
		e.Details = r.JSON(nil, e.Details)
	}
	e.Hash = e.ContentHash()
	return e
}

// row makes the row of a session. What its record remembers of tool calls is redacted on the way to
// the disk: equal arguments stay equal, which is all that is asked of them.
func (o *optouts) row(r *redact.Redactor, ses *Session) (session.Row, bool) {
	ses.Lock()
	defer ses.Unlock()
	if ses.gone.Load() {
		return session.Row{}, false
	}
	ses.veiled.Store(len(ses.OptOut.Unjudged) > 0)
	if ses.Unit.IsRun && !ses.OptOut.Kept { // all that was said in it so far opted out, or is not judged
		ses.mute.Store(true)
		return session.Row{}, false
	}
	silent := ses.Silent()
	if m, ok := ses.OptOutMark(); ok && ses.OptOut.Asked && ses.Identity.Method != session.ByNew && ses.Identity.Method != session.ByEcho {
		o.marks.announceLater(ses.Identity.ID, m)
	}
	ses.mute.Store(silent && !(ses.OptOut.Asked && o.marks.add(ses.Identity.ID, ses.Thread.Turns, ses.Thread.Items)))
	if silent || !ses.Visible() {
		return session.Row{}, false
	}
	rules := o.rules.Load()
	r.Fresh()
	row, err := ses.Row(func(text string) (string, bool) {
		if rules != nil && rules.Hits(text) {
			return "", false
		}
		return r.Text(text), true
	})
	if err != nil {
		o.failed(label.StepEncode, err)
		return session.Row{}, false
	}
	row.Closed = false // a settlement closes a session, nothing else: a row that says so before it would never be looked at again
	return row, true
}
