// Package sqlite is the embedded store: sessions, echoes (keys for finding a session), exchanges, samples, feedback and
// counters in one SQLite file in WAL mode.
//
// A settlement closes a session and adds the reward to the counters. Parked feedback waits for a session that is not
// stored yet.
//
// Every write is one transaction, and every call ends when the context ends. Test errors with errors.Is. The caller can
// retry a write after ErrBusy, session.ErrDiskFull or an ended context, but not after session.ErrInvalid. After
// ErrCorrupt the caller opens the store again. Times have microsecond precision, in UTC.
//
// A commit does not sync the disk, so a power failure can undo the last transactions, each as a whole, unless Sync ran
// after them. If the context ends during a write, the write might still have been stored. The file must be on a local
// disk, because WAL mode needs shared memory and reliable locks.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	sqlite "modernc.org/sqlite"

	"precept/internal/session"
)

// Options holds the store's path and limits.
type Options struct {
	Path string // Open creates the directory if it is missing
	// ReadOnly opens an existing file only for reading, even while a server runs.
	ReadOnly bool
	// Now returns the time for a damaged file's name; the clock has no other use.
	Now func() time.Time
	// BusyTimeout is the longest wait for another process's lock; 0 means 2 s.
	BusyTimeout time.Duration
	// MaxParked limits one tenant's parked feedback entries; 0 means 100,000. All tenants together can have twice that
	// number.
	MaxParked int
	// MaxFeedback limits one session's feedback entries, and the entries parked under one key; 0 means
	// session.MaxFeedback.
	MaxFeedback int
}

// Store is the embedded store, safe for concurrent use.
type Store struct {
	options     Options
	readURI     string
	notice      string
	foundSchema int
	fileCheck   *fileIdentity // nil if the store is read-only

	writeConn chan *conn    // holds the write connection while no write runs
	readers   chan struct{} // a semaphore: each read takes a value and puts it back
	idle      idleConns     // open, unused read connections
	closed    chan struct{}
	closeOnce sync.Once
	tenants   tenantNames
	newestGen generation // generation (group of echoes) for new echoes; guarded by writeConn
	packer    packer
}

// Open opens the store at o.Path, creates the file if it is missing, and migrates an older schema.
//
// A file that is damaged or not a database is renamed to <name>.corrupt-<time> and replaced with an empty file; Notice
// reports this. A database from another program or a newer release is refused.
func Open(ctx context.Context, o Options) (*Store, error) {
	o = withDefaults(o)
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, fmt.Errorf("sqlite: open %s: %w", o.Path, err)
	}
	o.Path = path
	// POSIX locks are lost when the process closes another descriptor for the file, as fileCheck does. Not all systems
	// have OFD locks.
	_, _ = sqlite.OFDLocking(true)
	var s *Store
	if o.ReadOnly {
		s, err = openReadOnly(ctx, o)
	} else if s, err = openWriter(ctx, o); errors.Is(err, ErrCorrupt) {
		s, err = replaceDamaged(ctx, o, err)
	}
	if err != nil {
		return nil, fmt.Errorf("sqlite: open %s: %w", o.Path, addRemedy(classifyError(err), o.ReadOnly))
	}
	return s, nil
}

func replaceDamaged(ctx context.Context, o Options, damage error) (*Store, error) {
	aside, err := setAside(o.Path, o.Now())
	if err != nil {
		return nil, fmt.Errorf("%w; the file could not be renamed: %w", damage, err)
	}
	s, err := openWriter(ctx, o)
	if err == nil {
		s.notice = fmt.Sprintf("%s: %v; the file was renamed to %s, and an empty store was created", o.Path, damage, filepath.Base(aside))
	}
	return s, err
}

// Notice returns Open's message for the operator, or "".
func (s *Store) Notice() string { return s.notice }

// SchemaVersions returns the schema version found by Open, and this release's version.
func (s *Store) SchemaVersions() (from, to int) { return s.foundSchema, schemaVersion }

func withDefaults(o Options) Options {
	if o.BusyTimeout <= 0 {
		o.BusyTimeout = 2 * time.Second
	}
	if o.MaxParked <= 0 {
		o.MaxParked = 100_000
	}
	if o.MaxFeedback <= 0 {
		o.MaxFeedback = session.MaxFeedback
	}
	return o
}

func openWriter(ctx context.Context, o Options) (*Store, error) {
	if err := prepareDir(o.Path); err != nil {
		return nil, err
	}
	// checkHeader must run first, because SQLite would apply an old WAL to a file that is not a database.
	if err := checkHeader(o.Path); err != nil {
		return nil, err
	}
	s := newStore(o, fileURI(o.Path, "rw"))
	if err := s.checkFile(ctx); err != nil {
		return nil, classifyError(err)
	}
	var c *conn
	err := s.retry(ctx, func() (err error) {
		if c, err = connect(ctx, fileURI(o.Path, "rwc"), writerSettings); err != nil {
			return err
		}
		if err = c.do(ctx, func() { s.prepare(c) }); err != nil {
			err = errors.Join(err, c.close())
		}
		return err
	})
	if err != nil {
		return nil, classifyError(err)
	}
	if s.fileCheck, err = openIdentity(o.Path); err != nil {
		return nil, errors.Join(err, c.close())
	}
	s.writeConn <- c
	return s, nil
}

// checkFile reads the application id and the schema through a read-only connection, because a write connection would
// switch another program's file to WAL mode. A missing file is created with mode 0600.
func (s *Store) checkFile(ctx context.Context) error {
	// Only the owner may read the conversations in the file. SQLite creates the WAL with the same mode.
	f, err := os.OpenFile(s.options.Path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	}
	info, err := f.Stat()
	if err := errors.Join(err, f.Close()); err != nil || info.Size() == 0 {
		return err
	}
	return s.retry(ctx, func() error {
		c, err := connect(ctx, fileURI(s.options.Path, "ro"), readerSettings)
		if err != nil {
			return err
		}
		err = c.do(ctx, func() { readVersion(c) })
		return errors.Join(err, c.close())
	})
}

func (s *Store) prepare(c *conn) {
	s.foundSchema = migrate(c)
	checkTables(c)
	s.newestGen = newestGeneration(c)
}

func openReadOnly(ctx context.Context, o Options) (*Store, error) {
	if _, err := os.Stat(o.Path); err != nil {
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			err = e.Err // Open adds the path
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("the database cannot be read; run the command as the server's user, or correct the file modes (%w)", err)
		}
		return nil, fmt.Errorf("%w: start `precept serve` to create it, or correct --data-dir (%w)", ErrMissing, err)
	}
	if err := checkHeader(o.Path); err != nil {
		return nil, err
	}
	openURI := func(uri string) (*Store, error) {
		s := newStore(o, uri)
		v, err := read(ctx, s, readVersion)
		if err == nil && v < schemaVersion {
			err = fmt.Errorf("the database has schema %d, and this release needs %d: start `precept serve` once to upgrade the database", v, schemaVersion)
		}
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		return s, nil
	}
	s, err := openURI(fileURI(o.Path, "ro"))
	if _, walErr := os.Stat(o.Path + "-wal"); err != nil && errors.Is(walErr, os.ErrNotExist) {
		// The store is closed, and the directory does not allow the WAL's shared-memory file. Without a WAL there is no
		// writer, so the file can be read as immutable.
		return openURI(fileURI(o.Path, "ro") + "&immutable=1")
	}
	return s, err
}

func newStore(o Options, uri string) *Store {
	s := &Store{
		options: o, readURI: uri, writeConn: make(chan *conn, 1), closed: make(chan struct{}),
		readers: make(chan struct{}, maxReaders),
	}
	for range maxReaders {
		s.readers <- struct{}{}
	}
	return s
}

func addRemedy(err error, readOnly bool) error {
	switch {
	case errors.Is(err, ErrReadOnly) && !readOnly:
		return fmt.Errorf("%w: make the directory writable for the user that runs precept, or name another directory with --data-dir", err)
	case errors.Is(err, session.ErrDiskFull):
		return fmt.Errorf("%w: free disk space", err)
	case errors.Is(err, ErrBusy):
		return fmt.Errorf("%w: close the program that has the file open", err)
	case errors.Is(err, ErrCorrupt) && readOnly:
		return fmt.Errorf("%w: restore a copy of the file, or start `precept serve`, which renames the file and creates an empty database", err)
	}
	return err
}

// The connection settings:
//   - journal_mode WAL: readers and the writer do not wait for each other.
//   - synchronous NORMAL: a commit is a write without an fsync, and only a power failure can undo it.
//   - page_size 8 KiB: for exchanges of 1 to 4 KiB, smaller pages would need overflow pages, and larger pages double
//     the cost of small updates.
//   - cache_size 4 MiB for the writer and 1 MiB for a reader, no mmap: the system's file cache suffices.
//   - journal_size_limit truncates the WAL after a write burst.
//   - secure_delete: forgotten data is overwritten, not only unlinked.
const (
	commonSettings = `
PRAGMA temp_store = MEMORY;
PRAGMA trusted_schema = OFF;
`
	writerSettings = commonSettings + `
PRAGMA page_size = 8192;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
PRAGMA cache_size = -4096;
PRAGMA wal_autocheckpoint = 1000;
PRAGMA journal_size_limit = 33554432;
PRAGMA secure_delete = ON;
`
	readerSettings = commonSettings + `
PRAGMA cache_size = -1024;
PRAGMA query_only = ON;
`
)

func fileURI(path, mode string) string {
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: "mode=" + mode}
	return u.String()
}

const (
	// The names of the totals in Stats.
	totalSessions      = "sessions"
	totalExchanges     = "exchanges"
	totalExchangesEver = "exchanges_ever"
	totalSamples       = "samples"
	totalSamplesEver   = "samples_ever"
	totalFeedback      = "feedback"
	totalParked        = "parked"
	totalBytes         = "bytes"
)

// Stats returns the numbers of stored sessions, exchanges, samples, feedback and parked feedback. exchanges_ever and
// samples_ever include deleted ones. bytes is the total file size.
func (s *Store) Stats(ctx context.Context) (map[string]int64, error) {
	m, err := read(ctx, s, func(c *conn) map[string]int64 {
		m := map[string]int64{
			totalSessions: 0, totalExchanges: 0, totalExchangesEver: 0, totalSamples: 0, totalSamplesEver: 0,
			totalFeedback: 0, totalParked: 0,
		}
		for r := range c.query("SELECT name, n FROM totals") {
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
		info, err := os.Stat(s.options.Path + suffix)
		switch {
		case err == nil:
			m[totalBytes] += info.Size()
		case !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("sqlite: stats: %w", err)
		}
	}
	return m, nil
}

// Close waits for calls in progress, and closes the file.
func (s *Store) Close() error {
	var err error
	s.closeOnce.Do(func() {
		close(s.closed)
		err = s.close()
		s.packer.close()
	})
	if err != nil {
		return fmt.Errorf("sqlite: close: %w", err)
	}
	return nil
}

func (s *Store) close() error {
	for range maxReaders { // with all maxReaders values taken, no read is in progress, and none can begin
		<-s.readers
	}
	var all []*conn
	for c := s.idle.take(); c != nil; c = s.idle.take() {
		all = append(all, c)
	}
	if s.fileCheck != nil {
		all = append(all, <-s.writeConn)
		// If the file was replaced, closing the connections would write pages into the new file. Therefore they stay
		// open.
		if err := s.fileCheck.check(); err != nil {
			return err
		}
		defer s.fileCheck.close() //nolint:errcheck // the file was only read
	}
	var errs []error
	for _, c := range all {
		errs = append(errs, c.close())
	}
	return errors.Join(errs...)
}
