// Package file reads regular files, replaces them atomically, and locks them against other processes.
//
// Contract: during [Write] or [Replace], and after a crash, a reader sees either the old bytes or the new bytes. A
// failed write keeps the old bytes and leaves no temporary file. A lock ends with its process, so no stale lock is
// left.
package file

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// ErrLocked means that another process, or another open file in this process, holds the lock.
var ErrLocked = errors.New("another process holds the lock")

// CheckRegular returns an error unless path is a regular file.
func CheckRegular(path string) error {
	switch info, err := os.Stat(path); {
	case err != nil:
		return err
	case info.IsDir():
		return &fs.PathError{Op: "open", Path: path, Err: syscall.EISDIR}
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", path)
	}
	return nil
}

// Read reads a regular file, and returns an error for other file types.
func Read(path string) ([]byte, error) {
	if err := CheckRegular(path); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// Write replaces a file's content with the parts, like Replace.
func Write(path string, mode fs.FileMode, parts ...[]byte) error {
	return Replace(path, mode, func(w io.Writer) error {
		for _, part := range parts {
			if _, err := w.Write(part); err != nil {
				return err
			}
		}
		return nil
	})
}

// Replace replaces a file's content with the text from write. The new file keeps the old owner where the system
// permits, so a command run by root does not take a file from its user. Replace creates missing folders. If only the
// owner may read the file, the same applies to these folders.
func Replace(path string, mode fs.FileMode, write func(io.Writer) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	dir, dirMode := filepath.Dir(path), fs.FileMode(0o750)
	if mode&0o077 == 0 {
		dirMode = 0o700
	}
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*") // hidden, so watchers ignore the file
	if err != nil {
		return err
	}
	if err = write(f); err == nil {
		err = errors.Join(f.Chmod(mode), keepOwner(f, path), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// Append adds text to a file in one write, so lines from several writers do not mix. If a crash truncated the last
// line, Append first ends that line. Append creates missing folders.
func Append(path string, mode fs.FileMode, text []byte) (err error) {
	if err := CheckRegular(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if size, err := f.Seek(0, io.SeekEnd); err == nil && size > 0 {
		last := []byte{0}
		if _, err := f.ReadAt(last, size-1); err == nil && last[0] != '\n' {
			text = append([]byte("\n"), text...)
		}
	}
	_, err = f.Write(text)
	return err
}
