//go:build unix

package admin

import (
	"crypto/rand"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Without the refusal, the start would wait for a writer of the pipe.
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
			t.Error("open of a named pipe: got no error, want one")
		}
	case <-time.After(20 * time.Second):
		t.Fatal("open of a named pipe blocks, want an error")
	}
}
