package store

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"

	"precept/bandit/feedback"
	"precept/internal/label"
	"precept/internal/redact"
	"precept/internal/sample"
	"precept/internal/session"
)

func (o *optOutFilter) newRedactor() *redact.Redactor {
	r := redact.New(o.redactPersonal.Load())
	r.UseCleanTexts(o.cleanTexts)
	return r
}

// redactTurn redacts an exchange, and stores the placeholder numbers and facts in the session. The numbers continue
// those in earlier turns, so that equal secrets get equal placeholders.
func (o *optOutFilter) redactTurn(r *redact.Redactor, x *sample.Exchange) {
	ses := o.live.peek(sessionRef(x).ID)
	if ses == nil {
		r.Reset()
		o.redact(r, x)
		return
	}
	defer ses.pins.Add(-1)
	if ses.placeholderNumbers == nil {
		ses.placeholderNumbers = redact.NewPlaceholderNumbers(nil)
	}
	ses.Record.Mutex.Lock()
	ses.placeholderNumbers.Raise(ses.Record.State.LastPlaceholder)
	ses.Record.Mutex.Unlock()
	r.BeginExchange(ses.placeholderNumbers)
	o.redact(r, x)
	ses.Record.Mutex.Lock()
	ses.Record.Facts.Add(x) // the session's next row contains the facts
	ses.Record.Mutex.Unlock()
	if len(x.Redacted) == 0 {
		return
	}
	highest := ses.placeholderNumbers.Highest()
	ses.Record.Mutex.Lock()
	changed := !maps.Equal(ses.Record.State.LastPlaceholder, highest)
	ses.Record.State.LastPlaceholder = highest
	ses.Record.Mutex.Unlock()
	if changed {
		o.changes.requeueRow(ses)
	}
}

func (o *optOutFilter) redact(r *redact.Redactor, x *sample.Exchange) {
	x.SessionName, x.Run = r.Text(x.SessionName), r.Text(x.Run)
	x.Redact(r)
	for _, n := range x.Redacted {
		o.metrics.Redactions.Add(int64(n))
	}
}

func (o *optOutFilter) redactImported(list []sample.Exchange, answered [][]string) []sample.Exchange {
	rules, redactor := o.rules.Load(), o.newRedactor()
	kept := make([]sample.Exchange, 0, len(list))
	numbers := map[session.Ref]*redact.PlaceholderNumbers{}
	for i := range list {
		x := &list[i]
		if rules != nil && (rules.OptsOutTenant(x.Tenant) || rules.OptsOutAgent(x.Agent) || rules.ExchangeNamesPath(x) || slices.ContainsFunc(answered[i], rules.NamesPath)) {
			o.metrics.OptedOut.Add(1)
			continue
		}
		n := numbers[sessionRef(x)]
		if n == nil {
			n = redact.NewPlaceholderNumbers(nil)
			numbers[sessionRef(x)] = n
		}
		redactor.BeginExchange(n)
		x.Facts.Paths = rules.PathHash()
		o.redact(redactor, x)
		kept = append(kept, *x)
	}
	return kept
}

func (o *optOutFilter) redactEntry(e feedback.Entry) feedback.Entry {
	r := o.newRedactor()
	e.Comment, e.Rater = r.Text(e.Comment), r.Text(e.Rater)
	if r.Text(e.ID) != e.ID { // the id contains a secret; equal ids get equal hashes
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

// redactedRow returns a session's row with redacted tool arguments. Equal arguments stay equal, so loops are still
// found. ok is false for a deleted session, and for one without a storable turn.
func (o *optOutFilter) redactedRow(r *redact.Redactor, ses *Session) (session.Row, bool) {
	ses.Record.Mutex.Lock()
	defer ses.Record.Mutex.Unlock()
	if ses.forgotten.Load() {
		return session.Row{}, false
	}
	ses.optOutUnchecked.Store(len(ses.Record.OptOut.PendingTurns) > 0)
	if ses.Record.Unit.IsRun && !ses.Record.OptOut.HasStorableSession { // all turns opted out, or are undecided
		ses.unmarkedOptOut.Store(true)
		return session.Row{}, false
	}
	fullyOptedOut := ses.Record.IsFullyOptedOut()
	if m, ok := ses.Record.OptOutMark(); ok && ses.Record.OptOut.ByRequest && ses.Record.Identity.Method != session.ByNew && ses.Record.Identity.Method != session.ByEcho {
		o.marks.announceLater(ses.Record.Identity.ID, m)
	}
	isMarked := ses.Record.OptOut.ByRequest && o.marks.add(ses.Record.Identity.ID, ses.Record.Thread.Turns, ses.Record.Thread.Items)
	ses.unmarkedOptOut.Store(fullyOptedOut && !isMarked)
	if fullyOptedOut || !ses.Record.HasVisibleTurn() {
		return session.Row{}, false
	}
	rules := o.rules.Load()
	r.Reset()
	row, err := ses.Record.Row(func(text string) (string, bool) {
		if rules != nil && rules.NamesPath(text) {
			return "", false
		}
		return r.Text(text), true
	})
	if err != nil {
		o.onFailure(label.StepEncode, err)
		return session.Row{}, false
	}
	row.Closed = false // a settlement closes a session, a row never does
	return row, true
}
