package bank

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"

	"precept/inject/lesson"
)

// maxLessons is the maximum number of lessons in a bank; package lesson has the same limit for a directory.
const maxLessons = 50_000

// Replace replaces all unarchived lessons with texts. It returns an event for each changed lesson, and the findings of
// the checks. If the checks refuse a text, nothing changes.
func (b *Bank) Replace(ctx context.Context, texts map[string][]byte, by string) (changed []lesson.Event, findings []lesson.Finding, err error) {
	if len(texts) > maxLessons {
		return nil, nil, newRefused(lesson.CodeInvalid, "", "there are %d lessons, more than the %d allowed; check that the directory is correct", len(texts), maxLessons)
	}
	err = b.update(ctx, func(s *snapshot) (Change, error) {
		next := *s
		var problems []lesson.Problem
		next.book, problems, _ = lesson.NewTexts(s.storageName).Load(withArchive(texts, s.texts))
		if len(problems) > 0 {
			return Change{}, &Refused{faultsWithPaths(problems)}
		}
		findings = b.checks(s).CheckBook(next.book)
		if faults := lesson.SelectErrors(findings); faults != nil {
			return Change{}, &Refused{faults}
		}
		c := s.changeTo(&next, texts, by)
		changed = c.Log
		return c, nil
	})
	return changed, findings, err
}

// CopyIn adds texts that another bank has checked, and replaces existing texts that have the same names. n is the
// number of unarchived texts.
func (b *Bank) CopyIn(ctx context.Context, texts map[string][]byte, by string) (n int, err error) {
	err = b.update(ctx, func(s *snapshot) (Change, error) {
		next := *s
		all := maps.Clone(s.texts)
		maps.Copy(all, texts)
		next.book, _, _ = lesson.NewTexts(s.storageName).Load(all)
		n = 0
		for name := range texts {
			if !IsName(name) {
				return Change{}, newRefused(lesson.CodeInvalid, "", "%q is not a lesson file name; nothing was written", name)
			}
			if !strings.HasPrefix(name, Archive) {
				n++
			}
		}
		return s.changeTo(&next, all, by), nil
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// withArchive returns texts together with the archived texts in all, because lessons can refer to archived lessons.
func withArchive(texts, all map[string][]byte) map[string][]byte {
	out := maps.Clone(texts)
	for name, text := range all {
		if strings.HasPrefix(name, Archive) {
			out[name] = text
		}
	}
	return out
}

// faultsWithPaths puts the file path before each message.
func faultsWithPaths(problems []lesson.Problem) (out lesson.ValidationErrors) {
	for _, p := range problems {
		for _, f := range p.Errors {
			f.Message = p.Path + ": " + f.Message
			out = append(out, f)
		}
	}
	return out
}

// changeTo returns the change from s to texts, with events for the differences between s and next.
func (s *snapshot) changeTo(next *snapshot, texts map[string][]byte, by string) (c Change) {
	for name, text := range texts {
		if old, exists := s.texts[name]; !exists || !bytes.Equal(old, text) {
			c.Edits = append(c.Edits, Edit{Name: name, Old: old, New: text})
		}
	}
	for name, old := range s.texts {
		if _, stays := texts[name]; !stays && !strings.HasPrefix(name, Archive) {
			c.Edits = append(c.Edits, Edit{Name: name, Old: old})
		}
	}
	slices.SortFunc(c.Edits, func(x, y Edit) int { return strings.Compare(x.Name, y.Name) })
	for _, l := range next.book.Lessons() {
		old, exists := s.book.Get(l.Slug)
		switch {
		case !exists:
			c.Log = append(c.Log, s.event(l, lesson.Event{Action: "create", By: by, To: l.State}))
		case old.Raw != l.Raw:
			c.Log = append(c.Log, s.event(l, lesson.Event{Action: "edit", By: by, From: old.State, To: l.State}))
		}
	}
	for _, l := range s.book.Lessons() {
		if _, stays := next.book.Get(l.Slug); !stays {
			c.Log = append(c.Log, s.event(l, lesson.Event{Action: "remove", By: by, From: l.State}))
		}
	}
	return c
}
