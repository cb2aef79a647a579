package store

import (
	"slices"

	"precept/feedback"
	"precept/sample"
	"precept/session"
)

// optedOut says whether a call of the exchange, or the call that one of its results answers, names a path of which
// nothing may be kept.
func (s *Store) optedOut(x *sample.Exchange, answered []string) bool {
	if s.opts.OptOut == nil {
		return false
	}
	for i := range x.Reply.Calls {
		if s.opts.OptOut.Hits(x.Reply.Calls[i].Args) {
			return true
		}
	}
	return slices.ContainsFunc(answered, s.opts.OptOut.Hits)
}

// redact takes secrets and personal data out of everything that an agent, a tool or a model wrote.
func (s *Store) redact(x *sample.Exchange) {
	r := sample.NewRedactor(s.opts.Personal)
	x.SessionName = r.Text(x.SessionName)
	x.Redact(r)
	for _, n := range x.Redacted {
		s.Tally.Redactions.Add(int64(n))
	}
}

// cleanEntry takes secrets and personal data out of what a person wrote with a feedback.
func (s *Store) cleanEntry(e feedback.Entry) feedback.Entry {
	r := sample.NewRedactor(s.opts.Personal)
	e.Comment, e.Rater = r.Text(e.Comment), r.Text(e.Rater)
	if len(e.Correction) > 0 {
		e.Correction = r.JSON(nil, e.Correction)
	}
	if len(e.Details) > 0 {
		e.Details = r.JSON(nil, e.Details)
	}
	e.Hash = e.ContentHash()
	return e
}

// encode makes the row of a session. What its record remembers of tool calls is redacted on the way to the disk: equal
// arguments stay equal, which is all that is asked of them.
func (s *Store) encode(ses *Session) (session.Row, bool) {
	ses.Lock()
	defer ses.Unlock()
	if ses.gone.Load() {
		return session.Row{}, false
	}
	r := sample.NewRedactor(s.opts.Personal)
	row, err := ses.Row(func(text string) (string, bool) {
		if s.opts.OptOut != nil && s.opts.OptOut.Hits(text) {
			return "", false
		}
		return r.Text(text), true
	})
	if err != nil {
		s.opts.Failed("encode", err)
		return session.Row{}, false
	}
	return row, true
}
