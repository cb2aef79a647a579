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

// ErrNoLesson means that there is no lesson with the slug, or that the caller may not see the lesson.
var ErrNoLesson = errors.New("no such lesson exists")

// ErrTooMany means that a limit is reached. The limits are on the writes of the agent and of the tenant in the last
// hour, and on the lessons of the tenant that wait for approval.
var ErrTooMany = errors.New("too many lessons were written; wait, or ask a person to approve or reject the quarantined lessons")

// ErrTenantLessons means that the tenant already has limits.tenant_lessons lessons.
var ErrTenantLessons = errors.New("the tenant has limits.tenant_lessons lessons; delete some, or ask the operator to raise limits.tenant_lessons")

// Refused is the error for a lesson that is invalid or that the checks refuse.
type Refused struct{ Faults lesson.ValidationErrors }

// Error lists the faults.
func (r *Refused) Error() string { return r.Faults.Error() }

// Unwrap returns the faults.
func (r *Refused) Unwrap() error { return r.Faults }

// newRefused returns a *Refused with one fault.
func newRefused(code lesson.Code, field, format string, args ...any) error {
	return &Refused{lesson.ValidationErrors{{Code: code, Field: field, Message: fmt.Sprintf(format, args...)}}}
}

// Limits limit the writes of programs, so that one credential cannot flood operators with lessons to approve.
type Limits struct {
	AgentWritesPerHour  int // writes of one agent per hour; 0 means 60
	TenantWritesPerHour int // writes of one tenant per hour; 0 means 300
	TenantWaiting       int // lessons of one tenant that wait for approval; 0 means 500
	TenantLessons       int // lessons of one tenant (limits.tenant_lessons); 0 means no limit
}

func (l Limits) orDefaults() Limits {
	return Limits{cmp.Or(l.AgentWritesPerHour, 60), cmp.Or(l.TenantWritesPerHour, 300), cmp.Or(l.TenantWaiting, 500), l.TenantLessons}
}

// Options configure a bank.
type Options struct {
	Storage     Storage
	Now         func() time.Time
	Checks      lesson.Checker                  // checks of lessons; the bank sets Checks.Now
	FindSecrets lesson.SecretFinder             // returns the kinds of secrets in a text; a hand-written file with a secret is quarantined; nil skips the search
	Counts      func(slug string) lesson.Counts // measured counts for the index; nil keeps the counts in the index
	Limits      Limits
	ParseCache  *lesson.ParseCache // cache that is shared with other readers of the storage; nil means no cache
}

// Bank writes lessons that pass the checks and the limits. A Bank is safe for concurrent use and starts no
// goroutine.
type Bank struct {
	options Options

	queue   sync.Mutex      // guards waiting; no other lock is taken while queue is held
	waiting []*pendingWrite // writes that the next goroutine with the lock mu commits in one step

	mu            sync.Mutex    // serializes the commits of this process; guards texts and archivedTexts
	texts         *lesson.Texts // active texts, parsed
	archivedTexts *lesson.Texts // archived texts, parsed
}

// New returns a bank. It does not read or write the storage.
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

// List returns all lessons except the archived lessons, and the problems of the bank's files.
func (b *Bank) List(ctx context.Context) (*lesson.Book, []lesson.Problem, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.read(ctx)
	if err != nil {
		return nil, nil, err
	}
	return s.book, s.problems, nil
}

// Archived returns the archived lessons in the order of their slugs, and the problems of their files.
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

// archived parses the archived texts among texts. The caller holds mu.
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

// Log returns the newest n events of the audit log, oldest first.
func (b *Bank) Log(ctx context.Context, n int) ([]lesson.Event, error) {
	return b.options.Storage.Tail(ctx, n)
}

// snapshot is the content of the bank at the start of a commit, with the changes of the earlier writes of this commit.
type snapshot struct {
	bank        *Bank
	now         time.Time
	storageName string
	texts       map[string][]byte // including archived texts
	book        *lesson.Book
	problems    []lesson.Problem
	version     string
	usage       *quota               // counts that the limits restrict; computed at the first use
	numbers     map[lesson.Scope]int // by scope, the highest number of a lesson; computed at the first use
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

// name returns the name of a lesson's text in the storage.
func (s *snapshot) name(l *lesson.Lesson) string {
	return strings.TrimPrefix(l.Path, s.storageName+"/")
}

// get returns the lesson slug and the name of its text.
func (s *snapshot) get(slug string) (*lesson.Lesson, string, error) {
	l, ok := s.book.Get(slug)
	if !ok {
		return nil, "", ErrNoLesson
	}
	return l, s.name(l), nil
}

// replace returns the change that replaces the lesson old by l under the same name.
func (s *snapshot) replace(old, l *lesson.Lesson, e lesson.Event) Change {
	name := s.name(old)
	from, _ := s.book.StateAt(old.Slug, s.now)
	e.From, e.To = from, l.State
	return Change{Edits: []Edit{{Name: name, Old: s.texts[name], New: []byte(l.Raw)}}, Log: []lesson.Event{s.event(l, e)}}
}

// event returns e with the fields that every event about the lesson l has.
func (s *snapshot) event(l *lesson.Lesson, e lesson.Event) lesson.Event {
	e.Time, e.Slug, e.Hash = s.now, l.Slug, l.ContentHash
	e.Source, e.Tenant, e.Agent = l.Approval.Source, l.Scope.Tenant, l.Scope.Agent
	return e
}

// index returns a function from the old index to the new index of the texts. If the bank has no counts, the function
// takes the counts from the old index.
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

// Reindex rewrites the index after the lessons were edited without the bank.
func (b *Bank) Reindex(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.read(ctx)
	if err != nil {
		return err
	}
	return b.options.Storage.Commit(ctx, Change{Version: s.version, Index: b.index(s.texts)})
}

// isSlugUsed reports whether a lesson or an archived lesson has the slug.
func (s *snapshot) isSlugUsed(slug string) bool {
	_, ok := s.book.Get(slug)
	return ok || s.book.Archived(slug)
}

// Consultation is the number of matches of a lesson and the time of the last match, as shown to the author of the
// lesson. No measured effect and no choice of the bandit depends on this number.
type Consultation struct {
	Count int64     `json:"count"`
	Last  time.Time `json:"last"`
}

// Add returns the sum of the counts with the later time.
func (c Consultation) Add(other Consultation) Consultation {
	c.Count += other.Count
	if other.Last.After(c.Last) {
		c.Last = other.Last
	}
	return c
}
