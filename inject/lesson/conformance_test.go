package lesson_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"precept/inject/lesson"
	"precept/store/storetest"
)

type directoryWriter struct{ dir string }

func (w directoryWriter) Put(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(w.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func (w directoryWriter) Delete(t *testing.T, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(w.dir, filepath.FromSlash(name))); err != nil {
		t.Fatal(err)
	}
}

func TestDirectoryPassesBankWatcherSuite(t *testing.T) {
	storetest.RunBank(t, func(t *testing.T, onBook func(*lesson.Book, []lesson.Problem)) (storetest.BankWriter, func(context.Context) error) {
		t.Helper()
		dir := t.TempDir()
		w := lesson.NewWatcher(dir, onBook)
		w.Poll, w.Debounce = 10*time.Millisecond, time.Millisecond
		return directoryWriter{dir}, w.Run
	})
}
