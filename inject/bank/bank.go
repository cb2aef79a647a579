package bank

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"precept/inject/lesson"
)

// ErrNoLesson means that the lesson does not exist, or is hidden from the caller.
var ErrNoLesson = errors.New("no such lesson exists")

// ErrTooMany means that an agent or tenant has reached a limit on writes in the last hour, or on lessons that wait for
// approval.
var ErrTooMany = errors.New("too many lessons were written; wait, or ask a person to approve or reject the quarantined lessons")

// ErrTenantLessons means that the tenant has limits.tenant_lessons lessons.
var ErrTenantLessons = errors.New("the tenant already has as many lessons as limits.tenant_lessons allows; delete some, or ask the operator to raise the limit")

// Refused is the error for a lesson that is invalid or refused by the checks.
type Refused struct{ Faults lesson.ValidationErrors }

// Error lists the faults.
func (r *Refused) Error() string { return r.Faults.Error() }

// Unwrap returns the faults.
func (r *Refused) Unwrap() error { return r.Faults }

func newRefused(code lesson.Code, field, format string, args ...any) error {
	return &Refused{lesson.ValidationErrors{{Code: code, Field: field, Message: fmt.Sprintf(format, args...)}}}
}

// Limits restrict what programs write, so that a single credential cannot flood operators with lessons.
type Limits struct {
	AgentWritesPerHour  int // per agent; 0 means 60
	TenantWritesPerHour int // per tenant; 0 means 300
	TenantWaiting       int // per tenant: lessons that wait for approval; 0 means 500
	TenantLessons       int // per tenant (limits.tenant_lessons); 0 means no limit
}

func (l Limits) orDefaults() Limits {
	return Limits{cmp.Or(l.AgentWritesPerHour, 60), cmp.Or(l.TenantWritesPerHour, 300), cmp.Or(l.TenantWaiting, 500), l.TenantLessons}
}

// Options configure a bank.
type Options struct {
	Storage     Storage
	Now         func() time.Time
	Checks      lesson.Checker                  // the bank sets Now
	FindSecrets lesson.SecretFinder             // kinds of secrets in a text; may be nil
	Counts      func(slug string) lesson.Counts // measured results for the index; nil keeps the old results
	Limits      Limits
	ParseCache  *lesson.ParseCache // shared with the storage's other readers; may be nil
}

// Bank writes lessons that pass the checks and the limits. A Bank is safe for concurrent use and starts no goroutine.
type Bank struct {
	options Options

	queue   sync.Mutex      // guards waiting; no lock is taken while queue is held
	waiting []*pendingWrite // writes that the next holder of mu commits in one step

	mu            sync.Mutex    // serializes this process's commits; guards texts and archivedTexts
	texts         *lesson.Texts // parsed unarchived texts
	archivedTexts *lesson.Texts // parsed archived texts
}

// New returns a bank. It does not access the storage.
func New(o Options) *Bank {
	o.Limits = o.Limits.orDefaults()
	var secrets []lesson.SecretFinder
	if o.FindSecrets != nil {
		secrets = append(secrets, o.FindSecrets)
	}
	return &Bank{
		options: o, texts: lesson.NewTexts(o.Storage.Name(), secrets...).ShareCache(o.ParseCache),
		archivedTexts: lesson.NewTexts(o.Storage.Name() + "/" + lesson.ArchiveDir),
	}
}

// List returns all unarchived lessons, and the problems in their files.
func (b *Bank) List(ctx context.Context) (*lesson.Book, []lesson.Problem, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.read(ctx)
	if err != nil {
		return nil, nil, err
	}
	return s.book, s.problems, nil
}

// Archived returns the archived lessons, sorted by slug, and the problems in their files.
func (b *Bank) Archived(ctx context.Context) ([]*lesson.Lesson, []lesson.Problem, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, err := b.options.Storage.Read(ctx)
	if err != nil {
		return nil, nil, err
	}
	book, problems := b.archived(r.Texts)
	return book.Lessons(), problems, nil
}

// archived parses the archived texts. The caller holds mu.
func (b *Bank) archived(texts map[string][]byte) (*lesson.Book, []lesson.Problem) {
	old := map[string][]byte{}
	for name, text := range texts {
		if name, ok := strings.CutPrefix(name, Archive); ok {
			old[name] = text
		}
	}
	book, problems, _ := b.archivedTexts.Load(old)
	return book, problems
}

// Log returns the newest n audit log events, oldest first.
func (b *Bank) Log(ctx context.Context, n int) ([]lesson.Event, error) {
	return b.options.Storage.Tail(ctx, n)
}

// snapshot is the bank's content during a commit, including earlier writes in that commit.
type snapshot struct {
	bank        *Bank
	now         time.Time
	storageName string
	texts       map[string][]byte // including archived texts
	book        *lesson.Book
	problems    []lesson.Problem
	version     string
	usage       *quota               // for the limits; computed at the first use
	numbers     map[lesson.Scope]int // highest lesson number by scope; computed at the first use
}

func (b *Bank) read(ctx context.Context) (*snapshot, error) {
	r, err := b.options.Storage.Read(ctx)
	if err != nil {
		return nil, err
	}
	book, problems, _ := b.texts.Load(r.Texts)
	return &snapshot{
		bank: b, now: b.options.Now().UTC(), storageName: b.options.Storage.Name(), texts: r.Texts, book: book, problems: append(r.Problems, problems...), version: r.Version,
	}, nil
}

func (s *snapshot) name(l *lesson.Lesson) string {
	return strings.TrimPrefix(l.Path, s.storageName+"/")
}

func (s *snapshot) get(slug string) (*lesson.Lesson, string, error) {
	l, ok := s.book.Get(slug)
	if !ok {
		return nil, "", ErrNoLesson
	}
	return l, s.name(l), nil
}

func (s *snapshot) replace(old, l *lesson.Lesson, e lesson.Event) Change {
	name := s.name(old)
	from, _ := s.book.StateAt(old.Slug, s.now)
	e.From, e.To = from, l.State
	return Change{Edits: []Edit{{Name: name, Old: s.texts[name], New: []byte(l.Raw)}}, Log: []lesson.Event{s.event(l, e)}}
}

// event returns e with the fields that every event about l has.
func (s *snapshot) event(l *lesson.Lesson, e lesson.Event) lesson.Event {
	e.Time, e.Slug, e.Hash = s.now, l.Slug, l.ContentHash
	e.Source, e.Tenant, e.Agent = l.Approval.Source, l.Scope.Tenant, l.Scope.Agent
	return e
}

// index returns a function that makes the new index file from the old one. Without Options.Counts, the old counts stay.
func (b *Bank) index(texts map[string][]byte) func([]byte) []byte {
	book, _, _ := b.texts.Load(texts)
	return func(old []byte) []byte {
		counts := b.options.Counts
		if counts == nil {
			counts = lesson.ParseIndexCounts(old)
		}
		return lesson.FormatIndex(book, counts)
	}
}

// Reindex rewrites the index after edits that were made without the bank.
func (b *Bank) Reindex(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.read(ctx)
	if err != nil {
		return err
	}
	return b.options.Storage.Commit(ctx, Change{Version: s.version, Index: b.index(s.texts)})
}

// isSlugUsed reports whether a lesson, active or archived, has the slug.
func (s *snapshot) isSlugUsed(slug string) bool {
	_, ok := s.book.Get(slug)
	return ok || s.book.Archived(slug)
}

// Consultation tells a lesson's author how often the lesson matched, and when it last matched. Measurements do not use
// it.
type Consultation struct {
	Count int64     `json:"count"`
	Last  time.Time `json:"last"`
}

// Add returns the sum of the counts, with the later of the two times.
func (c Consultation) Add(other Consultation) Consultation {
	c.Count += other.Count
	if other.Last.After(c.Last) {
		c.Last = other.Last
	}
	return c
}
