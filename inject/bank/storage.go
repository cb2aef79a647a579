package bank

import (
	"context"
	"errors"

	"precept/inject/lesson"
)

// ErrChanged is the error from Commit if the texts have changed since Read. Nothing is written.
var ErrChanged = errors.New("another program changed the lessons at the same time")

// Storage stores a bank's texts, index and audit log. A text's name is a relative path with slashes. The name of an
// archived text begins with Archive.
type Storage interface {
	// Read returns all texts, including archived texts.
	Read(ctx context.Context) (Contents, error)
	// Commit applies a change, or returns ErrChanged if the storage has changed since it was read.
	Commit(ctx context.Context, c Change) error
	// Tail returns the newest n audit log events, oldest first.
	Tail(ctx context.Context, n int) ([]lesson.Event, error)
	// Name returns the storage's name for messages.
	Name() string
}

// Archive is the prefix for archived lessons' names.
const Archive = lesson.ArchiveDir + "/"

// Contents is the content of a Storage at the time of a Read call.
type Contents struct {
	Texts    map[string][]byte
	Problems []lesson.Problem // about unreadable texts, which are not in Texts
	Version  string           // changes whenever an unarchived text changes
}

// Change is one change in a Storage.
type Change struct {
	Version string // Contents.Version from which the change was computed
	Edits   []Edit
	Index   func(old []byte) []byte // returns the new index; may be nil
	Log     []lesson.Event          // events to append
}

// Edit replaces a text. Old is nil for a new name, and New is nil for a removal.
type Edit struct {
	Name     string
	Old, New []byte
}
