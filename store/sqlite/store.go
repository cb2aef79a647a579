// Package sqlite is the embedded store: sessions, echoes, exchanges, samples, feedback, counters
// and priors in one SQLite file in WAL mode.
//
// Store has the groups of methods that store/storetest declares, and passes its tests:
//
//	sessions  Session, FindEcho, Due, Write (one transaction, safe to repeat)
//	feedback  AddFeedback, Feedback, FeedbackEntry, SessionFeedback, Unsettled; Park, ParkedEntry, Join,
//	          PurgeParked for feedback that arrives before its exchange
//	counters  Applied, Settle (compare-and-swap of a version), Counters, Tenants
//	models    Raise, Maxima, Priors, PutPriors; Meta, InitMeta for values of the program
//	samples   Exchanges, SampleSession, EachSample, EachSession (walks of bounded memory)
//	lists     Newest, ListSamples, by pages
//	aside     SetAside, Readmit, DeadLetters, Unsampled (items at which a step panicked)
//	notes     SessionNote, TenantNote, EachNote, WriteNotes, Claim, ReleaseLease (for the distiller)
//	keeping   Forget, ForgetTenant, Retain, Stats, Sync, Close
//
// Open makes or opens the file, and renames a damaged file. Lock reserves a data directory for one
// process.
//
// Every write is one transaction, which is atomic even if the process is killed. Every call ends when its context
// ends. Test errors with errors.Is. After ErrBusy, session.ErrDiskFull and the end of a context the
// caller may repeat the write. After session.ErrInvalid a repetition fails again. After ErrCorrupt
// the caller opens the store again. Times have a precision of microseconds, and are in UTC.
//
// Hazards. A commit does not sync the disk. A power failure may undo the last transactions, each as a whole, unless
// Sync ran after them. A write whose context ended may still have been stored. Such a write can be repeated, and
// Settle has versions for this purpose. The file must be on a local disk, because WAL mode needs shared memory, and
// the file locks of network file systems are not reliable.
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

// Options holds the path of the store and its limits.
type Options struct {
	Path string // database file; Open makes a missing directory
	// ReadOnly opens an existing file while a server runs and writes nothing.
	ReadOnly bool
	// Now returns the time for the name of a damaged file that is set aside. The store has no other
	// clock.
	Now func() time.Time
	// BusyTimeout is the longest wait for the lock of another process; 0 means 2 s. A context may end the wait earlier.
	BusyTimeout time.Duration
	// MaxParked is the maximum number of parked feedback entries of one tenant; 0 means 100,000. The maximum for all
	// tenants together is twice this number.
	MaxParked int
	// MaxFeedback is the maximum number of feedback entries of one session, and of entries that are parked under one
	// key; 0 means session.MaxFeedback.
	MaxFeedback int
}

// Store is the embedded store. A Store is safe for concurrent use.
type Store struct {
	options     Options
	readURI     string        // URI of the file for connections for reads
	notice      string        // result of Notice
	foundSchema int           // schema version that Open found
	fileCheck   *fileIdentity // nil if the store is read-only

	writeConn chan *conn    // holds the connection for writes while no write runs
	readers   chan struct{} // holds one value for each read that may still begin, at most maxReaders
	idle      idleConns     // open connections for reads that are not in use
	closed    chan struct{}
	closeOnce sync.Once // guards Close
	tenants   tenantNames
	newestGen generation // generation to which new echoes are written; guarded by writeConn
	packer    packer
}

// Open opens the store at o.Path, makes a missing file, and migrates an older schema.
//
// If the file is not a database, or is damaged beyond reading, Open renames the file to <name>.corrupt-<time> and
// makes an empty one. Notice then reports this. Open refuses the database of another program or of a newer release,
// and leaves it unchanged.
func Open(ctx context.Context, o Options) (*Store, error) {
	o = withDefaults(o)
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, fmt.Errorf("sqlite: open %s: %w", o.Path, err)
	}
	o.Path = path
	// POSIX locks are lost when the process closes any other descriptor of the file, as fileCheck does. OFD locks are
	// not. A system without OFD locks uses POSIX locks.
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

// replaceDamaged sets a damaged file aside and makes an empty one.
func replaceDamaged(ctx context.Context, o Options, damage error) (*Store, error) {
	aside, err := setAside(o.Path, o.Now())
	if err != nil {
		return nil, fmt.Errorf("%w; the file could not be set aside: %w", damage, err)
	}
	s, err := openWriter(ctx, o)
	if err == nil {
		s.notice = fmt.Sprintf("%s: %v; the file was renamed to %s, and an empty store was created", o.Path, damage, filepath.Base(aside))
	}
	return s, err
}

// Notice returns a message of Open for the operator; "" means no message.
func (s *Store) Notice() string { return s.notice }

// SchemaVersions returns the schema version that Open found, and the schema version of this release. Older releases
// refuse a file that Open has migrated to this version.
func (s *Store) SchemaVersions() (from, to int) { return s.foundSchema, schemaVersion }

// withDefaults returns o, with default values for the limits that are not set.
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

// openWriter opens the store for reading and writing.
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

// checkFile reads the application id and the schema of the file through a read-only connection,
// because a connection for writing would switch the file of another program to WAL mode. A missing
// file is created with mode 0600.
func (s *Store) checkFile(ctx context.Context) error {
	// Only the owner may read the conversations in the file. SQLite gives the WAL the mode of the file.
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

// prepare migrates the database to this schema, checks that all tables can be read, and reads the
// number of the newest generation of echoes.
func (s *Store) prepare(c *conn) {
	s.foundSchema = migrate(c)
	checkTables(c)
	s.newestGen = newestGeneration(c)
}

// openReadOnly opens an existing store for reading.
func openReadOnly(ctx context.Context, o Options) (*Store, error) {
	if _, err := os.Stat(o.Path); err != nil {
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			err = e.Err // Open adds the path
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("the database cannot be read; run the command as the user of the server, or correct the modes (%w)", err)
		}
		return nil, fmt.Errorf("%w: precept serve makes it, or name the right --data-dir (%w)", ErrMissing, err)
	}
	if err := checkHeader(o.Path); err != nil {
		return nil, err
	}
	openURI := func(uri string) (*Store, error) {
		s := newStore(o, uri)
		v, err := read(ctx, s, readVersion)
		if err == nil && v < schemaVersion {
			err = fmt.Errorf("schema %d is older than this release's %d: start precept serve once to upgrade it", v, schemaVersion)
		}
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		return s, nil
	}
	s, err := openURI(fileURI(o.Path, "ro"))
	if _, walErr := os.Stat(o.Path + "-wal"); err != nil && errors.Is(walErr, os.ErrNotExist) {
		// The store is closed, and its directory does not allow the shared-memory file of the WAL.
		// Without a WAL there is no writer, and the file can be read as immutable.
		return openURI(fileURI(o.Path, "ro") + "&immutable=1")
	}
	return s, err
}

// newStore returns a store without connections; uri is the address for reads.
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

// addRemedy adds a remedy to an error of Open or Lock.
func addRemedy(err error, readOnly bool) error {
	switch {
	case errors.Is(err, ErrReadOnly) && !readOnly:
		return fmt.Errorf("%w: make the directory writable for the user that runs precept, or name another directory with --data-dir", err)
	case errors.Is(err, session.ErrDiskFull):
		return fmt.Errorf("%w: free disk space", err)
	case errors.Is(err, ErrBusy):
		return fmt.Errorf("%w: close the program that has the file open", err)
	case errors.Is(err, ErrCorrupt) && readOnly:
		return fmt.Errorf("%w: restore a copy of the file, or start precept serve, which sets the file aside and creates an empty database", err)
	}
	return err
}

// The settings of the connections:
//   - journal_mode WAL: readers and the writer do not wait for each other.
//   - synchronous NORMAL: a commit is a write without an fsync. If the process dies, nothing is lost. A power failure
//     may undo the last transactions, each as a whole. Sync calls fsync.
//   - page_size 8 KiB: exchanges have 1 to 4 KiB. Pages of 4 KiB would need overflow pages for most
//     of them, and pages of 16 KiB double the cost of small updates.
//   - cache_size 4 MiB for the writer and 1 MiB for a reader, no mmap: the idle program stays small,
//     and the file cache of the operating system suffices.
//   - wal_autocheckpoint 1000 pages (8 MiB); journal_size_limit truncates the WAL after a burst of writes.
//   - secure_delete: forgotten data is overwritten, not only unlinked.
//   - query_only for readers. A store with Options.ReadOnly also opens the file with mode=ro.
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

// fileURI returns the URI with which SQLite opens the file. mode is rwc, rw or ro.
func fileURI(path, mode string) string {
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: "mode=" + mode}
	return u.String()
}

// The keys of the result of Stats.
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

// Stats returns the numbers of stored sessions, exchanges, samples, feedback and parked feedback. exchanges_ever and
// samples_ever include deleted ones. bytes is the size of the files.
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

// Close waits for calls in progress, and closes the file. When the last process closes a store, SQLite copies the WAL
// into the file.
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

// close closes all connections, after all reads and the running write have ended.
func (s *Store) close() error {
	for range maxReaders { // after maxReaders values no read is in progress, and none can begin
		<-s.readers
	}
	var all []*conn
	for c := s.idle.take(); c != nil; c = s.idle.take() {
		all = append(all, c)
	}
	if s.fileCheck != nil {
		all = append(all, <-s.writeConn)
		// If the file was replaced, closing the connections would write pages into the new file. They therefore stay
		// open.
		if err := s.fileCheck.check(); err != nil {
			return err
		}
		defer s.fileCheck.close() //nolint:errcheck // a file that was only read
	}
	var errs []error
	for _, c := range all {
		errs = append(errs, c.close())
	}
	return errors.Join(errs...)
}
