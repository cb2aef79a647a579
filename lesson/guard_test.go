package lesson

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const plainLesson = `---
match:
  keywords: ["%s"]
---
# Look twice

## Rule
Look twice.
`

// A file that makes the parser panic is a file with a fault; the others are in force, and the next
// version of it is read.
func TestAPanicCostsOneFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(name, word string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Replace(plainLesson, "%s", word, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("good.md", "first word")
	put("bad.md", "second word")
	bad := atomic.Bool{}
	bad.Store(true)
	books := make(chan *Book, 16)
	w := NewWatcher(dir, func(b *Book, _ []Problem) { books <- b })
	w.Poll = 20 * time.Millisecond
	w.loader.before = func(rel string) {
		if rel == "bad.md" && bad.Load() {
			panic("poison")
		}
	}
	book, problems, err := w.Load()
	if err != nil || len(book.Lessons()) != 1 || len(problems) != 1 || !strings.Contains(problems[0].Error(), "poison") {
		t.Fatalf("%d lessons, %v, %v", len(book.Lessons()), problems, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	bad.Store(false)
	put("bad.md", "another word")
	for len(book.Lessons()) != 2 {
		select {
		case book = <-books:
		case <-time.After(5 * time.Second):
			t.Fatal("the new version was not read")
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Whoever is called back with a book panics: the watcher tells of it and goes on.
func TestAPanicCostsOneLook(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	calls := make(chan int, 16)
	n := 0
	w := NewWatcher(dir, func(*Book, []Problem) {
		n++
		calls <- n
		if n == 1 {
			panic("poison")
		}
	})
	told := make(chan string, 16)
	w.Panicked = func(step string, _ any) { told <- step }
	w.Poll, w.Debounce = 20*time.Millisecond, 10*time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	<-calls
	if step := <-told; step != "lessons" {
		t.Errorf("told of %q", step)
	}
	if err := os.WriteFile(filepath.Join(dir, "a.md"), []byte(strings.Replace(plainLesson, "%s", "some words", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	select {
	case <-calls:
	case <-time.After(5 * time.Second):
		t.Error("it did not go on")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
