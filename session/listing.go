package session

import (
	"errors"
	"time"
)

// ErrPlace means that a place in a list is none that the store gave.
var ErrPlace = errors.New("this place in the list is unknown; begin at its top")

// Stretch says which part of a list, newest first, is asked for.
type Stretch struct {
	Since, Until time.Time // Since <= when < Until; zero: no bound
	After        string    // Page.Next of the page before; "": from the newest on
	Most         int       // how many entries
}

// Page is a part of a list, newest first. A store looks at a bounded number of entries for a page:
// one may be empty, and there may be more all the same.
type Page[T any] struct {
	List []T
	Next string // where the list goes on; "": it has ended
}

// Listed is a session as lists show it: its row, and what the counters hold for it.
type Listed struct {
	Row
	Applied Applied
}
