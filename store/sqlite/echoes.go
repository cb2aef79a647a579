package sqlite

import (
	"context"
	"database/sql/driver"
	"slices"
	"sync/atomic"

	"precept/session"
)

// Echoes come several a turn and are hardly ever asked for: the threads in use stand in memory
// elsewhere, and here is only what a restart must not lose. As rows of a B-tree with random keys
// they would cost fifteen times as much (docs/decisions/0032-echoes.md). So they are appended to
// a log, one row a batch; when the log has grown to Options.EchoLog, it is sorted into a run of
// blocks that is never changed again. Memory holds the log's entries, and of each run a Bloom
// filter and the first key of each block.
//
// Runs are dropped when they are too old (Retain) or too many: of the oldest four million echoes
// the next ones are forgotten. Entries name sessions by number, and numbers are never used again,
// so that the echoes of a session that was forgotten lead nowhere from that moment on.
const maxRuns = 128

// echoes is what memory holds. It is never changed: readers go on with the one they have.
type echoes struct {
	log  [][]entry // each folded; sizes fall by halves at least, so that there are few
	size int       // entries in the log
	runs []*run    // oldest first
}

// echoBook is the one in force. The writer replaces it after its transaction was committed.
type echoBook struct{ atomic.Pointer[echoes] }

// with adds a batch to the log's entries, merging it with smaller ones.
func (e *echoes) with(batch []entry) *echoes {
	log := slices.Clone(e.log)
	for n := len(log); n > 0 && len(log[n-1]) < 2*len(batch); n = len(log) {
		batch = fold(slices.Concat(log[n-1], batch))
		log = log[:n-1]
	}
	size := len(batch)
	for _, l := range log {
		size += len(l)
	}
	return &echoes{log: append(log, batch), size: size, runs: e.runs}
}

func loadEchoes(c *conn) (*echoes, error) {
	e := &echoes{}
	var err error
	if e.runs, err = loadRuns(c); err != nil {
		return nil, err
	}
	list, err := readLog(c)
	if err != nil || len(list) == 0 {
		return e, err
	}
	return e.with(list), nil
}

func readLog(c *conn) (list []entry, err error) {
	err = c.query("SELECT v FROM echo_log ORDER BY rid", func(row []driver.Value) (err error) {
		list, err = unpackEntries(list, blob(row[0]))
		return err
	})
	return fold(list), err
}

// FindEcho finds the sessions that the keys went by in, newest first, at most four a key. Keys
// without any are left out. A store that was opened for reading knows the echoes of the moment when
// it was opened.
func (s *Store) FindEcho(ctx context.Context, tenant string, keys []session.EchoKey) (map[session.EchoKey][]session.ID, error) {
	return read(ctx, s, func(c *conn) (map[session.EchoKey][]session.ID, error) {
		found := map[session.EchoKey][]session.ID{}
		n, err := s.tenant(c, tenant)
		if err != nil || n == 0 {
			return found, err
		}
		book := s.echoes.Load()
		for _, k := range keys {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			ids, err := book.find(c, n, echoKey(n, k))
			if err != nil {
				return nil, err
			}
			if len(ids) > 0 {
				found[k] = ids
			}
		}
		return found, nil
	})
}

func (e *echoes) find(c *conn, tenant, key int64) (ids []session.ID, err error) {
	var list []entry
	for _, l := range e.log {
		list = append(list, withKey(l, key)...)
	}
	for _, r := range e.runs {
		if list, err = r.find(c, key, list); err != nil {
			return nil, err
		}
	}
	newestFirst(list)
	for i, e := range list {
		if slices.ContainsFunc(list[:i], func(o entry) bool { return o.sid == e.sid }) {
			continue
		}
		_, err := c.one("SELECT id FROM sessions WHERE sid = ? AND tenant = ?", func(row []driver.Value) error {
			ids = append(ids, toID(blob(row[0])))
			return nil
		}, e.sid, tenant)
		if err != nil || len(ids) == echoesPerKey {
			return ids, err
		}
	}
	return ids, nil
}

// putEchoes appends a batch to the log, and sorts the log into a run when it is long enough.
func (t *tx) putEchoes(list []session.Echo) error {
	if len(list) == 0 {
		return nil
	}
	batch := make([]entry, 0, len(list))
	for _, e := range list {
		tenant, err := t.tenant(e.Tenant)
		if err != nil {
			return err
		}
		sid, err := t.sid(sessionKey{tenant, e.ID}, e.At)
		if err != nil {
			return err
		}
		batch = append(batch, entry{echoKey(tenant, e.Key), micros(e.At), sid})
	}
	batch = fold(batch)
	if _, err := t.exec("INSERT INTO echo_log(v) VALUES(?)", packEntries(batch)); err != nil {
		return err
	}
	book := t.s.echoes.Load().with(batch)
	if book.size >= t.s.opt.EchoLog {
		var err error
		if book, err = t.sortLog(book.runs); err != nil {
			return err
		}
	}
	t.done = append(t.done, func() { t.s.echoes.Store(book) })
	return nil
}

// sortLog makes a run of the log.
func (t *tx) sortLog(runs []*run) (*echoes, error) {
	list, err := readLog(t.conn)
	if err != nil {
		return nil, err
	}
	id, err := t.number("SELECT coalesce(max(run), 0) + 1 FROM echo_runs")
	if err != nil {
		return nil, err
	}
	r := newRun(id, list)
	if err := r.store(t.conn, list); err != nil {
		return nil, err
	}
	if _, err := t.exec("DELETE FROM echo_log"); err != nil {
		return nil, err
	}
	runs = append(slices.Clone(runs), r)
	for len(runs) > maxRuns {
		if err := dropRun(t.conn, runs[0].id); err != nil {
			return nil, err
		}
		runs = runs[1:]
	}
	return &echoes{runs: runs}, nil
}

// dropOldEchoes drops the runs whose newest echo is from before the given time.
func (t *tx) dropOldEchoes(before int64) error {
	book := t.s.echoes.Load()
	kept := make([]*run, 0, len(book.runs))
	for _, r := range book.runs {
		if r.newest >= before {
			kept = append(kept, r)
			continue
		}
		if err := dropRun(t.conn, r.id); err != nil {
			return err
		}
	}
	if len(kept) < len(book.runs) {
		t.done = append(t.done, func() { t.s.echoes.Store(&echoes{log: book.log, size: book.size, runs: kept}) })
	}
	return nil
}
