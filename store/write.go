package store

import (
	"context"
	"errors"

	"precept/internal/guard"
	"precept/internal/label"
	"precept/internal/session"
)

type batchWriter interface {
	Write(ctx context.Context, b session.Batch) error
}

type writer struct {
	backend    batchWriter
	cache      *ExchangeCache
	feedback   *feedbackWriter
	tombstones *tombstones
	guard      *guard.Guard
	onFailure  func(step label.Step, err error)
}

// refusedOutcome is the outcome for an exchange that the backend can never store.
const refusedOutcome = "refused"

// write writes a batch's rows, echo keys and exchanges to the backend, then the implicit feedback. It moves feedback
// parked under the echo keys to the sessions. An exchange that can never be stored gets refusedOutcome.
func (w *writer) write(ctx context.Context, b *batch) error {
	remaining := w.tombstones.withoutDeleted(session.Batch{Rows: newestRows(b.rows), Echoes: b.echoes, Exchanges: b.exchanges})
	// The account, which counts the exchanges by result, must include deleted sessions' exchanges.
	b.forgottenCount += int64(len(b.exchanges) - len(remaining.Exchanges))
	b.exchanges = remaining.Exchanges
	if err := w.writeSessions(ctx, remaining); err != nil {
		return &stepError{label.StepWrite, err}
	}
	if err := w.feedback.addSignals(ctx, w.tombstones.signalsWithoutDeleted(b.signals)); err != nil {
		return &stepError{label.StepImplicitFeedback, err}
	}
	if err := w.feedback.unpark(ctx, remaining.Echoes); err != nil {
		return &stepError{label.StepParkedFeedback, err}
	}
	return nil
}

// writeSessions writes rows, echo keys and exchanges together, or in pieces if the backend can never store some of
// them.
func (w *writer) writeSessions(ctx context.Context, b session.Batch) error {
	if len(b.Rows)+len(b.Echoes)+len(b.Exchanges) == 0 {
		return nil
	}
	stored := false
	defer func() { w.cache.invalidateWritten(b.Exchanges, stored) }() // an interrupted write can succeed
	err := w.guard.RunErr(label.StepWrite, func() error { return w.backend.Write(ctx, b) })
	if guard.IsPermanent(err) {
		err = w.writePieces(ctx, b)
	}
	stored = err == nil
	return err
}

// writePieces writes each row and each exchange alone, and drops a piece that the backend refuses, or that causes a
// panic.
func (w *writer) writePieces(ctx context.Context, b session.Batch) error {
	for i := range b.Rows {
		r := &b.Rows[i]
		if _, err := w.writePiece(ctx, session.Ref{Tenant: r.Tenant, ID: r.ID}, "", session.Batch{Rows: b.Rows[i : i+1]}); err != nil {
			return err
		}
	}
	if err := w.writeEchoes(ctx, b.Echoes); err != nil {
		return err
	}
	for i := range b.Exchanges {
		x := &b.Exchanges[i]
		ok, err := w.writePiece(ctx, sessionRef(x), x.ID, session.Batch{Exchanges: b.Exchanges[i : i+1]})
		if err != nil {
			return err
		}
		if !ok {
			x.Outcome = refusedOutcome
		}
	}
	return nil
}

// writeEchoes writes echo keys together, or in halves if the backend refuses them together.
func (w *writer) writeEchoes(ctx context.Context, echoes []session.Echo) error {
	if len(echoes) == 0 {
		return nil
	}
	err := w.guard.RunErr(label.StepWrite, func() error { return w.backend.Write(ctx, session.Batch{Echoes: echoes}) })
	if !guard.IsPermanent(err) {
		return err
	}
	if len(echoes) == 1 {
		w.onFailure(label.StepWrite, err)
		return nil
	}
	half := len(echoes) / 2
	return errors.Join(w.writeEchoes(ctx, echoes[:half]), w.writeEchoes(ctx, echoes[half:]))
}

// writePiece writes one session's row or exchange, and reports whether the backend has the piece. After a panic, later
// steps skip the session.
func (w *writer) writePiece(ctx context.Context, ref session.Ref, exchange string, b session.Batch) (ok bool, err error) {
	if !w.guard.RunOn(label.StepWrite, ref, exchange, func() { err = w.backend.Write(ctx, b) }) {
		return false, nil
	}
	if errors.Is(err, session.ErrInvalid) {
		w.onFailure(label.StepWrite, err)
		return false, nil
	}
	return err == nil, err
}

// stepError names the step that failed, for Hooks.OnFailure.
type stepError struct {
	step label.Step
	err  error
}

func (e *stepError) Error() string { return e.err.Error() }

func (e *stepError) Unwrap() error { return e.err }

func failedStep(err error) label.Step {
	if e, ok := errors.AsType[*stepError](err); ok {
		return e.step
	}
	return label.StepDeliver
}
