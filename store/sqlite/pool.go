package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"precept/session"
)

// leaveAfter is how long a read whose time is up has to give its connection back. Most do it at
// once: SQLite is interrupted. It is not while it looks for a later row, which the driver offers no
// way to, nor while a disk does not answer: then another connection is opened in its place, and
// closing waits for it.
const leaveAfter = 50 * time.Millisecond

// read runs fn on a reading connection. It returns when ctx ends even if the disk does not answer:
// fn is interrupted then, ends on its own, and its result is thrown away, which is why it may not
// touch anything but what it returns. A connection that does not come back is replaced by another
// one. Close waits for fn. A panic of fn is the caller's, in whichever goroutine it happened: the
// others go on.
func read[T any](ctx context.Context, s *Store, fn func(*conn) (T, error)) (T, error) {
	var none T
	c, err := s.reader(ctx)
	if err != nil {
		return none, err
	}
	l := &lease{s: s}
	if ctx.Done() == nil {
		return runRead(ctx, l, c, fn).get()
	}
	done := make(chan readResult[T], 1)
	go func() { done <- runRead(ctx, l, c, fn) }()
	select {
	case r := <-done:
		return r.get()
	case <-ctx.Done():
		time.AfterFunc(leaveAfter, l.replace)
		return none, ctx.Err()
	}
}

// lease is a reading connection that is out of the pool. Either whoever has it gives it back, or
// another one takes its place.
type lease struct {
	s    *Store
	over atomic.Bool // given back, or replaced
}

// giveBack puts the connection into the pool; one that was replaced is closed.
func (l *lease) giveBack(c *conn) {
	if l.over.CompareAndSwap(false, true) {
		l.s.readers <- c
		return
	}
	if c != nil {
		_ = c.close() // it was read from alone
	}
	<-l.s.strays
}

// replace lets another connection be opened in the place of one that does not come back. Of those
// there may be as many as there are readers.
func (l *lease) replace() {
	select {
	case l.s.strays <- struct{}{}:
	default:
		return
	}
	if l.over.CompareAndSwap(false, true) {
		l.s.readers <- nil
		return
	}
	<-l.s.strays
}

type readResult[T any] struct {
	v        T
	err      error
	panicked any
}

func (r readResult[T]) get() (T, error) {
	if r.panicked != nil {
		panic(r.panicked)
	}
	return r.v, r.err
}

// readPanic is a panic of a read, which goes on where the read is waited for.
type readPanic struct {
	value any
	stack []byte
}

func (p *readPanic) Error() string { return fmt.Sprintf("%v\n%s", p.value, p.stack) }

// Unwrap gives the error that the panic was of; nil if it was of something else.
func (p *readPanic) Unwrap() error {
	err, _ := p.value.(error)
	return err
}

// runRead runs fn and gives the connection back: another one is opened in its place where fn has
// left it in the middle of something.
func runRead[T any](ctx context.Context, l *lease, c *conn, fn func(*conn) (T, error)) (r readResult[T]) {
	s := l.s
	defer func() {
		if v := recover(); v != nil {
			r = readResult[T]{panicked: &readPanic{v, debug.Stack()}}
			if c != nil {
				_ = c.close() // nobody can say what state it is in
				c = nil
			}
		}
		l.giveBack(c)
	}()
	if c == nil {
		if r.err = s.retry(ctx, func() (err error) { c, err = connect(ctx, s.dsn); return err }); r.err != nil {
			return readResult[T]{err: classify(r.err)}
		}
	}
	c.until = ctx
	defer func() {
		if c != nil {
			c.until = c.never
		}
	}()
	err := s.retry(ctx, func() (err error) { r.v, err = fn(c); return err })
	return readResult[T]{v: r.v, err: classify(err)}
}

// reader takes a connection out of the pool; nil is one that has to be opened.
func (s *Store) reader(ctx context.Context) (*conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case <-s.closed:
		return nil, ErrClosed
	default:
	}
	select {
	case c := <-s.readers:
		return c, nil
	case <-s.closed:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// tx is a write transaction in progress. Its caches become the store's when it is committed.
type tx struct {
	*conn
	s       *Store
	ctx     context.Context // of the call that it lives in
	tenants map[string]int64
	sids    map[sessionKey]*named
	totals  map[string]int64
	done    []func() // run after the commit
}

// update runs fn in one write transaction: all of it is stored, or nothing. On a full disk the
// space that the WAL holds may be all that is missing.
func (s *Store) update(ctx context.Context, op string, fn func(*tx) error) error {
	err := classify(s.transact(ctx, fn))
	if errors.Is(err, session.ErrDiskFull) && s.checkpoint(ctx, false) == nil {
		err = classify(s.transact(ctx, fn))
	}
	if err != nil {
		return fmt.Errorf("sqlite: %s: %w", op, err)
	}
	return nil
}

func (s *Store) transact(ctx context.Context, fn func(*tx) error) (err error) {
	c, err := s.writer(ctx)
	if err != nil {
		return err
	}
	defer func() { s.write <- c }()
	if err := s.guard.check(); err != nil {
		return err
	}
	if err := s.retry(ctx, func() error { _, err := c.exec("BEGIN IMMEDIATE"); return err }); err != nil {
		return err
	}
	t := &tx{conn: c, s: s, ctx: ctx, tenants: map[string]int64{}, sids: map[sessionKey]*named{}, totals: map[string]int64{}}
	open := true
	defer func() { // also on a panic of fn: the connection must not stay in a transaction
		if open {
			_, e := c.exec("ROLLBACK")
			if e != nil && err == nil {
				err = e
			}
		}
	}()
	if err := fn(t); err != nil {
		return err
	}
	if err := t.addTotals(); err != nil {
		return err
	}
	if _, err := c.exec("COMMIT"); err != nil {
		return err
	}
	open = false
	s.tenants.add(t.tenants)
	for _, fn := range t.done {
		fn()
	}
	return nil
}

// writer waits for the writing connection.
func (s *Store) writer(ctx context.Context) (*conn, error) {
	if s.opt.ReadOnly {
		return nil, fmt.Errorf("%w: this store was opened for reading", ErrReadOnly)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case <-s.closed:
		return nil, ErrClosed
	default:
	}
	select {
	case c := <-s.write:
		return c, nil
	case <-s.closed:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// exec runs a statement of the transaction, while anybody waits for it: a caller that gave up shall
// not keep others waiting.
func (t *tx) exec(query string, args ...any) (driver.Result, error) {
	if err := t.ctx.Err(); err != nil {
		return nil, err
	}
	return t.conn.exec(query, args...)
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
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
			waited += wait
		case <-ctx.Done():
			timer.Stop()
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
	all := make([]*conn, 0, s.opt.Readers+1)
	for range s.opt.Readers {
		if c := <-s.readers; c != nil {
			all = append(all, c)
		}
	}
	for range s.opt.Readers { // each that was replaced has ended
		s.strays <- struct{}{}
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
