//go:build !unix

package sqlite

import (
	"errors"
	"io"
)

// Lock returns an error: this system cannot keep two processes on one directory apart.
func Lock(string) (io.Closer, error) {
	return nil, errors.New("locking a data directory is not supported on this system")
}
