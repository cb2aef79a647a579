package bank

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"precept/inject/lesson"
	"precept/internal/file"
)

// lessonMode lets every user read the lessons, because they are not secret.
const lessonMode = 0o644

// Directory is a Storage on disk: LESSON.md files, index, audit log and archive.
type Directory string

// Name returns the directory's path.
func (d Directory) Name() string { return string(d) }

// Read returns the directory's texts.
func (d Directory) Read(context.Context) (Contents, error) {
	texts, version, problems, err := lesson.ReadDir(string(d))
	if err != nil {
		return Contents{}, err
	}
	old, _, more, err := lesson.ReadDir(filepath.Join(string(d), lesson.ArchiveDir))
	for name, text := range old {
		texts[Archive+name] = text
	}
	return Contents{texts, append(problems, more...), version}, err
}

// Commit applies a change under a directory lock. It writes new texts atomically before it removes old texts, so that a
// moved lesson always has a file.
func (d Directory) Commit(_ context.Context, c Change) error {
	err := d.commit(c)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("%w; make the directory writable for the user that runs precept, or set lessons to another directory", err)
	}
	return err
}

func (d Directory) commit(c Change) error {
	if err := os.MkdirAll(string(d), 0o750); err != nil {
		return fmt.Errorf("write the lessons: %w", err)
	}
	dir, err := os.Open(string(d))
	if err != nil {
		return fmt.Errorf("write the lessons: %w", err)
	}
	defer dir.Close() //nolint:errcheck // the file was only locked
	// Concurrent writers wait until dir is closed. On a file system without locks, the index may miss a concurrent
	// change.
	_ = file.Lock(dir)
	if now, err := lesson.DirVersion(string(d)); err != nil || now != c.Version {
		return errors.Join(ErrChanged, err)
	}
	for _, e := range c.Edits {
		if err := d.checkUnchanged(e); err != nil {
			return err
		}
	}
	if err := d.writeTexts(c.Edits); err != nil {
		return err
	}
	for _, e := range c.Edits {
		if e.New == nil {
			if err := os.Remove(d.path(e.Name)); err != nil {
				return fmt.Errorf("write the lessons: %w", err)
			}
		}
	}
	return d.writeLogAndIndex(c)
}

// maxParallelWrites is the number of files written in parallel. A disk syncs several files as fast as one.
const maxParallelWrites = 16

func (d Directory) writeTexts(edits []Edit) error {
	var group errgroup.Group
	group.SetLimit(maxParallelWrites)
	for _, e := range edits {
		if e.New != nil {
			group.Go(func() error { return file.Write(d.realPath(e.Name), lessonMode, e.New) })
		}
	}
	return group.Wait()
}

// writeLogAndIndex appends the events and rewrites the index, after the lessons are written.
func (d Directory) writeLogAndIndex(c Change) error {
	var err error
	if len(c.Log) > 0 {
		err = lesson.AppendLog(string(d), c.Log...)
	}
	if c.Index != nil {
		old, readErr := file.Read(d.path(lesson.IndexFile))
		if readErr != nil && !errors.Is(readErr, fs.ErrNotExist) {
			return errors.Join(err, readErr)
		}
		if index := c.Index(old); !bytes.Equal(index, old) {
			err = errors.Join(err, file.Write(d.path(lesson.IndexFile), lessonMode, index))
		}
	}
	if err != nil {
		return fmt.Errorf("the lessons were written, but the audit log or the index could not be written: %w", err)
	}
	return nil
}

// checkUnchanged returns ErrChanged if the current text differs from e.Old.
func (d Directory) checkUnchanged(e Edit) error {
	if !IsName(e.Name) {
		return fmt.Errorf("%q is not a lesson file name", e.Name)
	}
	now, err := file.Read(d.path(e.Name))
	if errors.Is(err, fs.ErrNotExist) && e.Old == nil {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write the lessons: %w", err)
	}
	if err != nil || e.Old == nil || !bytes.Equal(now, e.Old) {
		return ErrChanged
	}
	return nil
}

func (d Directory) path(name string) string {
	return filepath.Join(string(d), filepath.FromSlash(name))
}

// realPath returns the path of a text after it has followed symbolic links.
func (d Directory) realPath(name string) string {
	if real, err := filepath.EvalSymlinks(d.path(name)); err == nil {
		return real
	}
	return d.path(name)
}

const (
	tailBytes    = 1 << 20  // what Tail reads first
	maxTailBytes = 64 << 20 // the most that Tail reads
)

// Tail returns the newest n events, oldest first. It skips incomplete lines that a crash left.
func (d Directory) Tail(_ context.Context, n int) ([]lesson.Event, error) {
	err := file.CheckRegular(d.path(lesson.LogFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	f, err := os.Open(d.path(lesson.LogFile))
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	for length := int64(tailBytes); ; length *= 2 {
		raw, err := lastLines(f, size, length)
		if err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		var events []lesson.Event
		for line := range bytes.Lines(raw) {
			var e lesson.Event
			if json.Unmarshal(line, &e) == nil {
				events = append(events, e)
			}
		}
		if len(events) >= n || length >= min(size, maxTailBytes) {
			return events[max(0, len(events)-n):], nil
		}
	}
}

// lastLines returns the complete lines in the last length bytes of f.
func lastLines(f io.ReaderAt, size, length int64) ([]byte, error) {
	from := max(0, size-length)
	raw := make([]byte, size-from)
	if _, err := f.ReadAt(raw, from); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if from > 0 {
		_, raw, _ = bytes.Cut(raw, []byte("\n"))
	}
	return raw, nil
}

// IsName reports whether name is valid for a lesson, archived or not.
func IsName(name string) bool { return lesson.IsLessonPath(strings.TrimPrefix(name, Archive)) }
