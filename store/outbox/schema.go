package outbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

const schemaVersion = 1

// applicationID marks a SQLite file as a precept outbox: "prec" in ASCII.
const applicationID = 0x70726563

// schema creates the tables. This package assigns the sequence numbers, because SQLite would start again at 1 in an
// empty table. The begun table has the stubs for turns in progress.
const schema = `
CREATE TABLE outbox (
	sequence  INTEGER PRIMARY KEY,
	kind      INTEGER NOT NULL,
	tenant    TEXT    NOT NULL,
	session   BLOB    NOT NULL,
	exchanges INTEGER NOT NULL, -- number of exchanges in the document, for the account
	sum       INTEGER NOT NULL, -- CRC-32C of the other columns
	document  BLOB    NOT NULL
);
CREATE TABLE begun (
	id       TEXT PRIMARY KEY, -- id of the exchange
	tenant   TEXT NOT NULL,
	session  BLOB NOT NULL,
	document BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE account (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE optout_marks (name INTEGER PRIMARY KEY, turns INTEGER NOT NULL, items INTEGER NOT NULL, place INTEGER NOT NULL);
CREATE UNIQUE INDEX optout_places ON optout_marks (place);
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
`

// pageBytes is the page size. Most exchanges are 1 to 6 KiB long, and fit into one page.
const pageBytes = 8192

// SQLite truncates the write-ahead log to these sizes after a checkpoint.
const (
	logBytes        = 16 << 20
	trimmedLogBytes = 128 << 10 // size on a full disk
)

// pragmas returns the writing connection's pragmas:
//   - synchronous FULL: a commit returns when it is on the disk.
//   - auto_vacuum INCREMENTAL: a large file can shrink in steps, even on a full disk. It must be set before the first
//     table is created.
//   - secure_delete FAST: SQLite overwrites deleted text if this needs no extra disk access. Tidy removes the rest.
//   - wal_autocheckpoint 1000 pages (8 MiB): with a smaller value an append costs a fifth more.
func pragmas() []string {
	return []string{
		fmt.Sprintf("PRAGMA page_size = %d", pageBytes), "PRAGMA auto_vacuum = INCREMENTAL", "PRAGMA journal_mode = WAL",
		"PRAGMA synchronous = FULL", "PRAGMA secure_delete = FAST", "PRAGMA wal_autocheckpoint = 1000",
		fmt.Sprintf("PRAGMA journal_size_limit = %d", logBytes), "PRAGMA cache_size = -4096", "PRAGMA temp_store = MEMORY", "PRAGMA trusted_schema = OFF",
	}
}

var (
	// ErrNewer means that a later release wrote the file.
	ErrNewer = errors.New("the outbox was written by a newer precept release: upgrade precept, or let the newer release deliver the exchanges")
	// ErrQuota means that the queue has reached limits.outbox_bytes.
	ErrQuota = errors.New("the outbox has reached limits.outbox_bytes")
	// ErrFull means that the disk is full.
	ErrFull    = errors.New("the disk with the outbox is full")
	errClosed  = errors.New("the outbox is closed")
	errDamaged = errors.New("the outbox is damaged")
)

func classifyError(err error) error {
	switch code := sqlite.ErrCode(err); {
	case err == nil:
		return nil
	case code.ToPrimary() == sqlite.ResultFull || code == sqlite.ResultIOErrSHMSize ||
		errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w: %w", ErrFull, err)
	case code.ToPrimary() == sqlite.ResultCorrupt || code.ToPrimary() == sqlite.ResultNotADB:
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	return fmt.Errorf("outbox: %w", err)
}

func openWriter(path string) (c *sqlite.Conn, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) // the file contains conversations
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	if c, err = sqlite.OpenConn(path, sqlite.OpenReadWrite); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	c.SetBusyTimeout(busyTimeout)
	for _, pragma := range pragmas() {
		if err := sqlitex.ExecuteTransient(c, pragma, nil); err != nil {
			return nil, err
		}
	}
	id, err := queryInt(c, "PRAGMA application_id")
	if err != nil {
		return nil, err
	}
	v, err := queryInt(c, "PRAGMA user_version")
	switch {
	case err != nil:
		return nil, err
	case id == 0 && v == 0:
		return c, createTables(c)
	case id != applicationID:
		return nil, fmt.Errorf("%w: the file is another program's database", errDamaged)
	case v > schemaVersion:
		return nil, ErrNewer
	}
	return c, execute(c, postsTable)
}

func createTables(c *sqlite.Conn) (err error) {
	end, err := sqlitex.ImmediateTransaction(c)
	if err != nil {
		return err
	}
	defer end(&err)
	return sqlitex.ExecuteScript(c, schema+postsTable+fmt.Sprintf("; PRAGMA application_id = %d; PRAGMA user_version = %d;", applicationID, schemaVersion), nil)
}

// queryInt returns a query's integer result; 0 means no row.
func queryInt(c *sqlite.Conn, query string, args ...any) (n int64, err error) {
	err = sqlitex.Execute(c, query, &sqlitex.ExecOptions{Args: args, ResultFunc: func(s *sqlite.Stmt) error {
		n = s.ColumnInt64(0)
		return nil
	}})
	return n, err
}

func execute(c *sqlite.Conn, query string, args ...any) error {
	return sqlitex.Execute(c, query, &sqlitex.ExecOptions{Args: args})
}
