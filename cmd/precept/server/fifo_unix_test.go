//go:build unix

package server_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// The ledger file, AGENT.md, is a named pipe in this test. If the server opened the pipe, it would wait for a writer
// forever.
func TestLedgerPipeDoesNotBlockStop(t *testing.T) {
	path := filepath.Join(t.TempDir(), "AGENT.md")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServer(t, newFlagSource(t, map[string]string{"ledger.file": path}))
	s.stop()
	for {
		select {
		case err := <-s.runErr:
			if err != nil {
				t.Error(err)
			}
			return
		default: // ENXIO means that no process has the pipe open for reading
			if w, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0); !errors.Is(err, syscall.ENXIO) {
				t.Errorf("open the pipe for writing: err = %v, want %v, because the server must not have the pipe open for reading", err, syscall.ENXIO)
				_ = w.Close()
			}
		}
	}
}
