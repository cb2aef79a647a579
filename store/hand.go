package store

import (
	"context"
	"errors"

	"precept/sample"
	"precept/session"
	"precept/store/guard"
)

// hand gives a parcel to the backend, and books it.
func (s *Store) hand(ctx context.Context, b *batch, p *parcel) error {
	var stubs []sample.Exchange
	if p.crashed {
		stubs = s.erased.left(session.Batch{Exchanges: b.books.stubs()}).Exchanges
		if len(stubs) > 0 {
			err := s.guard.Err("write", func() error { return s.be.Write(ctx, session.Batch{Exchanges: stubs}) })
			if guard.Poisoned(err) {
				err = s.sift(ctx, session.Batch{Exchanges: stubs})
			}
			if err != nil {
				return err
			}
		}
	}
	err := s.write(ctx, p)
	if errors.Is(err, ErrVolatile) { // nobody else knows the sessions: they stay within reach
		s.Tally.DroppedReadOnly.Add(int64(len(p.exchanges)))
		s.heldBytes.Add(-p.held)
		s.delivered.Store(p.flush)
		b.volatile = true
		s.healthy(false)
		return nil
	}
	if err != nil {
		return err
	}
	s.Tally.Incomplete.Add(int64(len(stubs)))
	b.books.advance(p)
	s.handed(b, p)
	return nil
}

// write puts a parcel down in the backend: the sessions and what was said in them, then what the
// traffic said of them, then what waited for it.
func (s *Store) write(ctx context.Context, p *parcel) error {
	w := s.erased.left(session.Batch{Rows: newestRows(p.rows), Echoes: p.echoes, Exchanges: p.exchanges})
	err := error(nil)
	if len(w.Rows)+len(w.Echoes)+len(w.Exchanges) > 0 {
		if err = s.guard.Err("write", func() error { return s.be.Write(ctx, w) }); guard.Poisoned(err) {
			err = s.sift(ctx, w)
		}
	}
	if err != nil {
		return &stepError{"write", err}
	}
	if err = s.addSignals(ctx, s.erased.heard(p.signals)); err != nil {
		return &stepError{"implicit", err}
	}
	if err = s.unpark(ctx, w.Echoes); err != nil {
		return &stepError{"unpark", err}
	}
	return nil
}

// stepError says which step failed.
type stepError struct {
	step string
	err  error
}

func (e *stepError) Error() string { return e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }

// stepOf names the step that failed.
func stepOf(err error) string {
	if e, ok := errors.AsType[*stepError](err); ok {
		return e.step
	}
	return "spool"
}

// sift writes a batch in which something can never be stored: everything by itself, and drops what
// is refused, or makes the backend panic. Better lose that than everything beside and behind it.
func (s *Store) sift(ctx context.Context, w session.Batch) error {
	for i := range w.Rows {
		r := &w.Rows[i]
		if _, err := s.alone(ctx, session.Ref{Tenant: r.Tenant, ID: r.ID}, "", session.Batch{Rows: w.Rows[i : i+1]}); err != nil {
			return err
		}
	}
	if err := s.siftEchoes(ctx, w.Echoes); err != nil {
		return err
	}
	for i := range w.Exchanges {
		x := &w.Exchanges[i]
		ok, err := s.alone(ctx, refOf(x), x.ID, session.Batch{Exchanges: w.Exchanges[i : i+1]})
		if err != nil {
			return err
		}
		if !ok {
			x.Outcome = refused
		}
	}
	return nil
}

// siftEchoes writes echoes together where that goes, else each alone.
func (s *Store) siftEchoes(ctx context.Context, echoes []session.Echo) error {
	if len(echoes) == 0 {
		return nil
	}
	err := s.guard.Err("write", func() error { return s.be.Write(ctx, session.Batch{Echoes: echoes}) })
	if !guard.Poisoned(err) || len(echoes) == 1 {
		if guard.Poisoned(err) {
			s.opts.Failed("write", err)
			err = nil
		}
		return err
	}
	half := len(echoes) / 2
	return errors.Join(s.siftEchoes(ctx, echoes[:half]), s.siftEchoes(ctx, echoes[half:]))
}

// alone writes one thing of a session, which is set aside if that panics. It says whether the
// backend has it.
func (s *Store) alone(ctx context.Context, of session.Ref, exchange string, b session.Batch) (ok bool, err error) {
	if !s.guard.On("write", of, exchange, func() { err = s.be.Write(ctx, b) }) {
		return false, nil
	}
	if errors.Is(err, session.ErrInvalid) {
		s.opts.Failed("write", err)
		return false, nil
	}
	return err == nil, err
}

// refused marks an exchange that the backend can never take.
const refused = "refused"

// handed accounts for a parcel that the backend has.
func (s *Store) handed(b *batch, p *parcel) {
	for i := range p.exchanges {
		switch p.exchanges[i].Outcome {
		case refused:
			b.books.refuse()
			s.Tally.DroppedBad.Add(1)
			continue
		case sample.Complete:
		default:
			s.Tally.Incomplete.Add(1)
		}
		s.Tally.Exchanges.Add(1)
	}
	s.heldBytes.Add(-p.held)
	if p.flush > 0 {
		s.delivered.Store(p.flush)
	}
	s.healthy(true)
}
