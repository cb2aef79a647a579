package lesson

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// lessonFile is a small valid file.
func lessonFile(slug, title string, keywords ...string) string {
	return fmt.Sprintf("---\nschema: learning/v1\nslug: %s\ntitle: %s\ntrigger:\n  description: d\n  metadata: {precept: {keywords: [%s]}}\n"+
		"outcome: success\nevidence: [{kind: run, ref: r1}]\n---\n\n## What to do (or avoid)\n\nDo it.\n", slug, title, strings.Join(keywords, ", "))
}

func write(tb testing.TB, path, content string) {
	tb.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		tb.Fatal(err)
	}
}

type update struct {
	book     *Book
	problems []Problem
}

// watch runs a watcher until the test is over.
func watch(t *testing.T, dir string, set func(*Watcher)) <-chan update {
	t.Helper()
	updates := make(chan update, 100)
	w := NewWatcher(dir, func(b *Book, ps []Problem) { updates <- update{b, ps} })
	w.Poll, w.Debounce = 50*time.Millisecond, 10*time.Millisecond
	if set != nil {
		set(w)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return updates
}

// await waits until the newest book has the wanted titles.
func await(t *testing.T, updates <-chan update, want ...string) update {
	t.Helper()
	deadline := time.After(20 * time.Second)
	var last []string
	for {
		select {
		case u := <-updates:
			last = nil
			for _, l := range u.book.Lessons() {
				last = append(last, l.Title)
			}
			if slices.Equal(last, want) {
				return u
			}
		case <-deadline:
			t.Fatalf("want titles %q, the newest are %q", want, last)
		}
	}
}

func TestWatcherSeesEveryWayOfChanging(t *testing.T) {
	for _, blind := range []bool{false, true} { // blind: without notifications, as on a network mount
		t.Run(fmt.Sprintf("polling=%v", blind), func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "git", "one-a.md")
			write(t, file, lessonFile("one-a", "One", "alpha beta"))
			updates := watch(t, dir, func(w *Watcher) {
				if blind {
					w.noNotify = true
				}
			})
			await(t, updates, "One")

			write(t, file+".tmp", lessonFile("one-a", "Two", "alpha beta"))
			if err := os.Rename(file+".tmp", file); err != nil {
				t.Fatal(err)
			}
			await(t, updates, "Two")

			write(t, file, lessonFile("one-a", "Three", "alpha beta"))
			await(t, updates, "Three")

			info, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			write(t, file, lessonFile("one-a", "Threw", "alpha beta")) // same size, and then the same time
			if err := os.Chtimes(file, info.ModTime(), info.ModTime()); err != nil {
				t.Fatal(err)
			}
			await(t, updates, "Threw")

			write(t, filepath.Join(dir, "new", "deep", "two-b.md"), lessonFile("two-b", "Second", "x y"))
			await(t, updates, "Threw", "Second")

			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			await(t, updates, "Second")
		})
	}
}

func TestWatcherFollowsAKubernetesVolume(t *testing.T) {
	dir := t.TempDir()
	release := func(name, title string) {
		write(t, filepath.Join(dir, name, "one-a.md"), lessonFile("one-a", title, "alpha beta"))
		if err := os.Symlink(name, filepath.Join(dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	release("..2026_01", "One")
	if err := os.Symlink("..data/one-a.md", filepath.Join(dir, "one-a.md")); err != nil {
		t.Fatal(err)
	}
	updates := watch(t, dir, nil)
	await(t, updates, "One")
	release("..2026_02", "Two")
	await(t, updates, "Two")
}

func TestWatcherDirectoryAppearsAndGoes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	updates := watch(t, dir, nil)
	await(t, updates)
	write(t, filepath.Join(dir, "one-a.md"), lessonFile("one-a", "One", "alpha beta"))
	await(t, updates, "One")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	await(t, updates)
	write(t, filepath.Join(dir, "one-a.md"), lessonFile("one-a", "Again", "alpha beta"))
	await(t, updates, "Again")
}

func TestWatcherABadFileLeavesTheOldOneInForce(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "one-a.md")
	write(t, file, lessonFile("one-a", "One", "alpha beta"))
	updates := watch(t, dir, nil)
	await(t, updates, "One")
	for _, bad := range []string{"", "---\nschema: learning/v1\nslug: one", "not a lesson", lessonFile("one-a", "''", "alpha beta")} {
		write(t, file, bad)
		u := await(t, updates, "One")
		for len(u.problems) == 0 { // nor the good one once
			u = await(t, updates, "One")
		}
		if len(u.problems) != 1 || !u.problems[0].Kept || u.problems[0].Slug != "one-a" {
			t.Errorf("%q: problems %v", bad, u.problems)
		}
		write(t, file, lessonFile("one-a", "One", "alpha beta"))
		for u = await(t, updates, "One"); len(u.problems) != 0; { // the bad one may be told of twice
			u = await(t, updates, "One")
		}
	}
	write(t, file, lessonFile("one-a", "Good again", "alpha beta"))
	if u := await(t, updates, "Good again"); len(u.problems) != 0 {
		t.Errorf("problems %v", u.problems)
	}
}

// A writer that truncates and writes in two steps must not be seen in between, even when the first
// half is a valid lesson.
func TestWatcherDoesNotReadHalfAFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "one-a.md")
	write(t, file, lessonFile("one-a", "One", "alpha beta"))
	polled(t, dir, func(t *testing.T, updates <-chan update) {
		t.Helper()
		await(t, updates, "One")
		whole := lessonFile("one-a", "Two", "alpha beta") + "\nAnd much more.\n"
		f, err := os.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for part := range slices.Chunk([]byte(whole), len(whole)-10) {
			if _, err := f.Write(part); err != nil {
				t.Fatal(err)
			}
			time.Sleep(80 * time.Millisecond) // a poll sees the first part alone
		}
		u := await(t, updates, "Two")
		if l, _ := u.book.Get("one-a"); string(l.Raw) != whole {
			t.Errorf("a partial file was read: %q", l.Raw)
		}
	})
}

// A writer that never rests is read all the same.
func TestWatcherReadsBesideABusyWriter(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "one-a.md"), lessonFile("one-a", "One", "alpha beta"))
	polled(t, dir, func(t *testing.T, updates <-chan update) {
		t.Helper()
		await(t, updates, "One")
		began := time.Now()
		for n := range 100 {
			write(t, filepath.Join(dir, "two-b.md"), lessonFile("two-b", "Two", "x"+strings.Repeat("y", n)))
			time.Sleep(30 * time.Millisecond)
			select {
			case <-updates:
				if took := time.Since(began); took > time.Second {
					t.Errorf("what changes all the time is in force after %s", took)
				}
				return
			default:
			}
		}
		t.Error("what changes all the time is never in force")
	})
}

func TestWatcherIsQuietWhenNothingChanges(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "one-a.md"), lessonFile("one-a", "One", "alpha beta"))
	polled(t, dir, func(t *testing.T, updates <-chan update) {
		t.Helper()
		await(t, updates, "One")
		write(t, filepath.Join(dir, "_index.md"), "| an index |")
		write(t, filepath.Join(dir, "notes.txt"), "notes")
		write(t, filepath.Join(dir, ".one-a.md.swp"), "editor")
		silent(t, updates)
	})
}

func TestWatcherGoesOnFromWhatWasLoaded(t *testing.T) {
	for _, changes := range []bool{false, true} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "one.md"), lessonFile("one", "One", "alpha"))
		synctest.Test(t, func(t *testing.T) {
			updates := watch(t, dir, func(w *Watcher) {
				w.noNotify = true
				book, problems, err := w.Load()
				if err != nil || len(problems) > 0 || len(book.Lessons()) != 1 {
					t.Fatalf("load: %v %v", problems, err)
				}
				if changes {
					write(t, filepath.Join(dir, "two.md"), lessonFile("two", "Two", "beta"))
				}
			})
			if changes {
				await(t, updates, "One", "Two")
			}
			silent(t, updates)
		})
	}
}

// polled runs fn beside a watcher that polls, on a clock that jumps.
func polled(t *testing.T, dir string, fn func(t *testing.T, updates <-chan update)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fn(t, watch(t, dir, func(w *Watcher) { w.noNotify, w.Debounce = true, 100*time.Millisecond }))
	})
}

// silent sees no update in a minute of the jumping clock.
func silent(t *testing.T, updates <-chan update) {
	t.Helper()
	select {
	case u := <-updates:
		t.Errorf("an update without a change: %d lessons, %v", len(u.book.Lessons()), u.problems)
	case <-time.After(time.Minute):
	}
}
