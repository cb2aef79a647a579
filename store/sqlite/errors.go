package sqlite

import (
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"

	"precept/internal/session"
)

// The store's errors, in addition to session.ErrInvalid, session.ErrParkingFull and session.ErrDiskFull. Test them with
// errors.Is. A write that returns one of them stored nothing.
var (
	// ErrBusy reports that another process holds the database lock. Retry the call later.
	ErrBusy = errors.New("the database is locked by another process")
	// ErrReadOnly reports that the file or the directory is not writable.
	ErrReadOnly = errors.New("the data directory is not writable")
	// ErrDisk reports an I/O error.
	ErrDisk = errors.New("precept cannot read from or write to the disk")
	// ErrCorrupt reports that the file is damaged or was replaced. After Close, Open renames the file, and creates an
	// empty one.
	ErrCorrupt = errors.New("the database file is damaged")
	// ErrNewer reports that a newer release has written the file.
	ErrNewer = errors.New("the database was written by a newer release")
	// ErrForeign reports that the file is another program's database.
	ErrForeign = errors.New("the file is another program's database")
	// ErrMissing reports that the file does not exist.
	ErrMissing = errors.New("the database does not exist yet")
	// ErrLocked reports that another process uses the data directory.
	ErrLocked = errors.New("the data directory is in use")
	// ErrClosed reports that the store was closed.
	ErrClosed = errors.New("the store is closed")

	errReading = errors.New("the store is being read")
)

func isBusy(err error) bool {
	code := sqlite.ErrCode(err).ToPrimary()
	return code == sqlite.ResultBusy || code == sqlite.ResultLocked || errors.Is(err, errReading)
}

func classifyError(err error) error {
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
