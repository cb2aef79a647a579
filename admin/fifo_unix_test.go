//go:build unix

package admin

import (
	"crypto/rand"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// The test opens a named pipe in place of a file. Without a check, the open call would block until another process
// opens the pipe for writing.
func TestNamedPipeAsLoginsFileIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), loginsFile)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := newLoginStore(rand.Reader, loginTime).load(path)
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil {
			t.Error("open a named pipe: err = nil, want an error")
		}
	case <-time.After(20 * time.Second):
		t.Fatal("open a named pipe: got no result, because the call blocks; want an error")
	}
}
