package sqlite

import (
	"context"
	"database/sql/driver"
	"slices"
)

// dropEchoes takes the entries of forgotten sessions out of the log and of the runs, one run a
// transaction. They lead nowhere already, since a session's number is never used again; but what
// was forgotten shall not be recognisable either.
func (s *Store) dropEchoes(ctx context.Context, gone map[int64]bool) error {
	if len(gone) == 0 {
		return nil
	}
	if err := s.update(ctx, "forget echoes", func(t *tx) error { return t.siftLog(gone) }); err != nil {
		return err
	}
	// Runs that are made from here on are made of the log, which is clean.
	for _, r := range s.echoes.Load().runs {
		if err := s.update(ctx, "forget echoes", func(t *tx) error { return t.siftRun(r.id, gone) }); err != nil {
			return err
		}
	}
	return nil
}

// siftLog writes the log anew, in one row, if it names one of the sessions.
func (t *tx) siftLog(gone map[int64]bool) error {
	list, err := readLog(t.conn)
	if err != nil {
		return err
	}
	kept, found := sift(list, gone)
	if !found {
		return nil
	}
	if _, err := t.exec("DELETE FROM echo_log"); err != nil {
		return err
	}
	book := &echoes{runs: t.s.echoes.Load().runs}
	if len(kept) > 0 {
		if _, err := t.exec("INSERT INTO echo_log(v) VALUES(?)", packEntries(kept)); err != nil {
			return err
		}
		book = book.with(kept)
	}
	t.done = append(t.done, func() { t.s.echoes.Store(book) })
	return nil
}

// siftRun makes a run anew, under its number, if it names one of the sessions. A reader that still
// has the old one may miss an echo for that moment.
func (t *tx) siftRun(id int64, gone map[int64]bool) error {
	book := t.s.echoes.Load()
	at := slices.IndexFunc(book.runs, func(r *run) bool { return r.id == id })
	if at < 0 {
		return nil // dropped meanwhile
	}
	list, err := readRun(t.conn, id)
	if err != nil {
		return err
	}
	kept, found := sift(list, gone)
	if !found {
		return nil
	}
	if err := dropRun(t.conn, id); err != nil {
		return err
	}
	runs := slices.Clone(book.runs)
	if len(kept) == 0 {
		runs = slices.Delete(runs, at, at+1)
	} else {
		r := newRun(id, kept)
		if err := r.store(t.conn, kept); err != nil {
			return err
		}
		runs[at] = r
	}
	t.done = append(t.done, func() { t.s.echoes.Store(&echoes{log: book.log, size: book.size, runs: runs}) })
	return nil
}

func readRun(c *conn, id int64) (list []entry, err error) {
	err = c.query("SELECT v FROM echo_blocks WHERE id >= ? AND id < ? ORDER BY id", func(row []driver.Value) (err error) {
		list, err = unpackEntries(list, blob(row[0]))
		return err
	}, id<<blocksPerRun, (id+1)<<blocksPerRun)
	return list, err
}

// sift takes the entries of the sessions out.
func sift(list []entry, gone map[int64]bool) (kept []entry, found bool) {
	kept = slices.DeleteFunc(slices.Clone(list), func(e entry) bool { return gone[e.sid] })
	return kept, len(kept) < len(list)
}
