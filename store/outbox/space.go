package outbox

import (
	"errors"
	"fmt"
	"os"

	"zombiezen.com/go/sqlite/sqlitex"
)

// Tidy removes unused pages beyond sparePages from the file. After RequestScrub, it removes all unused pages and
// empties the write-ahead log.
func (o *Outbox) Tidy() error {
	o.mu.Lock()
	scrub := o.needsScrub
	o.mu.Unlock()
	spare := int64(sparePages)
	if scrub {
		spare = 0
	}
	for {
		o.mu.Lock()
		n, err := o.vacuum(spare, vacuumPages)
		if err == nil && n == 0 && scrub {
			if err = o.checkpoint("TRUNCATE"); err == nil {
				o.needsScrub = false
			}
		}
		o.mu.Unlock()
		if err != nil || n == 0 {
			return classifyError(err)
		}
	}
}

// RequestScrub makes the next Tidy remove deleted rows' content from the file.
func (o *Outbox) RequestScrub() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.needsScrub = true
}

// FreeSpace deletes the ballast (a file that reserves disk space) and all unused pages, so that the store can write to
// a full disk.
func (o *Outbox) FreeSpace() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dropBallast()
	o.shrink()
}

// shrink removes all unused pages from the file. On a full disk, only the deleted ballast's space is free. Therefore
// each step removes a few pages, then copies the write-ahead log into the file. The caller holds mu.
func (o *Outbox) shrink() {
	for {
		n, err := o.vacuum(0, ballastBytes/pageBytes/4)
		if o.checkpoint("RESTART") != nil || err != nil || n == 0 {
			return
		}
	}
}

// vacuum removes at most maxPages unused pages, but leaves spare unused pages, and returns the number of removed pages.
// The caller holds mu.
func (o *Outbox) vacuum(spare, maxPages int64) (n int64, err error) {
	free, err := queryInt(o.writer, "PRAGMA freelist_count")
	if err != nil || free <= spare {
		return 0, err
	}
	n = min(free-spare, maxPages)
	return n, sqlitex.ExecuteTransient(o.writer, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", n), nil)
}

// checkpointForBallast copies the write-ahead log into the file if the new pages take more than half the ballast's
// size, because a full disk would have no room for a longer log. The caller holds mu.
func (o *Outbox) checkpointForBallast() error {
	pages, err := queryInt(o.writer, "PRAGMA page_count")
	if err != nil {
		return err
	}
	info, err := os.Stat(o.path)
	if err != nil || pages*pageBytes-info.Size() <= ballastBytes/2 {
		return err
	}
	return sqlitex.ExecuteTransient(o.writer, "PRAGMA wal_checkpoint(PASSIVE)", nil)
}

// trimLog truncates the write-ahead log to trimmedLogBytes, to get space for the ballast. The caller holds mu.
func (o *Outbox) trimLog() error {
	limit := func(n int) error {
		return sqlitex.ExecuteTransient(o.writer, fmt.Sprintf("PRAGMA journal_size_limit = %d", n), nil)
	}
	if err := errors.Join(limit(trimmedLogBytes), o.checkpoint("RESTART")); err != nil {
		return err
	}
	return errors.Join(o.setMeta("trimmed", o.now().String()), limit(logBytes)) // SQLite truncates the log at a commit
}

// checkpoint copies the write-ahead log into the file. After mode RESTART, SQLite overwrites the log from the start.
// Mode TRUNCATE also empties the log. checkpoint fails while another process reads the file.
func (o *Outbox) checkpoint(mode string) error {
	busy, err := queryInt(o.writer, "PRAGMA wal_checkpoint("+mode+")")
	if err == nil && busy != 0 {
		err = errors.New("outbox: another program is reading the file; precept copies the write-ahead log into the file later")
	}
	return err
}

// ensureBallast creates a missing ballast, and keeps the write-ahead log small enough for the ballast. The caller holds
// mu.
func (o *Outbox) ensureBallast() error {
	err := o.makeBallast()
	if err != nil && o.trimLog() == nil {
		err = o.makeBallast()
	}
	return classifyError(errors.Join(err, o.checkpointForBallast()))
}

// checkQuota returns ErrQuota if a flush does not fit into the quota. A flush without exchanges can exceed the quota by
// stateAllowance, and a flush with EarlierAccount by any size. The caller holds mu.
func (o *Outbox) checkQuota(f *Flush) error {
	used, err := o.usedBytes()
	if err != nil {
		return classifyError(err)
	}
	quota, exchanges := o.quota+stateAllowance, false
	for i := range f.Rows {
		used += int64(len(f.Rows[i].Document))
		exchanges = exchanges || f.Rows[i].Exchanges > 0
	}
	if exchanges {
		quota = o.quota
	}
	if used > quota && len(f.Rows) > 0 && f.EarlierAccount == nil {
		return ErrQuota
	}
	return nil
}

// The caller holds mu.
func (o *Outbox) usedBytes() (int64, error) {
	all, err := queryInt(o.writer, "PRAGMA page_count")
	if err != nil {
		return 0, err
	}
	free, err := queryInt(o.writer, "PRAGMA freelist_count")
	return (all - free) * pageBytes, err
}

// Bytes returns the rows' size on disk; 0 after an error.
func (o *Outbox) Bytes() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.writer == nil {
		return 0
	}
	n, err := o.usedBytes()
	if err != nil {
		return 0
	}
	return n
}

// ballastSuffix is the suffix for the ballast, a file that reserves disk space for deleting rows on a full disk.
const ballastSuffix = "-ballast"

const ballastBytes = 2 << 20

// The caller holds mu.
func (o *Outbox) makeBallast() error {
	if o.hasBallast {
		return nil
	}
	path := o.path + ballastSuffix
	if info, err := os.Stat(path); err != nil || info.Size() != ballastBytes {
		if err := os.WriteFile(path, make([]byte, ballastBytes), 0o600); err != nil {
			return errors.Join(err, os.Remove(path)) // a shorter file would reserve too little
		}
		o.hasBallast = true
		o.writeAccountCopy()
	}
	o.hasBallast = true
	return nil
}

// The caller holds mu.
func (o *Outbox) dropBallast() {
	if o.hasBallast {
		o.hasBallast = os.Remove(o.path+ballastSuffix) != nil
	}
}
