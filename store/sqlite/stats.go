package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// The names of Stats.
const (
	totalSessions      = "sessions"
	totalExchanges     = "exchanges"
	totalExchangesEver = "exchanges_ever"
	totalSamples       = "samples"
	totalSamplesEver   = "samples_ever"
	totalFeedback      = "feedback"
	totalParked        = "parked"
	totalBytes         = "bytes"
)

// addTotals writes the running totals that the transaction has changed.
func (t *tx) addTotals() {
	for name, n := range t.totals {
		if n != 0 {
			t.db.exec("INSERT INTO totals(name, n) VALUES(?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n", name, n)
		}
	}
}

// Stats counts what is stored: sessions, exchanges, samples, feedback and parked as they are now,
// exchanges_ever and samples_ever over the store's life, whatever was deleted since; bytes is what
// the files take on disk.
func (s *Store) Stats(ctx context.Context) (map[string]int64, error) {
	m, err := read(ctx, s, func(c *conn) map[string]int64 {
		m := map[string]int64{
			totalSessions: 0, totalExchanges: 0, totalExchangesEver: 0, totalSamples: 0, totalSamplesEver: 0,
			totalFeedback: 0, totalParked: 0,
		}
		for r := range c.rows("SELECT name, n FROM totals") {
			var name string
			var n int64
			r.scan(&name, &n)
			m[name] = n
		}
		return m
	})
	if err != nil {
		return nil, err
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(s.opt.Path + suffix)
		switch {
		case err == nil:
			m[totalBytes] += info.Size()
		case !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("sqlite: stats: %w", err)
		}
	}
	return m, nil
}

// Sync makes all that was written so far survive a power cut. Who keeps his own copy until it is
// safe (a write-ahead spool) calls it before he lets go.
func (s *Store) Sync(ctx context.Context) error {
	c, err := s.writer(ctx)
	if err != nil {
		return err
	}
	defer func() { s.write <- c }()
	// fsync works on the file, whoever wrote it. The WAL has no POSIX locks that closing this
	// descriptor could drop.
	f, err := os.OpenFile(s.opt.Path+"-wal", os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nothing was written since it was folded in, and that ends with an fsync
	}
	if err != nil {
		return fmt.Errorf("sqlite: sync: %w", err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sqlite: sync: %w", err)
	}
	return nil
}
