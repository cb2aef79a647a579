package bank

import (
	"context"
	"strings"

	"precept/inject/lesson"
)

// Event actions for hand edits, which are a person's changes to lesson files without precept.
const (
	actionEdit   = "edit"
	actionCreate = "create"
	actionRemove = "remove"
	actionCommit = "commit" // git commit of an edit that is already in the log
)

const (
	maxHandEdits   = 64      // maximum number of edits that one RecordEdits call logs
	maxUnlogged    = 500     // if more lessons have no event, the directory is probably a copy, and they are not logged
	maxCompleteLog = 2000    // the oldest events of a longer log may have been removed
	allEvents      = 1 << 20 // more than any log has
)

// RecordEdits appends an event for each lesson that a person changed without precept. Such a lesson's text or state
// differs from the one in the lesson's newest event. before is the book from the previous call, or nil. origin returns
// a text's time and author; the text is nil for a removed lesson.
//
// pending is the number of edits that are left for a later call: edits without a git commit, and edits beyond
// maxHandEdits.
func (b *Bank) RecordEdits(
	ctx context.Context, before *lesson.Book, origin func(ctx context.Context, path string, text []byte) Origin,
) (book *lesson.Book, pending int, err error) {
	s, err := b.lockAndRead(ctx)
	if err != nil {
		return before, 0, err
	}
	edits, err := s.handEdits(ctx, before)
	if err != nil || len(edits) == 0 {
		return s.book, 0, err
	}
	origins := map[handEdit]Origin{} // read before the commit, because git may take seconds
	for _, h := range edits[:min(len(edits), maxHandEdits)] {
		var text []byte
		if h.action != actionRemove {
			text = s.texts[strings.TrimPrefix(h.path, s.storageName+"/")] // empty if the file was not read
		}
		origins[h] = origin(ctx, h.path, text)
	}
	err = b.update(ctx, func(s *snapshot) (c Change, err error) {
		pending, book = 0, s.book
		current, err := s.handEdits(ctx, before)
		for _, h := range current {
			o, known := origins[h]
			if !known || o.AwaitsCommit {
				pending++
			}
			if !known || h.action == actionCommit && o.Commit == "" {
				continue
			}
			e := lesson.Event{
				Time: o.Time, Action: h.action, Slug: h.slug, By: o.By, From: h.from, To: h.to, Hash: h.hash,
				Detail: map[string]any{lesson.DetailHandEdit: o.detail()},
			}
			if l, ok := s.book.Get(h.slug); ok {
				e.Source, e.Tenant, e.Agent = l.Approval.Source, l.Scope.Tenant, l.Scope.Agent
			}
			c.Log = append(c.Log, e)
		}
		return c, err
	})
	return book, pending, err
}

// detail returns where a person's edit was made, for the lesson.DetailHandEdit key of the event. The result is the id
// of the git commit, lesson.HandEditUncommitted for an uncommitted edit in a git repository, or
// lesson.HandEditOutsideGit.
func (o *Origin) detail() string {
	switch {
	case o.Commit != "":
		return o.Commit
	case o.AwaitsCommit:
		return lesson.HandEditUncommitted
	}
	return lesson.HandEditOutsideGit
}

// handEdit is a change that was made without precept and is not logged yet.
type handEdit struct {
	action, slug, path, hash string
	from, to                 lesson.State
}

// handEdits returns the changes made without precept. It compares each lesson with the lesson's newest event.
func (s *snapshot) handEdits(ctx context.Context, before *lesson.Book) (out []handEdit, err error) {
	events, err := s.bank.options.Storage.Tail(ctx, allEvents)
	if err != nil {
		return nil, err
	}
	newestBySlug := map[string]*lesson.Event{}
	for i := range events {
		if e := &events[i]; e.Hash != "" && e.Action != "refuse" {
			newestBySlug[e.Slug] = e
		}
	}
	var unlogged []handEdit
	for _, l := range s.book.Lessons() {
		h := handEdit{actionEdit, l.Slug, l.Path, l.ContentHash, "", l.State}
		e := newestBySlug[l.Slug]
		if e == nil {
			var old *lesson.Lesson
			changed := false
			if before != nil {
				old, _ = before.Get(l.Slug)
				changed = old == nil || old.ContentHash != l.ContentHash || old.State != l.State
			}
			if old == nil {
				h.action = actionCreate
			} else {
				h.from = old.State
			}
			if changed {
				out = append(out, h)
			} else {
				unlogged = append(unlogged, h)
			}
			continue
		}
		h.from = e.To
		switch {
		case e.Hash != l.ContentHash, e.To != l.State && e.To != lesson.Superseded:
			out = append(out, h)
		case e.Detail[lesson.DetailHandEdit] == lesson.HandEditUncommitted:
			h.action, h.from = actionCommit, l.State
			out = append(out, h)
		}
	}
	if len(events) < maxCompleteLog && len(unlogged) <= maxUnlogged { // if false, the log may have lost the events of these lessons
		out = append(out, unlogged...)
	}
	if before != nil {
		out = append(out, s.removedByHand(before, newestBySlug)...)
	}
	return out, nil
}

// removedByHand returns a removal for each lesson in before that no longer has a file.
func (s *snapshot) removedByHand(before *lesson.Book, newestBySlug map[string]*lesson.Event) (out []handEdit) {
	for _, l := range before.Lessons() {
		_, stays := s.book.Get(l.Slug)
		_, exists := s.texts[s.name(l)]
		e := newestBySlug[l.Slug]
		if stays || exists || s.book.Archived(l.Slug) || e != nil && (e.To == "" || e.To == lesson.Archived) {
			continue
		}
		out = append(out, handEdit{actionRemove, l.Slug, l.Path, l.ContentHash, l.State, ""})
	}
	return out
}

func (b *Bank) lockAndRead(ctx context.Context) (*snapshot, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.read(ctx)
}

// CautionChange is a measured change that turns advice into a caution (an approach to avoid) or back.
type CautionChange struct {
	Slug, Hash                    string
	Caution                       bool    // from advice to a caution
	SessionsWith, SessionsWithout int64   // rewarded sessions with and without the lesson
	MeanWith                      float64 // mean reward with the lesson
	MeanWithout                   float64 // mean reward without the lesson
}

// LoggedCautions returns the content hashes, by slug, of the lessons that are cautions according to the audit log.
func (b *Bank) LoggedCautions(ctx context.Context) (map[string]string, error) {
	events, err := b.options.Storage.Tail(ctx, allEvents)
	return loggedCautions(events), err
}

func loggedCautions(events []lesson.Event) map[string]string {
	out := map[string]string{}
	for i := range events {
		switch e := &events[i]; e.Action {
		case lesson.BecameCaution:
			out[e.Slug] = e.Hash
		case lesson.BecameAdvice:
			delete(out, e.Slug)
		}
	}
	return out
}

// RecordCautionChanges logs each change that is not logged yet. Several replicas can report the same change.
func (b *Bank) RecordCautionChanges(ctx context.Context, changes []CautionChange) error {
	return b.update(ctx, func(s *snapshot) (c Change, err error) {
		events, err := s.bank.options.Storage.Tail(ctx, allEvents)
		if err != nil {
			return c, err
		}
		logged := loggedCautions(events)
		for _, change := range changes {
			l, ok := s.book.Get(change.Slug)
			if !ok || l.ContentHash != change.Hash || (logged[change.Slug] == change.Hash) == change.Caution {
				continue
			}
			action := lesson.BecameAdvice
			if change.Caution {
				action = lesson.BecameCaution
			}
			c.Log = append(c.Log, s.event(l, lesson.Event{
				Action: action, By: "precept", From: l.State, To: l.State,
				Detail: map[string]any{
					lesson.DetailWith: change.SessionsWith, lesson.DetailWithout: change.SessionsWithout, "mean_with": change.MeanWith, "mean_without": change.MeanWithout,
				},
			}))
		}
		return c, nil
	})
}
