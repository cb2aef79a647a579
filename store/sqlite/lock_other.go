//go:build !unix

package sqlite

import (
	"errors"
	"io"
)

// Lock returns an error, because this package cannot lock on this system.
func Lock(string) (io.Closer, error) {
	return nil, errors.New("locking a data directory is not supported on this system")
}
