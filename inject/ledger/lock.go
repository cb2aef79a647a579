package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"precept/internal/file"
)

// lock keeps other writers of a folder's ledger out. The folder itself is locked: no file stays
// behind.
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
		err := file.TryLock(f)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, file.ErrHeld) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), f.Close())
		}
		select {
		case <-timeout.Done():
			return nil, errors.Join(fmt.Errorf("lock %s: other writers have held it for %s", dir, lockWait), f.Close())
		case <-ticker.C:
		}
	}
}
