package sqlite

import (
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"

	"precept/internal/session"
)

// What can go wrong, for errors.Is, beside session.ErrInvalid, which never succeeds,
// session.ErrParkingFull and session.ErrDiskFull. Every write is one transaction: with any of
// these, nothing of it was stored.
var (
	// ErrBusy means that another process holds the database: keep the batch and try again later.
	ErrBusy = errors.New("the database is locked by another process")
	// ErrReadOnly means that the file or its directory cannot be written.
	ErrReadOnly = errors.New("the data directory cannot be written")
	// ErrDisk means that the disk fails.
	ErrDisk = errors.New("the disk fails")
	// ErrCorrupt means that the file is damaged, or was replaced under us: Close and Open again,
	// which sets it aside.
	ErrCorrupt = errors.New("the database file is damaged")
	// ErrNewer means that a newer release has written the file.
	ErrNewer = errors.New("the database was written by a newer release")
	// ErrForeign means that the file is a database of another program.
	ErrForeign = errors.New("the file is another program's database")
	// ErrMissing means that there is nothing to read yet.
	ErrMissing = errors.New("there is no database yet")
	// ErrLocked means that another process serves from the data directory.
	ErrLocked = errors.New("the data directory is in use")
	// ErrClosed means that the store was closed.
	ErrClosed = errors.New("the store is closed")

	// errReading means that a reader keeps the WAL from being folded in.
	errReading = errors.New("the store is being read")
)

func isBusy(err error) bool {
	code := sqlite.ErrCode(err).ToPrimary()
	return code == sqlite.ResultBusy || code == sqlite.ResultLocked || errors.Is(err, errReading)
}

// classify puts the sentinel that a caller acts upon before SQLite's own words.
func classify(err error) error {
	var kind error
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultBusy, sqlite.ResultLocked:
		kind = ErrBusy
	case sqlite.ResultReadOnly, sqlite.ResultCantOpen:
		kind = ErrReadOnly
	case sqlite.ResultIOErr:
		kind = ErrDisk
	case sqlite.ResultFull:
		kind = session.ErrDiskFull
	case sqlite.ResultCorrupt, sqlite.ResultNotADB:
		kind = ErrCorrupt
	default:
		return err
	}
	if errors.Is(err, kind) {
		return err
	}
	return fmt.Errorf("%w: %w", kind, err)
}
