package lesson

import (
	"context"
	"io/fs"
	"path/filepath"
	"time"
)

// Default times of the watcher. A changed file becomes active after poll, debounce and read, within
// two seconds.
const (
	defaultPoll     = time.Second
	defaultDebounce = 100 * time.Millisecond
	maxSettle       = 500 * time.Millisecond // maximum wait for a writer that does not pause
	rereads         = 2                      // polls after a change at which all texts are read again
)

// Watcher reloads a directory of lessons when it changes. Only Run starts goroutines, and all of
// them have ended when Run returns. Set the fields before Run.
//
// The watcher polls. At each poll the watcher walks the directory, unless the kernel reports
// changes and has reported none, and reads the texts when the version of the directory has changed.
// The walk finds every way of changing a file on every file system, and links that are swapped
// (Kubernetes). A walk misses only a change within the granularity of the file system's clock, so
// the watcher reads the texts again at the polls after a change.
type Watcher struct {
	Poll     time.Duration // time between two polls: 1 s
	Debounce time.Duration // time without a further change before the texts are read: 100 ms
	// Events asks the kernel for reports of changes. Keep Events false in a bubble of testing/synctest,
	// which cannot wait for the kernel.
	Events bool
	// Polling is called once, with the reason, when the kernel does not report changes and every poll
	// walks the directory; nil means not called.
	Polling func(why error)
	// Panicked is called with the value of a panic in a walk; nil means not called. The book stays
	// active, and the watcher continues.
	Panicked func(value any)

	dir     string
	onBook  func(*Book, []Problem)
	texts   *Texts
	version string // version of the directory at the last read; "" before the first
	again   int    // number of polls at which to read again although the version is unchanged
	fault   string // last reported error about the directory
	events  events
}

// NewWatcher returns a watcher of a directory. The watcher calls onBook, on the goroutine of Run,
// with each new book and the problems of the files, even if only the problems changed. A missing
// directory is an empty book until it appears.
func NewWatcher(dir string, onBook func(*Book, []Problem), secrets ...Secrets) *Watcher {
	return &Watcher{
		Poll: defaultPoll, Debounce: defaultDebounce,
		dir: dir, onBook: onBook, texts: NewTexts(filepath.Clean(dir), secrets...),
	}
}

// Share makes the watcher use the texts that other readers of the directory have parsed.
func (w *Watcher) Share(p *Parsed) { w.texts.Share(p) }

// Load reads the directory before the first call of Run. Run then reports the changes since Load.
func (w *Watcher) Load() (*Book, []Problem, error) {
	book, problems, _, err := w.read()
	if err != nil {
		return nil, nil, err
	}
	return book, problems, nil
}

// Run loads the directory and calls onBook, and repeats both after every change. Run returns nil
// when ctx ends. An unreadable directory does not end Run, because the directory may be readable a
// second later.
func (w *Watcher) Run(ctx context.Context) error {
	ticker := time.NewTicker(w.Poll)
	defer ticker.Stop()
	if w.Events {
		w.pollOnly(w.events.open())
	}
	defer w.events.close()
	for {
		if w.events.isWalkDue() || w.again > 0 || w.fault != "" {
			w.reload(ctx)
		}
		if !w.await(ctx, ticker.C) {
			return nil
		}
	}
}

// await waits for the next poll and records the events of the kernel meanwhile. await returns false
// when ctx ends.
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
		case <-losses: //nolint:errcheck // whatever the error is, reports were lost
			w.events.dirty = true
		}
	}
}

// pollOnly switches to polling alone if err reports that the events of the kernel are unavailable or
// incomplete.
func (w *Watcher) pollOnly(err error) {
	if err == nil {
		return
	}
	w.events.close()
	if w.Polling != nil {
		w.Polling(err)
	}
}

// reload reads the directory if it has changed, and calls onBook if book or problems changed. A
// panic does not end the program: the active book stays.
func (w *Watcher) reload(ctx context.Context) {
	defer func() {
		if v := recover(); v != nil && w.Panicked != nil {
			w.Panicked(v)
		}
	}()
	version := ""
	l, err := list(w.dir, func(*listing, string, fs.FileInfo) {})
	if err == nil {
		version = l.version()
		w.pollOnly(w.events.follow(l))
	}
	switch {
	case err != nil && err.Error() == w.fault:
		return
	case err == nil && w.fault == "" && version == w.version:
		if w.again == 0 {
			return
		}
		w.again--
	default:
		w.again = rereads
		if w.version != "" && !w.waitUnchanged(ctx, version) {
			return
		}
	}
	if book, problems, changed, _ := w.read(); changed { // an error is among the problems
		w.onBook(book, problems)
	}
}

// waitUnchanged waits until the directory has not changed for the debounce time, so that a file is not
// read between truncate and write. waitUnchanged returns false when ctx ends.
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

// read loads the texts of the directory and reports whether book or problems changed. After an
// error the current book stays active.
func (w *Watcher) read() (book *Book, problems []Problem, changed bool, err error) {
	fault := w.fault
	texts, version, unread, err := ReadDir(w.dir)
	if err != nil {
		w.fault = err.Error()
		book, problems = w.texts.Current()
		problems = append(problems, Problem{
			Path: w.dir, Place: true, Kept: book.Len() > 0, Faults: Faults{{Code: CodeInternal, Message: w.fault}},
		})
		return book, problems, w.fault != fault, err
	}
	w.version, w.fault = version, "" // set before parsing, so that a text at which parsing panics is not parsed at every poll
	_, _ = list(filepath.Join(w.dir, ArchiveDir), func(_ *listing, name string, _ fs.FileInfo) {
		texts[ArchiveDir+"/"+name] = nil // lessons may refer to archived names; the archived texts are not needed
	})
	book, problems, changed = w.texts.Load(texts, unread...)
	return book, problems, changed || fault != "", nil
}
