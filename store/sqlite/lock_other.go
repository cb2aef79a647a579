//go:build !unix

package sqlite

import (
	"errors"
	"io"
)

// Lock is not to be had on this system: two processes on one directory cannot be kept apart here.
func Lock(string) (io.Closer, error) {
	return nil, errors.New("locking a data directory is not supported on this system")
}
