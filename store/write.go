package store

import (
	"context"
	"errors"

	"precept/internal/guard"
	"precept/internal/label"
	"precept/internal/session"
)

// batchWriter is the part of a backend that stores batches.
type batchWriter interface {
	Write(ctx context.Context, b session.Batch) error
}

// writer writes batches to the backend, without forgotten sessions.
type writer struct {
	be       batchWriter
	cache    *ExchangeCache // nil: none
	feedback *feedbackWriter
	tombs    *tombstones
	guard    *guard.Guard
	failed   func(step label.Step, err error)
}

// refusedOutcome marks an exchange that the backend can never store.
const refusedOutcome = "refused"

// write writes a batch: sessions and exchanges, then signals of the traffic, then parked feedback.
// Exchanges that the backend can never store are marked as refused.
func (w *writer) write(ctx context.Context, b *batch) error {
	left := w.tombs.remaining(session.Batch{Rows: newestRows(b.rows), Echoes: b.echoes, Exchanges: b.exchanges})
	b.counted += int64(len(b.exchanges) - len(left.Exchanges)) // forgotten exchanges stay in the account
	b.exchanges = left.Exchanges
	if err := w.put(ctx, left); err != nil {
		return &stepError{label.StepWrite, err}
	}
	if err := w.feedback.addSignals(ctx, w.tombs.remainingSignals(b.signals)); err != nil {
		return &stepError{label.StepImplicit, err}
	}
	if err := w.feedback.unpark(ctx, left.Echoes); err != nil {
		return &stepError{label.StepUnpark, err}
	}
	return nil
}

// put writes a batch whole, or in pieces if some piece can never be stored.
func (w *writer) put(ctx context.Context, b session.Batch) error {
	if len(b.Rows)+len(b.Echoes)+len(b.Exchanges) == 0 {
		return nil
	}
	stored := false
	defer func() { w.cache.wrote(b.Exchanges, stored) }() // also after an error: the end of ctx leaves the result open
	err := w.guard.Err(label.StepWrite, func() error { return w.be.Write(ctx, b) })
	if guard.Poisoned(err) {
		err = w.writeEach(ctx, b)
	}
	stored = err == nil
	return err
}

// writeEach writes each piece of a batch alone, because some piece can never be stored. Pieces that are
// refused or panic are dropped, and all other pieces are stored.
func (w *writer) writeEach(ctx context.Context, b session.Batch) error {
	for i := range b.Rows {
		r := &b.Rows[i]
		if _, err := w.writeAlone(ctx, session.Ref{Tenant: r.Tenant, ID: r.ID}, "", session.Batch{Rows: b.Rows[i : i+1]}); err != nil {
			return err
		}
	}
	if err := w.siftEchoes(ctx, b.Echoes); err != nil {
		return err
	}
	for i := range b.Exchanges {
		x := &b.Exchanges[i]
		ok, err := w.writeAlone(ctx, refOf(x), x.ID, session.Batch{Exchanges: b.Exchanges[i : i+1]})
		if err != nil {
			return err
		}
		if !ok {
			x.Outcome = refusedOutcome
		}
	}
	return nil
}

// siftEchoes writes echoes together, or in halves if the backend refuses the whole.
func (w *writer) siftEchoes(ctx context.Context, echoes []session.Echo) error {
	if len(echoes) == 0 {
		return nil
	}
	err := w.guard.Err(label.StepWrite, func() error { return w.be.Write(ctx, session.Batch{Echoes: echoes}) })
	if !guard.Poisoned(err) {
		return err
	}
	if len(echoes) == 1 {
		w.failed(label.StepWrite, err)
		return nil
	}
	half := len(echoes) / 2
	return errors.Join(w.siftEchoes(ctx, echoes[:half]), w.siftEchoes(ctx, echoes[half:]))
}

// writeAlone writes one piece of a session, which is set aside after a panic. ok reports whether the
// backend has the piece.
func (w *writer) writeAlone(ctx context.Context, of session.Ref, exchange string, b session.Batch) (ok bool, err error) {
	if !w.guard.On(label.StepWrite, of, exchange, func() { err = w.be.Write(ctx, b) }) {
		return false, nil
	}
	if errors.Is(err, session.ErrInvalid) {
		w.failed(label.StepWrite, err)
		return false, nil
	}
	return err == nil, err
}

// stepError names a failed step.
type stepError struct {
	step label.Step
	err  error
}

func (e *stepError) Error() string { return e.err.Error() }

func (e *stepError) Unwrap() error { return e.err }

// stepOf returns the failed step of a delivery.
func stepOf(err error) label.Step {
	if e, ok := errors.AsType[*stepError](err); ok {
		return e.step
	}
	return label.StepDeliver
}
