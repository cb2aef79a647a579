package spool

import (
	"bytes"
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

// Overwrite puts other payloads into records of a kind at the given places: what must not stay
// there. with is given the old payload and returns the new one, which must not be longer and is
// filled up with spaces; nil leaves the record as it is. A record that is gone is left alone.
func (l *Log) Overwrite(kind byte, at []Place, with func(payload []byte) []byte) error {
	bySegment := map[uint64][]int64{}
	for _, p := range at {
		bySegment[p.Segment] = append(bySegment[p.Segment], p.Offset)
	}
	var errs []error
	for seg, offsets := range bySegment {
		if err := overwriteIn(segment{n: seg}.path(l.dir), kind, offsets, with); err != nil {
			errs = append(errs, fmt.Errorf("overwrite records of the spool: %w", err))
		}
	}
	return errors.Join(errs...)
}

func overwriteIn(path string, kind byte, offsets []int64, with func([]byte) []byte) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was read, and deleted
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for _, at := range offsets {
		if err := overwriteAt(f, kind, at, with); err != nil {
			return err
		}
	}
	return datasync(f)
}

func overwriteAt(f *os.File, kind byte, at int64, with func([]byte) []byte) error {
	head := make([]byte, frameHead)
	if _, err := f.ReadAt(head, at); err != nil {
		return err
	}
	_, _, size, err := readFrame(head)
	if err != nil && !errors.Is(err, errShort) {
		return nil //nolint:nilerr // its place was given back meanwhile
	}
	old := make([]byte, size)
	if _, err := f.ReadAt(old, at); err != nil {
		return err
	}
	k, payload, _, err := readFrame(old)
	if err != nil || k != kind {
		return nil //nolint:nilerr // the same
	}
	text := with(payload)
	if text == nil || len(text) > len(payload) {
		return nil
	}
	text = append(text, bytes.Repeat([]byte{' '}, len(payload)-len(text))...)
	_, err = f.WriteAt(AppendRecord(nil, kind, func(b []byte) []byte { return append(b, text...) }), at)
	return err
}
