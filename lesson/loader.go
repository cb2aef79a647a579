package lesson

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// readers is how many files are read at once.
const readers = 4

// Load reads a directory of lessons: each *.md file, subfolders being categories, except what
// starts with a dot or an underscore. A file that cannot be used is a problem, not an error; the
// error tells of the directory itself. A directory that does not exist is an empty book.
func Load(dir string, secrets ...Secrets) (*Book, []Problem, error) {
	return newLoader(dir, secrets...).Load()
}

// Secrets names the kinds of secrets in a text.
type Secrets = func(text string) []string

// loader reads a directory again and again, remembering what it read: an unchanged file is not read
// twice, and a file that has gone bad leaves its last good version in force. It is for one
// goroutine.
type loader struct {
	dir      string
	files    map[string]*entry // by path relative to dir, slashes
	blind    []string          // folders that could not be looked into
	archived map[string]bool   // slugs of archived lessons

	secrets []Secrets // what they find is kept from models until somebody approves that very text

	before func(rel string) // a test's: called before a text is parsed
}

// entry is what the bank knows of one file.
type entry struct {
	info   fs.FileInfo
	path   string // as opened
	lesson *Lesson
	faults Faults   // of the newest version; then lesson is the one before, or nil
	held   []string // kinds of secrets, for which it waits for approval
	fresh  bool     // read in this load
}

// newLoader makes a bank of a directory without touching it.
func newLoader(dir string, secrets ...Secrets) *loader {
	return &loader{dir: dir, files: map[string]*entry{}, secrets: secrets}
}

// Load brings the bank up to date. With an error the bank is as it was.
func (b *loader) Load() (*Book, []Problem, error) { return b.load(nil) }

// load reads what has changed; dirty names files (relative) to read whatever their stat says, nil
// means none.
func (b *loader) load(dirty map[string]bool) (*Book, []Problem, error) {
	found, blind, problems, err := list(b.dir)
	if err != nil {
		return nil, nil, err
	}
	next := make(map[string]*entry, len(found))
	var todo []string
	for rel, e := range found {
		old := b.files[rel]
		if old != nil && !dirty[rel] && sameFile(old.info, e.info) {
			old.fresh = false
			next[rel] = old
			continue
		}
		if old != nil {
			e.lesson, e.held = old.lesson, old.held
		}
		next[rel] = e
		todo = append(todo, rel)
	}
	for rel, old := range b.files {
		if at := folderOf(rel, blind); next[rel] == nil && at >= 0 {
			old.fresh = false
			next[rel] = old
			problems[at].Kept = true
		}
	}
	b.readAll(next, todo)
	b.files, b.blind, b.archived = next, blind, archivedIn(b.dir)
	book, more := b.assembled()
	return book, append(problems, more...), nil
}

// assembled is the book of what the loader holds, and what only the whole can tell.
func (b *loader) assembled() (*Book, []Problem) {
	lessons, problems := b.assemble()
	book := NewBook(lessons)
	book.archived = b.archived
	return book, problems
}

// archivedIn lists the slugs of a directory's archive; a file there is named by its slug. One that
// cannot be read has none.
func archivedIn(dir string) map[string]bool {
	found, _, _, err := list(filepath.Join(dir, ArchiveDir))
	if err != nil || len(found) == 0 {
		return nil
	}
	archived := make(map[string]bool, len(found))
	for rel := range found {
		archived[slugFromPath(rel)] = true
	}
	return archived
}

// differs says whether the directory is no longer what was read.
func (b *loader) differs(found map[string]*entry, blind []string) bool {
	if !slices.Equal(blind, b.blind) {
		return true
	}
	for rel := range b.files {
		if found[rel] == nil && folderOf(rel, blind) < 0 {
			return true
		}
	}
	for rel, e := range found {
		if old := b.files[rel]; old == nil || !sameFile(old.info, e.info) {
			return true
		}
	}
	return false
}

// state is a hash over all that the bank holds: bytes in force and faults.
func (b *loader) state() string {
	h := sha256.New()
	for _, rel := range slices.Sorted(maps.Keys(b.files)) {
		e := b.files[rel]
		hashString(h, rel)
		hashString(h, e.faults.Error())
		if e.lesson != nil {
			hashString(h, string(e.lesson.Raw))
		}
	}
	hashList(h, b.blind)
	hashList(h, slices.Sorted(maps.Keys(b.archived)))
	return string(h.Sum(nil))
}

// readAll parses the named files, a few at a time.
func (b *loader) readAll(files map[string]*entry, names []string) {
	work := make(chan string)
	var wg sync.WaitGroup
	for range min(readers, len(names)) {
		wg.Go(func() {
			for rel := range work {
				b.read(files[rel], rel)
			}
		})
	}
	for _, rel := range names {
		work <- rel
	}
	close(work)
	wg.Wait()
}

// read replaces the entry's lesson by the newest version, or says why it cannot.
func (b *loader) read(e *entry, rel string) {
	e.fresh = true
	raw, err := readFile(e.path, e.info)
	if err != nil {
		e.faults = Faults{{Code: CodeInvalid, Message: err.Error()}}
		return
	}
	b.parse(e, rel, raw)
}

// parse replaces the entry's lesson by what the text says, or says why it cannot.
func (b *loader) parse(e *entry, rel string, raw []byte) {
	defer func() {
		if v := recover(); v != nil {
			e.faults = Faults{{Code: CodeInternal, Message: fmt.Sprintf("reading it made precept panic, please report it: %v", v)}}
		}
	}()
	if b.before != nil {
		b.before(rel)
	}
	e.fresh = true
	l, faults := parse(rel, raw)
	e.faults = faults
	if l != nil {
		e.held = b.hold(l)
		l.Path = e.path
		if dir := path.Dir(rel); dir != "." {
			l.Category = dir
		}
		e.lesson = l
	}
}

// hold quarantines a lesson that would show models a secret, unless somebody approved that very
// text.
func (b *loader) hold(l *Lesson) (kinds []string) {
	if !l.State.Fires() || l.Approval.ContentHash == l.ContentHash {
		return nil
	}
	for _, find := range b.secrets {
		kinds = append(kinds, find(l.Title+"\n"+l.Advice)...)
	}
	if len(kinds) > 0 {
		l.State = Quarantined
	}
	return kinds
}

// readFile reads a regular file of at most MaxFile bytes. Size and kind are looked at first: a file
// of 100 MB is not read, and opening a named pipe would wait for ever.
func readFile(path string, info fs.FileInfo) ([]byte, error) {
	if !info.Mode().IsRegular() {
		return nil, errors.New("is not a regular file; replace it by one, or rename it to start with _")
	}
	if info.Size() > MaxFile {
		return nil, fmt.Errorf("has %d bytes, more than the %d allowed; move the long part to a companion file", info.Size(), MaxFile)
	}
	f, err := os.Open(path) //nolint:gosec // the operator's own directory
	if err != nil {
		return nil, fmt.Errorf("cannot be opened; check its permissions: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	raw, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	return raw, nil
}

// assemble makes the list of lessons out of the entries, and checks what only the whole can tell:
// two files with one slug, superseded lessons that are not there, circles.
func (b *loader) assemble() ([]*Lesson, []Problem) {
	var lessons []*Lesson
	var problems []Problem
	owner := map[string]string{}
	for _, rel := range slices.Sorted(maps.Keys(b.files)) {
		e := b.files[rel]
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
		if first, taken := owner[e.lesson.Slug]; taken {
			problems = append(problems, problem(e.lesson, CodeCollision, "slug",
				fmt.Sprintf("the slug %q is already taken by %s, which stays in force; give this lesson another slug", e.lesson.Slug, first)))
			continue
		}
		owner[e.lesson.Slug] = e.path
		if why := e.waits(); why != "" {
			p := problem(e.lesson, CodeInvalid, "", "is quarantined, for "+why+"; correct it, or read it and approve it with --force")
			p.Quarantined = true
			problems = append(problems, p)
		}
		lessons = append(lessons, e.lesson)
	}
	return lessons, append(problems, links(lessons, b.archived)...)
}

// waits says why a person's file is not in force, "" where it is, or where a person has decided so.
func (e *entry) waits() string {
	switch l := e.lesson; {
	case l.State != Quarantined || l.Approval.Source != "":
		return ""
	case len(e.held) > 0:
		return "it holds a secret (" + strings.Join(e.held, ", ") + ")"
	case l.unseen():
		return "the injection scan finds something in it (precept lessons lint tells what)"
	}
	return ""
}

// links reports supersedes entries that name nothing, and circles. Such a lesson stays in force;
// its link does nothing.
func links(lessons []*Lesson, archived map[string]bool) []Problem {
	var out []Problem
	known := make(map[string]*Lesson, len(lessons))
	for _, l := range lessons {
		known[l.Slug] = l
	}
	for _, l := range lessons {
		for i, old := range l.Supersedes {
			if known[old] == nil && !archived[old] {
				out = append(out, problem(l, CodeSupersedes, fmt.Sprintf("supersedes[%d]", i),
					fmt.Sprintf("there is no lesson %q; correct the slug or remove it", old)))
			}
		}
	}
	for _, slug := range circles(lessons) {
		out = append(out, problem(known[slug], CodeInvalid, "supersedes",
			"the lesson supersedes itself, directly or through others; break the circle"))
	}
	return out
}

func problem(l *Lesson, code Code, field, message string) Problem {
	return Problem{Path: l.Path, Slug: l.Slug, Faults: Faults{{Code: code, Field: field, Message: message}}}
}
