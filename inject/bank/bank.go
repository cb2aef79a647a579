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

// ErrNoLesson is the error for a slug without a lesson, or with a lesson that the caller may not
// know of.
var ErrNoLesson = errors.New("no such lesson exists")

// ErrTooMany is the error of a write beyond the limits of the caller, or of the approval queue.
var ErrTooMany = errors.New("too many lessons were written; wait, or ask a person to approve or reject the quarantined lessons")

// ErrTenantLessons is the error of a new lesson of a tenant that has limits.tenant_lessons lessons.
var ErrTenantLessons = errors.New("the tenant has limits.tenant_lessons lessons; delete some, or ask the operator to raise limits.tenant_lessons")

// Refused is the error of a lesson that the checks refuse.
type Refused struct{ Faults lesson.Faults }

// Error lists the faults.
func (r *Refused) Error() string { return r.Faults.Error() }

// Unwrap returns the faults.
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
	Tenant     int // lessons of one tenant (limits.tenant_lessons); 0 means no limit
}

func (l Limits) orDefaults() Limits {
	return Limits{cmp.Or(l.AgentHour, 60), cmp.Or(l.TenantHour, 300), cmp.Or(l.Waiting, 500), l.Tenant}
}

// Options configure a bank.
type Options struct {
	Place  Place
	Now    func() time.Time
	Checks lesson.Checks                   // the hooks; the bank sets Now
	Keys   lesson.Secrets                  // finds secrets; a person's file with a secret is quarantined; nil means no search
	Counts func(slug string) lesson.Counts // published counts for the index; nil keeps the counts of the index
	Limits Limits
	Parsed *lesson.Parsed // texts that another reader of the place has parsed; nil if none
}

// Bank writes lessons that pass the checks and the limits. A Bank is safe for concurrent use and starts no
// goroutine.
type Bank struct {
	options Options

	queue   sync.Mutex // guards waiting; no other lock is taken under queue
	waiting []*write   // writes that the next holder of mu commits in one step

	mu            sync.Mutex    // serialises the commits of this process; guards texts and archivedTexts
	texts         *lesson.Texts // active texts, parsed
	archivedTexts *lesson.Texts // archived texts, parsed
}

// New returns a bank without accessing its place.
func New(o Options) *Bank {
	o.Limits = o.Limits.orDefaults()
	var secrets []lesson.Secrets
	if o.Keys != nil {
		secrets = append(secrets, o.Keys)
	}
	return &Bank{
		options: o, texts: lesson.NewTexts(o.Place.Name(), secrets...).Share(o.Parsed),
		archivedTexts: lesson.NewTexts(o.Place.Name() + "/" + lesson.ArchiveDir),
	}
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
	b.mu.Lock()
	defer b.mu.Unlock()
	r, err := b.options.Place.Read(ctx)
	if err != nil {
		return nil, nil, err
	}
	book, problems := b.archived(r.Texts)
	return book.Lessons(), problems, nil
}

// archived parses the archived texts of a bank. The caller holds mu.
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
	return b.options.Place.Tail(ctx, n)
}

// snapshot is the bank as read for one commit, with the changes of earlier writes of the commit.
type snapshot struct {
	bank      *Bank
	now       time.Time
	placeName string
	texts     map[string][]byte // including archived texts
	book      *lesson.Book
	problems  []lesson.Problem
	version   string
	used      *quota               // writes and lessons of programs; nil before the first use
	numbers   map[lesson.Scope]int // highest number of a scope's lessons; nil before the first use
}

func (b *Bank) read(ctx context.Context) (*snapshot, error) {
	r, err := b.options.Place.Read(ctx)
	if err != nil {
		return nil, err
	}
	book, more, _ := b.texts.Load(r.Texts)
	return &snapshot{
		bank: b, now: b.options.Now().UTC(), placeName: b.options.Place.Name(), texts: r.Texts, book: book, problems: append(r.Problems, more...), version: r.Version,
	}, nil
}

// name returns the file name of a lesson.
func (s *snapshot) name(l *lesson.Lesson) string { return strings.TrimPrefix(l.Path, s.placeName+"/") }

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

// index returns a function that computes the new index of the texts from the old index.
func (b *Bank) index(texts map[string][]byte) func([]byte) []byte {
	book, _, _ := b.texts.Load(texts)
	return func(old []byte) []byte {
		counts := b.options.Counts
		if counts == nil {
			counts = lesson.IndexCounts(old)
		}
		return lesson.Index(book, counts)
	}
}

// Reindex rewrites the index, after an edit without the bank.
func (b *Bank) Reindex(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.read(ctx)
	if err != nil {
		return err
	}
	return b.options.Place.Commit(ctx, Change{Version: s.version, Index: b.index(s.texts)})
}

// isSlugUsed reports whether a lesson, archived or not, uses the slug.
func (s *snapshot) isSlugUsed(slug string) bool {
	_, ok := s.book.Get(slug)
	return ok || s.book.Archived(slug)
}

// Consultation counts the matches of a lesson and has the time of the last match, for the authors
// of the lesson. No effect and no choice uses the count.
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
