//go:build unix

package admin

import (
	"crypto/rand"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Opening a named pipe would block until a process writes to the pipe.
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
			t.Error("opening a named pipe: got no error, want one")
		}
	case <-time.After(20 * time.Second):
		t.Fatal("opening a named pipe blocks, want an error")
	}
}
