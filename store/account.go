package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"precept/store/outbox"
)

// Account counts a data directory's exchanges since the directory was first used.
type Account = outbox.Account

var errOldSpool = errors.New("exchanges are still in an earlier release's spool; start `precept serve` to move them to the outbox") //nolint:gochecknoglobals // an error to compare with

// Account returns the current account; ok is false if there is no outbox.
func (s *Store) Account() (a Account, ok bool) {
	if s.deliverer.handoff.outbox == nil {
		return Account{Dropped: map[string]int64{}}, false
	}
	return s.deliverer.handoff.outbox.Account(), true
}

// ReadAccount is like outbox.ReadAccount. If only an earlier release's spool exists, it returns an error.
func ReadAccount(path string, running bool) (Account, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if old, _ := filepath.Glob(filepath.Join(filepath.Dir(path), oldSpoolDir, "*.spool")); len(old) > 0 {
			return Account{Dropped: map[string]int64{}}, errOldSpool
		}
	}
	return outbox.ReadAccount(path, running)
}
