package storetest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"precept/inject/lesson"
)

// BankWriter changes a bank (a set of lesson files). The name of a lesson file is a path with slashes.
type BankWriter interface {
	Put(t *testing.T, name, text string)
	Delete(t *testing.T, name string)
}

// OpenBank returns a writer for an empty bank, and a function run that watches the bank. For each change, run calls
// onBook with a new book (the valid lessons) and the problems in the bank.
type OpenBank func(t *testing.T, onBook func(*lesson.Book, []lesson.Problem)) (w BankWriter, run func(context.Context) error)

// RunBank runs the conformance suite for lesson banks.
func RunBank(t *testing.T, open OpenBank) {
	t.Helper()
	for name, run := range map[string]func(*testing.T, *watchedBank){
		"empty bank has no lessons": func(t *testing.T, w *watchedBank) {
			t.Helper()
			w.await(t, "a book", func(b *lesson.Book, p []lesson.Problem) bool { return b.Len() == 0 && len(p) == 0 })
		},
		"lessons are added, changed and deleted": func(t *testing.T, w *watchedBank) {
			t.Helper()
			w.Put(t, "a.md", lessonText("aaa", "one"))
			w.Put(t, "deep/folder/b.md", lessonText("bbb", "two"))
			w.await(t, "two lessons", hasSlugs("aaa", "bbb"))
			if l, _ := w.last().Get("bbb"); l.Category != "deep/folder" {
				t.Errorf("category of lesson bbb: got %q, want deep/folder", l.Category)
			}
			hash := w.last().Hash()
			w.Put(t, "a.md", lessonText("aaa", "one, changed"))
			w.await(t, "the changed lesson", func(b *lesson.Book, _ []lesson.Problem) bool { return b.Len() == 2 && b.Hash() != hash })
			w.Delete(t, "deep/folder/b.md")
			w.await(t, "one lesson after the deletion", hasSlugs("aaa"))
		},
		"invalid change keeps the old lesson": func(t *testing.T, w *watchedBank) {
			t.Helper()
			w.Put(t, "a.md", lessonText("aaa", "one"))
			w.await(t, "the lesson", hasSlugs("aaa"))
			before, _ := w.last().Get("aaa")
			w.Put(t, "a.md", "---\nname: [\n---\n")
			w.await(t, "the problem", func(b *lesson.Book, p []lesson.Problem) bool {
				return len(p) == 1 && p[0].PreviousActive && p[0].Slug == "aaa"
			})
			if after, ok := w.last().Get("aaa"); !ok || after.Raw != before.Raw {
				t.Errorf("lesson aaa after an invalid change: got %v, found = %v, want the lesson from before the change", after, ok)
			}
			w.Put(t, "a.md", lessonText("aaa", "two"))
			w.await(t, "the repaired lesson", func(b *lesson.Book, p []lesson.Problem) bool {
				l, ok := b.Get("aaa")
				return ok && len(p) == 0 && strings.Contains(l.Raw, "two")
			})
		},
		"invalid new lesson is reported": func(t *testing.T, w *watchedBank) {
			t.Helper()
			w.Put(t, "a.md", lessonText("aaa", "one"))
			w.Put(t, "bad.md", "no frontmatter")
			w.await(t, "the problem", func(b *lesson.Book, p []lesson.Problem) bool {
				return b.Len() == 1 && len(p) == 1 && !p[0].PreviousActive && strings.HasSuffix(p[0].Path, "bad.md")
			})
		},
		"first lesson with a slug wins": func(t *testing.T, w *watchedBank) {
			t.Helper()
			w.Put(t, "a.md", lessonText("same", "one"))
			w.await(t, "the first lesson", hasSlugs("same"))
			w.Put(t, "b.md", lessonText("same", "two"))
			w.await(t, "the problem with the second lesson", func(b *lesson.Book, p []lesson.Problem) bool {
				l, ok := b.Get("same")
				return ok && b.Len() == 1 && len(p) == 1 && strings.HasSuffix(l.Path, "a.md")
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &watchedBank{}
			writer, watch := open(t, w.receive)
			w.BankWriter = writer
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- watch(ctx) }()
			defer func() {
				cancel()
				if err := <-done; err != nil {
					t.Errorf("error from the watcher: %v", err)
				}
			}()
			w.await(t, "the first book", func(*lesson.Book, []lesson.Problem) bool { return true })
			run(t, w)
		})
	}
}

func lessonText(slug, advice string) string {
	return strings.NewReplacer("SLUG", slug, "ADVICE", advice).Replace(`---
schema: learning/v1
slug: SLUG
title: Look before you leap (SLUG).
trigger:
  description: when the task is about SLUG
outcome: success
evidence:
  - kind: run
    ref: test/1
---

# Look before you leap (SLUG).

## What to do (or avoid)

Look first: ADVICE.
`)
}

// hasSlugs returns a condition for await: the book must contain exactly the lessons with the wanted slugs, which must
// be sorted.
func hasSlugs(want ...string) func(*lesson.Book, []lesson.Problem) bool {
	return func(b *lesson.Book, _ []lesson.Problem) bool {
		var got []string
		for _, l := range b.Lessons() {
			got = append(got, l.Slug)
		}
		slices.Sort(got)
		return slices.Equal(got, want)
	}
}

// watchedBank is a bank together with the last book and the last problems that its watcher has reported.
type watchedBank struct {
	BankWriter

	mu       sync.Mutex
	book     *lesson.Book
	problems []lesson.Problem
}

func (w *watchedBank) receive(b *lesson.Book, p []lesson.Problem) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.book, w.problems = b, p
}

func (w *watchedBank) last() *lesson.Book {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.book
}

// await waits until ok returns true for the watcher's last book and problems. The argument event says in the failure
// message for which book await waited.
func (w *watchedBank) await(t *testing.T, event string, ok func(*lesson.Book, []lesson.Problem) bool) {
	t.Helper()
	for end := time.Now().Add(startLimit); time.Now().Before(end); time.Sleep(10 * time.Millisecond) { //nolint:forbidigo // the watcher uses the real clock
		w.mu.Lock()
		book, problems := w.book, w.problems
		w.mu.Unlock()
		if book != nil && ok(book, problems) {
			return
		}
	}
	t.Fatalf("timed out after %v waiting for %s: the last book has %d lessons and problems %v", startLimit, event, w.last().Len(), w.problems)
}
