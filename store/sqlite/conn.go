package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"

	sqlite "modernc.org/sqlite"
)

// conn is one connection with the statements it has prepared. It serves one goroutine at a time:
// the pool sees to that.
//
// It speaks to the driver without database/sql, whose locks and per-call connection search cost as
// much as a small statement itself (docs/decisions/0032-echoes.md), and it writes without a
// context: the driver would start a goroutine for each statement. Contexts are looked at between
// statements and rows instead, which are short. A read may come upon a page that the disk takes
// long to give: it is interrupted when its context ends, so that the connection is free for the
// next one.
type conn struct {
	c     driver.Conn
	stmts map[string]*stmt
	never context.Context // without an end: see above
	until context.Context // of the read that is under way
}

type stmt struct {
	driver.Stmt
	args []driver.NamedValue // reused: a statement is never run twice at once
	row  []driver.Value
}

func connect(ctx context.Context, dsn string) (*conn, error) {
	dial, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	c, err := dial.Connect(ctx)
	if err != nil {
		return nil, err
	}
	never := context.WithoutCancel(ctx)
	return &conn{c: c, stmts: map[string]*stmt{}, never: never, until: never}, nil
}

func (c *conn) close() error {
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.c.Close())...)
}

// prepare finds or makes the statement. Queries are constants of this package, so that the map
// stays small.
func (c *conn) prepare(query string, args []any) (*stmt, error) {
	s, ok := c.stmts[query]
	if !ok {
		p, err := c.c.Prepare(query)
		if err != nil {
			return nil, err
		}
		s = &stmt{Stmt: p}
		c.stmts[query] = s
	}
	s.args = s.args[:0]
	for i, a := range args {
		s.args = append(s.args, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
	return s, nil
}

// exec runs a statement. Arguments are int64, float64, string, []byte or nil, as the driver wants
// them.
func (c *conn) exec(query string, args ...any) (driver.Result, error) {
	s, err := c.prepare(query, args)
	if err != nil {
		return nil, err
	}
	x, ok := s.Stmt.(driver.StmtExecContext)
	if !ok {
		return nil, errors.New("sqlite: the driver cannot execute")
	}
	defer clear(s.args) // let go of the blobs
	return x.ExecContext(c.never, s.args)
}

// script runs several statements once, without keeping them.
func (c *conn) script(text string) error {
	x, ok := c.c.(driver.ExecerContext)
	if !ok {
		return errors.New("sqlite: the driver cannot execute")
	}
	_, err := x.ExecContext(c.never, text, nil)
	return err
}

// errStop ends a query early, without being an error.
var errStop = errors.New("stop")

// query hands each row to fn. The slice is reused for the next row; strings and blobs in it are
// copies and may be kept.
func (c *conn) query(query string, fn func(row []driver.Value) error, args ...any) (err error) {
	s, err := c.prepare(query, args)
	if err != nil {
		return err
	}
	q, ok := s.Stmt.(driver.StmtQueryContext)
	if !ok {
		return errors.New("sqlite: the driver cannot query")
	}
	rows, err := q.QueryContext(c.until, s.args)
	clear(s.args)
	if err != nil {
		return err
	}
	defer func() {
		if e := rows.Close(); err == nil {
			err = e
		}
	}()
	if s.row == nil {
		s.row = make([]driver.Value, len(rows.Columns()))
	}
	for {
		switch err := rows.Next(s.row); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		switch err := fn(s.row); {
		case errors.Is(err, errStop):
			return nil
		case err != nil:
			return err
		case c.until.Err() != nil: // the driver looks at it for the first row alone
			return c.until.Err()
		}
	}
}

// one runs a query of at most one row and says whether there was one.
func (c *conn) one(query string, fn func(row []driver.Value) error, args ...any) (found bool, err error) {
	err = c.query(query, func(row []driver.Value) error {
		found = true
		if err := fn(row); err != nil {
			return err
		}
		return errStop
	}, args...)
	return found, err
}

// number runs a query for one integer; 0 when there is no row or it is NULL.
func (c *conn) number(query string, args ...any) (n int64, err error) {
	_, err = c.one(query, func(row []driver.Value) error {
		n = integer(row[0])
		return nil
	}, args...)
	return n, err
}

// value runs a query for one blob: nil when there is no row, and never nil for one that is empty.
func (c *conn) value(query string, args ...any) (v []byte, err error) {
	_, err = c.one(query, func(row []driver.Value) error {
		v = append([]byte{}, blob(row[0])...)
		return nil
	}, args...)
	return v, err
}

// inserted says whether an INSERT with ON CONFLICT DO NOTHING made a row, or an UPDATE changed one.
func inserted(r driver.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := r.RowsAffected()
	return n > 0, err
}

// The columns are ours and typed; what has another type (a NULL, a damaged row) reads as zero.
func integer(v driver.Value) int64 {
	n, _ := v.(int64)
	return n
}

func blob(v driver.Value) []byte {
	b, _ := v.([]byte)
	return b
}

func text(v driver.Value) string {
	s, _ := v.(string)
	return s
}
