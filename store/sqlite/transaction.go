package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"precept/internal/session"
)

// maxReaders is the number of read connections. With one connection, a read from a slow disk would delay all other
// reads.
const maxReaders = 8

// read runs fn on a read connection, in a new goroutine. When ctx ends, read interrupts SQLite and returns. If SQLite
// is waiting for the disk, fn can still run after that, so fn must not read changing variables or write the caller's
// variables. Close waits for such a read.
//
// A panic in fn continues in the caller's goroutine.
func read[T any](ctx context.Context, s *Store, fn func(*conn) T) (T, error) {
	var zero T
	slot, err := take(ctx, s, s.readers)
	if err != nil {
		return zero, err
	}
	done := make(chan readResult[T], 1)
	go func() {
		r := runRead(ctx, s, fn)
		s.readers <- slot
		done <- r
	}()
	select {
	case r := <-done:
		if r.panicked != nil {
			panic(r.panicked)
		}
		return r.value, classifyError(r.err)
	case <-ctx.Done():
		return zero, ctx.Err()
	}
}

type readResult[T any] struct {
	value    T
	err      error
	panicked *readPanic
}

// readPanic carries a read's panic to the caller's goroutine.
type readPanic struct {
	value any
	stack []byte
}

func (p *readPanic) Error() string { return fmt.Sprintf("%v\n%s", p.value, p.stack) }

func (p *readPanic) Unwrap() error {
	err, _ := p.value.(error)
	return err
}

func runRead[T any](ctx context.Context, s *Store, fn func(*conn) T) (r readResult[T]) {
	c := s.idle.take()
	if c == nil {
		r.err = s.retry(ctx, func() (err error) {
			c, err = connect(ctx, s.readURI, readerSettings)
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
			_ = c.close() // the connection's state is unknown
			return
		}
		s.idle.put(c)
	}()
	r.err = s.retry(ctx, func() error { return c.do(ctx, func() { r.value = fn(c) }) })
	return r
}

// idleConns holds the unused read connections. take returns the connection that was put last, so that only a few
// connections are used, and their caches are full.
type idleConns struct {
	mu   sync.Mutex
	list []*conn
}

func (i *idleConns) take() *conn {
	i.mu.Lock()
	defer i.mu.Unlock()
	n := len(i.list) - 1
	if n < 0 {
		return nil
	}
	c := i.list[n]
	i.list = i.list[:n]
	return c
}

func (i *idleConns) put(c *conn) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.list = append(i.list, c)
}

// take receives a value from ch. It returns an error if ctx ends or the store is closed.
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

// takeWriter waits for the write connection. The caller sends it back to s.writeConn.
func (s *Store) takeWriter(ctx context.Context) (*conn, error) {
	if s.options.ReadOnly {
		return nil, fmt.Errorf("%w: this store was opened for reading", ErrReadOnly)
	}
	return take(ctx, s, s.writeConn)
}

type tx struct {
	db       *conn
	store    *Store
	tenants  map[string]int64 // tenant numbers, cached after the commit
	sessions map[sessionKey]*txSession
	totals   map[string]int64 // changes of the totals in Stats, by name
	onCommit []func()

	sampleRow int64 // next sample's row number; 0 means not read yet
}

// update runs fn in one write transaction; conn.fail aborts it. On a full disk, update runs a checkpoint, which can
// free the WAL's space, and then runs fn again.
func (s *Store) update(ctx context.Context, op string, fn func(*tx)) error {
	err := classifyError(s.transact(ctx, fn))
	if errors.Is(err, session.ErrDiskFull) && s.checkpoint(ctx, false) == nil {
		err = classifyError(s.transact(ctx, fn))
	}
	if err != nil {
		return fmt.Errorf("sqlite: %s: %w", op, err)
	}
	return nil
}

// transact runs fn in a transaction, which is rolled back after a failure or a panic.
func (s *Store) transact(ctx context.Context, fn func(*tx)) (err error) {
	c, err := s.takeWriter(ctx)
	if err != nil {
		return err
	}
	defer func() { s.writeConn <- c }()
	if err := s.fileCheck.check(); err != nil {
		return err
	}
	if err := s.retry(ctx, func() error { return c.do(ctx, func() { c.exec("BEGIN IMMEDIATE") }) }); err != nil {
		return err
	}
	committed := false
	defer func() { // even a panic must not leave the connection in a transaction
		if !committed {
			err = cmp.Or(err, c.rollback())
		}
	}()
	t := &tx{db: c, store: s, tenants: map[string]int64{}, sessions: map[sessionKey]*txSession{}, totals: map[string]int64{}}
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
	for _, fn := range t.onCommit {
		fn()
	}
	return nil
}

// retry repeats fn while another process holds the lock, until BusyTimeout has passed or the context ends.
func (s *Store) retry(ctx context.Context, fn func() error) error {
	var waited time.Duration
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		err := fn()
		if !isBusy(err) {
			return err
		}
		if waited >= s.options.BusyTimeout {
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

func (t *tx) addTotals() {
	for name, n := range t.totals {
		if n != 0 {
			t.db.exec("INSERT INTO totals(name, n) VALUES(?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n", name, n)
		}
	}
}

// checkpoint copies the WAL into the file, and truncates it. If wait is true, it waits up to BusyTimeout for readers.
// If readers prevent the checkpoint, the error is nil, because a later one copies the rest.
func (s *Store) checkpoint(ctx context.Context, wait bool) error {
	c, err := s.takeWriter(ctx)
	if err != nil {
		return err
	}
	defer func() { s.writeConn <- c }()
	if err := s.fileCheck.check(); err != nil {
		return err
	}
	truncate := func() error {
		return c.do(ctx, func() {
			if busy := c.queryInt("PRAGMA wal_checkpoint(TRUNCATE)"); busy != 0 {
				c.fail(errReading)
			}
		})
	}
	if wait {
		err = s.retry(ctx, truncate)
	} else {
		err = truncate()
	}
	if err != nil && !isBusy(err) {
		return fmt.Errorf("sqlite: checkpoint: %w", classifyError(err))
	}
	return nil
}

// Sync syncs the disk, so that all earlier writes survive a power failure. A caller with a copy of the writes, such as
// the outbox, calls Sync before deleting the copy.
func (s *Store) Sync(ctx context.Context) error {
	c, err := s.takeWriter(ctx)
	if err != nil {
		return err
	}
	defer func() { s.writeConn <- c }()
	// fsync covers writes through any descriptor for the file. Closing this descriptor releases no lock, because SQLite
	// holds no lock on the WAL.
	f, err := os.OpenFile(s.options.Path+"-wal", os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the last checkpoint removed the WAL, and synced the file
	}
	if err != nil {
		return fmt.Errorf("sqlite: sync: %w", err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sqlite: sync: %w", err)
	}
	return nil
}
