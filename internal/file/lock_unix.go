//go:build unix

package file

import (
	"errors"
	"os"
	"syscall"
)

// Lock waits until other holders of the file's lock are gone. It is free again when the file is
// closed.
func Lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX) }

// TryLock takes the file's lock, or answers with ErrHeld. It belongs to the open file, so it tells
// two holders in one process apart, too, and is free again when the file is closed.
func TryLock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return ErrHeld
	}
	return err
}

func own(f *os.File, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return nil //nolint:nilerr // there is no file yet
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		_ = f.Chown(int(st.Uid), int(st.Gid))
	}
	return nil
}
