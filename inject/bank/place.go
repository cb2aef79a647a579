package bank

import (
	"context"
	"errors"

	"precept/inject/lesson"
)

// ErrChanged is the error of Commit if the texts of the place have changed since Read. The commit changes nothing.
var ErrChanged = errors.New("another program changed the lessons at the same time")

// Place stores the bytes of a bank. Names are relative, with slashes; the names of archived lessons
// begin with Archive.
type Place interface {
	// Read returns all texts, including archived texts.
	Read(ctx context.Context) (Reading, error)
	// Commit applies a whole change, or nothing and returns ErrChanged if the place has changed
	// since it was read.
	Commit(ctx context.Context, c Change) error
	// Tail returns the newest n events of the audit log, oldest first.
	Tail(ctx context.Context, n int) ([]lesson.Event, error)
	// Name returns the name of the place for people.
	Name() string
}

// Archive is the prefix of the names of archived lessons.
const Archive = lesson.ArchiveDir + "/"

// Reading is the content of a place.
type Reading struct {
	Texts    map[string][]byte
	Problems []lesson.Problem // problems of texts that are not in Texts
	Version  string           // changes with the active texts
}

// Change is one change of a place.
type Change struct {
	Version string // version of the Reading
	Edits   []Edit
	Index   func(old []byte) []byte // computes the new index from the old index; nil keeps the index
	Log     []lesson.Event
}

// Edit replaces the text of a name: Old is the text before the change, New the text after the change; nil is no text.
type Edit struct {
	Name     string
	Old, New []byte
}
