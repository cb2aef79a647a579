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

// slowPoll is the number of polls that pass without a walk of the directory while the kernel
// reports changes. The walk after slowPoll polls finds what the kernel did not report.
const slowPoll = 30

// errNoEvents is the reason for polling if the kernel does not report the changes of a file system, such as
// a network mount that other machines write.
var errNoEvents = errors.New("the file system does not report changes")

// events receives the kernel's reports of changes, and decides when the watcher has to walk its
// directory. Walking a directory of 10,000 lessons each second takes 5 % of a core; waiting for the
// kernel's events takes nothing.
//
// With the zero value, the directory is walked at each poll.
type events struct {
	kernel  *fsnotify.Watcher // nil: no events
	folders map[string]bool   // watched by kernel
	roots   []root            // compared at each poll
	dirty   bool              // the kernel reported a change, or began to watch a folder after the walk
	quiet   int               // polls since the last walk
}

// root is a path of which the kernel does not report every change: the directory itself, whose
// parents may be renamed, and the symbolic links in the directory, whose targets lie elsewhere.
type root struct {
	path string
	info fs.FileInfo // file info of the link's target
}

// open starts the kernel's events. The error is the reason why the kernel has no events.
func (e *events) open() error {
	kernel, err := fsnotify.NewWatcher()
	if err != nil {
		return explainEvents(err)
	}
	e.kernel, e.folders, e.dirty = kernel, map[string]bool{}, true
	return nil
}

// close ends the kernel's events; from then on the directory is walked at each poll.
func (e *events) close() {
	if e.kernel != nil {
		_ = e.kernel.Close() // an error of Close has no remedy
	}
	*e = events{}
}

// channels returns the channels of the kernel's events, nil without events.
func (e *events) channels() (chan fsnotify.Event, chan error) {
	if e.kernel == nil {
		return nil, nil
	}
	return e.kernel.Events, e.kernel.Errors
}

// record records an event. record removes the watch of a folder that was removed or renamed, because the name
// may belong to another folder at the next walk.
func (e *events) record(event fsnotify.Event) {
	if event.Has(fsnotify.Remove|fsnotify.Rename) && e.folders[event.Name] {
		e.unwatch(event.Name)
		e.dirty = true
	}
	if name := filepath.Base(event.Name); !isSkipped(name) {
		e.dirty = true
	}
}

// isWalkDue reports whether the directory is to be walked at this poll.
func (e *events) isWalkDue() bool {
	if e.kernel == nil {
		return true
	}
	moved := slices.ContainsFunc(e.roots, root.moved)
	if moved { // the watched folders lie elsewhere now
		for folder := range e.folders {
			e.unwatch(folder)
		}
	}
	e.quiet++
	if !moved && !e.dirty && e.quiet < slowPoll {
		return false
	}
	e.dirty, e.quiet = false, 0
	return true
}

// follow watches the folders of a walk. The error is the reason why polling is necessary.
func (e *events) follow(l *listing) error {
	if e.kernel == nil {
		return nil
	}
	e.roots = l.roots
	walked := make(map[string]bool, len(l.folders))
	for _, folder := range l.folders {
		walked[folder] = true
	}
	// Remove old watches before adding new ones: a renamed folder has one watch under both names.
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
			return explainEvents(err)
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
	_ = e.kernel.Remove(folder) // the kernel may have removed the watch before
	delete(e.folders, folder)
}

// moved reports whether the path now leads to another file or folder than at the last walk, or to a changed file.
func (r root) moved() bool {
	now, err := os.Stat(r.path)
	if exists, existed := err == nil, r.info != nil; !exists || !existed {
		return exists != existed
	}
	if !os.SameFile(now, r.info) {
		return true
	}
	return !now.IsDir() && (now.Size() != r.info.Size() || !now.ModTime().Equal(r.info.ModTime()) || changeTime(now) != changeTime(r.info))
}

// explainEvents names the setting that allows more watches.
func explainEvents(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("the limit of watched folders is reached; raise fs.inotify.max_user_watches: %w", err)
	case errors.Is(err, syscall.EMFILE):
		return fmt.Errorf("the limit of watchers is reached; raise fs.inotify.max_user_instances: %w", err)
	}
	return err
}
