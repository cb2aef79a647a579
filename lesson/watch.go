package lesson

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// The watcher's default times: a changed file is in force within poll + settle + reading, less than
// two seconds.
const (
	defaultPoll     = time.Second
	defaultDebounce = 100 * time.Millisecond
	maxSettle       = 500 * time.Millisecond // a writer that never rests is read all the same
	settleReads     = 2                      // polls after a change at which the changed files are read again
)

// Watcher keeps a directory of lessons in force. Constructing one starts nothing; Run does, and has
// stopped everything when it returns. The fields may be set before Run, not after.
//
// It notices changes in two ways. Notifications are quick but get lost: on network mounts, when the
// directory appears later, when a link is swapped (Kubernetes). The poll compares what it finds by
// name, size, times and inode, and misses only a change within the granularity of the file system's
// clock; so the files of a change are read again at the next polls.
type Watcher struct {
	Poll     time.Duration // how often the directory is looked at; 0: a second
	Debounce time.Duration // how long a change must rest before it is read; 0: 100 ms
	// Panicked is told of a panic in a step; nil: nobody. The step is over then, what was in force
	// stays, and the watcher goes on.
	Panicked func(step string, value any)

	dir    string
	onBook func(*Book, []Problem)
	loader *loader

	noNotify bool // polls only, as where notifications do not work

	notify *fsnotify.Watcher // nil: polls only
	dirty  map[string]bool   // files (relative) that a notification named or that changed lately
	young  map[string]int    // files that changed, and at how many more polls they are read again
	fault  string            // of the directory, as told last
	loaded bool              // by Load
}

// NewWatcher makes a watcher of a directory that calls onBook, from Run's goroutine, with every new
// book and everything that is wrong with the files, and also when only the list of problems
// changed. A directory that is missing is an empty book until it appears.
func NewWatcher(dir string, onBook func(*Book, []Problem), secrets ...Secrets) *Watcher {
	return &Watcher{
		Poll: defaultPoll, Debounce: defaultDebounce,
		dir: dir, onBook: onBook, loader: newLoader(dir, secrets...), dirty: map[string]bool{}, young: map[string]int{},
	}
}

// Load reads the directory before Run does, which then tells of what has changed since.
func (w *Watcher) Load() (*Book, []Problem, error) {
	book, problems, err := w.loader.load(nil)
	if err != nil {
		w.fault = err.Error()
	}
	w.loaded = true
	return book, problems, err
}

// Run loads the directory, calls back, and keeps doing so on every change until ctx is done. It
// returns nil then; there is no other way for it to end, because a directory that cannot be read
// today may be readable in a second.
func (w *Watcher) Run(ctx context.Context) error {
	if w.Poll <= 0 {
		w.Poll = defaultPoll
	}
	if w.Debounce <= 0 {
		w.Debounce = defaultDebounce
	}
	if !w.noNotify {
		w.notify, _ = fsnotify.NewWatcher() // out of inotify instances: the poll has to do
	}
	if w.notify != nil {
		defer w.notify.Close() //nolint:errcheck // nothing to be done about it
	}
	w.guard(func() {
		w.watchDirs()
		if !w.loaded || w.changed() { // what changed before it was watched
			w.reload(nil)
		}
	})
	ticker := time.NewTicker(w.Poll)
	defer ticker.Stop()
	events, faults := w.channels()
	for {
		select {
		case <-ctx.Done():
			return nil
		case ev := <-events:
			if !w.note(ev) {
				continue
			}
		case err := <-faults:
			if !errors.Is(err, fsnotify.ErrEventOverflow) { // then anything may have changed; of the rest the poll learns
				continue
			}
		case <-ticker.C:
			changed := false
			w.guard(func() { changed = w.changed() })
			if !changed && len(w.young) == 0 {
				continue
			}
			w.rereadYoung()
		}
		w.guard(func() {
			if w.settle(ctx, events) {
				w.watchDirs()
				w.reload(w.dirty)
			}
		})
	}
}

// guard runs one step. No panic of it may end the program: what was in force stays.
func (w *Watcher) guard(step func()) {
	defer func() {
		if v := recover(); v != nil {
			clear(w.dirty) // what it was about is not read for ever
			if w.Panicked != nil {
				w.Panicked("lessons", v)
			}
		}
	}()
	step()
}

func (w *Watcher) channels() (<-chan fsnotify.Event, <-chan error) {
	if w.notify == nil {
		return nil, nil
	}
	return w.notify.Events, w.notify.Errors
}

// note remembers which file a notification was about. It is false for files that are no lessons:
// the audit log, an editor's temporary files. What starts with two dots is a Kubernetes volume
// being swapped.
func (w *Watcher) note(ev fsnotify.Event) bool {
	name := filepath.Base(ev.Name)
	skipped := strings.HasPrefix(name, "_") || strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "..")
	if skipped || ev.Op == fsnotify.Chmod {
		return false
	}
	if rel, err := filepath.Rel(w.dir, ev.Name); err == nil {
		w.dirty[filepath.ToSlash(rel)] = true
	}
	return true
}

// settle waits until the directory has rested for the debounce time, so that a file is not read
// between truncate and write. It is false when ctx is done.
func (w *Watcher) settle(ctx context.Context, events <-chan fsnotify.Event) bool {
	last, _, _, _ := list(w.dir)
	for waited := time.Duration(0); waited < maxSettle; waited += w.Debounce {
		timer := time.NewTimer(w.Debounce)
		busy := false
		for resting := true; resting; {
			select {
			case <-ctx.Done():
				timer.Stop()
				return false
			case ev := <-events:
				busy = w.note(ev) || busy
			case <-timer.C:
				resting = false
			}
		}
		now, _, _, _ := list(w.dir)
		if !busy && maps.EqualFunc(last, now, func(x, y *entry) bool { return sameFile(x.info, y.info) }) {
			return true
		}
		last = now
	}
	return true
}

// changed compares the directory with what the bank has read.
func (w *Watcher) changed() bool {
	found, blind, _, err := list(w.dir)
	if err != nil {
		return err.Error() != w.fault
	}
	return w.fault != "" || w.loader.differs(found, blind)
}

// rereadYoung marks the files of the last changes as dirty, a few times.
func (w *Watcher) rereadYoung() {
	for rel, n := range w.young {
		w.dirty[rel] = true
		if n <= 1 {
			delete(w.young, rel)
		} else {
			w.young[rel] = n - 1
		}
	}
}

// reload brings the bank up to date and calls back when there is anything new.
func (w *Watcher) reload(dirty map[string]bool) {
	first := dirty == nil
	before := w.loader.state()
	book, problems, err := w.loader.load(dirty)
	for rel := range w.loader.files {
		if e := w.loader.files[rel]; e.fresh && !dirty[rel] && !first {
			w.young[rel] = settleReads
		}
	}
	clear(w.dirty)
	fault := ""
	if err != nil {
		fault = err.Error()
		book, _ = w.loader.assembled()
		problems = append(problems, unread(w.dir, CodeInternal, err, book.Len() > 0))
	}
	if first || fault != w.fault || w.loader.state() != before {
		w.onBook(book, problems)
	}
	w.fault = fault
}

// watchDirs asks for notifications of the directory and its subfolders. Adding one twice does
// nothing; those that are gone drop out by themselves.
func (w *Watcher) watchDirs() {
	if w.notify == nil {
		return
	}
	_ = w.notify.Add(w.dir)
	w.watchSubs(w.dir, 0)
}

func (w *Watcher) watchSubs(dir string, depth int) {
	items, err := os.ReadDir(dir)
	if err != nil || depth >= maxDirDepth {
		return
	}
	for _, item := range items {
		sub := filepath.Join(dir, item.Name())
		if strings.HasPrefix(item.Name(), ".") || strings.HasPrefix(item.Name(), "_") || !isDir(item, sub) {
			continue
		}
		if errors.Is(w.notify.Add(sub), fsnotify.ErrClosed) {
			return
		}
		w.watchSubs(sub, depth+1)
	}
}

func isDir(item fs.DirEntry, path string) bool {
	if item.Type()&fs.ModeSymlink == 0 {
		return item.IsDir()
	}
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
