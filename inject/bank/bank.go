package bank

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"precept/inject/lesson"
)

// ErrNoLesson is the error for a slug without a lesson, or with a lesson that the caller may not
// know of.
var ErrNoLesson = errors.New("there is no such lesson")

// ErrTooMany is the error of a write beyond the limits of the caller, or of the approval queue.
var ErrTooMany = errors.New("too many lessons were written; wait, or have those that wait approved or rejected")

// Refused is the error of a lesson that the checks refuse.
type Refused struct{ Faults lesson.Faults }

// Error lists the faults.
func (r *Refused) Error() string { return r.Faults.Error() }

// Unwrap gives the faults.
func (r *Refused) Unwrap() error { return r.Faults }

func refuse(code lesson.Code, field, format string, args ...any) error {
	return &Refused{lesson.Faults{{Code: code, Field: field, Message: fmt.Sprintf(format, args...)}}}
}

// Limits limit the writes of programs, so that one credential cannot flood the approval queue. Zero
// means the default.
type Limits struct {
	AgentHour  int // writes of one agent per hour (60)
	TenantHour int // writes of one tenant per hour (300)
	Waiting    int // lessons of one tenant in the approval queue (500)
}

func (l Limits) orUsual() Limits {
	return Limits{cmp.Or(l.AgentHour, 60), cmp.Or(l.TenantHour, 300), cmp.Or(l.Waiting, 500)}
}

// Options configure a bank.
type Options struct {
	Place  Place
	Now    func() time.Time
	Checks lesson.Checks                   // the hooks; the bank sets Now
	Keys   lesson.Secrets                  // finds secrets, which send a file to the approval queue; nil: no search
	Counts func(slug string) lesson.Counts // published counts for the index; nil keeps the counts of the index
	Limits Limits
}

// Bank writes lessons by the rules. A Bank is safe for concurrent use and starts no goroutine.
type Bank struct {
	o Options

	mu    sync.Mutex // serialises the writers of this process; guards texts
	texts *lesson.Texts
}

// New returns a bank without accessing its place.
func New(o Options) *Bank {
	o.Limits = o.Limits.orUsual()
	var secrets []lesson.Secrets
	if o.Keys != nil {
		secrets = append(secrets, o.Keys)
	}
	return &Bank{o: o, texts: lesson.NewTexts(o.Place.Where(), secrets...)}
}

// List reads all lessons, active or not, without archived lessons.
func (b *Bank) List(ctx context.Context) (*lesson.Book, []lesson.Problem, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.read(ctx)
	if err != nil {
		return nil, nil, err
	}
	return s.book, s.problems, nil
}

// Archived reads the archived lessons, by slug.
func (b *Bank) Archived(ctx context.Context) ([]*lesson.Lesson, []lesson.Problem, error) {
	r, err := b.o.Place.Read(ctx)
	if err != nil {
		return nil, nil, err
	}
	old := map[string][]byte{}
	for name, text := range r.Texts {
		if name, ok := strings.CutPrefix(name, Archive); ok {
			old[name] = text
		}
	}
	book, problems, _ := lesson.NewTexts(b.o.Place.Where() + "/" + lesson.ArchiveDir).Load(old)
	return book.Lessons(), problems, nil
}

// Log gives the newest n events of the audit log, oldest first.
func (b *Bank) Log(ctx context.Context, n int) ([]lesson.Event, error) { return b.o.Place.Tail(ctx, n) }

// snapshot is the bank as read for one change.
type snapshot struct {
	now      time.Time
	where    string
	texts    map[string][]byte // including archived texts
	book     *lesson.Book
	problems []lesson.Problem
	version  string
}

func (b *Bank) read(ctx context.Context) (*snapshot, error) {
	r, err := b.o.Place.Read(ctx)
	if err != nil {
		return nil, err
	}
	book, more, _ := b.texts.Load(r.Texts)
	return &snapshot{b.o.Now().UTC(), b.o.Place.Where(), r.Texts, book, append(r.Problems, more...), r.Version}, nil
}

// name is the name of a lesson's text.
func (s *snapshot) name(l *lesson.Lesson) string { return strings.TrimPrefix(l.Path, s.where+"/") }

// get returns a lesson and its name.
func (s *snapshot) get(slug string) (*lesson.Lesson, string, error) {
	l, ok := s.book.Get(slug)
	if !ok {
		return nil, "", ErrNoLesson
	}
	return l, s.name(l), nil
}

// replace returns the change that replaces the text of a lesson.
func (s *snapshot) replace(old, l *lesson.Lesson, e lesson.Event) Change {
	name := s.name(old)
	from, _ := s.book.StateAt(old.Slug, s.now)
	e.From, e.To = from, l.State
	return Change{Edits: []Edit{{Name: name, Old: s.texts[name], New: []byte(l.Raw)}}, Log: []lesson.Event{s.event(l, e)}}
}

// event sets the fields that every event has.
func (s *snapshot) event(l *lesson.Lesson, e lesson.Event) lesson.Event {
	e.Time, e.Slug, e.Hash = s.now, l.Slug, l.ContentHash
	e.Source, e.Tenant, e.Agent = l.Approval.Source, l.Scope.Tenant, l.Scope.Agent
	return e
}

// tries limits the retries of a write after concurrent changes.
const tries = 16

// change reads the bank, calls what, and commits the result, with retries if the bank has changed
// meanwhile.
func (b *Bank) change(ctx context.Context, what func(*snapshot) (Change, error)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range tries {
		s, err := b.read(ctx)
		if err != nil {
			return err
		}
		c, err := what(s)
		if err != nil || len(c.Edits) == 0 && len(c.Log) == 0 {
			return err
		}
		if c.Version = s.version; len(c.Edits) > 0 {
			c.Index = b.index(s, c.Edits)
		}
		if err := b.o.Place.Commit(ctx, c); !errors.Is(err, ErrChanged) {
			return err
		}
	}
	return ErrChanged
}

// index returns the writer of the index after the edits.
func (b *Bank) index(s *snapshot, edits []Edit) func([]byte) []byte {
	texts := maps.Clone(s.texts)
	for _, e := range edits {
		if texts[e.Name] = e.New; e.New == nil {
			delete(texts, e.Name)
		}
	}
	book, _, _ := b.texts.Load(texts)
	return func(old []byte) []byte {
		counts := b.o.Counts
		if counts == nil {
			counts = lesson.IndexCounts(old)
		}
		return lesson.Index(book, counts)
	}
}

// Reindex rewrites the index, after an edit by other means.
func (b *Bank) Reindex(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.read(ctx)
	if err != nil {
		return err
	}
	return b.o.Place.Commit(ctx, Change{Version: s.version, Index: b.index(s, nil)})
}

// taken reports whether a lesson, archived or not, uses the slug.
func (s *snapshot) taken(slug string) bool {
	_, ok := s.book.Get(slug)
	return ok || s.book.Archived(slug)
}
