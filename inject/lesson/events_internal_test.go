package lesson

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The kernel can refuse a watch, for example because of a limit. OnPolling must be called once with the reason.
func TestRefusedWatchFallsBackToPolling(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	books, why := 0, []error(nil)
	w := NewWatcher(dir, func(*Book, []Problem) { books++ })
	w.OnPolling = func(err error) { why = append(why, err) }
	if err := w.events.open(); err != nil {
		t.Skip(err)
	}
	if err := w.events.kernel.Close(); err != nil { // then each watch is refused
		t.Fatal(err)
	}
	for n := range 3 {
		if err := os.WriteFile(filepath.Join(dir, string(rune('a'+n))+".md"), []byte("no lesson"), 0o600); err != nil {
			t.Fatal(err)
		}
		if !w.events.isWalkDue() {
			t.Errorf("poll %d: no walk is due, want a walk at each poll", n)
		}
		w.reload(t.Context())
	}
	if books != 3 || len(why) != 1 {
		t.Errorf("three polls: %d books, OnPolling reasons %v, want 3 books and 1 reason", books, why)
	}
}

func TestWatchLimitErrorNamesKernelSetting(t *testing.T) {
	t.Parallel()
	for limit, setting := range map[error]string{syscall.ENOSPC: "fs.inotify.max_user_watches", syscall.EMFILE: "fs.inotify.max_user_instances"} {
		if err := explainWatchError(limit); !errors.Is(err, limit) || !strings.Contains(err.Error(), setting) {
			t.Errorf("explainWatchError(%v) = %v, want it to wrap the error and name %q", limit, err, setting)
		}
	}
}
