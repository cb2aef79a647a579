//go:build unix

package file

import (
	"errors"
	"os"
	"syscall"
)

// Lock waits for the file's lock. Closing the file releases the lock.
func Lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX) }

// TryLock acquires the file's lock, or returns ErrLocked. The lock belongs to the open file, so a second open file in
// this process cannot acquire the lock. Closing the file releases the lock.
func TryLock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return ErrLocked
	}
	return err
}

func keepOwner(f *os.File, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return nil //nolint:nilerr// the file does not exist yet
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		_ = f.Chown(int(st.Uid), int(st.Gid))
	}
	return nil
}
