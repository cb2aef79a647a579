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

// maxIdlePolls is the number of polls without kernel events after which the Watcher walks the directory anyway, because
// the kernel can miss a change.
const maxIdlePolls = 30

// errNoEvents means that the kernel does not report every change, for example on a network mount that other machines
// write to.
var errNoEvents = errors.New("the file system does not report changes")

// events receives change reports from the kernel, and decides at which polls the Watcher walks the directory. Walking
// 10,000 lessons each second would take 5 % of a core. After an error from open or watchFolders, the Watcher must walk
// at every poll.
//
// With the zero value, the Watcher walks at every poll.
type events struct {
	kernel    *fsnotify.Watcher // nil means no events
	folders   map[string]bool   // watched by the kernel
	roots     []root            // compared at each poll, because the kernel does not report changes to them
	dirty     bool              // walk at the next poll: a change was reported, or a folder was unwatched for some time
	idlePolls int               // polls since the last walk
}

// root is a path whose changes the kernel does not report. It is either the bank directory, whose parents can be
// renamed, or a symbolic link to a target elsewhere.
type root struct {
	path string
	info fs.FileInfo // the directory or the link's target; nil if missing
}

// open starts the kernel events.
func (e *events) open() error {
	kernel, err := fsnotify.NewWatcher()
	if err != nil {
		return explainWatchError(err)
	}
	e.kernel, e.folders, e.dirty = kernel, map[string]bool{}, true
	return nil
}

func (e *events) close() {
	if e.kernel != nil {
		_ = e.kernel.Close() // nothing can be done about an error
	}
	*e = events{}
}

// channels returns the kernel's channels, or nil channels without kernel events.
func (e *events) channels() (chan fsnotify.Event, chan error) {
	if e.kernel == nil {
		return nil, nil
	}
	return e.kernel.Events, e.kernel.Errors
}

// record makes the Watcher walk at the next poll, unless the event is about a file that a walk skips. record also stops
// watching a removed or renamed folder, because a new folder can take its name.
func (e *events) record(event fsnotify.Event) {
	if event.Has(fsnotify.Remove|fsnotify.Rename) && e.folders[event.Name] {
		e.unwatch(event.Name)
		e.dirty = true
	}
	if name := filepath.Base(event.Name); !isSkipped(name) {
		e.dirty = true
	}
}

// isWalkDue counts a poll, and reports whether the poll must walk.
func (e *events) isWalkDue() bool {
	if e.kernel == nil {
		return true
	}
	changed := slices.ContainsFunc(e.roots, root.changed)
	if changed { // a watched path may now lead to another folder
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

// watchFolders makes the kernel watch exactly the folders that the walk visited.
func (e *events) watchFolders(l *listing) error {
	if e.kernel == nil {
		return nil
	}
	e.roots = l.roots
	walked := make(map[string]bool, len(l.folders))
	for _, folder := range l.folders {
		walked[folder] = true
	}
	// Remove old watches first. The old and the new name of a renamed folder share one kernel watch, so removing the
	// old name later would also end the new watch.
	for folder := range e.folders {
		if !walked[folder] {
			e.unwatch(folder)
		}
	}
	for _, folder := range l.folders {
		if e.folders[folder] {
			continue
		}
		e.dirty = true // changes before this watch were not reported
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
	_ = e.kernel.Remove(folder) // the kernel may have removed it
	delete(e.folders, folder)
}

// changed reports whether, since the last walk, the file has changed or the path leads to a different file.
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

func explainWatchError(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("the limit on watched folders is reached; raise fs.inotify.max_user_watches: %w", err)
	case errors.Is(err, syscall.EMFILE):
		return fmt.Errorf("the limit on watchers is reached; raise fs.inotify.max_user_instances: %w", err)
	}
	return err
}
