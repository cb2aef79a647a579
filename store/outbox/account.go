package outbox

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Account counts a data directory's exchanges since the directory was first used: Admitted = Stored + Spooled +
// Incomplete + the sum of Dropped. An exchange is admitted when its document or stub is written, or when it is dropped.
type Account struct {
	Admitted   int64            `json:"admitted"`
	Stored     int64            `json:"stored"`
	Spooled    int64            `json:"spooled"`    // in the outbox, but not yet in the store
	Incomplete int64            `json:"incomplete"` // in progress when precept died; the store has a stub for each
	Dropped    map[string]int64 `json:"dropped"`
	// posted feedback entries that wait in the outbox; they are not exchanges
	LateFeedback int64 `json:"late_feedback"`
}

// DroppedDamaged is the reason in Account.Dropped for exchanges lost in a damaged outbox file.
const DroppedDamaged = "damaged"

// counts has the values in the account table: the exchange counts, and the positions in the queue.
type counts struct {
	Admitted, Stored, Spooled, Incomplete int64
	Sequence                              int64 // last row's sequence number
	Delivered                             int64 // sequence number of the last row in the store
	Released                              int64 // last deleted row's sequence number
	Posts                                 int64 // posts waiting for the store
	dropped                               map[string]int64
}

// dropPrefix is the prefix of a dropped count's name in the account table. The reason follows.
const dropPrefix = "dropped:"

func (c *counts) addDropped(reason string, n int64) {
	if c.dropped == nil {
		c.dropped = map[string]int64{}
	}
	c.dropped[reason] += n
}

func (c *counts) clone() counts {
	d := *c
	d.dropped = maps.Clone(c.dropped)
	return d
}

// isNewer reports whether c was written later than other. Admitted and Sequence only grow.
func (c *counts) isNewer(other *counts) bool {
	return c.Admitted > other.Admitted || c.Sequence > other.Sequence
}

func (c *counts) equal(d *counts) bool { return maps.Equal(c.byName(), d.byName()) }

func (c *counts) fields() map[string]*int64 {
	return map[string]*int64{
		"admitted": &c.Admitted, "stored": &c.Stored, "spooled": &c.Spooled, "incomplete": &c.Incomplete,
		"sequence": &c.Sequence, "delivered": &c.Delivered, "released": &c.Released, "posts": &c.Posts,
	}
}

func (c *counts) byName() map[string]int64 {
	m := map[string]int64{}
	for name, n := range c.fields() {
		m[name] = *n
	}
	for reason, n := range c.dropped {
		m[dropPrefix+reason] = n
	}
	return m
}

func (c *counts) set(name string, n int64) {
	if field, ok := c.fields()[name]; ok {
		*field = n
	} else if reason, ok := strings.CutPrefix(name, dropPrefix); ok {
		c.addDropped(reason, n)
	}
}

func readCounts(c *sqlite.Conn) (out counts, err error) {
	err = sqlitex.Execute(c, "SELECT name, value FROM account", &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		out.set(s.ColumnText(0), s.ColumnInt64(1))
		return nil
	}})
	return out, err
}

func writeCounts(c *sqlite.Conn, stored, current *counts) error {
	storedByName := stored.byName()
	for name, n := range current.byName() {
		if storedByName[name] == n {
			continue
		}
		if err := execute(c, "INSERT OR REPLACE INTO account (name, value) VALUES (?, ?)", name, n); err != nil {
			return err
		}
	}
	return nil
}

// account returns the Account for these counts. Turns in progress count as spooled if a precept process has the file
// open (running), else as incomplete.
func (c *counts) account(openTurns int64, running bool) Account {
	a := Account{Admitted: c.Admitted, Stored: c.Stored, Spooled: c.Spooled, Incomplete: c.Incomplete, Dropped: map[string]int64{}, LateFeedback: c.Posts}
	maps.Copy(a.Dropped, c.dropped)
	if running {
		a.Spooled += openTurns
	} else {
		a.Incomplete += openTurns
	}
	return a
}

// Account returns the current account.
func (o *Outbox) Account() Account {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.counts.account(int64(len(o.openTurns)), true)
}

// ReadAccount reads the account from an outbox file without changing the file. If a precept process has the file open
// (running), turns in progress count as spooled. Without the file or its tables, the account is zero.
func ReadAccount(path string, running bool) (Account, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return Account{Dropped: map[string]int64{}}, nil
	} else if err != nil {
		return Account{Dropped: map[string]int64{}}, fmt.Errorf("the exchange counts in the outbox cannot be read; run the command as the server's user, or correct the file modes: %w", err)
	}
	a, err := readAccount(path, "", running)
	if err != nil && !running {
		if _, walErr := os.Stat(path + "-wal"); errors.Is(walErr, fs.ErrNotExist) { // SQLite opens a read-only file without a log only as immutable
			a, err = readAccount(path, "&immutable=1", running)
		}
	}
	return a, err
}

// readAccount is like ReadAccount. flags are further parameters for SQLite's file URI.
func readAccount(path, flags string, running bool) (a Account, err error) {
	a.Dropped = map[string]int64{}
	path, err = filepath.Abs(path) // in a URI, a relative path would name a host
	if err != nil {
		return a, fmt.Errorf("read the outbox account: %w", err)
	}
	uri := url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(filepath.ToSlash(path), "/"), RawQuery: "mode=ro" + flags}
	c, err := sqlite.OpenConn(uri.String(), sqlite.OpenReadOnly, sqlite.OpenURI)
	if err != nil {
		return a, fmt.Errorf("read the outbox account: %w", err)
	}
	c.SetBusyTimeout(busyTimeout)
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := execute(c, "BEGIN"); err != nil {
		return a, err
	}
	tables, err := queryInt(c, "SELECT count(*) FROM sqlite_master WHERE name = 'account'")
	if err == nil && tables == 0 { // precept was killed before the first commit
		return a, nil
	}
	n, err := readCounts(c)
	if err != nil {
		return a, fmt.Errorf("read the outbox account: %w", err)
	}
	openTurns, err := queryInt(c, "SELECT count(*) FROM begun")
	if err != nil {
		return a, fmt.Errorf("read the outbox account: %w", err)
	}
	return n.account(openTurns, running), execute(c, "COMMIT")
}
