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
	asideBytes    = 8 << 20 // of a damaged stretch are kept for a person to look at
	quarantineDir = "quarantine"
)

// setAside copies a damaged stretch of a segment.
func setAside(dir string, f *os.File, seg uint64, from, to int64) {
	aside := filepath.Join(dir, quarantineDir)
	if os.MkdirAll(aside, 0o700) != nil {
		return
	}
	b := make([]byte, min(to-from, asideBytes))
	n, _ := f.ReadAt(b, from)
	name := fmt.Sprintf("%016d-%d.bin", seg, from)
	_ = os.WriteFile(filepath.Join(aside, name), b[:n], 0o600) // a copy for a person, no more
}

// moveAside takes a segment away that is none of ours.
func moveAside(dir, path string) {
	aside := filepath.Join(dir, quarantineDir)
	if os.MkdirAll(aside, 0o700) == nil {
		_ = os.Rename(path, filepath.Join(aside, filepath.Base(path))) // what stays is read again, and does no harm
	}
}

// TidyAside deletes what was set aside before a time.
func (l *Log) TidyAside(before time.Time) {
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

// DropAside deletes everything that was set aside, a damaged checkpoint among it.
func (l *Log) DropAside() error {
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
