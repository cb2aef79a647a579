package sqlite

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
)

const (
	benchSchema = "CREATE TABLE t(id INTEGER PRIMARY KEY, v BLOB NOT NULL, at INTEGER NOT NULL)"
	benchPut    = "INSERT OR REPLACE INTO t(id, v, at) VALUES(?, ?, ?)"
	benchGet    = "SELECT v, at FROM t WHERE id = ?"
)

// BenchmarkDriver compares a connection that speaks to the driver with one of database/sql whose
// statements are prepared as well: 100 rows written and read again in a transaction
// (docs/decisions/0032-echoes.md).
func BenchmarkDriver(b *testing.B) {
	for _, way := range []struct {
		name  string
		start func(*testing.B, string) func(at int64, v []byte) error
	}{{"driver", byDriver}, {"database-sql", byDatabaseSQL}} {
		b.Run(way.name, func(b *testing.B) {
			dsn := filepath.Join(b.TempDir(), "a.db") + "?_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)&_txlock=immediate"
			run, v := way.start(b, dsn), make([]byte, 300)
			b.ReportAllocs()
			for at := int64(0); b.Loop(); at++ {
				if err := run(at, v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func byDriver(b *testing.B, dsn string) func(int64, []byte) error {
	b.Helper()
	c, err := connect(b.Context(), dsn)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.close() })
	if err := c.do(b.Context(), func() { c.script(benchSchema) }); err != nil {
		b.Fatal(err)
	}
	return func(at int64, v []byte) error {
		return c.do(b.Context(), func() {
			c.exec("BEGIN IMMEDIATE")
			for id := range int64(100) {
				var got []byte
				var then int64
				c.exec(benchPut, id, v, at)
				c.row(benchGet, id).scan(&got, &then)
			}
			c.exec("COMMIT")
		})
	}
}

func byDatabaseSQL(b *testing.B, dsn string) func(int64, []byte) error {
	b.Helper()
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	ctx := context.WithoutCancel(b.Context()) // one that can end costs a goroutine a statement
	if _, err := db.ExecContext(ctx, benchSchema); err != nil {
		b.Fatal(err)
	}
	put, err := db.PrepareContext(ctx, benchPut)
	if err != nil {
		b.Fatal(err)
	}
	get, err := db.PrepareContext(ctx, benchGet)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _, _ = put.Close(), get.Close() })
	return func(at int64, v []byte) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() //nolint:errcheck // it was committed
		in, out := tx.StmtContext(ctx, put), tx.StmtContext(ctx, get)
		for id := range int64(100) {
			var got sql.RawBytes
			var then int64
			if _, err := in.ExecContext(ctx, id, v, at); err != nil {
				return err
			}
			if err := scanOne(ctx, out, id, &got, &then); err != nil {
				return err
			}
		}
		return tx.Commit()
	}
}

func scanOne(ctx context.Context, s *sql.Stmt, id int64, to ...any) error {
	rows, err := s.QueryContext(ctx, id)
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // it was only read
	for rows.Next() {
		if err := rows.Scan(to...); err != nil {
			return err
		}
	}
	return rows.Err()
}
