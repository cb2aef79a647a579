package bank

import (
	"bytes"
	"context"
	"errors"
	"path"
	"strings"
	"sync/atomic"

	"precept/inject/lesson"
)

type pendingWrite struct {
	ctx      context.Context //nolint:containedctx // context of the caller, who waits for the commit
	change   func(*snapshot) (Change, error)
	err      error // returned to the caller
	panicked any   // value of a panic in change
	done     bool  // guarded by Bank.mu
}

const (
	maxAttempts = 16  // attempts per commit if other programs change the bank
	maxWrites   = 512 // in one commit
)

// update commits the change that fn computes from a snapshot. fn runs again if the bank has changed in the meantime.
// Calls during a commit share the next commit, because it takes hardly longer to commit 300 lessons than one. Each call
// returns its own error.
func (b *Bank) update(ctx context.Context, fn func(*snapshot) (Change, error)) error {
	w := &pendingWrite{ctx: ctx, change: fn}
	b.queue.Lock()
	b.waiting = append(b.waiting, w)
	b.queue.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !w.done { // not committed by another caller
		b.queue.Lock()
		writes := b.waiting
		b.waiting = nil
		b.queue.Unlock()
		for len(writes) > 0 {
			n := b.commit(writes[:min(len(writes), maxWrites)]) //nolint:contextcheck // the commit has the contexts of all writes
			for _, w := range writes[:n] {
				w.done = true
			}
			writes = writes[n:]
		}
	}
	if w.panicked != nil {
		panic(w.panicked) // in the caller's goroutine
	}
	return w.err
}

// commit commits the first n writes in one step, and returns n. A write that changes the archive is the last in the
// commit, because the following writes need a new snapshot with the archived slugs.
func (b *Bank) commit(writes []*pendingWrite) (n int) {
	ctx, cancel := joinContexts(writes)
	defer cancel()
	err := ErrChanged
	for attempt := 0; attempt < maxAttempts && errors.Is(err, ErrChanged); attempt++ {
		n = len(writes)
		var s *snapshot
		if s, err = b.read(ctx); err != nil {
			break
		}
		combined := Change{Version: s.version}
		for i, w := range writes {
			c := w.run(s)
			combined.Edits, combined.Log = append(combined.Edits, c.Edits...), append(combined.Log, c.Log...)
			if !s.applyChange(c) {
				n = i + 1
				break
			}
		}
		if len(combined.Edits)+len(combined.Log) == 0 {
			break
		}
		if combined.Edits = mergeEdits(combined.Edits); len(combined.Edits) > 0 {
			combined.Index = b.index(s.texts)
		}
		err = b.options.Storage.Commit(ctx, combined)
	}
	for _, w := range writes[:n] {
		if w.err == nil {
			w.err = err
		}
	}
	return n
}

// joinContexts returns a context that ends when the contexts of all writes have ended.
func joinContexts(writes []*pendingWrite) (context.Context, context.CancelFunc) {
	if len(writes) == 1 {
		return context.WithCancel(writes[0].ctx)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(writes[0].ctx))
	var remaining atomic.Int64
	remaining.Store(int64(len(writes)))
	var stops []func() bool
	for _, w := range writes {
		stops = append(stops, context.AfterFunc(w.ctx, func() {
			if remaining.Add(-1) == 0 {
				cancel()
			}
		}))
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}

// run returns the change made by a write. After an error or a panic, the change is empty, and only this write's caller
// is affected.
func (w *pendingWrite) run(s *snapshot) (c Change) {
	defer func() {
		if w.panicked = recover(); w.panicked != nil {
			c, w.err = Change{}, errors.New("the change panicked")
		}
	}()
	if w.err = w.ctx.Err(); w.err != nil {
		return Change{}
	}
	if c, w.err = w.change(s); w.err != nil {
		return Change{}
	}
	for _, e := range c.Edits {
		if len(e.New) > lesson.MaxFileSize {
			w.err = newRefused(lesson.CodeInvalid, "", "%s has %d bytes, more than the %d allowed; shorten it", e.Name, len(e.New), lesson.MaxFileSize)
			return Change{}
		}
	}
	return c
}

// applyChange applies a change to the snapshot, for the next write in the commit. It returns false if the next write
// needs a new snapshot, which is the case after many texts, a removal or a change to the archive.
func (s *snapshot) applyChange(c Change) bool {
	const maxEdits = 8
	isComplete := len(c.Edits) <= maxEdits
	for _, e := range c.Edits {
		if old, exists := s.texts[e.Name]; exists && e.New != nil && bytes.Equal(old, e.New) {
			continue // already applied
		}
		if e.New == nil {
			delete(s.texts, e.Name)
		} else {
			s.texts[e.Name] = e.New
		}
		isComplete = isComplete && e.New != nil && !strings.HasPrefix(e.Name, Archive)
		if !isComplete {
			continue
		}
		l, err := lesson.Parse(s.storageName+"/"+e.Name, e.New)
		if err != nil {
			isComplete = false
			continue
		}
		if dir := path.Dir(e.Name); dir != "." {
			l.Category = dir
		}
		s.book = s.book.WithLessons(append(s.withoutFile(e.Name).book.Lessons(), l))
	}
	return isComplete
}

// mergeEdits merges the edits for each name into one edit, which has the first old text and the last new text.
func mergeEdits(edits []Edit) []Edit {
	index := map[string]int{}
	out := edits[:0:0]
	for _, e := range edits {
		i, seen := index[e.Name]
		if !seen {
			index[e.Name] = len(out)
			out = append(out, e)
			continue
		}
		out[i].New = e.New
	}
	return out
}
