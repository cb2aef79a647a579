package store

import (
	"context"
	"errors"

	"precept/sample"
	"precept/session"
	"precept/store/guard"
)

// handOver gives a batch to the backend, and books it.
func (d *delivery) handOver(ctx context.Context, p *batch) error {
	var stubs []sample.Exchange
	if p.crashed {
		stubs = d.tombs.left(session.Batch{Exchanges: d.delivered.stubs()}).Exchanges
		if len(stubs) > 0 {
			err := d.guard.Err("write", func() error { return d.be.Write(ctx, session.Batch{Exchanges: stubs}) })
			if guard.Poisoned(err) {
				err = d.sift(ctx, session.Batch{Exchanges: stubs})
			}
			if err != nil {
				return &stepError{"write", err}
			}
		}
	}
	err := d.write(ctx, p)
	if errors.Is(err, ErrVolatile) { // nobody else knows the sessions: they stay within reach
		d.tally.DroppedReadOnly.Add(int64(len(p.exchanges)))
		d.state.held.Add(-p.held)
		d.state.delivered.Store(p.flush)
		d.volatile = true
		d.state.healthy(false)
		return nil
	}
	if err != nil {
		return err
	}
	d.tally.Incomplete.Add(int64(len(stubs)))
	d.delivered.advance(p)
	d.account(p)
	return nil
}

// write puts a batch down in the backend: the sessions and what was said in them, then what the
// traffic said of them, then what waited for it.
func (d *delivery) write(ctx context.Context, p *batch) error {
	w := d.tombs.left(session.Batch{Rows: newestRows(p.rows), Echoes: p.echoes, Exchanges: p.exchanges})
	p.counted += int64(len(p.exchanges) - len(w.Exchanges)) // what was forgotten stays in the account
	p.exchanges = w.Exchanges
	err := error(nil)
	if len(w.Rows)+len(w.Echoes)+len(w.Exchanges) > 0 {
		if err = d.guard.Err("write", func() error { return d.be.Write(ctx, w) }); guard.Poisoned(err) {
			err = d.sift(ctx, w)
		}
	}
	if err != nil {
		return &stepError{"write", err}
	}
	if err = d.posts.addSignals(ctx, d.tombs.heard(p.signals)); err != nil {
		return &stepError{"implicit", err}
	}
	if err = d.posts.unpark(ctx, w.Echoes); err != nil {
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

// stepOf names the step of a delivery that failed.
func stepOf(err error) string {
	if e, ok := errors.AsType[*stepError](err); ok {
		return e.step
	}
	return "deliver"
}

// sift writes a batch in which something can never be stored: everything by itself, and drops what
// is refused, or makes the backend panic. Better lose that than everything beside and behind it.
func (d *delivery) sift(ctx context.Context, w session.Batch) error {
	for i := range w.Rows {
		r := &w.Rows[i]
		if _, err := d.alone(ctx, session.Ref{Tenant: r.Tenant, ID: r.ID}, "", session.Batch{Rows: w.Rows[i : i+1]}); err != nil {
			return err
		}
	}
	if err := d.siftEchoes(ctx, w.Echoes); err != nil {
		return err
	}
	for i := range w.Exchanges {
		x := &w.Exchanges[i]
		ok, err := d.alone(ctx, refOf(x), x.ID, session.Batch{Exchanges: w.Exchanges[i : i+1]})
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
func (d *delivery) siftEchoes(ctx context.Context, echoes []session.Echo) error {
	if len(echoes) == 0 {
		return nil
	}
	err := d.guard.Err("write", func() error { return d.be.Write(ctx, session.Batch{Echoes: echoes}) })
	if !guard.Poisoned(err) || len(echoes) == 1 {
		if guard.Poisoned(err) {
			d.opts.Failed("write", err)
			err = nil
		}
		return err
	}
	half := len(echoes) / 2
	return errors.Join(d.siftEchoes(ctx, echoes[:half]), d.siftEchoes(ctx, echoes[half:]))
}

// alone writes one thing of a session, which is set aside if that panics. It says whether the
// backend has it.
func (d *delivery) alone(ctx context.Context, of session.Ref, exchange string, b session.Batch) (ok bool, err error) {
	if !d.guard.On("write", of, exchange, func() { err = d.be.Write(ctx, b) }) {
		return false, nil
	}
	if errors.Is(err, session.ErrInvalid) {
		d.opts.Failed("write", err)
		return false, nil
	}
	return err == nil, err
}

// refused marks an exchange that the backend can never take.
const refused = "refused"

// account books a batch that the backend has.
func (d *delivery) account(p *batch) {
	for i := range p.exchanges {
		switch p.exchanges[i].Outcome {
		case refused:
			d.delivered.drop(droppedBad, 1)
			d.tally.DroppedBad.Add(1)
			continue
		case sample.Complete:
		default:
			d.tally.Incomplete.Add(1)
		}
		d.tally.Exchanges.Add(1)
	}
	d.state.held.Add(-p.held)
	if p.flush > 0 {
		d.state.delivered.Store(p.flush)
	}
	d.state.healthy(true)
}
