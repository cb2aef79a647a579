package lesson

import (
	"bytes"
	"path"
	"strings"
)

// Texts is a bank of lessons that come as texts, from a place that is no directory (the Redis of a
// fleet). It treats them as a loader treats files: a text that cannot be used leaves the last good
// version of it in force. It is for one goroutine.
type Texts struct {
	loader *loader
	raw    map[string][]byte // as last loaded
}

// NewTexts makes a bank. from stands before a text's name where people are told of it.
func NewTexts(from string, secrets ...Secrets) *Texts {
	return &Texts{loader: newLoader(from, secrets...)}
}

// Load takes a new set of texts by name (a path with slashes, ending in .md; its folders are the
// category). It gives the book, what is wrong with the texts, and whether anything is new.
func (t *Texts) Load(texts map[string][]byte) (book *Book, problems []Problem, changed bool) {
	before, first := t.loader.state(), t.raw == nil
	next := make(map[string]*entry, len(texts))
	raw := make(map[string][]byte, len(texts))
	archived := map[string]bool{}
	for name, text := range texts {
		if !IsLessonPath(name) {
			if old, ok := strings.CutPrefix(name, ArchiveDir+"/"); ok {
				archived[slugFromPath(old)] = true
			}
			continue
		}
		raw[name] = text
		old := t.loader.files[name]
		if old != nil && bytes.Equal(t.raw[name], text) {
			next[name] = old
			continue
		}
		e := &entry{path: t.loader.dir + "/" + name}
		if old != nil {
			e.lesson, e.held = old.lesson, old.held
		}
		t.loader.parse(e, name, text)
		next[name] = e
	}
	t.loader.files, t.loader.archived, t.raw = next, archived, raw
	book, problems = t.Current()
	return book, problems, first || t.loader.state() != before
}

// Current is what Load gave last.
func (t *Texts) Current() (*Book, []Problem) {
	return t.loader.assembled()
}

// IsLessonPath says whether a bank takes a file of that name, relative to it and with slashes, for
// a lesson. Names come from other banks, too: where a backslash parts folders, one in a name would
// lead out of the directory.
func IsLessonPath(name string) bool {
	if strings.ContainsAny(name, "\\\x00") {
		return false
	}
	if name != path.Clean(name) || strings.HasPrefix(name, "/") || strings.Count(name, "/") > maxDirDepth || !isLessonName(path.Base(name)) || strings.HasPrefix(name, companions+"/") {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if strings.HasPrefix(part, ".") || strings.HasPrefix(part, "_") {
			return false
		}
	}
	return true
}
