package bank

import (
	"context"
	"errors"

	"precept/inject/lesson"
)

// ErrChanged is a Place's answer to a change whose texts are no longer what it expects. Nothing was
// changed.
var ErrChanged = errors.New("the lessons were changed by somebody else meanwhile")

// Place is where a bank's bytes lie. Names are relative, with slashes; those of archived lessons
// begin with Archive.
type Place interface {
	// Read gives all texts, archived ones too.
	Read(ctx context.Context) (Reading, error)
	// Commit makes a change: all of it, or nothing with ErrChanged where the place is not what was
	// read.
	Commit(ctx context.Context, c Change) error
	// Tail gives the newest n events of the audit log, oldest first.
	Tail(ctx context.Context, n int) ([]lesson.Event, error)
	// Where names the place for people.
	Where() string
}

// Archive is what the names of archived lessons begin with.
const Archive = lesson.ArchiveDir + "/"

// Reading is a place as it was read.
type Reading struct {
	Texts    map[string][]byte
	Problems []lesson.Problem // what stands in the way of other texts
	Version  string           // changes with the texts in force
}

// Change is what one act does to a place.
type Change struct {
	Version string // of what was read
	Edits   []Edit
	Index   func(old []byte) []byte // makes the new index out of the old one; nil leaves it
	Log     []lesson.Event
}

// Edit gives a name another text. The place holds Old before (nil: nothing) and New after (nil:
// nothing).
type Edit struct {
	Name     string
	Old, New []byte
}
