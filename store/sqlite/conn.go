package sqlite

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"

	"precept/internal/session"
)

// conn is one connection to the file, for one goroutine at a time.
//
// Statements run inside do. After a failed statement, or once do's context has ended, further statements have no effect
// and return no rows, and do returns the error. The code therefore checks errors only where a result matters.
//
// docs/decisions/0052-sqlite-driver.md compares this layer with other drivers.
type conn struct {
	db         *sqlite.Conn
	interrupts bool            // ctx interrupts a running statement
	ctx        context.Context // context of the current do call
	err        error           // first failure in the current do call
}

// connect opens a connection and runs settings, a script of PRAGMA statements. SQLite's own wait for locks ignores the
// context, so Store.retry waits instead.
//
// Do not use SetDefensive from zombiezen v1.4.2. SetDefensive passes only one of two variable arguments. SQLite reads
// an arbitrary address in place of the second, and writes to that address: on 16 cores the process crashed.
func connect(ctx context.Context, uri, settings string) (*conn, error) {
	db, err := sqlite.OpenConn(uri, sqlite.OpenReadWrite, sqlite.OpenCreate, sqlite.OpenURI)
	if err != nil {
		return nil, err
	}
	db.SetBusyTimeout(0)
	c := &conn{db: db, ctx: context.Background()}
	if err := c.do(ctx, func() { c.script(settings) }); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func (c *conn) close() error { return c.db.Close() }

func (c *conn) do(ctx context.Context, fn func()) error {
	c.ctx, c.err = ctx, nil
	if c.interrupts {
		c.db.SetInterrupt(ctx.Done())
	}
	defer func() {
		c.ctx = context.Background()
		c.db.SetInterrupt(nil)
	}()
	fn()
	return c.err
}

// fail records err unless a failure is already recorded. For an interrupted statement, fail records the context's
// error.
func (c *conn) fail(err error) {
	if c.err != nil || err == nil {
		return
	}
	if sqlite.ErrCode(err) == sqlite.ResultInterrupt && c.ctx.Err() != nil {
		err = c.ctx.Err()
	}
	c.err = err
}

func (c *conn) canContinue() bool {
	c.fail(c.ctx.Err())
	return c.err == nil
}

// prepare returns a statement with bound arguments, or nil after a failure. The connection caches statements; all
// queries are constants in this package.
func (c *conn) prepare(query string, args []any) *sqlite.Stmt {
	if !c.canContinue() {
		return nil
	}
	stmt, err := c.db.Prepare(query)
	if err == nil && stmt.BindParamCount() != len(args) {
		err = fmt.Errorf("sqlite: %d arguments for %q", len(args), query)
	}
	if err != nil {
		c.fail(err)
		return nil
	}
	for i, a := range args {
		bind(stmt, i+1, a)
	}
	return stmt
}

func (c *conn) resetStmt(stmt *sqlite.Stmt) {
	c.fail(stmt.Reset())
	c.fail(stmt.ClearBindings())
}

func (c *conn) exec(query string, args ...any) int64 {
	for range c.query(query, args...) { // a PRAGMA may return rows
	}
	if c.err != nil {
		return 0
	}
	return int64(c.db.Changes())
}

func (c *conn) insert(query string, args ...any) int64 {
	if c.exec(query, args...); c.err != nil {
		return 0
	}
	return c.db.LastInsertRowID()
}

func (c *conn) script(text string) {
	for text = strings.TrimSpace(text); text != "" && c.canContinue(); {
		stmt, rest, err := c.db.PrepareTransient(text)
		if err != nil {
			c.fail(err)
			return
		}
		text = strings.TrimSpace(text[len(text)-rest:])
		for more := true; more && c.err == nil; {
			more, err = stmt.Step()
			c.fail(err)
		}
		c.fail(stmt.Finalize())
	}
}

func (c *conn) rollback() error {
	if c.db.AutocommitEnabled() {
		return nil // SQLite itself rolls back after some failures
	}
	stmt, err := c.db.Prepare("ROLLBACK")
	if err != nil {
		return err
	}
	_, err = stmt.Step()
	return errors.Join(err, stmt.Reset())
}

// query returns a query's rows. A row is valid until the next row is read; values copied by scan stay valid.
func (c *conn) query(query string, args ...any) iter.Seq[row] {
	return func(yield func(row) bool) {
		stmt := c.prepare(query, args)
		if stmt == nil {
			return
		}
		defer c.resetStmt(stmt)
		for c.canContinue() {
			more, err := stmt.Step()
			if c.fail(err); !more || !yield(row{stmt: stmt}) {
				return
			}
		}
	}
}

type row struct {
	stmt        *sqlite.Stmt
	firstColumn int // first column read by scan
}

func (r row) skip(n int) row { return row{r.stmt, r.firstColumn + n} }

// scan copies the first columns into dest, converted as in bind. A column with a different type, such as NULL, is read
// as zero.
func (r row) scan(dest ...any) {
	for i, d := range dest {
		col := r.firstColumn + i
		switch d := d.(type) {
		case *int64:
			*d = r.stmt.ColumnInt64(col)
		case *int:
			*d = r.stmt.ColumnInt(col)
		case *int32:
			*d = r.stmt.ColumnInt32(col)
		case *bool:
			*d = r.stmt.ColumnBool(col)
		case *float64:
			*d = math.Float64frombits(uint64(r.stmt.ColumnInt64(col)))
		case *time.Time:
			*d = fromMicros(r.stmt.ColumnInt64(col))
		case *string:
			*d = r.stmt.ColumnText(col)
		case *[]byte:
			*d = nil
			if !r.stmt.ColumnIsNull(col) {
				*d = make([]byte, r.stmt.ColumnLen(col))
				r.stmt.ColumnBytes(col, *d)
			}
		case *session.ID:
			r.stmt.ColumnBytes(col, d[:])
		default:
			panic(fmt.Sprintf("sqlite: a column cannot be read into a %T", d))
		}
	}
}

func (c *conn) queryRow(query string, args ...any) rowQuery { return rowQuery{c, query, args} }

type rowQuery struct {
	c     *conn
	query string
	args  []any
}

// scan reads the first row into dest. Without a row it returns false, and dest is unchanged.
func (q rowQuery) scan(dest ...any) bool {
	for r := range q.c.query(q.query, q.args...) {
		r.scan(dest...)
		return true
	}
	return false
}

// queryInt returns the integer in a query's first row; 0 means NULL, zero or no row.
func (c *conn) queryInt(query string, args ...any) (n int64) {
	c.queryRow(query, args...).scan(&n)
	return n
}

// queryBlob returns the blob in a query's first row; nil means no row.
func (c *conn) queryBlob(query string, args ...any) (v []byte) {
	if !c.queryRow(query, args...).scan(&v) {
		return nil
	}
	return notNull(v)
}

// notNull returns b, or an empty slice instead of nil, which would be stored as NULL.
func notNull(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// bind sets a statement argument. A time is stored as Unix microseconds, a float as the integer with the same bits, so
// that no precision is lost.
func bind(stmt *sqlite.Stmt, index int, v any) {
	switch v := v.(type) {
	case int64:
		stmt.BindInt64(index, v)
	case int:
		stmt.BindInt64(index, int64(v))
	case int32:
		stmt.BindInt64(index, int64(v))
	case bool:
		stmt.BindBool(index, v)
	case float64:
		stmt.BindInt64(index, int64(math.Float64bits(v)))
	case time.Time:
		stmt.BindInt64(index, micros(v))
	case string:
		stmt.BindText(index, v)
	case session.ID:
		stmt.BindBytes(index, v[:])
	case []byte:
		if v == nil {
			stmt.BindNull(index)
		} else {
			stmt.BindBytes(index, v)
		}
	default:
		panic(fmt.Sprintf("sqlite: a value of type %T cannot be stored", v))
	}
}

func micros(t time.Time) int64     { return t.UnixMicro() }
func fromMicros(n int64) time.Time { return time.UnixMicro(n).UTC() }
