package redis_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"precept/inject/bank"
	"precept/inject/bank/banktest"
	"precept/inject/lesson"
	"precept/internal/session"
	"precept/store/redis"
	"precept/store/storetest"
)

func openLessonStore(t *testing.T, url string) *redis.Bank {
	t.Helper()
	b, err := redis.OpenBank(redis.Options{URL: url, Now: time.Now, Timeout: longTimeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// remoteWriter is a storetest.BankWriter that changes lessons through a separate Bank, as another process would.
type remoteWriter struct{ *redis.Bank }

// setText sets the text of a lesson. If the text is nil, setText deletes the lesson.
func setText(ctx context.Context, b *redis.Bank, name string, text []byte) error {
	r, err := b.Read(ctx)
	if err != nil {
		return err
	}
	return b.Commit(ctx, bank.Change{Version: r.Version, Edits: []bank.Edit{{Name: name, Old: r.Texts[name], New: text}}})
}

func (w remoteWriter) Put(t *testing.T, name, text string) {
	t.Helper()
	if err := setText(t.Context(), w.Bank, name, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func (w remoteWriter) Delete(t *testing.T, name string) {
	t.Helper()
	if err := setText(t.Context(), w.Bank, name, nil); err != nil {
		t.Fatal(err)
	}
}

// openerWithWatcher returns a function that opens a writer, and a watcher that polls at the interval poll.
func openerWithWatcher(url func(prefix string) string, poll time.Duration) storetest.OpenBank {
	var n atomic.Int64
	return func(t *testing.T, onBook func(*lesson.Book, []lesson.Problem)) (storetest.BankWriter, func(context.Context) error) {
		t.Helper()
		bankURL := url(fmt.Sprint("b", poll.Milliseconds(), "-", n.Add(1)))
		w := openLessonStore(t, bankURL).Watch(nil, onBook)
		w.Poll = poll
		return remoteWriter{openLessonStore(t, bankURL)}, w.Run
	}
}

func TestPollingWatcherMeetsBankContract(t *testing.T) {
	server := storetest.StartRedis(t)
	storetest.RunBank(t, openerWithWatcher(func(prefix string) string { return server.URL() + "?prefix=" + prefix }, 50*time.Millisecond))
}

func TestBankInAClusterMeetsBankContract(t *testing.T) {
	cluster := storetest.StartCluster(t)
	storetest.RunBank(t, openerWithWatcher(func(prefix string) string { return cluster.URL("prefix=" + prefix) }, 50*time.Millisecond))
}

const lessonText = `---
schema: learning/v1
slug: look-first
title: Look first.
trigger:
  description: when looking helps
outcome: success
evidence:
  - kind: run
    ref: test/1
---

# Look first.

## What to do (or avoid)

Look first.
`

// The watcher polls only once an hour, so only the published message can report the change.
func TestWatcherGetsPublishedChange(t *testing.T) {
	server := storetest.StartRedis(t)
	books := make(chan *lesson.Book, 16)
	w := openLessonStore(t, server.URL()).Watch(nil, func(b *lesson.Book, _ []lesson.Problem) { books <- b })
	w.Poll = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	defer func() { cancel(); <-done }()
	<-books // the first book is empty
	eventually(t, "a subscription", func() error {
		list, _ := server.MustDo(t, "PUBSUB", "CHANNELS").([]any)
		if len(list) == 0 {
			return errors.New("no subscriber listens")
		}
		return nil
	})
	if err := setText(t.Context(), openLessonStore(t, server.URL()), "a.md", []byte(lessonText)); err != nil {
		t.Fatal(err)
	}
	select {
	case b := <-books:
		if b.Len() != 1 {
			t.Errorf("lessons in the published book: got %d, want 1", b.Len())
		}
	case <-time.After(20 * time.Second):
		t.Fatal("timed out after 20 s waiting for the new lesson")
	}
}

func TestBankKeepsLessonsDuringAnOutage(t *testing.T) {
	server := storetest.StartRedis(t)
	type loadedBook struct {
		book     *lesson.Book
		problems []lesson.Problem
	}
	var lastLoaded atomic.Pointer[loadedBook]
	b := openLessonStore(t, server.URL())
	if err := setText(t.Context(), b, "a.md", []byte(lessonText)); err != nil {
		t.Fatal(err)
	}
	w := b.Watch(nil, func(b *lesson.Book, p []lesson.Problem) { lastLoaded.Store(&loadedBook{b, p}) })
	w.Poll = 20 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	defer func() { cancel(); <-done }()
	await := func(moment string, lessons int, problem string) {
		t.Helper()
		eventually(t, moment, func() error {
			current := lastLoaded.Load()
			if current == nil {
				return errors.New("the watcher has not reported a book")
			}
			text := fmt.Sprint(current.problems)
			wantProblems := "no problem"
			if problem != "" {
				wantProblems = fmt.Sprintf("a problem that contains %q", problem)
			}
			if current.book.Len() != lessons || (problem == "") != (len(current.problems) == 0) || !strings.Contains(text, problem) {
				return fmt.Errorf("got %d lessons and the problems %s, want %d lessons and the problems %s", current.book.Len(), text, lessons, wantProblems)
			}
			return nil
		})
	}
	await("before the outage", 1 /* lesson */, "" /* no problem */)
	server.Kill()
	await("while Redis is down", 1, "cannot be reached")
	if err := server.Start(); err != nil { // the restarted server is empty, because it has stored no data on the disk
		t.Fatal(err)
	}
	await("after Redis lost its data", 1, "lost the lessons")
	eventually(t, "writing after the restart", func() error {
		return errors.Join(setText(t.Context(), b, "a.md", []byte(lessonText)), setText(t.Context(), b, "b.md", []byte(strings.ReplaceAll(lessonText, "look-first", "look-second"))))
	})
	await("after the lessons were written again", 2, "")
	if err := errors.Join(setText(t.Context(), b, "a.md", nil), setText(t.Context(), b, "b.md", nil)); err != nil {
		t.Fatal(err)
	}
	await("after the lessons were deleted", 0, "")
}

func TestBankRefusesInvalidNamesAndTexts(t *testing.T) {
	b := openLessonStore(t, storetest.StartRedis(t).URL())
	for _, name := range []string{"", "a.txt", "README.md", "../a.md", "/a.md", "_a.md", "x/.b/a.md", "a//b.md", strings.Repeat("d/", 20) + "a.md"} {
		if err := setText(t.Context(), b, name, []byte(lessonText)); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("write of a lesson with the name %q: got error %v, want session.ErrInvalid", name, err)
		}
	}
	if err := setText(t.Context(), b, "a.md", make([]byte, lesson.MaxFileSize+1)); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("write of a lesson that is too long: got error %v, want session.ErrInvalid", err)
	}
	texts, version, err := b.Texts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(texts) != 0 {
		t.Errorf("Texts after refused lessons = %+v, want none", texts)
	}
	if version != "" {
		t.Errorf(`Texts after refused lessons: version = %q, want ""`, version)
	}
}

func TestBankMeetsStorageContract(t *testing.T) {
	server := storetest.StartRedis(t)
	var n atomic.Int64
	banktest.Run(t, func(t *testing.T) bank.Storage {
		t.Helper()
		return openLessonStore(t, server.URL()+fmt.Sprintf("?prefix=bank%d", n.Add(1)))
	})
}

func TestWatcherSurvivesCallbackPanic(t *testing.T) {
	server := storetest.StartRedis(t)
	b := openLessonStore(t, server.URL())
	var panics, lessons atomic.Int64
	w := b.Watch(nil, func(b *lesson.Book, _ []lesson.Problem) {
		if b.Len() == 1 {
			panic("one lesson")
		}
		lessons.Store(int64(b.Len()))
	})
	w.Poll = 5 * time.Millisecond
	w.OnPanic = func(v any) {
		if v != "one lesson" {
			t.Errorf(`reported panic: got %v, want "one lesson"`, v)
		}
		panics.Add(1)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	if err := setText(t.Context(), b, "a.md", []byte(lessonText)); err != nil {
		t.Fatal(err)
	}
	await := func(event string, ok func() bool) {
		t.Helper()
		eventually(t, event, func() error {
			if !ok() {
				return errors.New("not yet")
			}
			return nil
		})
	}
	await("the panic", func() bool { return panics.Load() == 1 })
	if err := setText(t.Context(), b, "b.md", []byte(strings.ReplaceAll(lessonText, "look-first", "look-second"))); err != nil {
		t.Fatal(err)
	}
	await("the next book", func() bool { return lessons.Load() == 2 })
	if n := panics.Load(); n != 1 {
		t.Errorf("panics in the callback: got %d, want 1", n)
	}
}
