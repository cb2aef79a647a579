package bank

import (
	"context"
	"errors"

	"precept/inject/lesson"
)

// ErrChanged is the error of Commit if the texts of the storage have changed since Read. Commit then writes nothing.
var ErrChanged = errors.New("another program changed the lessons at the same time")

// Storage stores the texts of a bank under their names, the index and the audit log. A name is a relative path with
// slashes. The names of archived lessons begin with Archive.
type Storage interface {
	// Read returns all texts, including archived texts.
	Read(ctx context.Context) (Reading, error)
	// Commit applies a change. If the storage has changed since it was read, Commit applies nothing and returns
	// ErrChanged.
	Commit(ctx context.Context, c Change) error
	// Tail returns the newest n events of the audit log, oldest first.
	Tail(ctx context.Context, n int) ([]lesson.Event, error)
	// Name returns the name of the storage for messages.
	Name() string
}

// Archive is the prefix of the names of archived lessons.
const Archive = lesson.ArchiveDir + "/"

// Reading is the content of a storage.
type Reading struct {
	Texts    map[string][]byte
	Problems []lesson.Problem // problems of unreadable texts, which are not in Texts
	Version  string           // changes whenever a text outside of the archive changes
}

// Change is one change of a storage.
type Change struct {
	Version string // version of the Reading on which the change is based
	Edits   []Edit
	Index   func(old []byte) []byte // returns the new index; nil keeps the old index
	Log     []lesson.Event          // events to append to the audit log
}

// Edit replaces the text of a name. Old is nil for a new name, and New is nil for a removal.
type Edit struct {
	Name     string
	Old, New []byte
}
