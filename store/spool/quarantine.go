package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const (
	quarantineBytes = 8 << 20 // of a damaged stretch are kept for a person to look at
	quarantineDir   = "quarantine"
)

// quarantine copies a damaged stretch of a segment.
func quarantine(dir string, f *os.File, seg uint64, from, to int64) {
	place := filepath.Join(dir, quarantineDir)
	if os.MkdirAll(place, 0o700) != nil {
		return
	}
	b := make([]byte, min(to-from, quarantineBytes))
	n, _ := f.ReadAt(b, from)
	name := fmt.Sprintf("%016d-%d.bin", seg, from)
	_ = os.WriteFile(filepath.Join(place, name), b[:n], 0o600) // a copy for a person, no more
}

// quarantineSegment moves a segment of another log into the quarantine.
func quarantineSegment(dir, path string) {
	place := filepath.Join(dir, quarantineDir)
	if os.MkdirAll(place, 0o700) == nil {
		_ = os.Rename(path, filepath.Join(place, filepath.Base(path))) // what stays is read again, and does no harm
	}
}

// TidyQuarantine deletes what was set aside before a time.
func (l *Log) TidyQuarantine(before time.Time) {
	entries, err := os.ReadDir(filepath.Join(l.dir, quarantineDir))
	if err != nil {
		return
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.ModTime().Before(before) {
			_ = os.Remove(filepath.Join(l.dir, quarantineDir, e.Name())) // it is tried again
		}
	}
}

// EmptyQuarantine deletes everything that was set aside, a damaged checkpoint among it.
func (l *Log) EmptyQuarantine() error {
	err := os.Remove(filepath.Join(l.dir, damagedCursor))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, os.RemoveAll(filepath.Join(l.dir, quarantineDir)), l.dropHalves())
}

// dropHalves deletes what a crash left of checkpoints that were being written.
func (l *Log) dropHalves() error {
	halves, err := fs.Glob(os.DirFS(l.dir), halfCursor)
	for _, name := range append(halves, cursorName+".new") { // that of an earlier release, too
		if e := os.Remove(filepath.Join(l.dir, name)); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}
