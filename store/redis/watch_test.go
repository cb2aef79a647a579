package redis_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"precept/inject/lesson"
	"precept/store/storetest"
)

// Whoever takes the lessons panics at one set of them. It is told, that set is not read again, the
// watcher goes on, and the next set comes into force.
func TestWatcherOutlivesAPanic(t *testing.T) {
	server := storetest.StartRedis(t)
	b := openBank(t, server.URL())
	var panics, taken atomic.Int64
	w := b.Watch(func(b *lesson.Book, _ []lesson.Problem) {
		if b.Len() == 1 {
			panic("one lesson")
		}
		taken.Store(int64(b.Len()))
	})
	w.Poll = 5 * time.Millisecond
	w.Panicked = func(v any) {
		if v != "one lesson" {
			t.Errorf("told of %v", v)
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
	if err := put(t.Context(), b, "a.md", []byte(good)); err != nil {
		t.Fatal(err)
	}
	await := func(what string, ok func() bool) {
		t.Helper()
		eventually(t, what, func() error {
			if !ok() {
				return errors.New("not yet")
			}
			return nil
		})
	}
	await("the panic", func() bool { return panics.Load() == 1 })
	if err := put(t.Context(), b, "b.md", []byte(strings.ReplaceAll(good, "look-first", "look-second"))); err != nil {
		t.Fatal(err)
	}
	await("the next set", func() bool { return taken.Load() == 2 })
	if n := panics.Load(); n != 1 {
		t.Errorf("it panicked %d times at one set", n)
	}
}
