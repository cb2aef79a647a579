package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"time"

	sqlite "modernc.org/sqlite"

	"precept/internal/session"
)

// conn is one connection with the statements it has prepared. It serves one goroutine at a time:
// the pool sees to that.
//
// Its statements run inside do. The first that fails, or the end of do's context, ends them all:
// what comes after it does nothing and reads nothing, and do returns the error. So code in between
// need not look at each statement, as long as it takes no decision of its own on what it read.
//
// It speaks to the driver without database/sql, whose locks and per-call connection search cost as
// much as a small statement itself (docs/decisions/0032-echoes.md). The driver gets a context for
// reads alone, since it starts a goroutine for each statement that has one: a read may come upon a
// page that the disk takes long to give, and is interrupted when its context ends. Elsewhere the
// context is looked at between statements and rows, which are short.
type conn struct {
	driverConn
	stmts      map[string]*stmt
	interrupts bool            // a query is interrupted when ctx ends
	ctx        context.Context // of do
	until      context.Context // of a query: ctx, or never
	never      context.Context // without an end
	err        error           // what ended do's statements
}

type driverConn interface {
	driver.Conn
	driver.ExecerContext
}

type driverStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

type stmt struct {
	driverStmt
	args []driver.NamedValue // reused: a statement is never run twice at once
	row  row
}

func connect(ctx context.Context, dsn string) (*conn, error) {
	dial, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	d, err := dial.Connect(ctx)
	if err != nil {
		return nil, err
	}
	c, ok := d.(driverConn)
	if !ok {
		return nil, errors.Join(errors.New("sqlite: the driver cannot execute"), d.Close())
	}
	never := context.WithoutCancel(ctx)
	return &conn{driverConn: c, stmts: map[string]*stmt{}, ctx: never, until: never, never: never}, nil
}

func (c *conn) close() error {
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.Close())...)
}

// do runs fn, and returns what ended its statements.
func (c *conn) do(ctx context.Context, fn func()) error {
	c.ctx, c.err = ctx, nil
	if c.interrupts {
		c.until = ctx
	}
	defer func() { c.ctx, c.until = c.never, c.never }()
	fn()
	return c.err
}

// fail ends what do runs, unless something has already, or err is nil.
func (c *conn) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// alive says whether statements are still run.
func (c *conn) alive() bool {
	if c.err == nil {
		c.err = c.ctx.Err()
	}
	return c.err == nil
}

// prepare finds or makes the statement, nil when no more are run. Queries are constants of this
// package, so that the map stays small.
func (c *conn) prepare(query string, args []any) *stmt {
	if !c.alive() {
		return nil
	}
	s, ok := c.stmts[query]
	if !ok {
		p, err := c.Prepare(query)
		if err != nil {
			c.fail(err)
			return nil
		}
		d, ok := p.(driverStmt)
		if !ok {
			c.fail(errors.New("sqlite: the driver cannot run statements"))
			return nil
		}
		s = &stmt{driverStmt: d}
		c.stmts[query] = s
	}
	s.args = s.args[:0]
	for i, a := range args {
		s.args = append(s.args, driver.NamedValue{Ordinal: i + 1, Value: bind(a)})
	}
	return s
}

// exec runs a statement and says how many rows it changed.
func (c *conn) exec(query string, args ...any) int64 {
	if r := c.run(query, args); r != nil {
		n, err := r.RowsAffected()
		c.fail(err)
		return n
	}
	return 0
}

// insert runs a statement that makes a row, and says which number the row has.
func (c *conn) insert(query string, args ...any) int64 {
	if r := c.run(query, args); r != nil {
		id, err := r.LastInsertId()
		c.fail(err)
		return id
	}
	return 0
}

func (c *conn) run(query string, args []any) driver.Result {
	s := c.prepare(query, args)
	if s == nil {
		return nil
	}
	defer clear(s.args) // let go of the blobs
	r, err := s.ExecContext(c.never, s.args)
	if err != nil {
		c.fail(err)
		return nil
	}
	return r
}

// script runs several statements once, without keeping them.
func (c *conn) script(text string) {
	if c.alive() {
		_, err := c.ExecContext(c.never, text, nil)
		c.fail(err)
	}
}

// rollback ends a transaction, whatever has ended its statements.
func (c *conn) rollback() error {
	_, err := c.ExecContext(c.never, "ROLLBACK", nil)
	return err
}

// rows are the rows of a query. Each is good until the next one; the strings and blobs in it are
// copies and may be kept.
func (c *conn) rows(query string, args ...any) iter.Seq[row] {
	return func(yield func(row) bool) { c.each(query, args, yield) }
}

func (c *conn) each(query string, args []any, yield func(row) bool) {
	s := c.prepare(query, args)
	if s == nil {
		return
	}
	rows, err := s.QueryContext(c.until, s.args)
	clear(s.args)
	if err != nil {
		c.fail(err)
		return
	}
	defer func() { c.fail(rows.Close()) }()
	if s.row == nil {
		s.row = make(row, len(rows.Columns()))
	}
	for c.alive() { // the driver looks at the context for the first row alone
		err := rows.Next(s.row)
		if errors.Is(err, io.EOF) {
			return
		}
		if c.fail(err); err != nil || !yield(s.row) {
			return
		}
	}
}

// row is the first row of a query, nil when there is none. It is good until the query is run again.
func (c *conn) row(query string, args ...any) (first row) {
	c.each(query, args, func(r row) bool {
		first = r
		return false
	})
	return first
}

// number runs a query for one integer; 0 when there is no row or it is NULL.
func (c *conn) number(query string, args ...any) (n int64) {
	c.row(query, args...).scan(&n)
	return n
}

// value runs a query for one blob: nil when there is no row, and never nil for one that is empty.
func (c *conn) value(query string, args ...any) []byte {
	if r := c.row(query, args...); r != nil {
		return notNull(as[[]byte](r[0]))
	}
	return nil
}

// notNull is a blob that does not become NULL.
func notNull(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// row is a row of a query.
type row []driver.Value

// scan reads the first columns into what dest points at, by its type (see bind). It is false, and
// reads nothing, when there is no row.
func (r row) scan(dest ...any) bool {
	if r == nil {
		return false
	}
	for i, d := range dest {
		n := as[int64](r[i])
		switch d := d.(type) {
		case *int64:
			*d = n
		case *int:
			*d = int(n)
		case *int32:
			*d = int32(n)
		case *bool:
			*d = n != 0
		case *float64:
			*d = math.Float64frombits(uint64(n))
		case *time.Time:
			*d = fromMicros(n)
		case *string:
			*d = as[string](r[i])
		case *[]byte:
			*d = as[[]byte](r[i])
		case *session.ID:
			copy(d[:], as[[]byte](r[i]))
		default:
			panic(fmt.Sprintf("sqlite: a column is not read into a %T", d))
		}
	}
	return true
}

// bind is how a value of Go is kept: times as microseconds, as a Redis score could hold them too,
// and floats by their bits, which come back the same.
func bind(v any) driver.Value {
	switch v := v.(type) {
	case int:
		return int64(v)
	case int32:
		return int64(v)
	case bool:
		if v {
			return int64(1)
		}
		return int64(0)
	case float64:
		return int64(math.Float64bits(v))
	case time.Time:
		return micros(v)
	case session.ID:
		return v[:]
	}
	return v
}

// as reads a column. The columns are ours and typed; what has another type (a NULL, a damaged row)
// reads as zero.
func as[T any](v driver.Value) T {
	t, _ := v.(T)
	return t
}
