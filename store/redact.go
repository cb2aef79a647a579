package store

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"precept/feedback"
	"precept/redact"
	"precept/sample"
	"precept/session"
)

// SetPersonal says from now on whether personal data is redacted besides secrets. It may be called
// at any time.
func (s *Store) SetPersonal(on bool) {
	s.batch.mu.Lock()
	defer s.batch.mu.Unlock()
	s.personal.Store(on)
	s.redactor = s.newRedactor()
}

// newRedactor makes a redactor for whoever does not hold batch.mu.
func (s *Store) newRedactor() *redact.Redactor { return redact.New(s.personal.Load()) }

// redact takes secrets and personal data out of everything that an agent, a tool or a model wrote.
func (s *Store) redact(r *redact.Redactor, x *sample.Exchange) {
	r.Fresh()
	x.SessionName, x.Run = r.Text(x.SessionName), r.Text(x.Run)
	x.Redact(r)
	for _, n := range x.Redacted {
		s.Tally.Redactions.Add(int64(n))
	}
}

// Cleanse redacts exchanges that no request brought, and leaves out those of which nothing may be
// kept. answered are the arguments of the calls whose results came with each.
func (s *Store) Cleanse(list []sample.Exchange, answered [][]string) []sample.Exchange {
	o, redactor := s.optOut.Load(), s.newRedactor() // the recorder has its own
	kept := make([]sample.Exchange, 0, len(list))
	for i := range list {
		x := &list[i]
		if o != nil && (o.Tenant(x.Tenant) || o.Agent(x.Agent) || o.Named(x) || slices.ContainsFunc(answered[i], o.Hits)) {
			s.Tally.OptedOut.Add(1)
			continue
		}
		s.redact(redactor, x)
		kept = append(kept, *x)
	}
	return kept
}

// cleanEntry takes secrets and personal data out of what a person wrote with a feedback.
func (s *Store) cleanEntry(e feedback.Entry) feedback.Entry {
	r := s.newRedactor()
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

// encode makes the row of a session. What its record remembers of tool calls is redacted on the way
// to the disk: equal arguments stay equal, which is all that is asked of them.
func (s *Store) encode(ses *Session) (session.Row, bool) { return s.encodeWith(s.redactor, ses) }

func (s *Store) encodeWith(r *redact.Redactor, ses *Session) (session.Row, bool) {
	ses.Lock()
	defer ses.Unlock()
	if ses.gone.Load() {
		return session.Row{}, false
	}
	ses.veiled.Store(len(ses.Unjudged) > 0)
	if ses.IsRun && !ses.Kept { // all that was said in it so far opted out, or is not judged
		ses.mute.Store(true)
		return session.Row{}, false
	}
	silent := ses.Silent()
	s.optOutOf(ses.Record)
	ses.mute.Store(silent && !(ses.Asked && s.hushed.add(ses.ID, ses.Turns, ses.Items)))
	if silent || !ses.Visible() {
		return session.Row{}, false
	}
	o := s.optOut.Load()
	r.Fresh()
	row, err := ses.Row(func(text string) (string, bool) {
		if o != nil && o.Hits(text) {
			return "", false
		}
		return r.Text(text), true
	})
	if err != nil {
		s.opts.Failed("encode", err)
		return session.Row{}, false
	}
	row.Closed = false // a settlement closes a session, nothing else: a row that says so before it would never be looked at again
	return row, true
}
