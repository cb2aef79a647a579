package store

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"precept/internal/label"
	"precept/internal/redact"
	"precept/internal/sample"
	"precept/internal/session"
)

// Whether anything of an exchange may be kept is known when the recorder has looked at it, some
// milliseconds after the request. Until then what follows from it (its keys, hashes in the
// session's row) is held in memory: Hold keeps the keys, and session.Record.Await marks the turn.

// optouts know what may be kept of sessions, and take secrets and personal data out of it.
type optouts struct {
	live    *live
	waiting *waiting
	marks   *optOutMarks
	tally   *Tally
	failed  func(step label.Step, err error)
	clean   *redact.CleanTexts // nil: every text is scanned

	rules    atomic.Pointer[sample.OptOut] // nil: nobody opted out
	personal atomic.Bool                   // personal data is redacted besides secrets
}

// SetOptOut says from now on which paths must not be learned from.
func (o *optouts) SetOptOut(rules *sample.OptOut) { o.rules.Store(rules) }

// OptedOut judges an exchange, also one that will not be recorded, such as one that found the queue
// full: nothing of it may be kept when a call of it, or the call that one of its results answers,
// names a path that opted out. Of one that may be kept, what gives back an earlier exchange that
// may not is taken out.
func (o *optouts) OptedOut(x *sample.Exchange, answered []string) bool {
	rules := o.rules.Load()
	out := rules != nil && (slices.ContainsFunc(answered, rules.Hits) || rules.Named(x))
	if id, ok := session.ParseID(x.Session); ok {
		if ses := o.live.peek(id); ses != nil {
			o.judged(ses, x, out)
			ses.pins.Add(-1)
		}
	}
	o.waiting.LetGo(x.RequestID, !out)
	return out
}

func (o *optouts) judged(ses *Session, x *sample.Exchange, out bool) {
	ses.Lock()
	defer ses.Unlock()
	if n := min(x.Given, len(x.New)); n > 0 && ses.Hidden(x.Turn-1) {
		x.New, x.NewFrom, x.Given = x.New[n:], x.NewFrom+n, 0
	}
	ses.Judged(x.Turn, out)
	ses.OptOut.Asked = ses.OptOut.Asked || out
	if !out {
		o.keepUnit(ses)
	}
	if ses.veiled.Swap(false) { // its row was written before this was known
		o.waiting.again(ses)
	}
}

// unheard says whether nothing of a session may be kept, feedback on it neither. What is not judged
// yet is waited for, a moment.
func (o *optouts) unheard(ctx context.Context, tenant string, id session.ID) bool {
	const step, most = 5 * time.Millisecond, 40
	ses := o.live.peek(id)
	if ses == nil {
		return false
	}
	defer ses.pins.Add(-1)
	look := func() (silent, open bool) {
		ses.Lock()
		defer ses.Unlock()
		return ses.Identity.Tenant == tenant && ses.Silent(), !ses.Visible() && len(ses.OptOut.Unjudged) > 0
	}
	silent, open := look()
	for i := 0; open && i < most && ctx.Err() == nil; i++ {
		timer := time.NewTimer(step)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		silent, open = look()
	}
	return silent
}

// keepUnit notes that something of the session's run may be kept, so that the run has a row. The
// caller has locked the session.
func (o *optouts) keepUnit(ses *Session) {
	id, ok := ses.UnitID()
	if !ok {
		return
	}
	unit := o.live.peek(id)
	if unit == nil {
		return
	}
	defer unit.pins.Add(-1)
	unit.Lock()
	news := unit.Unit.IsRun && !unit.OptOut.Kept
	unit.OptOut.Kept = unit.OptOut.Kept || news
	unit.Unlock()
	if !news {
		return
	}
	unit.mute.Store(false)
	o.waiting.again(unit)
}

// keepMarks writes the marks down. Where that fails they are tried again.
func (o *optouts) keepMarks(ctx context.Context) {
	if err := errors.Join(o.marks.keep(), o.marks.announce(ctx)); err != nil {
		o.failed(label.StepOptOut, err)
	}
}
