package lesson_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"precept/inject/lesson"
)

func titledLesson(slug, title string) string {
	return lessonFile(slug, "Check the page before clicking", title)
}

type update struct {
	titles   []string // titles of the book's lessons, in the order of their slugs
	problems []lesson.Problem
	book     *lesson.Book
}

// runWithWatcher runs fn with a watcher on dir and a fake clock.
func runWithWatcher(t *testing.T, dir string, fn func(t *testing.T, updates <-chan update), secrets ...lesson.SecretFinder) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		updates := make(chan update, 100)
		w := lesson.NewWatcher(dir, func(b *lesson.Book, problems []lesson.Problem) {
			u := update{problems: problems, book: b}
			for _, l := range b.Lessons() {
				u.titles = append(u.titles, l.Title)
			}
			updates <- u
		}, secrets...)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		fn(t, updates)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// waitForUpdate waits at most two seconds for a book whose lessons have the titles in want, and returns this update.
func waitForUpdate(t *testing.T, updates <-chan update, want ...string) update {
	t.Helper()
	deadline := time.After(2 * time.Second)
	var last update
	for {
		select {
		case last = <-updates:
			if slices.Equal(last.titles, want) {
				return last
			}
		case <-deadline:
			t.Fatalf("newest update after two seconds: titles = %q, problems = %v, want titles %q", last.titles, last.problems, want)
		}
	}
}

// assertNoUpdate checks that no update arrives within a minute, which is 60 polls.
func assertNoUpdate(t *testing.T, updates <-chan update) {
	t.Helper()
	select {
	case u := <-updates:
		t.Errorf("got an update with titles %q and problems %v, want none", u.titles, u.problems)
	case <-time.After(time.Minute):
	}
}

func mustSucceed(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestWatcherReportsEveryChange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "git", "one-a.md")
	writeFile(t, file, titledLesson("one-a", "One"))
	runWithWatcher(t, dir, func(t *testing.T, updates <-chan update) {
		t.Helper()
		waitForUpdate(t, updates, "One")
		for _, step := range []struct {
			how    string
			change func() error
			want   []string
		}{
			{"a file replaced by a rename", func() error {
				writeFile(t, file+".tmp", titledLesson("one-a", "Two"))
				return os.Rename(file+".tmp", file)
			}, []string{"Two"}},
			{"a file moved away and written again", func() error {
				err := os.Rename(file, file+"~")
				writeFile(t, file, titledLesson("one-a", "Three"))
				return err
			}, []string{"Three"}},
			{"a file truncated and rewritten", func() error { writeFile(t, file, titledLesson("one-a", "Four")); return nil }, []string{"Four"}},
			{"a file written with the same size and time", func() error {
				info, err := os.Stat(file)
				mustSucceed(t, err)
				writeFile(t, file, titledLesson("one-a", "Five"))
				return os.Chtimes(file, info.ModTime(), info.ModTime())
			}, []string{"Five"}},
			{"a new folder in a new folder", func() error {
				writeFile(t, filepath.Join(dir, "new", "deep", "two-b.md"), titledLesson("two-b", "Second"))
				return nil
			}, []string{"Five", "Second"}},
			{"a folder renamed", func() error {
				return os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "old"))
			}, []string{"Five", "Second"}},
			{"a file removed", func() error { return os.Remove(file) }, []string{"Second"}},
			{"a folder removed", func() error { return os.RemoveAll(filepath.Join(dir, "old")) }, nil},
		} {
			mustSucceed(t, step.change())
			if u := waitForUpdate(t, updates, step.want...); len(u.problems) > 0 {
				t.Errorf("%s: problems = %v, want none", step.how, u.problems)
			}
			assertNoUpdate(t, updates)
		}
	})
}

// Kubernetes updates the files in a volume by replacing the ..data link.
func TestWatcherFollowsKubernetesVolume(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	release := func(name, title string) {
		writeFile(t, filepath.Join(dir, name, "one-a.md"), titledLesson("one-a", title))
		makeSymlink(t, name, filepath.Join(dir, "..data_tmp"))
		mustSucceed(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	}
	release("..2026_01", "One")
	makeSymlink(t, "..data/one-a.md", filepath.Join(dir, "one-a.md"))
	runWithWatcher(t, dir, func(t *testing.T, updates <-chan update) {
		t.Helper()
		waitForUpdate(t, updates, "One")
		release("..2026_02", "Two")
		waitForUpdate(t, updates, "Two")
	})
}

// If a file replaces the directory, the lessons stay active.
func TestWatcherFollowsAppearingAndVanishingDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "later")
	file := filepath.Join(dir, "one-a.md")
	runWithWatcher(t, dir, func(t *testing.T, updates <-chan update) {
		t.Helper()
		waitForUpdate(t, updates)
		writeFile(t, file, titledLesson("one-a", "One"))
		waitForUpdate(t, updates, "One")
		mustSucceed(t, os.RemoveAll(dir))
		waitForUpdate(t, updates)
		writeFile(t, file, titledLesson("one-a", "Again"))
		waitForUpdate(t, updates, "Again")

		mustSucceed(t, os.Rename(dir, dir+"~"))
		writeFile(t, dir, "a file")
		u := waitForUpdate(t, updates, "Again")
		if len(u.problems) != 1 || !u.problems[0].PreviousActive || u.problems[0].Path != dir || !strings.Contains(u.problems[0].Error(), "not a directory") {
			t.Errorf("file instead of the directory: problems = %v, want one with PreviousActive and \"not a directory\"", u.problems)
		}
		assertNoUpdate(t, updates)
		mustSucceed(t, os.Remove(dir), os.Rename(dir+"~", dir))
		if u := waitForUpdate(t, updates, "Again"); len(u.problems) > 0 {
			t.Errorf("directory restored: problems = %v, want none", u.problems)
		}
	})
}

func TestWatcherKeepsLessonWhenFileTurnsInvalid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "one-a.md")
	writeFile(t, file, titledLesson("one-a", "One"))
	runWithWatcher(t, dir, func(t *testing.T, updates <-chan update) {
		t.Helper()
		waitForUpdate(t, updates, "One")
		for _, bad := range []string{"", "---\nschema: learning/v1\nslug: one", "not a lesson", titledLesson("one-a", "''")} {
			writeFile(t, file, bad)
			u := waitForUpdate(t, updates, "One")
			if len(u.problems) != 1 || !u.problems[0].PreviousActive || u.problems[0].Slug != "one-a" {
				t.Errorf("%q: problems = %+v, want one with PreviousActive and slug one-a", bad, u.problems)
			}
			assertNoUpdate(t, updates)
			writeFile(t, file, titledLesson("one-a", "One"))
			if u = waitForUpdate(t, updates, "One"); len(u.problems) != 0 {
				t.Errorf("valid file after %q: problems = %v, want none", bad, u.problems)
			}
		}
		writeFile(t, file, titledLesson("one-a", "Good again"))
		waitForUpdate(t, updates, "Good again")
	})
}

func TestWatcherKeepsUnreadableLessons(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"web/a.md", "web/deep/b.md", "web-site/c.md", "d.md", "e.md"} {
		writeFile(t, filepath.Join(dir, name), titledLesson(strings.TrimSuffix(filepath.Base(name), ".md")+"-slug", name))
	}
	runWithWatcher(t, dir, func(t *testing.T, updates <-chan update) {
		t.Helper()
		all := []string{"web/a.md", "web/deep/b.md", "web-site/c.md", "d.md", "e.md"}
		waitForUpdate(t, updates, all...)
		for _, name := range []string{"web", "d.md"} {
			path := filepath.Join(dir, name)
			mustSucceed(t, os.Rename(path, filepath.Join(dir, "_"+name)))
			makeSymlink(t, filepath.Base(path), path) // a link to itself cannot be read
			u := waitForUpdate(t, updates, all...)
			if len(u.problems) != 1 || !u.problems[0].PreviousActive || u.problems[0].Path != path {
				t.Errorf("%s: problems = %+v, want one with PreviousActive and path %q", name, u.problems, path)
			}
			assertNoUpdate(t, updates)
			mustSucceed(t, os.Remove(path), os.Rename(filepath.Join(dir, "_"+name), path))
			if u := waitForUpdate(t, updates, all...); len(u.problems) > 0 {
				t.Errorf("%s restored: problems = %v, want none", name, u.problems)
			}
		}
		path := filepath.Join(dir, "e.md")
		mustSucceed(t, os.Remove(path), os.Mkdir(path, 0o750)) // a folder of this name shows that the file is gone
		waitForUpdate(t, updates, all[:4]...)
	})
}

// The part of the file that is written first is a valid lesson, but the watcher must wait for the rest of the file.
func TestWatcherWaitsForCompleteWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "one-a.md")
	writeFile(t, file, titledLesson("one-a", "One"))
	runWithWatcher(t, dir, func(t *testing.T, updates <-chan update) {
		t.Helper()
		waitForUpdate(t, updates, "One")
		assertNoUpdate(t, updates)
		time.Sleep(950 * time.Millisecond) // the next poll then comes between the two writes
		whole := titledLesson("one-a", "Two") + "\nAnd much more.\n"
		f, err := os.Create(file)
		mustSucceed(t, err)
		defer f.Close()
		for part := range slices.Chunk([]byte(whole), len(whole)-10) {
			_, err := f.Write(part)
			mustSucceed(t, err)
			time.Sleep(80 * time.Millisecond)
		}
		u := waitForUpdate(t, updates, "Two")
		if l, _ := u.book.Get("one-a"); l.Raw != whole {
			t.Errorf("lesson = %q, want the whole file", l.Raw)
		}
	})
}

// The watcher waits for the writer to pause, but at most two seconds.
func TestWatcherReportsConstantlyChangingFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "one-a.md"), titledLesson("one-a", "One"))
	runWithWatcher(t, dir, func(t *testing.T, updates <-chan update) {
		t.Helper()
		waitForUpdate(t, updates, "One")
		start := time.Now()
		for n := range 100 {
			writeFile(t, filepath.Join(dir, "two-b.md"), titledLesson("two-b", "x"+strings.Repeat("y", n)))
			time.Sleep(30 * time.Millisecond)
			select {
			case <-updates:
				if elapsed := time.Since(start); elapsed > 2*time.Second {
					t.Errorf("first update for a constantly changing file came after %s, want it within 2s", elapsed)
				}
				return
			default:
			}
		}
		t.Error("no update for a file that changed for 3 seconds, want one within 2s")
	})
}

func TestWatcherIgnoresNonLessonFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "one-a.md"), titledLesson("one-a", "One"))
	runWithWatcher(t, dir, func(t *testing.T, updates <-chan update) {
		t.Helper()
		waitForUpdate(t, updates, "One")
		for _, name := range []string{"_index.md", "_log.jsonl", "notes.txt", "README.md", ".one-a.md.swp", "knowledge/lessons/one-a.md"} {
			writeFile(t, filepath.Join(dir, name), "no lesson")
		}
		assertNoUpdate(t, updates)
		mustSucceed(t, os.Chtimes(filepath.Join(dir, "one-a.md"), time.Unix(1e9, 0), time.Unix(1e9, 0)))
		assertNoUpdate(t, updates)
	})
}

func TestWatcherReportsOnlyChangesSinceLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "one-a.md"), titledLesson("one-a", "One"))
	for _, changes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			books := make(chan *lesson.Book, 10)
			w := lesson.NewWatcher(dir, func(b *lesson.Book, _ []lesson.Problem) { books <- b })
			book, problems, err := w.Load()
			if err != nil || len(problems) > 0 || book.Len() != 1 {
				t.Fatalf("Load: problems = %v, err = %v, want one lesson, no problem and no error", problems, err)
			}
			if changes {
				writeFile(t, filepath.Join(dir, "two-b.md"), titledLesson("two-b", "Two"))
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			mustSucceed(t, w.Run(ctx))
			if close(books); changes != (len(books) == 1) || changes && (<-books).Len() != 2 {
				t.Errorf("file added after Load = %v: got %d updates from Run, want one update with 2 lessons if a file was added, and none otherwise", changes, len(books))
			}
		})
	}
}

// If reading a file causes a panic, the watcher skips this version of the file, and reads the next version.
func TestWatcherSkipsPanickingFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "bad.md"), titledLesson("bad", "Poison"))
	writeFile(t, filepath.Join(dir, "good.md"), titledLesson("good", "Good"))
	runWithWatcher(t, dir, func(t *testing.T, updates <-chan update) {
		t.Helper()
		if u := waitForUpdate(t, updates, "Good"); len(u.problems) != 1 || !strings.Contains(u.problems[0].Error(), "bad.md: internal: the file made precept panic") {
			t.Errorf(`problems = %v, want one with "bad.md: internal: the file made precept panic"`, u.problems)
		}
		writeFile(t, filepath.Join(dir, "bad.md"), titledLesson("bad", "Cured"))
		waitForUpdate(t, updates, "Cured", "Good")
	}, func(text string) []string {
		if strings.Contains(text, "Poison") {
			panic("poison")
		}
		return nil
	})
}

func TestWatcherSurvivesPanickingCallback(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		w := lesson.NewWatcher(dir, func(*lesson.Book, []lesson.Problem) {
			if calls.Add(1) == 1 {
				panic("poison")
			}
		})
		var reports []string
		w.OnPanic = func(value any) { reports = append(reports, value.(string)) }
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		time.AfterFunc(10*time.Second, func() { writeFile(t, filepath.Join(dir, "a-slug.md"), titledLesson("a-slug", "A")) })
		mustSucceed(t, w.Run(ctx))
		if calls.Load() != 2 || !slices.Equal(reports, []string{"poison"}) {
			t.Errorf("got %d callbacks, reported panics = %q, want 2 callbacks and the panic \"poison\"", calls.Load(), reports)
		}
	})
}
