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

// Secrets is a function that returns the kinds of secrets in a text.
type Secrets = func(text string) []string

// Texts parses a bank of lessons and makes its book. Each lesson is one text with a name. The texts are the
// files of a directory, or come from the Redis that several replicas share. If a new version of a text is
// unusable, the last valid version stays active. An unchanged text is not parsed twice. Texts is not safe for
// concurrent use.
type Texts struct {
	from     string
	secrets  []Secrets         // find secrets; a text with a secret is not shown to models until a person approves the text
	entries  map[string]*entry // nil before the first load
	archived map[string]bool   // slugs of archived lessons
	unread   []Problem         // problems of the texts that could not be read
	parsed   *Parsed           // nil means no other reader has the texts

	book     *Book // book of the present texts
	problems []Problem
}

// entry is the state of one text.
type entry struct {
	name, path  string
	raw         string
	lesson      *Lesson
	faults      Faults   // errors of the newest version; lesson is then the previous version, or nil
	secretKinds []string // kinds of secrets that need an approval
}

// NewTexts returns an empty bank. from is the prefix of a text's name in messages.
func NewTexts(from string, secrets ...Secrets) *Texts {
	return &Texts{from: from, secrets: secrets, book: NewBook(nil)}
}

// Share makes t use the texts that other readers of the bank have parsed, and returns t.
func (t *Texts) Share(p *Parsed) *Texts {
	t.parsed = p
	return t
}

// Load replaces all texts. The key of a text is its name, a path with slashes and the suffix .md; the folders
// of the path are the category. unread lists unreadable texts, which keep their last version. Load returns
// the book, the problems of the texts, and whether the result has changed.
func (t *Texts) Load(texts map[string][]byte, unread ...Problem) (book *Book, problems []Problem, changed bool) {
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
		e := &entry{name: name, path: t.from + "/" + name, raw: string(text)}
		if known := t.parsed.get(e); known != nil {
			next[name] = known
			continue
		}
		if old != nil {
			e.lesson, e.secretKinds = old.lesson, old.secretKinds
		}
		next[name] = e
		added = append(added, e)
	}
	unread = t.keep(next, unread)
	t.parseAll(added)
	changed = t.entries == nil || !maps.Equal(t.entries, next) || !maps.Equal(t.archived, archived) ||
		!slices.EqualFunc(t.unread, unread, func(x, y Problem) bool { return x.Error() == y.Error() })
	if changed {
		t.entries, t.archived, t.unread = next, archived, unread
		t.parsed.put(next)
		t.assemble()
	}
	book, problems = t.Current()
	return book, problems, changed
}

// Current returns the last result of Load.
func (t *Texts) Current() (*Book, []Problem) { return t.book, slices.Clone(t.problems) }

// keep adds the present entries of unread files and folders to next, and sets Kept in their problems.
func (t *Texts) keep(next map[string]*entry, unread []Problem) []Problem {
	unread = slices.Clone(unread)
	for i := range unread {
		p := &unread[i]
		for name, e := range t.entries {
			if next[name] == nil && (name == p.unread || strings.HasPrefix(name, p.unread+"/")) {
				next[name], p.Kept = e, e.lesson != nil
			}
		}
	}
	return unread
}

// parsers is the number of texts that are parsed concurrently.
const parsers = 4

func (t *Texts) parseAll(entries []*entry) {
	slots := make(chan struct{}, parsers)
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

// parse replaces the entry's lesson by the parsed text, or records the faults.
func (t *Texts) parse(e *entry) {
	defer func() {
		if v := recover(); v != nil {
			e.faults = Faults{{Code: CodeInternal, Message: fmt.Sprintf("the file made precept panic; please report the file: %v", v)}}
		}
	}()
	l, faults := parse(e.name, e.raw)
	e.faults = faults
	if l == nil {
		return
	}
	if l.State == Quarantined && l.Approval.ContentHash == l.ContentHash {
		l.State = Paused // earlier versions wrote a pause in this way
	}
	kinds := t.quarantineSecrets(l)
	l.Path = e.path
	if dir := path.Dir(e.name); dir != "." {
		l.Category = dir
	}
	e.lesson, e.secretKinds = l, kinds
}

// quarantineSecrets quarantines a lesson whose title or advice contains a secret, unless a person approved the
// text. It returns the kinds of the secrets.
func (t *Texts) quarantineSecrets(l *Lesson) (kinds []string) {
	if !l.State.Fires() || l.Approval.ContentHash == l.ContentHash {
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

// assemble makes the book of the entries and collects the problems. Some problems concern several texts:
// duplicate slugs, superseded lessons that do not exist, and circles of lessons that supersede each other.
func (t *Texts) assemble() {
	var lessons []*Lesson
	problems := slices.Clone(t.unread)
	pathOf := map[string]string{} // by slug
	for _, e := range t.byPrecedence() {
		if len(e.faults) > 0 {
			p := Problem{Path: e.path, Faults: e.faults, Kept: e.lesson != nil}
			if e.lesson != nil {
				p.Slug = e.lesson.Slug
			}
			problems = append(problems, p)
		}
		if e.lesson == nil {
			continue
		}
		if first, taken := pathOf[e.lesson.Slug]; taken {
			problems = append(problems, problem(e.lesson, CodeCollision, "slug",
				fmt.Sprintf("the slug %q is already taken by %s, which has precedence; give this lesson another slug, or delete the file", e.lesson.Slug, first)))
			continue
		}
		pathOf[e.lesson.Slug] = e.path
		if why := e.quarantineReason(); why != "" {
			p := problem(e.lesson, CodeInvalid, "", "the lesson is quarantined, because "+why+"; correct the lesson, or read the lesson and approve it with --force")
			p.Quarantined = true
			problems = append(problems, p)
		}
		lessons = append(lessons, e.lesson)
	}
	slices.SortStableFunc(problems[len(t.unread):], func(a, b Problem) int { return cmp.Compare(a.Path, b.Path) })
	t.book = NewBook(lessons)
	t.book.archived = t.archived
	circular := circles(lessons)
	for _, l := range lessons {
		for _, f := range t.book.linkFaults(l, circular) { // the lesson stays active; the link has no effect
			problems = append(problems, problem(l, f.Code, f.Field, f.Message))
		}
	}
	t.problems = problems
}

// byPrecedence returns the entries in the order in which they take their slugs: lessons that can fire first, then by
// name. A copy that waits for an approval does not displace the lesson in use.
func (t *Texts) byPrecedence() []*entry {
	cannotFire := func(e *entry) int {
		if e.lesson != nil && e.lesson.State.Fires() {
			return 0
		}
		return 1
	}
	return slices.SortedFunc(maps.Values(t.entries), func(a, b *entry) int {
		return cmp.Or(cmp.Compare(cannotFire(a), cannotFire(b)), cmp.Compare(a.name, b.name))
	})
}

// quarantineReason returns the reason why precept quarantines the lesson of a person's file. The reason is empty
// for a lesson that is not quarantined or that a program wrote.
func (e *entry) quarantineReason() string {
	switch l := e.lesson; {
	case l.State != Quarantined || l.Approval.Source != "":
		return ""
	case len(e.secretKinds) > 0:
		return "the file holds a secret (" + strings.Join(e.secretKinds, ", ") + ")"
	case l.needsReview():
		return "the injection scan has a finding in the text; `precept lessons lint` prints it"
	}
	return ""
}

func problem(l *Lesson, code Code, field, message string) Problem {
	return Problem{Path: l.Path, Slug: l.Slug, Faults: Faults{{Code: code, Field: field, Message: message}}}
}

// IsLessonPath reports whether a bank treats a text with this name as a lesson. A name is a relative path
// with slashes. Names also come from other banks: on a system with backslash separators, a name with a
// backslash could lead out of the directory.
func IsLessonPath(name string) bool {
	if strings.ContainsAny(name, "\\\x00") {
		return false
	}
	if name != path.Clean(name) || strings.HasPrefix(name, "/") || strings.Count(name, "/") > maxDirDepth || !isLessonName(name) || strings.HasPrefix(name, companions+"/") {
		return false
	}
	return !slices.ContainsFunc(strings.Split(name, "/"), isSkipped)
}
