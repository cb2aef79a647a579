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

// Options says where the store lies and how it behaves.
type Options struct {
	Path string // of the database file; its directory is made when missing
	// ReadOnly opens what is there beside a running server, without writing a byte of it.
	ReadOnly bool
	// Now names the file that is set aside when it turns out to be garbage. Nothing else here has a
	// clock.
	Now func() time.Time
	// BusyTimeout bounds the wait for a lock that another process holds (2 s). A context may bound
	// it further.
	BusyTimeout time.Duration
	// MaxParked bounds the early feedback of one tenant that waits, in entries (100,000). For all
	// tenants together there are twice as many places.
	MaxParked int
	// MaxFeedback bounds a session's set of feedback, and what waits for one key
	// (session.MostFeedback).
	MaxFeedback int
}

// Store is the embedded store. It is safe for concurrent use.
type Store struct {
	opt    Options
	uri    string // of the connections for reads
	notice string
	was    int    // the schema before the opening
	guard  *guard // nil when read-only

	write   chan *conn    // holds the one writing connection while nobody writes
	readers chan struct{} // one for each read that may begin
	idle    chan *conn    // reading connections that nobody reads from
	closed  chan struct{}
	once    sync.Once // of Close
	tenants tenantNames
	newest  generation // of echoes
	packer  packer
}

// Open opens the store at o.Path, makes it when there is none, and brings an older schema up to
// date.
//
// A file that is no database, or damaged beyond reading, is renamed to <name>.corrupt-<time> and a
// fresh one is made; Notice then says so. Another program's database, and one of a newer release,
// are refused and left alone.
func Open(ctx context.Context, o Options) (*Store, error) {
	o = defaults(o)
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, fmt.Errorf("sqlite: open %s: %w", o.Path, err)
	}
	o.Path = path
	// OFD locks survive the closing of another descriptor of the same file in this process; POSIX
	// locks would vanish. Where the system has none, the driver goes on with POSIX locks.
	_, _ = sqlite.OFDLocking(true)
	var s *Store
	if o.ReadOnly {
		s, err = openReadOnly(ctx, o)
	} else if s, err = openWriter(ctx, o); errors.Is(err, ErrCorrupt) {
		s, err = beginAnew(ctx, o, err)
	}
	if err != nil {
		return nil, fmt.Errorf("sqlite: open %s: %w", o.Path, explain(classify(err), o.ReadOnly))
	}
	return s, nil
}

// beginAnew sets a damaged file aside and makes a fresh one.
func beginAnew(ctx context.Context, o Options, damage error) (*Store, error) {
	aside, err := setAside(o.Path, o.Now())
	if err != nil {
		return nil, fmt.Errorf("%w; it could not be set aside: %w", damage, err)
	}
	s, err := openWriter(ctx, o)
	if err == nil {
		s.notice = fmt.Sprintf("%s: %v; it was set aside as %s and an empty store was begun", o.Path, damage, filepath.Base(aside))
	}
	return s, err
}

// Notice is what the operator must be told of the opening, "" when all was well.
func (s *Store) Notice() string { return s.notice }

// Upgraded says from which schema the opening brought the store to which one; to the same where
// there was nothing to do. An older release does not open what was upgraded.
func (s *Store) Upgraded() (from, to int) { return s.was, schemaVersion }

func defaults(o Options) Options {
	if o.BusyTimeout <= 0 {
		o.BusyTimeout = 2 * time.Second
	}
	if o.MaxParked <= 0 {
		o.MaxParked = 100_000
	}
	if o.MaxFeedback <= 0 {
		o.MaxFeedback = session.MostFeedback
	}
	return o
}

func openWriter(ctx context.Context, o Options) (*Store, error) {
	if err := prepareDir(o.Path); err != nil {
		return nil, err
	}
	// SQLite would apply a left-over WAL to whatever stands in the file, so garbage is looked for
	// before it is asked.
	if err := checkHeader(o.Path); err != nil {
		return nil, err
	}
	s := newStore(o, fileURI(o.Path, "rw"))
	if err := s.identify(ctx); err != nil {
		return nil, classify(err)
	}
	var c *conn
	err := s.retry(ctx, func() (err error) {
		if c, err = connect(ctx, fileURI(o.Path, "rwc"), writerSettings); err != nil {
			return err
		}
		if err = c.do(ctx, func() { s.begin(c) }); err != nil {
			err = errors.Join(err, c.close())
		}
		return err
	})
	if err != nil {
		return nil, classify(err)
	}
	if s.guard, err = newGuard(o.Path); err != nil {
		return nil, errors.Join(err, c.close())
	}
	s.write <- c
	return s, nil
}

// identify looks whose file it is before it is opened for writing, which turns the file into WAL
// mode at once.
func (s *Store) identify(ctx context.Context) error {
	// The file holds what people said to their agents: for the owner's eyes. The WAL takes the mode
	// over.
	f, err := os.OpenFile(s.opt.Path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	}
	info, err := f.Stat()
	if err := errors.Join(err, f.Close()); err != nil || info.Size() == 0 {
		return err
	}
	return s.retry(ctx, func() error {
		c, err := connect(ctx, fileURI(s.opt.Path, "ro"), readerSettings)
		if err != nil {
			return err
		}
		err = c.do(ctx, func() { version(c) })
		return errors.Join(err, c.close())
	})
}

// begin brings a new connection's file up to date and reads what memory holds of it.
func (s *Store) begin(c *conn) {
	s.was = migrate(c)
	probe(c)
	s.newest = newestGeneration(c)
}

func openReadOnly(ctx context.Context, o Options) (*Store, error) {
	if _, err := os.Stat(o.Path); err != nil {
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			err = e.Err // the path is told already
		}
		return nil, fmt.Errorf("%w: precept serve makes it, or name the right --data-dir (%w)", ErrMissing, err)
	}
	if err := checkHeader(o.Path); err != nil {
		return nil, err
	}
	try := func(uri string) (*Store, error) {
		s := newStore(o, uri)
		v, err := read(ctx, s, version)
		if err == nil && v < schemaVersion {
			err = fmt.Errorf("schema %d is older than this release's %d: start precept serve once to upgrade it", v, schemaVersion)
		}
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		return s, nil
	}
	s, err := try(fileURI(o.Path, "ro"))
	if _, wal := os.Stat(o.Path + "-wal"); err != nil && errors.Is(wal, os.ErrNotExist) {
		// A closed store in a directory where the WAL's index cannot be made: nobody writes, so it
		// can be read as it is.
		return try(fileURI(o.Path, "ro") + "&immutable=1")
	}
	return s, err
}

func newStore(o Options, uri string) *Store {
	s := &Store{
		opt: o, uri: uri, write: make(chan *conn, 1), closed: make(chan struct{}),
		readers: make(chan struct{}, maxReaders), idle: make(chan *conn, maxReaders),
	}
	for range maxReaders {
		s.readers <- struct{}{}
	}
	return s
}

// explain adds what to do to the errors that an operator meets at the start.
func explain(err error, readOnly bool) error {
	switch {
	case errors.Is(err, ErrReadOnly) && !readOnly:
		return fmt.Errorf("%w: make it writable for the user that runs precept, or name another with --data-dir", err)
	case errors.Is(err, session.ErrDiskFull):
		return fmt.Errorf("%w: make room for it", err)
	case errors.Is(err, ErrBusy):
		return fmt.Errorf("%w: close the program that has it open", err)
	case errors.Is(err, ErrCorrupt) && readOnly:
		return fmt.Errorf("%w: put a copy in its place, or start precept serve, which sets it aside and begins an empty one", err)
	}
	return err
}

// The settings, and why:
//   - journal_mode WAL: readers never wait for the writer, nor it for them.
//   - synchronous NORMAL: a commit is a write without an fsync. Killing the process loses nothing
//     and breaks nothing; a power cut may take the last transactions back, whole, never in part.
//     Who must be sure calls Sync.
//   - page_size 8 KiB: exchanges are 1 to 4 KiB; with pages of 4 KiB most would spill, with 16 KiB
//     small updates cost double.
//   - cache 4 MiB for the writer and 1 MiB a reader, no mmap: the idle program stays small, the
//     file cache does the rest.
//   - wal_autocheckpoint 1000 pages (8 MiB); journal_size_limit gives the space of a burst back.
//   - busy_timeout 0: SQLite would sleep without looking at a context; retry does the waiting.
//   - secure_delete: what is forgotten is overwritten, not only unlinked.
const (
	allSettings = `
PRAGMA temp_store = MEMORY;
PRAGMA trusted_schema = OFF;
`
	writerSettings = allSettings + `
PRAGMA page_size = 8192;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
PRAGMA cache_size = -4096;
PRAGMA wal_autocheckpoint = 1000;
PRAGMA journal_size_limit = 33554432;
PRAGMA secure_delete = ON;
`
	readerSettings = allSettings + `
PRAGMA cache_size = -1024;
PRAGMA query_only = ON;
`
)

// fileURI returns the address of the file for SQLite. mode is rwc, rw or ro.
func fileURI(path, mode string) string {
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: "mode=" + mode}
	return u.String()
}
