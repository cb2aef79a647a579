package lesson

import (
	"context"
	"io/fs"
	"path/filepath"
	"time"
)

// With the default times, a changed file becomes active within two seconds.
const (
	defaultPoll     = time.Second
	defaultDebounce = 100 * time.Millisecond
	maxSettle       = 500 * time.Millisecond // longest wait for the directory to stop changing
	rereads         = 2                      // number of polls after a change that read all texts again; see Watcher
)

// Watcher reloads a lesson directory when it changes. Only Run starts goroutines, and it waits for them to end. Set the
// fields before you call Run.
//
// Each poll walks the directory, unless the kernel watches the directory and has reported no change. A walk finds every
// change on every file system, including swapped links, as in a Kubernetes volume. A walk cannot distinguish two
// changes within one tick of the file system's clock, so the first polls after a change also read the texts.
type Watcher struct {
	Poll     time.Duration // time between polls; NewWatcher sets 1 s
	Debounce time.Duration // time without a change before a read; NewWatcher sets 100 ms
	// Events asks the kernel for changes. Keep Events false in a bubble of testing/synctest, which cannot wait for the
	// kernel.
	Events bool
	// OnPolling, if set, is called with the reason if kernel events fail. From then on, every poll walks the directory.
	OnPolling func(why error)
	// OnPanic, if set, is called after a panic during a reload. The book stays active.
	OnPanic func(value any)

	dir         string
	onBook      func(*Book, []Problem)
	texts       *Texts
	version     string // directory's version at the last read; "" before the first read
	rereadsLeft int    // number of further polls that read the texts even if the version is unchanged
	lastError   string // error from the last read; "" if the read succeeded
	events      events
}

// NewWatcher returns a watcher for a directory, which may be missing. Run calls onBook after the book or the problems
// have changed.
func NewWatcher(dir string, onBook func(*Book, []Problem), secrets ...SecretFinder) *Watcher {
	return &Watcher{
		Poll: defaultPoll, Debounce: defaultDebounce,
		dir: dir, onBook: onBook, texts: NewTexts(filepath.Clean(dir), secrets...),
	}
}

// ShareCache makes the watcher share parsed texts with other readers.
func (w *Watcher) ShareCache(p *ParseCache) { w.texts.ShareCache(p) }

// Load reads the directory. A later Run reports only changes since Load.
func (w *Watcher) Load() (*Book, []Problem, error) {
	book, problems, _, err := w.read()
	if err != nil {
		return nil, nil, err
	}
	return book, problems, nil
}

// Run loads the directory and calls onBook. It does so again after every change, until ctx ends. An unreadable
// directory does not end Run, because it may be readable a second later.
func (w *Watcher) Run(ctx context.Context) error {
	ticker := time.NewTicker(w.Poll)
	defer ticker.Stop()
	if w.Events {
		w.disableEventsOnError(w.events.open())
	}
	defer w.events.close()
	for {
		if w.events.isWalkDue() || w.rereadsLeft > 0 || w.lastError != "" {
			w.reload(ctx)
		}
		if !w.await(ctx, ticker.C) {
			return nil
		}
	}
}

// await waits for the next poll, and records kernel events. It returns false when ctx ends.
func (w *Watcher) await(ctx context.Context, poll <-chan time.Time) bool {
	changes, losses := w.events.channels()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-poll:
			return true
		case event := <-changes:
			w.events.record(event)
		case <-losses: //nolint:errcheck // each error means that reports were lost
			w.events.dirty = true
		}
	}
}

// disableEventsOnError turns kernel events off if err is not nil. The watcher then walks at every poll.
func (w *Watcher) disableEventsOnError(err error) {
	if err == nil {
		return
	}
	w.events.close()
	if w.OnPolling != nil {
		w.OnPolling(err)
	}
}

// reload calls onBook if the book or the problems have changed.
func (w *Watcher) reload(ctx context.Context) {
	defer func() {
		if v := recover(); v != nil && w.OnPanic != nil {
			w.OnPanic(v)
		}
	}()
	version := ""
	l, err := listDir(w.dir, func(*listing, string, fs.FileInfo) {})
	if err == nil {
		version = l.version()
		w.disableEventsOnError(w.events.watchFolders(l))
	}
	switch {
	case err != nil && err.Error() == w.lastError:
		return
	case err == nil && w.lastError == "" && version == w.version:
		if w.rereadsLeft == 0 {
			return
		}
		w.rereadsLeft--
	default:
		w.rereadsLeft = rereads
		if w.version != "" && !w.waitUnchanged(ctx, version) {
			return
		}
	}
	if book, problems, changed, _ := w.read(); changed { // the error is ignored, because it is among the problems
		w.onBook(book, problems)
	}
}

// waitUnchanged waits until the directory has not changed for the debounce time, but at most for maxSettle. Without
// this wait, a file could be read after an editor has truncated it and before the editor has written it. The result is
// false when ctx ends.
func (w *Watcher) waitUnchanged(ctx context.Context, version string) bool {
	for waited := time.Duration(0); waited < maxSettle; waited += w.Debounce {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(w.Debounce):
		}
		now, _ := DirVersion(w.dir)
		if now == version {
			break
		}
		version = now
	}
	return true
}

// read loads the texts, and reports whether the book or the problems have changed. After an error, the current book
// stays, and there is a problem for the directory.
func (w *Watcher) read() (book *Book, problems []Problem, changed bool, err error) {
	previousError := w.lastError
	texts, version, unreadable, err := ReadDir(w.dir)
	if err != nil {
		w.lastError = err.Error()
		book, problems = w.texts.Current()
		problems = append(problems, Problem{
			Path: w.dir, StorageUnreadable: true, PreviousActive: book.Len() > 0, Errors: ValidationErrors{{Code: CodeInternal, Message: w.lastError}},
		})
		return book, problems, w.lastError != previousError, err
	}
	w.version, w.lastError = version, "" // set before parsing; otherwise a panic would occur again at every poll
	_, _ = listDir(filepath.Join(w.dir, ArchiveDir), func(_ *listing, name string, _ fs.FileInfo) {
		texts[ArchiveDir+"/"+name] = nil // lessons can refer to archived names; the texts are not needed
	})
	book, problems, changed = w.texts.Load(texts, unreadable...)
	return book, problems, changed || previousError != "", nil
}
