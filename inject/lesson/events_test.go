package lesson_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"precept/inject/lesson"
)

// runWithKernelEvents runs fn with a watcher in real time. Without an event, the watcher walks only every 6 s, but
// waitForUpdate fails after 2 s. Therefore a test fails if the watcher gets no event for a change.
func runWithKernelEvents(t *testing.T, dir string, fn func(updates <-chan update)) {
	t.Helper()
	updates := make(chan update, 100)
	w := lesson.NewWatcher(dir, func(b *lesson.Book, problems []lesson.Problem) {
		u := update{problems: problems, book: b}
		for _, l := range b.Lessons() {
			u.titles = append(u.titles, l.Title)
		}
		updates <- u
	})
	w.Events, w.Poll, w.Debounce = true, 200*time.Millisecond, 20*time.Millisecond
	w.OnPolling = func(why error) { t.Logf("this system does not report changes: %v", why) }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	fn(updates)
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestKernelEventsReportFileChanges(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dir := filepath.Join(root, "lessons")
	file := filepath.Join(dir, "git", "one-a.md")
	writeFile(t, file, titledLesson("one-a", "One"))
	runWithKernelEvents(t, dir, func(updates <-chan update) {
		waitForUpdate(t, updates, "One")
		time.Sleep(time.Second) // afterwards, only an event starts a read
		for _, step := range []struct {
			how    string
			change func() error
			want   []string
		}{
			{"a file replaced by a rename", func() error {
				writeFile(t, file+".tmp", titledLesson("one-a", "Two"))
				return os.Rename(file+".tmp", file)
			}, []string{"Two"}},
			{"a file truncated and rewritten", func() error { writeFile(t, file, titledLesson("one-a", "Three")); return nil }, []string{"Three"}},
			{"a new folder in a new folder", func() error {
				writeFile(t, filepath.Join(dir, "new", "deep", "two-b.md"), titledLesson("two-b", "Second"))
				return nil
			}, []string{"Three", "Second"}},
			{"a file in the new folder", func() error {
				writeFile(t, filepath.Join(dir, "new", "deep", "two-b.md"), titledLesson("two-b", "Other"))
				return nil
			}, []string{"Three", "Other"}},
			{"a folder renamed, then a file written there", func() error {
				err := os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "old"))
				writeFile(t, filepath.Join(dir, "old", "deep", "two-b.md"), titledLesson("two-b", "Renamed"))
				return err
			}, []string{"Three", "Renamed"}},
			{"a file in the renamed folder", func() error {
				writeFile(t, filepath.Join(dir, "old", "deep", "two-b.md"), titledLesson("two-b", "Again"))
				return nil
			}, []string{"Three", "Again"}},
			{"a folder removed", func() error { return os.RemoveAll(filepath.Join(dir, "old")) }, []string{"Three"}},
			{"the directory renamed, and a new one in its place", func() error {
				err := os.Rename(root, root+"~")
				t.Cleanup(func() { _ = os.RemoveAll(root + "~") })
				writeFile(t, file, titledLesson("one-a", "Four"))
				return err
			}, []string{"Four"}},
			{"a file in the new directory", func() error { writeFile(t, file, titledLesson("one-a", "Five")); return nil }, []string{"Five"}},
			{"the directory removed", func() error { return os.RemoveAll(dir) }, nil},
			{"the directory created again", func() error { writeFile(t, file, titledLesson("one-a", "Six")); return nil }, []string{"Six"}},
		} {
			mustSucceed(t, step.change())
			if u := waitForUpdate(t, updates, step.want...); len(u.problems) > 0 {
				t.Errorf("%s: problems = %v, want none", step.how, u.problems)
			}
			time.Sleep(time.Second)
		}
	})
}

// Kubernetes updates the files in a volume by replacing the ..data link.
func TestKernelEventsReportReplacedLinks(t *testing.T) {
	t.Parallel()
	dir, elsewhere := t.TempDir(), t.TempDir()
	release := func(name, title string) {
		writeFile(t, filepath.Join(dir, name, "one-a.md"), titledLesson("one-a", title))
		makeSymlink(t, name, filepath.Join(dir, "..data_tmp"))
		mustSucceed(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	}
	release("..2026_01", "One")
	makeSymlink(t, "..data/one-a.md", filepath.Join(dir, "one-a.md"))
	writeFile(t, filepath.Join(elsewhere, "x", "two-b.md"), titledLesson("two-b", "Second"))
	makeSymlink(t, filepath.Join(elsewhere, "x"), filepath.Join(dir, "linked"))
	writeFile(t, filepath.Join(elsewhere, "three-c.md"), titledLesson("three-c", "Third"))
	makeSymlink(t, filepath.Join(elsewhere, "three-c.md"), filepath.Join(dir, "three-c.md"))
	runWithKernelEvents(t, dir, func(updates <-chan update) {
		waitForUpdate(t, updates, "One", "Third", "Second")
		time.Sleep(time.Second)
		release("..2026_02", "Two")
		waitForUpdate(t, updates, "Two", "Third", "Second")
		time.Sleep(time.Second)
		mustSucceed(t, os.Rename(filepath.Join(elsewhere, "x"), filepath.Join(elsewhere, "y")))
		writeFile(t, filepath.Join(elsewhere, "x", "two-b.md"), titledLesson("two-b", "Swapped"))
		waitForUpdate(t, updates, "Two", "Third", "Swapped")
		time.Sleep(time.Second)
		writeFile(t, filepath.Join(elsewhere, "three-c.md"), titledLesson("three-c", "Written"))
		waitForUpdate(t, updates, "Two", "Written", "Swapped")
	})
}
