//go:build !unix

package file

import (
	"errors"
	"os"
)

// Lock returns an error: this system has no file locks.
func Lock(*os.File) error { return errors.New("locking files is not supported on this system") }

// TryLock returns an error: this system has no file locks.
func TryLock(f *os.File) error { return Lock(f) }

// keepOwner does nothing: files have no numeric owners here.
func keepOwner(*os.File, string) error { return nil }
