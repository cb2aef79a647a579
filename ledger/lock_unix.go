//go:build unix

package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// lock keeps other writers of a folder's ledger out. The folder itself is locked: no file stays behind, and a writer that
// dies leaves nothing locked.
func lock(ctx context.Context, dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	timeout, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	ticker := time.NewTicker(lockEvery)
	defer ticker.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), f.Close())
		}
		select {
		case <-timeout.Done():
			return nil, errors.Join(fmt.Errorf("lock %s: other writers have held it for %s", dir, lockWait), f.Close())
		case <-ticker.C:
		}
	}
}

// own gives a new file the owner of the one that it replaces, where we may: root must not take a file from its user.
func own(f *os.File, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return nil //nolint:nilerr // there is no file yet
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && (int(st.Uid) != os.Getuid() || int(st.Gid) != os.Getgid()) {
		_ = f.Chown(int(st.Uid), int(st.Gid))
	}
	return nil
}
