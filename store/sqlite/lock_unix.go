//go:build unix

package sqlite

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Lock reserves a data directory for this process, until the lock is closed or the process ends. A second process gets
// ErrLocked. Stores with Options.ReadOnly need no lock.
func Lock(dir string) (io.Closer, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, addRemedy(fmt.Errorf("%w: %w", ErrReadOnly, err), false))
	}
	path := filepath.Join(dir, "lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, addRemedy(fmt.Errorf("%w: %w", ErrReadOnly, err), false))
	}
	// A flock belongs to the open file, so it also separates two stores in one process, and ends when the process
	// crashes.
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close() //nolint:errcheck // nothing was written to the file
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", dir, err)
		}
		return nil, fmt.Errorf("%w: %s is locked by %s; stop that process, or choose another directory with --data-dir", ErrLocked, dir, holder(f))
	}
	// The process id is for people. On a full disk the lock is valid without it.
	_ = errors.Join(f.Truncate(0), writeAt(f, strconv.Itoa(os.Getpid())+"\n"))
	return f, nil
}

func writeAt(f *os.File, s string) error {
	_, err := f.WriteAt([]byte(s), 0)
	return err
}

// holder returns the process named in the lock file, such as "process 42".
func holder(f *os.File) string {
	b := make([]byte, 32)
	n, _ := f.ReadAt(b, 0)
	if pid := strings.TrimSpace(string(b[:n])); pid != "" {
		return "process " + pid
	}
	return "another process"
}
