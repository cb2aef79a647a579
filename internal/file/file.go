// Package file reads regular files, replaces them in one step, and locks them against other
// processes.
//
// Contract: whoever reads a file that [Write] or [Replace] writes sees the old bytes or the new
// ones, never half of them, also after a crash; where the write fails, the old ones stay and
// nothing else is left behind. A lock ends with its process, however that ends: no stale lock is
// ever to be removed.
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

// ErrHeld says that another process, or another open file of this one, has the lock.
var ErrHeld = errors.New("the lock is held by another")

// Regular says why a path cannot be opened as a file. To open a named pipe, or to read a device,
// could wait for ever.
func Regular(path string) error {
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

// Read reads a regular file, and nothing else.
func Read(path string) ([]byte, error) {
	if err := Regular(path); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// Write replaces a file. See Replace.
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

// Replace puts what write writes into the place of a file, with that mode and, where this process
// may, with the owner of the file that was there: root must not take a file from its user. Missing
// folders are made, for the owner alone where the mode is.
func Replace(path string, mode fs.FileMode, write func(io.Writer) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	dir, folders := filepath.Dir(path), fs.FileMode(0o750)
	if mode&0o077 == 0 {
		folders = 0o700
	}
	if err := os.MkdirAll(dir, folders); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*") // hidden: watchers of the folder leave it alone
	if err != nil {
		return err
	}
	if err = write(f); err == nil {
		err = errors.Join(f.Chmod(mode), own(f, path), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
