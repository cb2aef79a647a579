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

	"precept/detect"
	"precept/inject/request"
)

// Book is the immutable set of lessons; a reload replaces the whole book.
type Book struct {
	lessons     []*Lesson
	bySlug      map[string]*Lesson
	superseders map[string][]*Lesson // by slug: the lessons that supersede this slug, directly or through others
	hash        func() string        // computed at the first use
	archived    map[string]bool      // archived slugs; lessons can still supersede them

	active        []compiledLesson         // sorted by slug
	byTag         map[string][]int32       // indices in active
	byErrorKind   map[string][]int32       // indices in active
	byRequestKind map[request.Kind][]int32 // indices in active
	phrases       []indexedPhrase
	automaton     func() *automaton   // finds the phrases; built at the first use (see Prepare)
	scratch       *sync.Pool          // *scratch values; saves 40 KB per match
	triggerIndex  func() triggerIndex // computed at the first use
	texts         *sync.Map           // *Text by *Lesson, rendered at the first use
	like          *likeIndex          // for matches by likeness (similar words); nil means only exact matches
}

type compiledLesson struct {
	lesson      *Lesson
	superseders []*Lesson
}

type indexedPhrase struct {
	phrase phrase
	uses   []phraseUse
}

// phraseUse is a lesson that contains a phrase.
type phraseUse struct {
	lesson int32 // index in Book.active
	role   phraseRole
}

// phraseRole is a phrase's effect in a text.
type phraseRole uint8

const (
	roleKeyword phraseRole = iota // triggers the lesson from the user's words or an error text
	roleError                     // triggers the lesson from an error text
	roleVeto                      // prevents all matches if the phrase occurs in the user's words or an error text
)

// NewBook returns a compiled book. Expired, superseded and inactive lessons are included, but never match. If several
// lessons have the same slug, the first by path is kept. The caller must not change the lessons afterwards.
func NewBook(lessons []*Lesson) *Book {
	b := newBook(lessons)
	b.compile()
	return b
}

// WithLessons returns a book with the given lessons and b's archived slugs. The book is not compiled, so it can only be
// checked, not matched.
func (b *Book) WithLessons(lessons []*Lesson) *Book {
	next := newBook(lessons)
	next.archived = b.archived
	return next
}

// AppendLesson returns an uncompiled book with one more lesson. The book reuses b's index of lessons by trigger,
// because building this index is the expensive part of a check.
func (b *Book) AppendLesson(l *Lesson) *Book {
	next := b.WithLessons(append(b.Lessons(), l))
	next.triggerIndex = sync.OnceValue(func() triggerIndex { return b.triggerIndex().with(l) })
	return next
}

func newBook(lessons []*Lesson) *Book {
	b := &Book{bySlug: make(map[string]*Lesson, len(lessons)), byTag: map[string][]int32{}, byErrorKind: map[string][]int32{}, byRequestKind: map[request.Kind][]int32{}, texts: &sync.Map{}}
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
	b.superseders = supersedersBySlug(b.lessons, b.bySlug)
	b.hash = sync.OnceValue(func() string { return hashBook(b.lessons) })
	b.triggerIndex = sync.OnceValue(func() triggerIndex { return newTriggerIndex(b.lessons) })
	return b
}

func (b *Book) compile() {
	_, _ = detect.KnownKinds(), request.AllKinds() // compile these tables now; otherwise a request would wait for them
	indexByKey := map[string]int{}                 // by phrase.key: the index in b.phrases
	for _, l := range b.lessons {
		if !l.State.IsActive() {
			continue
		}
		n := int32(len(b.active)) //nolint:gosec // the number of lessons fits in an int32
		b.active = append(b.active, compiledLesson{lesson: l, superseders: b.superseders[l.Slug]})
		for _, tag := range l.Trigger.Tags {
			key := tagKey(tag)
			b.byTag[key] = append(b.byTag[key], n)
		}
		for _, kind := range l.Trigger.ErrorKinds {
			b.byErrorKind[kind] = append(b.byErrorKind[kind], n)
		}
		for _, kind := range l.Trigger.RequestKinds {
			b.byRequestKind[request.Kind(kind)] = append(b.byRequestKind[request.Kind(kind)], n)
		}
		b.addPhrases(indexByKey, l.Form, l.Trigger.Tags, phraseUse{n, roleKeyword})
		b.addPhrases(indexByKey, l.Form, l.Trigger.Keywords, phraseUse{n, roleKeyword})
		b.addPhrases(indexByKey, l.Form, l.Trigger.ErrorPatterns, phraseUse{n, roleError})
		b.addPhrases(indexByKey, l.Form, l.Trigger.NotKeywords, phraseUse{n, roleVeto})
	}
	b.automaton = sync.OnceValue(func() *automaton {
		words := make([]word, len(b.phrases))
		for i := range b.phrases {
			p := &b.phrases[i]
			words[i] = word{text: p.phrase.pieces[p.phrase.longest], id: int32(i)} //nolint:gosec // the number of phrases fits in an int32
		}
		return newAutomaton(words, maxRows)
	})
	lessons := len(b.active)
	b.scratch = &sync.Pool{New: func() any {
		return &scratch{states: make([]matchState, lessons), foundIn: make([]int32, len(b.phrases))}
	}}
}

// Prepare builds the automaton, so that the first match does not wait for it. NewBook does not build it, because many
// books are only checked.
func (b *Book) Prepare() { b.automaton() }

// addPhrases adds a lesson's phrases to b.phrases.
func (b *Book) addPhrases(indexByKey map[string]int, form Form, phrases []string, use phraseUse) {
	for _, s := range phrases {
		p := readPhrase(s, form)
		if !p.canTrigger() {
			continue
		}
		i, ok := indexByKey[p.key]
		if !ok {
			i = len(b.phrases)
			indexByKey[p.key] = i
			b.phrases = append(b.phrases, indexedPhrase{phrase: p})
		}
		b.phrases[i].uses = append(b.phrases[i].uses, use)
	}
}

// Lessons returns all lessons, by slug. The caller may change the slice.
func (b *Book) Lessons() []*Lesson { return slices.Clone(b.lessons) }

// Archived reports whether the bank holds an archived lesson with the slug.
func (b *Book) Archived(slug string) bool { return b.archived[slug] }

// Len returns the number of lessons.
func (b *Book) Len() int { return len(b.lessons) }

// Get returns the lesson with a slug.
func (b *Book) Get(slug string) (*Lesson, bool) {
	l, ok := b.bySlug[slug]
	return l, ok
}

// Text returns the lesson as a model sees it, rendered once.
func (b *Book) Text(l *Lesson) *Text {
	if t, ok := b.texts.Load(l); ok {
		return t.(*Text)
	}
	made := l.Text()
	t, _ := b.texts.LoadOrStore(l, &made)
	return t.(*Text)
}

// Hash returns a digest of all lessons' contents, states, expiry dates and superseded slugs.
func (b *Book) Hash() string { return b.hash() }

// StateAt returns a lesson's state at now. For a lesson with an active State, the result can also be Expired or
// Superseded.
func (b *Book) StateAt(slug string, now time.Time) (State, bool) {
	l, ok := b.bySlug[slug]
	switch {
	case !ok:
		return "", false
	case !l.State.IsActive():
		return l.State, true
	case l.ExpiredAt(now):
		return Expired, true
	case anyActiveAt(b.superseders[slug], now):
		return Superseded, true
	default:
		return l.State, true
	}
}

// Successors returns the active lessons that supersede the slug, directly or through others.
func (b *Book) Successors(slug string, now time.Time) []*Lesson {
	return slices.DeleteFunc(slices.Clone(b.superseders[slug]), func(l *Lesson) bool { return !l.IsActiveAt(now) })
}

func anyActiveAt(lessons []*Lesson, now time.Time) bool {
	return slices.ContainsFunc(lessons, func(l *Lesson) bool { return l.IsActiveAt(now) })
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
