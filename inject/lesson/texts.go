package lesson

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
)

// SecretFinder returns the kinds of secrets in a text.
type SecretFinder = func(text string) []string

// Texts parses the lesson files in a bank (a directory or a shared Redis) into a Book. If a text becomes invalid, the
// last valid version stays active. An unchanged text is not parsed again. Texts is not safe for concurrent use.
type Texts struct {
	pathPrefix string            // prepended to names in messages
	secrets    []SecretFinder    // a text with a secret is quarantined until it is approved
	entries    map[string]*entry // by name; nil before the first load
	archived   map[string]bool
	unreadable []Problem
	parsed     *ParseCache // shared with other readers; may be nil

	book     *Book
	problems []Problem
}

type entry struct {
	name, path  string
	raw         string
	lesson      *Lesson
	errs        ValidationErrors // faults in the newest version; if any, lesson is the last valid version or nil
	secretKinds []string         // the lesson is quarantined because of these kinds of secrets
}

// NewTexts returns a Texts without lessons. pathPrefix is prepended to names in messages.
func NewTexts(pathPrefix string, secrets ...SecretFinder) *Texts {
	return &Texts{pathPrefix: pathPrefix, secrets: secrets, book: NewBook(nil)}
}

// ShareCache makes t share parsed texts with the bank's other readers, and returns t.
func (t *Texts) ShareCache(p *ParseCache) *Texts {
	t.parsed = p
	return t
}

// Load replaces all texts. The keys are relative paths with slashes; a path's folders are the lesson's category. If a
// text is in unreadable, its last version stays in the book. Load reports whether the book or the problems have
// changed.
func (t *Texts) Load(texts map[string][]byte, unreadable ...Problem) (book *Book, problems []Problem, changed bool) {
	next := make(map[string]*entry, len(texts))
	archived := map[string]bool{}
	var added []*entry
	for name, text := range texts {
		if !IsLessonPath(name) {
			if old, ok := strings.CutPrefix(name, ArchiveDir+"/"); ok {
				archived[slugFromPath(old)] = true
			}
			continue
		}
		old := t.entries[name]
		if old != nil && old.raw == string(text) {
			next[name] = old
			continue
		}
		e := &entry{name: name, path: t.pathPrefix + "/" + name, raw: string(text)}
		if cached := t.parsed.get(e); cached != nil {
			next[name] = cached
			continue
		}
		if old != nil {
			e.lesson, e.secretKinds = old.lesson, old.secretKinds
		}
		next[name] = e
		added = append(added, e)
	}
	unreadable = t.keepUnreadableEntries(next, unreadable)
	t.parseAll(added)
	changed = t.entries == nil || !maps.Equal(t.entries, next) || !maps.Equal(t.archived, archived) ||
		!slices.EqualFunc(t.unreadable, unreadable, func(x, y Problem) bool { return x.Error() == y.Error() })
	if changed {
		t.entries, t.archived, t.unreadable = next, archived, unreadable
		t.parsed.put(next)
		t.assemble()
	}
	book, problems = t.Current()
	return book, problems, changed
}

// Current returns what Load last returned.
func (t *Texts) Current() (*Book, []Problem) { return t.book, slices.Clone(t.problems) }

// keepUnreadableEntries adds the last readable versions of unreadable files to next, so that these lessons stay in
// effect. In the returned problems, PreviousActive is true if there is such a version.
func (t *Texts) keepUnreadableEntries(next map[string]*entry, unreadable []Problem) []Problem {
	unreadable = slices.Clone(unreadable)
	for i := range unreadable {
		p := &unreadable[i]
		for name, e := range t.entries {
			if next[name] == nil && (name == p.unreadableName || strings.HasPrefix(name, p.unreadableName+"/")) {
				next[name], p.PreviousActive = e, e.lesson != nil
			}
		}
	}
	return unreadable
}

const maxParsers = 4 // maximum number of texts parsed at the same time

func (t *Texts) parseAll(entries []*entry) {
	slots := make(chan struct{}, maxParsers)
	var wg sync.WaitGroup
	for _, e := range entries {
		slots <- struct{}{}
		wg.Go(func() {
			t.parse(e)
			<-slots
		})
	}
	wg.Wait()
}

// parse parses a text. If the text is invalid, parse records the faults and keeps the old lesson.
func (t *Texts) parse(e *entry) {
	defer func() {
		if v := recover(); v != nil {
			e.errs = ValidationErrors{{Code: CodeInternal, Message: fmt.Sprintf("the file made precept panic; please report the file: %v", v)}}
		}
	}()
	l, faults := parse(e.name, e.raw)
	e.errs = faults
	if l == nil {
		return
	}
	if l.State == Quarantined && l.Approval.ContentHash == l.ContentHash {
		l.State = Paused // earlier versions wrote a paused lesson this way
	}
	kinds := t.quarantineSecrets(l)
	l.Path = e.path
	if dir := path.Dir(e.name); dir != "." {
		l.Category = dir
	}
	e.lesson, e.secretKinds = l, kinds
}

// quarantineSecrets quarantines an active lesson that contains a secret, unless the text is approved. It returns the
// kinds of secrets.
func (t *Texts) quarantineSecrets(l *Lesson) (kinds []string) {
	if !l.State.IsActive() || l.Approval.ContentHash == l.ContentHash {
		return nil
	}
	for _, find := range t.secrets {
		kinds = append(kinds, find(l.Title+"\n"+l.Advice)...)
	}
	if len(kinds) > 0 {
		l.State = Quarantined
	}
	return kinds
}

// assemble makes the book, and finds problems that concern several texts: duplicate slugs, superseded lessons that do
// not exist, and circles.
func (t *Texts) assemble() {
	var lessons []*Lesson
	problems := slices.Clone(t.unreadable)
	pathBySlug := map[string]string{}
	for _, e := range t.byPrecedence() {
		if len(e.errs) > 0 {
			p := Problem{Path: e.path, Errors: e.errs, PreviousActive: e.lesson != nil}
			if e.lesson != nil {
				p.Slug = e.lesson.Slug
			}
			problems = append(problems, p)
		}
		if e.lesson == nil {
			continue
		}
		if firstPath, taken := pathBySlug[e.lesson.Slug]; taken {
			problems = append(problems, newProblem(e.lesson, CodeCollision, "slug",
				fmt.Sprintf("the slug %q is already taken by %s, which has precedence; give this lesson another slug, or delete the file", e.lesson.Slug, firstPath)))
			continue
		}
		pathBySlug[e.lesson.Slug] = e.path
		if reason := e.quarantineReason(); reason != "" {
			p := newProblem(e.lesson, CodeInvalid, "", "the lesson is quarantined, because "+reason+"; correct the lesson, or, after reading it, run `precept lessons approve "+e.lesson.Slug+" --force`")
			p.Quarantined = true
			problems = append(problems, p)
		}
		lessons = append(lessons, e.lesson)
	}
	slices.SortStableFunc(problems[len(t.unreadable):], func(a, b Problem) int { return cmp.Compare(a.Path, b.Path) })
	t.book = NewBook(lessons)
	t.book.archived = t.archived
	circular := circularSlugs(lessons)
	for _, l := range lessons {
		for _, f := range t.book.linkErrors(l, circular) { // the lesson stays active; the link has no effect
			problems = append(problems, newProblem(l, f.Code, f.Field, f.Message))
		}
	}
	t.problems = problems
}

// byPrecedence returns the entries in the order in which they claim their slugs. Active lessons come first, so that a
// copy waiting for an approval does not displace an active lesson.
func (t *Texts) byPrecedence() []*entry {
	rank := func(e *entry) int {
		if e.lesson != nil && e.lesson.State.IsActive() {
			return 0
		}
		return 1
	}
	return slices.SortedFunc(maps.Values(t.entries), func(a, b *entry) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.name, b.name))
	})
}

// quarantineReason explains why a hand-written file is quarantined, or returns "".
func (e *entry) quarantineReason() string {
	switch l := e.lesson; {
	case l.State != Quarantined || l.Approval.Source != "":
		return ""
	case len(e.secretKinds) > 0:
		return "the file contains a secret (" + strings.Join(e.secretKinds, ", ") + ")"
	case l.needsReview():
		return "the check for prompt injections has a finding (`precept lessons lint` prints it)"
	}
	return ""
}

func newProblem(l *Lesson, code Code, field, message string) Problem {
	return Problem{Path: l.Path, Slug: l.Slug, Errors: ValidationErrors{{Code: code, Field: field, Message: message}}}
}

// IsLessonPath reports whether a relative path with slashes names a lesson. Backslashes are refused, because on Windows
// a name from elsewhere could lead out of the directory.
func IsLessonPath(name string) bool {
	if strings.ContainsAny(name, "\\\x00") {
		return false
	}
	if name != path.Clean(name) || strings.HasPrefix(name, "/") || strings.Count(name, "/") > maxDirDepth || !isLessonName(name) || strings.HasPrefix(name, companionFolder+"/") {
		return false
	}
	return !slices.ContainsFunc(strings.Split(name, "/"), isSkipped)
}
