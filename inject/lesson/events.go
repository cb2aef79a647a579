package lesson

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/fsnotify/fsnotify"
)

// maxIdlePolls is the number of polls after which the directory is walked even if the kernel has reported no change.
// This walk finds changes that the kernel missed.
const maxIdlePolls = 30

// errNoEvents means that the kernel does not report every change to a file system. An example is a network mount to
// which other machines write. The watcher then walks the directory at each poll.
var errNoEvents = errors.New("the file system does not report changes")

// events receives the kernel's reports of changes, and decides at which polls the watcher walks its directory. Walking
// a directory of 10,000 lessons each second takes 5 % of a core, and waiting for the kernel's reports needs no CPU
// time.
//
// The zero value has no kernel events, and every poll walks the directory.
type events struct {
	kernel    *fsnotify.Watcher // nil means no events
	folders   map[string]bool   // folders that the kernel watches
	roots     []root            // paths whose changes the kernel does not report; compared at each poll
	dirty     bool              // the next poll walks: the kernel reported a change, or a folder may have changed before the kernel watched it
	idlePolls int               // polls since the last walk
}

// root is a path with changes that the kernel does not report: the bank directory, because its parents may be renamed,
// or a symbolic link in the directory, because its target is elsewhere.
type root struct {
	path string
	info fs.FileInfo // of the directory, or of the target of the link; nil if missing
}

// open starts to receive the kernel's events. The error is the reason why every poll has to walk the directory.
func (e *events) open() error {
	kernel, err := fsnotify.NewWatcher()
	if err != nil {
		return explainWatchError(err)
	}
	e.kernel, e.folders, e.dirty = kernel, map[string]bool{}, true
	return nil
}

// close stops receiving the kernel's events. Every later poll walks the directory.
func (e *events) close() {
	if e.kernel != nil {
		_ = e.kernel.Close() // nothing can be done about an error
	}
	*e = events{}
}

// channels returns the channels of the kernel's events and errors. They are nil if there are no kernel events.
func (e *events) channels() (chan fsnotify.Event, chan error) {
	if e.kernel == nil {
		return nil, nil
	}
	return e.kernel.Events, e.kernel.Errors
}

// record makes the next poll walk the directory, unless the event is about a file that a walk skips. A removed or
// renamed folder is no longer watched, because the next walk may find another folder with the same name.
func (e *events) record(event fsnotify.Event) {
	if event.Has(fsnotify.Remove|fsnotify.Rename) && e.folders[event.Name] {
		e.unwatch(event.Name)
		e.dirty = true
	}
	if name := filepath.Base(event.Name); !isSkipped(name) {
		e.dirty = true
	}
}

// isWalkDue counts a poll, and reports whether the watcher must walk the directory at this poll.
func (e *events) isWalkDue() bool {
	if e.kernel == nil {
		return true
	}
	changed := slices.ContainsFunc(e.roots, root.changed)
	if changed { // the paths of the watched folders may lead to other folders now
		for folder := range e.folders {
			e.unwatch(folder)
		}
	}
	e.idlePolls++
	if !changed && !e.dirty && e.idlePolls < maxIdlePolls {
		return false
	}
	e.dirty, e.idlePolls = false, 0
	return true
}

// watchFolders makes the kernel watch the folders that a walk found, and no others. The error is the reason why every
// poll has to walk the directory.
func (e *events) watchFolders(l *listing) error {
	if e.kernel == nil {
		return nil
	}
	e.roots = l.roots
	walked := make(map[string]bool, len(l.folders))
	for _, folder := range l.folders {
		walked[folder] = true
	}
	// Remove old watches before adding new ones: the kernel has one watch per folder, under the old and the new
	// name of a renamed folder.
	for folder := range e.folders {
		if !walked[folder] {
			e.unwatch(folder)
		}
	}
	for _, folder := range l.folders {
		if e.folders[folder] {
			continue
		}
		e.dirty = true // changes since the walk were not reported
		if !reportsChanges(folder) {
			return fmt.Errorf("%s: %w", folder, errNoEvents)
		}
		switch err := e.kernel.Add(folder); {
		case errors.Is(err, fs.ErrNotExist): // removed since the walk
		case err != nil:
			return explainWatchError(err)
		default:
			e.folders[folder] = true
		}
	}
	if len(l.folders) == 0 { // the directory is missing
		e.dirty = true
	}
	return nil
}

func (e *events) unwatch(folder string) {
	_ = e.kernel.Remove(folder) // the kernel may have removed the watch already
	delete(e.folders, folder)
}

// changed reports whether the path leads to another file or folder than at the last walk, or to a changed file.
func (r root) changed() bool {
	now, err := os.Stat(r.path)
	if exists, existed := err == nil, r.info != nil; !exists || !existed {
		return exists != existed
	}
	if !os.SameFile(now, r.info) {
		return true
	}
	return !now.IsDir() && (now.Size() != r.info.Size() || !now.ModTime().Equal(r.info.ModTime()) || changeTime(now) != changeTime(r.info))
}

// explainWatchError adds the remedy to an error about a limit of the kernel.
func explainWatchError(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("the limit of watched folders is reached; raise fs.inotify.max_user_watches: %w", err)
	case errors.Is(err, syscall.EMFILE):
		return fmt.Errorf("the limit of watchers is reached; raise fs.inotify.max_user_instances: %w", err)
	}
	return err
}
