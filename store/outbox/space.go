package outbox

import (
	"errors"
	"fmt"
	"os"

	"zombiezen.com/go/sqlite/sqlitex"
)

// Tidy frees the unused pages of the file beyond sparePages. After RequestScrub, Tidy frees all unused
// pages and empties the write-ahead log, because both may contain deleted text.
func (b *Outbox) Tidy() error {
	b.mu.Lock()
	scrub := b.scrub
	b.mu.Unlock()
	spare := int64(sparePages)
	if scrub {
		spare = 0
	}
	for {
		b.mu.Lock()
		n, err := b.vacuum(spare, vacuumPages)
		if err == nil && n == 0 && scrub {
			if err = b.checkpoint("TRUNCATE"); err == nil {
				b.scrub = false
			}
		}
		b.mu.Unlock()
		if err != nil || n == 0 {
			return classify(err)
		}
	}
}

// RequestScrub makes the next Tidy remove the text of deleted rows from the file.
func (b *Outbox) RequestScrub() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.scrub = true
}

// FreeSpace deletes the ballast and frees all unused pages, so that the store can write to a full disk.
func (b *Outbox) FreeSpace() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropBallast()
	b.shrink()
}

// shrink frees all unused pages. On a full disk a step may write no more than the size of the deleted
// ballast: each step frees few pages, then copies the write-ahead log into the file. The caller holds mu.
func (b *Outbox) shrink() {
	for {
		n, err := b.vacuum(0, ballastBytes/pageBytes/4)
		if b.checkpoint("RESTART") != nil || err != nil || n == 0 {
			return
		}
	}
}

// vacuum frees at most maxPages unused pages, leaves spare unused pages in the file, and returns the
// number of freed pages. The caller holds mu.
func (b *Outbox) vacuum(spare, maxPages int64) (n int64, err error) {
	free, err := number(b.writer, "PRAGMA freelist_count")
	if err != nil || free <= spare {
		return 0, err
	}
	n = min(free-spare, maxPages)
	return n, sqlitex.ExecuteTransient(b.writer, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", n), nil)
}

// checkpointForBallast copies the write-ahead log into the file if the log holds more new pages than
// half of the ballast. Without this step a full disk cannot be emptied: the log shrinks only if the file
// can grow by these pages. The caller holds mu.
func (b *Outbox) checkpointForBallast() error {
	pages, err := number(b.writer, "PRAGMA page_count")
	if err != nil {
		return err
	}
	info, err := os.Stat(b.path)
	if err != nil || pages*pageBytes-info.Size() <= ballastBytes/2 {
		return err
	}
	return sqlitex.ExecuteTransient(b.writer, "PRAGMA wal_checkpoint(PASSIVE)", nil)
}

// trimLog truncates the write-ahead log to trimmedLog, which suffices for the account, to get space for
// the ballast. The caller holds mu.
func (b *Outbox) trimLog() error {
	limit := func(n int) error {
		return sqlitex.ExecuteTransient(b.writer, fmt.Sprintf("PRAGMA journal_size_limit = %d", n), nil)
	}
	if err := errors.Join(limit(trimmedLog), b.checkpoint("RESTART")); err != nil {
		return err
	}
	return errors.Join(b.setMeta("trimmed", b.now().String()), limit(logBytes)) // SQLite truncates the log at a commit
}

// checkpoint copies the write-ahead log into the file. Mode RESTART reuses the log from its start, mode
// TRUNCATE empties the log. Another process that reads the file makes checkpoint return an error.
func (b *Outbox) checkpoint(mode string) error {
	busy, err := number(b.writer, "PRAGMA wal_checkpoint("+mode+")")
	if err == nil && busy != 0 {
		err = errors.New("outbox: another program is reading the file; the write-ahead log is written back later")
	}
	return err
}

// ensureBallast creates the ballast if the ballast is missing, and keeps the write-ahead log small
// enough for the ballast. The caller holds mu.
func (b *Outbox) ensureBallast() error {
	err := b.makeBallast()
	if err != nil && b.trimLog() == nil {
		err = b.makeBallast()
	}
	return classify(errors.Join(err, b.checkpointForBallast()))
}

// checkQuota returns ErrQuota if a flush does not fit into the quota. A flush without exchanges may exceed the
// quota by stateAllowance, and a flush with Carried by any size. The caller holds mu.
func (b *Outbox) checkQuota(f *Flush) error {
	used, err := b.usedBytes()
	if err != nil {
		return classify(err)
	}
	quota, exchanges := b.quota+stateAllowance, false
	for i := range f.Rows {
		used += int64(len(f.Rows[i].Document))
		exchanges = exchanges || f.Rows[i].Exchanges > 0
	}
	if exchanges {
		quota = b.quota
	}
	if used > quota && len(f.Rows) > 0 && f.Carried == nil {
		return ErrQuota
	}
	return nil
}

// usedBytes returns the number of bytes in used pages. The caller holds mu.
func (b *Outbox) usedBytes() (int64, error) {
	all, err := number(b.writer, "PRAGMA page_count")
	if err != nil {
		return 0, err
	}
	free, err := number(b.writer, "PRAGMA freelist_count")
	return (all - free) * pageBytes, err
}

// Bytes returns the number of bytes that the rows take on the disk.
func (b *Outbox) Bytes() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.writer == nil {
		return 0
	}
	n, err := b.usedBytes()
	if err != nil {
		return 0
	}
	return n
}

// BallastSuffix is the suffix of the ballast: a file beside the queue that reserves ballastBytes of disk
// space for deletions on a full disk.
const BallastSuffix = "-ballast"

const ballastBytes = 2 << 20

// makeBallast creates the ballast unless the ballast exists. The caller holds mu.
func (b *Outbox) makeBallast() error {
	if b.ballast {
		return nil
	}
	path := b.path + BallastSuffix
	if info, err := os.Stat(path); err != nil || info.Size() != ballastBytes {
		if err := os.WriteFile(path, make([]byte, ballastBytes), 0o600); err != nil {
			return errors.Join(err, os.Remove(path)) // a shorter file would reserve too little
		}
		b.ballast = true
		b.writeHint()
	}
	b.ballast = true
	return nil
}

// dropBallast deletes the ballast. The caller holds mu.
func (b *Outbox) dropBallast() {
	if b.ballast {
		b.ballast = os.Remove(b.path+BallastSuffix) != nil
	}
}
