//go:build unix

package ledger_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"precept/inject/ledger"
)

// A named pipe in place of the ledger fails like any file that cannot be written: opening the pipe
// would wait for a writer forever, with the folder locked.
func TestPipeIsNoLedger(t *testing.T) {
	l := at(t, "")
	if err := syscall.Mkfifo(l.Path, 0o600); err != nil {
		t.Fatal(err)
	}
	over, stop := context.WithCancel(t.Context())
	stop() // the second attempt need not wait
	var results []ledger.Result
	var untraced, err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		results, untraced, err = l.Record(over, entry(1))
	}()
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		default: // the write fails without a reader, or succeeds if the ledger was opened
			if w, err := os.OpenFile(l.Path, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
				t.Error("the pipe was opened, want it closed")
				_ = w.Close()
			}
		}
	}
	if err != nil || untraced != nil || results[0].Status != ledger.Failed || !strings.Contains(results[0].Message, "is not a regular file") {
		t.Errorf(`got results %+v, error %v, error %v, want no error, Status = %q and Message with "is not a regular file"`, results, untraced, err, ledger.Failed)
	}
}

// A named pipe is no trace either.
func TestPipeIsNoTrace(t *testing.T) {
	l := at(t, "")
	path := filepath.Join(filepath.Dir(l.Path), ledger.TraceFile)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), syscall.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a writer blocks without a reader
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	results, untraced, err := l.Record(t.Context(), entry(1))
	if err != nil || untraced == nil || results[0].Status != ledger.Recorded {
		t.Errorf("got results %+v, error %v, error %v, want no error, an error and Status = %q", results, untraced, err, ledger.Recorded)
	}
}
