package outbox

import (
	"errors"
	"fmt"
	"os"

	"zombiezen.com/go/sqlite/sqlitex"
)

// Tidy keeps the file small: many unused pages are freed, and all unused pages if deleted text must
// leave the file. The write-ahead log is then emptied as well, because the log may hold deleted
// text.
func (b *Outbox) Tidy() error {
	b.mu.Lock()
	scrub := b.scrub
	b.mu.Unlock()
	keep := int64(sparePages)
	if scrub {
		keep = 0
	}
	for {
		b.mu.Lock()
		n, err := b.vacuum(keep, vacuumPages)
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

// Scrub asks Tidy to take the text of deleted rows out of the file.
func (b *Outbox) Scrub() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.scrub = true
}

// YieldDisk leaves the room of a full disk to the store: YieldDisk gives up the ballast and frees every
// unused page.
func (b *Outbox) YieldDisk() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropBallast()
	b.shrink()
}

// shrink frees unused pages on a full disk, in steps that fit into the room of the ballast. Each
// step empties the write-ahead log. The caller holds mu.
func (b *Outbox) shrink() {
	for {
		n, err := b.vacuum(0, ballastBytes/pageBytes/4)
		if b.checkpoint("RESTART") != nil || err != nil || n == 0 {
			return
		}
	}
}

// vacuum frees at most most unused pages, leaves keep unused pages in the file, and returns the
// number of freed pages. The caller has mu.
func (b *Outbox) vacuum(keep, most int64) (n int64, err error) {
	free, err := number(b.writer, "PRAGMA freelist_count")
	if err != nil || free <= keep {
		return 0, err
	}
	n = min(free-keep, most)
	return n, sqlitex.ExecuteTransient(b.writer, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", n), nil)
}

// keepBallast ensures that the room of the ballast suffices for the pages that only the write-ahead log
// holds. Otherwise a full disk could not be emptied, because the log shrinks only when the file can
// grow. The caller holds mu.
func (b *Outbox) keepBallast() error {
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

// trim cuts the write-ahead log to the size that the account needs on a full disk. The caller holds
// mu.
func (b *Outbox) trim() error {
	limit := func(n int) error {
		return sqlitex.ExecuteTransient(b.writer, fmt.Sprintf("PRAGMA journal_size_limit = %d", n), nil)
	}
	if err := errors.Join(limit(trimmedLog), b.checkpoint("RESTART")); err != nil {
		return err
	}
	return errors.Join(b.setMeta("trimmed", b.now().String()), limit(logBytes)) // the log is cut at a commit
}

// checkpoint copies the write-ahead log into the file. Mode RESTART reuses the log from its start,
// mode TRUNCATE empties the log.
func (b *Outbox) checkpoint(mode string) error {
	busy, err := number(b.writer, "PRAGMA wal_checkpoint("+mode+")")
	if err == nil && busy != 0 {
		err = errors.New("outbox: another program is reading the file; the write-ahead log is written back later")
	}
	return err
}

// reserve makes sure that the ballast exists and suffices. The caller holds mu.
func (b *Outbox) reserve() error {
	err := b.makeBallast()
	if err != nil && b.trim() == nil {
		err = b.makeBallast()
	}
	return classify(errors.Join(err, b.keepBallast()))
}

// room reports whether a flush may be written. The caller has mu.
func (b *Outbox) room(f *Flush) error {
	used, err := b.usedBytes()
	if err != nil {
		return classify(err)
	}
	quota, exchanges := b.quota+overQuota, false
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

// Ballast is the suffix of the file that reserves room on the disk.
const Ballast = "-ballast"

const ballastBytes = 2 << 20

// makeBallast creates the ballast if the ballast is missing. The caller holds mu.
func (b *Outbox) makeBallast() error {
	if b.ballast {
		return nil
	}
	path := b.path + Ballast
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

// dropBallast releases the space of the ballast. The caller has mu.
func (b *Outbox) dropBallast() {
	if b.ballast {
		b.ballast = os.Remove(b.path+Ballast) != nil
	}
}
