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

// ErrNoLesson says that there is no lesson of that slug, or none that the asker may know of.
var ErrNoLesson = errors.New("there is no such lesson")

// ErrTooMany says that whoever asks has written as much as it may for now, or that too much waits
// for approval.
var ErrTooMany = errors.New("too many lessons were written; wait, or have those that wait approved or rejected")

// Refused is what is wrong with a lesson that was not written.
type Refused struct{ Faults lesson.Faults }

// Error lists the faults.
func (r *Refused) Error() string { return r.Faults.Error() }

// Unwrap gives the faults.
func (r *Refused) Unwrap() error { return r.Faults }

func refuse(code lesson.Code, field, format string, args ...any) error {
	return &Refused{lesson.Faults{{Code: code, Field: field, Message: fmt.Sprintf(format, args...)}}}
}

// Limits bound what programs write, so that one credential cannot flood the queue of those who
// approve. A zero stands for the usual number.
type Limits struct {
	AgentHour  int // writes of one agent in an hour (60)
	TenantHour int // writes of one tenant in an hour (300)
	Waiting    int // lessons of one tenant that wait for approval (500)
}

func (l Limits) orUsual() Limits {
	return Limits{cmp.Or(l.AgentHour, 60), cmp.Or(l.TenantHour, 300), cmp.Or(l.Waiting, 500)}
}

// Options are what a bank is made of.
type Options struct {
	Place  Place
	Now    func() time.Time
	Checks lesson.Checks                   // the hooks; the bank sets Now
	Keys   lesson.Secrets                  // finds secrets, for which a file waits for approval; nil: nothing does
	Counts func(slug string) lesson.Counts // the published counts for the index; nil keeps those that stand there
	Limits Limits
}

// Bank writes lessons, by the rules. It is safe for concurrent use, and starts nothing.
type Bank struct {
	o Options

	mu    sync.Mutex // one writer of this process at a time; guards texts
	texts *lesson.Texts
}

// New makes a bank without touching its place.
func New(o Options) *Bank {
	o.Limits = o.Limits.orUsual()
	var secrets []lesson.Secrets
	if o.Keys != nil {
		secrets = append(secrets, o.Keys)
	}
	return &Bank{o: o, texts: lesson.NewTexts(o.Place.Where(), secrets...)}
}

// List reads the lessons: those in force and those that are not, without archived ones.
func (b *Bank) List(ctx context.Context) (*lesson.Book, []lesson.Problem, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.read(ctx)
	if err != nil {
		return nil, nil, err
	}
	return s.book, s.problems, nil
}

// Archived reads the lessons that were put away, by slug.
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

// snapshot is the bank as it was read for one change.
type snapshot struct {
	now      time.Time
	where    string
	texts    map[string][]byte // archived ones too
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

// get finds a lesson and its name.
func (s *snapshot) get(slug string) (*lesson.Lesson, string, error) {
	l, ok := s.book.Get(slug)
	if !ok {
		return nil, "", ErrNoLesson
	}
	return l, s.name(l), nil
}

// replace is the change that gives a lesson another text.
func (s *snapshot) replace(old, l *lesson.Lesson, e lesson.Event) Change {
	name := s.name(old)
	from, _ := s.book.StateAt(old.Slug, s.now)
	e.From, e.To = from, l.State
	return Change{Edits: []Edit{{Name: name, Old: s.texts[name], New: []byte(l.Raw)}}, Log: []lesson.Event{s.event(l, e)}}
}

// event fills in what every event says.
func (s *snapshot) event(l *lesson.Lesson, e lesson.Event) lesson.Event {
	e.Time, e.Slug, e.Hash = s.now, l.Slug, l.ContentHash
	e.Source, e.Tenant, e.Agent = l.Approval.Source, l.Scope.Tenant, l.Scope.Agent
	return e
}

// tries bounds how often a write begins anew because somebody else was faster.
const tries = 16

// change reads the bank, asks what is to be done, and does it; again, when the bank has changed in
// between.
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

// index makes what writes the index of the bank as it is after the edits.
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

// Reindex writes the index anew, after somebody edited the lessons by other means.
func (b *Bank) Reindex(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.read(ctx)
	if err != nil {
		return err
	}
	return b.o.Place.Commit(ctx, Change{Version: s.version, Index: b.index(s, nil)})
}

// taken says whether a slug is used, be it by an archived lesson.
func (s *snapshot) taken(slug string) bool {
	_, ok := s.book.Get(slug)
	return ok || s.book.Archived(slug)
}
