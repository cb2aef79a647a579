//go:build unix

package server_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A named pipe in the place of the ledger does not keep a server from stopping: whoever opened it
// would wait for a writer who never comes.
func TestALedgerThatIsAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "AGENT.md")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	l := starts(t, flags(t, map[string]string{"ledger.file": path}))
	l.stop()
	for {
		select {
		case err := <-l.over:
			if err != nil {
				t.Error(err)
			}
			return
		default: // a writer finds nobody at the other end, or the ledger was opened
			if w, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0); !errors.Is(err, syscall.ENXIO) {
				t.Error("the pipe was opened:", err)
				_ = w.Close()
			}
		}
	}
}
