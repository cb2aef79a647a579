//go:build !unix

package sqlite

import (
	"errors"
	"io"
)

// Lock returns an error, because this package has no lock for this system.
func Lock(string) (io.Closer, error) {
	return nil, errors.New("locking a data directory is not supported on this system")
}
