package server

import (
	"io"
	"time"
)

// Tools are what the program takes from outside.
type Tools struct {
	Now    func() time.Time
	Random io.Reader // safe for concurrent use
}
