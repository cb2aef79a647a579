package outbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

const (
	asideInfix = ".corrupt-"
	// salvageLimit is the time after which salvageRows stops at an unreadable row.
	salvageLimit = time.Second
	// maxSalvageTries is the number of consecutive unreadable sequence numbers at which salvageRows stops.
	maxSalvageTries = 50_000
)

// replaceDamaged renames a damaged file, and opens a new file with the readable rows. The caller holds mu, but not
// readerMu.
func (o *Outbox) replaceDamaged(damage error) (err error) {
	o.readerMu.Lock()
	defer o.readerMu.Unlock()
	defer func() {
		if err != nil && o.writer == nil {
			_ = o.open() // the next write finds the damage again, and tries again
		}
	}()
	inMemory := o.counts // if the file was open, these counts are newer than the file's
	_ = o.close()        // closing a damaged file may fail
	replacement := o.path + ".new"
	for _, suffix := range []string{"", "-wal", "-shm"} {
		_ = os.Remove(replacement + suffix) // left by a crash during an earlier replacement
	}
	if o.writer, err = openWriter(replacement); err != nil {
		return classifyError(err)
	}
	lost, err := o.salvage(o.path, &inMemory)
	if err = errors.Join(err, o.close()); err != nil {
		return classifyError(err)
	}
	aside, err := setAside(o.path, o.now())
	if err == nil {
		err = os.Rename(replacement, o.path)
	}
	if err == nil {
		err = o.open()
	}
	if err == nil && o.openTurns == nil { // the damage was found at the start
		err = o.load()
	} else if err == nil {
		o.usage.tenantBytes, err = o.usage.bytesByTenant(o.writer, "true")
	}
	if err != nil {
		return classifyError(errors.Join(damage, err))
	}
	o.onDamage(fmt.Errorf("%w; the file was renamed to %s, and %s in the file are lost", damage, filepath.Base(aside), lost))
	return nil
}

func damagedName(path string, now time.Time) string {
	base := path + asideInfix + now.UTC().Format("20060102T150405Z")
	aside := base
	for n := 2; ; n++ {
		_, fileErr := os.Lstat(aside)
		_, logErr := os.Lstat(aside + "-wal")
		if fileErr != nil && logErr != nil {
			return aside
		}
		aside = fmt.Sprintf("%s-%d", base, n)
	}
}

func setAside(path string, now time.Time) (string, error) {
	aside := damagedName(path, now)
	for _, suffix := range []string{"-wal", "-shm", ""} {
		if err := os.Rename(path+suffix, aside+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return aside, nil
}

type loss struct{ exchanges, posts int64 }

func (l loss) String() string {
	if l.posts == 0 {
		return fmt.Sprintf("%d exchanges", l.exchanges)
	}
	return fmt.Sprintf("%d exchanges and %d feedback posts", l.exchanges, l.posts)
}

// salvage copies readable rows from the damaged file at path to the new file, and counts the other exchanges as lost.
// inMemory is zero if the file was never open.
func (o *Outbox) salvage(path string, inMemory *counts) (lost loss, err error) {
	old, oldErr := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if oldErr == nil {
		defer func() { _ = old.Close() }()
	}
	n := *inMemory
	if oldErr == nil && inMemory.Sequence == 0 {
		if read, err := readCounts(old); err == nil {
			n = read
		}
	}
	if accountCopy, ok := o.readAccountCopy(); ok && accountCopy.isNewer(&n) {
		n = accountCopy
	}
	begun := map[string]bool{}
	o.storedCounts = counts{}
	err = o.transact(func() error {
		if oldErr == nil {
			for _, table := range []string{"meta", "optout_marks"} {
				_ = copyRows(old, o.writer, table) // unreadable marks are lost
			}
			_ = copyOpenTurns(old, o.writer, begun)
			_ = copyPosts(old, o.writer) // unreadable posts are lost
			if err := o.salvageRows(old, func(r *Row) error { return insertRow(o.writer, r) }); err != nil {
				return err
			}
		}
		lost, err = o.reconcile(&n)
		return err
	})
	if o.openTurns != nil {
		o.openTurns = begun
	}
	return lost, err
}

type rowCounts struct {
	spooledExchanges int64 // exchanges missing from the store
	lastSequence     int64
	openTurns        int64
	posts            int64
}

// readContents counts the file's rows. delivered is the sequence number of the last row in the store.
func (o *Outbox) readContents(delivered int64) (found rowCounts, err error) {
	for _, q := range []struct {
		dest  *int64
		query string
		args  []any
	}{
		{&found.spooledExchanges, "SELECT coalesce(sum(exchanges), 0) FROM outbox WHERE sequence > ?", []any{delivered}},
		{&found.lastSequence, "SELECT coalesce(max(sequence), 0) FROM outbox", nil},
		{&found.openTurns, "SELECT count(*) FROM begun", nil},
		{&found.posts, "SELECT count(*) FROM posts WHERE number > 0", nil},
	} {
		if *q.dest, err = queryInt(o.writer, q.query, q.args...); err != nil {
			return found, err
		}
	}
	return found, nil
}

// matches reports whether c agrees with the file, and the other counts add up to c.Admitted.
func (f *rowCounts) matches(c *counts) bool {
	sum := c.Stored + c.Spooled + c.Incomplete + f.openTurns
	for _, dropped := range c.dropped {
		sum += dropped
	}
	return c.Admitted == sum && c.Spooled == f.spooledExchanges && c.Sequence >= f.lastSequence && c.Posts == f.posts
}

// reconcile replaces the account (the exchange counts) with target, the newest known account, and corrects it to agree
// with the rows. Exchanges missing from the file count as dropped (DroppedDamaged). The caller has started a
// transaction.
func (o *Outbox) reconcile(target *counts) (lost loss, err error) {
	found, err := o.readContents(target.Delivered)
	if err != nil {
		return lost, err
	}
	c := target.clone()
	c.Sequence = max(c.Sequence, found.lastSequence)
	openTurns := c.Admitted - c.Stored - c.Spooled - c.Incomplete
	for _, dropped := range c.dropped {
		openTurns -= dropped
	}
	lost = loss{exchanges: max(c.Spooled-found.spooledExchanges+openTurns-found.openTurns, 0), posts: max(c.Posts-found.posts, 0)}
	c.Spooled, c.Posts = found.spooledExchanges, found.posts
	if lost.exchanges > 0 {
		c.addDropped(DroppedDamaged, lost.exchanges)
	}
	// If no account could be read, Admitted is computed from the rows.
	c.Admitted = c.Stored + c.Spooled + c.Incomplete + found.openTurns
	for _, dropped := range c.dropped {
		c.Admitted += dropped
	}
	o.counts = c
	return lost, nil
}

// salvageRows calls write for every readable row with a valid checksum. After an unreadable row it continues at the
// next sequence number.
func (o *Outbox) salvageRows(old *sqlite.Conn, write func(r *Row) error) error {
	start := o.now()
	for next, tries := int64(1), 0; tries < maxSalvageTries; {
		// For "sequence > ?" SQLite would read the previous row's page, which might be unreadable.
		s, err := old.Prepare(selectRows + "WHERE sequence >= ? ORDER BY sequence")
		if err != nil {
			return nil //nolint:nilerr // no part of the table can be read
		}
		s.BindInt64(1, next)
		for {
			more, err := s.Step()
			if err != nil {
				break
			}
			if !more {
				return nil
			}
			r, ok := scanRow(s)
			next, tries = max(r.Sequence, next)+1, 0
			if !ok {
				continue
			}
			if err := write(&r); err != nil {
				return err
			}
		}
		_ = s.Reset()
		next++
		tries++
		if tries%256 == 0 && o.now().Sub(start) > salvageLimit {
			return nil
		}
	}
	return nil
}

func copyRows(from, to *sqlite.Conn, table string) error {
	s, _, err := from.PrepareTransient("SELECT * FROM " + table)
	if err != nil {
		return err
	}
	defer func() { _ = s.Finalize() }()
	for {
		more, err := s.Step()
		if err != nil || !more {
			return err
		}
		values, placeholders := make([]any, s.ColumnCount()), ""
		for i := range values {
			values[i] = any(s.ColumnText(i))
			if s.ColumnType(i) == sqlite.TypeInteger {
				values[i] = s.ColumnInt64(i)
			}
			placeholders += ", ?"
		}
		if err := execute(to, "INSERT OR REPLACE INTO "+table+" VALUES ("+placeholders[2:]+")", values...); err != nil {
			return err
		}
	}
}

func copyOpenTurns(from, to *sqlite.Conn, ids map[string]bool) error {
	return sqlitex.Execute(from, "SELECT id, tenant, session, document FROM begun", &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		id := scanID(s, 2)
		ids[s.ColumnText(0)] = true
		return execute(to, "INSERT OR REPLACE INTO begun (id, tenant, session, document) VALUES (?, ?, ?, ?)", s.ColumnText(0), s.ColumnText(1), id[:], scanBlob(s, 3))
	}})
}

func (o *Outbox) damagedPaths() []string {
	names, _ := filepath.Glob(o.path + asideInfix + "*") // the pattern is well-formed
	return names
}

// DeleteDamagedFiles deletes the renamed damaged files that last changed before the given time. The zero time means
// all.
func (o *Outbox) DeleteDamagedFiles(before time.Time) (err error) {
	for _, name := range o.damagedPaths() {
		info, statErr := os.Stat(name)
		if statErr != nil || !before.IsZero() && !info.ModTime().Before(before) {
			continue
		}
		if removeErr := os.Remove(name); !errors.Is(removeErr, fs.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
	}
	return err
}
