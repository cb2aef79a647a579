//go:build unix

package file_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"precept/internal/file"
)

// A file that root creates belongs to root. Replace therefore gives the new file the owner of the old one.
func TestReplaceByRootKeepsFileOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can change a file's owner")
	}
	for _, owner := range [][2]int{{1234, 0}, {0, 2345}, {1234, 2345}, {0, 0}} {
		path := filepath.Join(t.TempDir(), "a")
		for _, want := range [][2]int{{0, 0}, owner} {
			if err := file.Write(path, 0o600, []byte("x")); err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if st := info.Sys().(*syscall.Stat_t); [2]int{int(st.Uid), int(st.Gid)} != want {
				t.Errorf("got owner %d and group %d, want %v", st.Uid, st.Gid, want)
			}
			if err := os.Chown(path, owner[0], owner[1]); err != nil {
				t.Skipf("cannot change a file's owner: %v", err)
			}
		}
	}
}

func TestLockHasOneHolder(t *testing.T) {
	open := func() *os.File {
		f, err := os.Open(t.TempDir()) // a folder can also be locked
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	first := open()
	defer first.Close()
	if err := file.TryLock(first); err != nil {
		t.Fatal(err)
	}
	second, err := os.Open(first.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if err := file.TryLock(second); !errors.Is(err, file.ErrLocked) {
		t.Errorf("TryLock(held lock) error = %v, want file.ErrLocked", err)
	}
	got := make(chan error, 1)
	go func() { got <- file.Lock(second) }()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Errorf("Lock after the holder closed the file: error = %v", err)
	}
	if err := file.TryLock(first); err == nil || errors.Is(err, file.ErrLocked) {
		t.Errorf("TryLock(closed file) error = %v, want an error other than file.ErrLocked", err)
	}
}
