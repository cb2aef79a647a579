package lesson

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// Book is the immutable set in force. It is swapped whole.
type Book struct {
	lessons  []*Lesson
	bySlug   map[string]*Lesson
	above    map[string][]*Lesson // by slug: the lessons that supersede it, directly or through others
	hash     string
	archived map[string]bool // slugs of archived lessons, which others may refer to

	compiled []compiled // the lessons that may fire, by slug
	tags     map[string][]int32
	phrases  []ownedPhrase
	machine  *automaton
	scratch  *sync.Pool      // of *scratch; measured: without it a match allocates 40 KB
	overlaps func() overlaps // made when it is first needed
	texts    sync.Map        // by *Lesson: its *Text, made when it is first needed
}

// compiled is a lesson as the matcher sees it.
type compiled struct {
	lesson *Lesson
	above  []*Lesson
}

// ownedPhrase is a phrase with the lessons that have it.
type ownedPhrase struct {
	phrase
	owners []owner
}

// owner says of which lesson a phrase is, and what it does there.
type owner struct {
	lesson int32 // its number in Book.compiled
	role   role
}

type role uint8

const (
	roleKeyword role = iota // searched in words and error texts
	roleError               // searched in error texts only
	roleVeto                // searched in both; silences the lesson
)

// NewBook compiles lessons. Those that are expired, superseded or not in force are kept for
// listing, not for matching. Of two lessons with the same slug the first by path stays. The lessons
// belong to the book from now on.
func NewBook(lessons []*Lesson) *Book {
	b := newBook(lessons)
	b.compile()
	return b
}

// With is the book with other lessons, for checking: it was not compiled and matches nothing.
func (b *Book) With(lessons []*Lesson) *Book {
	next := newBook(lessons)
	next.archived = b.archived
	return next
}

func newBook(lessons []*Lesson) *Book {
	b := &Book{bySlug: make(map[string]*Lesson, len(lessons)), tags: map[string][]int32{}}
	sorted := slices.Clone(lessons)
	slices.SortStableFunc(sorted, func(x, y *Lesson) int {
		return cmp.Or(strings.Compare(x.Slug, y.Slug), strings.Compare(x.Path, y.Path))
	})
	for _, l := range sorted {
		if _, taken := b.bySlug[l.Slug]; taken {
			continue
		}
		b.bySlug[l.Slug] = l
		b.lessons = append(b.lessons, l)
	}
	b.above = supersession(b.lessons, b.bySlug)
	b.hash = hashBook(b.lessons)
	b.overlaps = sync.OnceValue(func() overlaps { return newOverlaps(b.lessons) })
	return b
}

// compile builds the automaton over all phrases of the lessons that may fire.
func (b *Book) compile() {
	numbers := map[string]int{} // of the phrases, by key
	for _, l := range b.lessons {
		if !l.State.Fires() {
			continue
		}
		u := int32(len(b.compiled)) //nolint:gosec // a lesson count
		b.compiled = append(b.compiled, compiled{lesson: l, above: b.above[l.Slug]})
		for _, tag := range l.Trigger.Tags {
			key := strings.ToLower(strings.TrimSpace(tag))
			b.tags[key] = append(b.tags[key], u)
		}
		b.own(numbers, l.Trigger.Tags, owner{u, roleKeyword})
		b.own(numbers, l.Trigger.Keywords, owner{u, roleKeyword})
		b.own(numbers, l.Trigger.ErrorPatterns, owner{u, roleError})
		b.own(numbers, l.Trigger.NotKeywords, owner{u, roleVeto})
	}
	words := make([]word, len(b.phrases))
	for i := range b.phrases {
		p := &b.phrases[i]
		words[i] = word{text: p.pieces[p.longest], id: int32(i)} //nolint:gosec // a phrase count
	}
	b.machine = newAutomaton(words, maxRows)
	n := len(b.compiled)
	b.scratch = &sync.Pool{New: func() any { return &scratch{seen: make([]signs, n), met: make([]int32, len(b.phrases))} }}
}

// own notes whose the phrases are.
func (b *Book) own(numbers map[string]int, phrases []string, o owner) {
	for _, s := range phrases {
		p := readPhrase(s)
		if !p.fires() {
			continue
		}
		i, ok := numbers[p.key]
		if !ok {
			i = len(b.phrases)
			numbers[p.key] = i
			b.phrases = append(b.phrases, ownedPhrase{phrase: p})
		}
		b.phrases[i].owners = append(b.phrases[i].owners, o)
	}
}

// Lessons lists all, by slug. The slice is the caller's.
func (b *Book) Lessons() []*Lesson { return slices.Clone(b.lessons) }

// Archived says whether the bank of the book holds an archived lesson of that slug.
func (b *Book) Archived(slug string) bool { return b.archived[slug] }

// Len is the number of lessons.
func (b *Book) Len() int { return len(b.lessons) }

// Get finds one by slug.
func (b *Book) Get(slug string) (*Lesson, bool) {
	l, ok := b.bySlug[slug]
	return l, ok
}

// Text is the lesson as it may stand in a request; it is rendered once.
func (b *Book) Text(l *Lesson) *Text {
	if t, ok := b.texts.Load(l); ok {
		return t.(*Text)
	}
	made := l.Text()
	t, _ := b.texts.LoadOrStore(l, &made)
	return t.(*Text)
}

// Hash identifies the book: equal when the same lessons are in the same states.
func (b *Book) Hash() string { return b.hash }

// StateAt is the state that a lesson is in at now: its own, or Superseded or Expired when that has
// come to pass.
func (b *Book) StateAt(slug string, now time.Time) (State, bool) {
	l, ok := b.bySlug[slug]
	switch {
	case !ok:
		return "", false
	case !l.State.Fires():
		return l.State, true
	case l.ExpiredAt(now):
		return Expired, true
	case inForce(b.above[slug], now):
		return Superseded, true
	default:
		return l.State, true
	}
}

// Heirs lists the lessons in force that supersede the slug, directly or through others; by slug.
func (b *Book) Heirs(slug string, now time.Time) []*Lesson {
	return slices.DeleteFunc(slices.Clone(b.above[slug]), func(l *Lesson) bool { return !l.InForce(now) })
}

func inForce(lessons []*Lesson, now time.Time) bool {
	return slices.ContainsFunc(lessons, func(l *Lesson) bool { return l.InForce(now) })
}

func hashBook(lessons []*Lesson) string {
	h := sha256.New()
	for _, l := range lessons {
		hashString(h, l.Slug)
		hashString(h, l.ContentHash)
		hashString(h, string(l.State))
		hashString(h, l.ExpiresAt.UTC().Format(time.RFC3339Nano))
		hashList(h, l.Supersedes)
		_, _ = io.WriteString(h, "\n")
	}
	return hex.EncodeToString(h.Sum(nil))
}
