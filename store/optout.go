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

// optOutFilter applies the opt-out rules (the agents, tenants and file paths whose content must not be stored), and
// redacts content.
//
// The recorder applies the opt-out rules a few milliseconds after the request. Until then, HoldKeys holds the echo
// keys, and session.Record.AddPendingTurn keeps the turn's hashes out of the session row.
type optOutFilter struct {
	live       *liveSessions
	changes    *changeQueue
	marks      *optOutMarks
	metrics    *Metrics
	onFailure  func(step label.Step, err error)
	cleanTexts *redact.CleanTexts // nil means every text is scanned

	rules          atomic.Pointer[sample.OptOut] // nil means nothing opted out
	redactPersonal atomic.Bool                   // also redact personal data, not only secrets
}

// OptedOut applies the opt-out rules to an exchange, as Store.OptedOut documents.
func (o *optOutFilter) OptedOut(x *sample.Exchange, answered []string) bool {
	rules := o.rules.Load()
	optedOut := rules != nil && (slices.ContainsFunc(answered, rules.NamesPath) || rules.ExchangeNamesPath(x))
	x.Facts.Paths = rules.PathHash()
	hasUnknownCall := rules.HasPathPatterns() && slices.Contains(answered, sample.UnknownArgs)
	optedOut = optedOut || hasUnknownCall && x.Turn <= 1
	if id, ok := session.ParseID(x.Session); ok {
		if ses := o.live.peek(id); ses != nil {
			optedOut = o.recordOptOut(ses, x, optedOut, hasUnknownCall)
			ses.pins.Add(-1)
		}
	}
	o.changes.ReleaseKeys(x.RequestID, !optedOut)
	return optedOut
}

// recordOptOut records in the session whether a turn opted out, and removes any items in x that repeat an opted-out
// turn. After such a turn, x also opts out if it has a result for an unknown call, which might belong to that turn.
func (o *optOutFilter) recordOptOut(ses *Session, x *sample.Exchange, optedOut, hasUnknownCall bool) bool {
	ses.Record.Mutex.Lock()
	defer ses.Record.Mutex.Unlock()
	optedOut = optedOut || hasUnknownCall && len(ses.Record.OptOut.Turns) > 0
	if n := min(x.Repeated, len(x.New)); n > 0 && ses.Record.IsHidden(x.Turn-1) {
		x.New, x.FirstNew, x.Repeated = x.New[n:], x.FirstNew+n, 0
	}
	ses.Record.SetOptedOut(x.Turn, optedOut)
	ses.Record.OptOut.ByRequest = ses.Record.OptOut.ByRequest || optedOut
	if !optedOut {
		o.queueUnitRow(ses)
	}
	if ses.optOutUnchecked.Swap(false) { // the row was encoded before this decision
		o.changes.requeueRow(ses)
	}
	return optedOut
}

// allTurnsOptedOut reports whether all turns in a live session opted out. The store then ignores the session's
// feedback. If no turn is visible yet, allTurnsOptedOut waits up to 200 ms for undecided turns.
func (o *optOutFilter) allTurnsOptedOut(ctx context.Context, tenant string, id session.ID) bool {
	const step, maxTries = 5 * time.Millisecond, 40
	ses := o.live.peek(id)
	if ses == nil {
		return false
	}
	defer ses.pins.Add(-1)
	check := func() (allOptedOut, pending bool) {
		ses.Record.Mutex.Lock()
		defer ses.Record.Mutex.Unlock()
		return ses.Record.Identity.Tenant == tenant && ses.Record.IsFullyOptedOut(), !ses.Record.HasVisibleTurn() && len(ses.Record.OptOut.PendingTurns) > 0
	}
	allOptedOut, pending := check()
	for i := 0; pending && i < maxTries && ctx.Err() == nil; i++ {
		timer := time.NewTimer(step)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		allOptedOut, pending = check()
	}
	return allOptedOut
}

// queueUnitRow records that the session's run has storable content, and queues the run's row the first time. A run with
// only opted-out sessions gets no row. The caller has locked the session.
func (o *optOutFilter) queueUnitRow(ses *Session) {
	id, ok := ses.Record.UnitID()
	if !ok {
		return
	}
	unit := o.live.peek(id)
	if unit == nil {
		return
	}
	defer unit.pins.Add(-1)
	unit.Record.Mutex.Lock()
	first := unit.Record.Unit.IsRun && !unit.Record.OptOut.HasStorableSession
	unit.Record.OptOut.HasStorableSession = unit.Record.OptOut.HasStorableSession || first
	unit.Record.Mutex.Unlock()
	if !first {
		return
	}
	unit.unmarkedOptOut.Store(false)
	o.changes.requeueRow(unit)
}

// writeMarks writes new opt-out marks to the outbox and to the shared backend. The next call retries failed writes.
func (o *optOutFilter) writeMarks(ctx context.Context) {
	if err := errors.Join(o.marks.save(), o.marks.announce(ctx)); err != nil {
		o.onFailure(label.StepOptOut, err)
	}
}
