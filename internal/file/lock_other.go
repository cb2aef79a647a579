//go:build !unix

package file

import (
	"errors"
	"os"
)

// Lock is not to be had on this system.
func Lock(*os.File) error { return errors.New("locking files is not supported on this system") }

// TryLock is not to be had on this system.
func TryLock(f *os.File) error { return Lock(f) }

func own(*os.File, string) error { return nil }
