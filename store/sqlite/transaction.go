package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"precept/internal/session"
)

// maxReaders bounds the connections for reads. A connection is opened when the open ones are in use;
// some may wait for a disk that does not answer.
const maxReaders = 8

// read runs fn on a connection for reads, in a goroutine of its own, and returns at the latest when
// ctx ends. SQLite is interrupted then, and the result of fn is dropped. A read that hangs in the
// disk keeps its connection until the disk answers, and Close waits for the read. Until then fn may
// run beside its caller: fn reads only variables that nobody changes, and writes only what fn
// returns.
//
// A panic of fn continues in the caller.
func read[T any](ctx context.Context, s *Store, fn func(*conn) T) (T, error) {
	var none T
	place, err := take(ctx, s, s.readers)
	if err != nil {
		return none, err
	}
	done := make(chan readResult[T], 1)
	go func() {
		r := runRead(ctx, s, fn)
		s.readers <- place
		done <- r
	}()
	select {
	case r := <-done:
		if r.panicked != nil {
			panic(r.panicked)
		}
		return r.v, classify(r.err)
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

type readResult[T any] struct {
	v        T
	err      error
	panicked *readPanic
}

// readPanic carries the panic of a read to the goroutine of the caller.
type readPanic struct {
	value any
	stack []byte
}

func (p *readPanic) Error() string { return fmt.Sprintf("%v\n%s", p.value, p.stack) }

// Unwrap returns the error that the read panicked with, nil for another value.
func (p *readPanic) Unwrap() error {
	err, _ := p.value.(error)
	return err
}

// runRead runs fn on an idle connection, or on a new one.
func runRead[T any](ctx context.Context, s *Store, fn func(*conn) T) (r readResult[T]) {
	var c *conn
	select {
	case c = <-s.idle:
	default:
		r.err = s.retry(ctx, func() (err error) {
			c, err = connect(ctx, s.uri, readerSettings)
			return err
		})
		if r.err != nil {
			return r
		}
		c.interrupts = true
	}
	defer func() {
		if v := recover(); v != nil {
			r.panicked = &readPanic{v, debug.Stack()}
			_ = c.close() // its state is unknown
			return
		}
		s.idle <- c
	}()
	r.err = s.retry(ctx, func() error { return c.do(ctx, func() { r.v = fn(c) }) })
	return r
}

// take waits for something out of ch, until ctx ends or the store is closed.
func take[T any](ctx context.Context, s *Store, ch <-chan T) (v T, err error) {
	select {
	case <-s.closed:
		return v, ErrClosed
	default:
	}
	if err := ctx.Err(); err != nil {
		return v, err
	}
	select {
	case v = <-ch:
		return v, nil
	case <-s.closed:
		return v, ErrClosed
	case <-ctx.Done():
		return v, ctx.Err()
	}
}

// writer waits for the writing connection.
func (s *Store) writer(ctx context.Context) (*conn, error) {
	if s.opt.ReadOnly {
		return nil, fmt.Errorf("%w: this store was opened for reading", ErrReadOnly)
	}
	return take(ctx, s, s.write)
}

// tx is a write transaction in progress. Its caches become the store's when it is committed.
type tx struct {
	db      *conn
	s       *Store
	tenants map[string]int64
	sids    map[sessionKey]*named
	totals  map[string]int64
	done    []func() // run after the commit
}

// update runs fn in one write transaction: all of it is stored, or nothing. fn ends it by fail. On
// a full disk the space that the WAL holds may be all that is missing: then fn is run a second
// time.
func (s *Store) update(ctx context.Context, op string, fn func(*tx)) error {
	err := classify(s.transact(ctx, fn))
	if errors.Is(err, session.ErrDiskFull) && s.checkpoint(ctx, false) == nil {
		err = classify(s.transact(ctx, fn))
	}
	if err != nil {
		return fmt.Errorf("sqlite: %s: %w", op, err)
	}
	return nil
}

func (s *Store) transact(ctx context.Context, fn func(*tx)) (err error) {
	c, err := s.writer(ctx)
	if err != nil {
		return err
	}
	defer func() { s.write <- c }()
	if err := s.guard.check(); err != nil {
		return err
	}
	if err := s.retry(ctx, func() error { return c.do(ctx, func() { c.exec("BEGIN IMMEDIATE") }) }); err != nil {
		return err
	}
	committed := false
	defer func() { // also on a panic of fn: the connection must not stay in a transaction
		if !committed {
			err = cmp.Or(err, c.rollback())
		}
	}()
	t := &tx{db: c, s: s, tenants: map[string]int64{}, sids: map[sessionKey]*named{}, totals: map[string]int64{}}
	err = c.do(ctx, func() {
		fn(t)
		t.addTotals()
		c.exec("COMMIT")
	})
	if err != nil {
		return err
	}
	committed = true
	s.tenants.add(t.tenants)
	for _, fn := range t.done {
		fn()
	}
	return nil
}

// retry repeats fn while another process holds the lock, until BusyTimeout or the context ends.
func (s *Store) retry(ctx context.Context, fn func() error) error {
	var waited time.Duration
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		err := fn()
		if !isBusy(err) {
			return err
		}
		if waited >= s.opt.BusyTimeout {
			return fmt.Errorf("%w for %v: %w", ErrBusy, waited, err)
		}
		select {
		case <-time.After(wait):
			waited += wait
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", ErrBusy, ctx.Err())
		}
	}
}

// Close waits for the calls in progress and closes the file. The last process to close a store
// folds the WAL into it.
func (s *Store) Close() error {
	var err error
	s.once.Do(func() {
		close(s.closed)
		err = s.close()
		s.packer.close()
	})
	if err != nil {
		return fmt.Errorf("sqlite: close: %w", err)
	}
	return nil
}

func (s *Store) close() error {
	for range maxReaders { // each read has ended
		<-s.readers
	}
	close(s.idle)
	var all []*conn
	for c := range s.idle {
		all = append(all, c)
	}
	if s.guard != nil {
		all = append(all, <-s.write)
		// Closing would check our pages into whatever stands in our file's place. Let go of
		// everything as it is instead.
		if err := s.guard.check(); err != nil {
			return err
		}
		defer s.guard.close() //nolint:errcheck // it was only read
	}
	var errs []error
	for _, c := range all {
		errs = append(errs, c.close())
	}
	return errors.Join(errs...)
}
