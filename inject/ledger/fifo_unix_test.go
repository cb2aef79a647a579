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
	l := ledgerWith(t, "")
	if err := syscall.Mkfifo(l.Path, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // the second attempt does not wait
	var results []ledger.Result
	var traceErr, err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		results, traceErr, err = l.Record(ctx, entry(1))
	}()
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		default: // the write fails without a reader, or succeeds if the ledger was opened
			if w, err := os.OpenFile(l.Path, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
				t.Error("Record opened the pipe, want it not opened")
				_ = w.Close()
			}
		}
	}
	if err != nil || traceErr != nil || results[0].Status != ledger.Failed || !strings.Contains(results[0].Message, "is not a regular file") {
		t.Errorf(`got results %+v, trace error %v, error %v; want no errors, the status %s and a message with "is not a regular file"`, results, traceErr, err, ledger.Failed)
	}
}

// A named pipe in place of the trace gives the error of the trace, and the entry is recorded.
func TestPipeIsNoTrace(t *testing.T) {
	l := ledgerWith(t, "")
	path := filepath.Join(filepath.Dir(l.Path), ledger.TraceFile)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), syscall.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a writer blocks without a reader
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	results, traceErr, err := l.Record(t.Context(), entry(1))
	if err != nil || traceErr == nil || results[0].Status != ledger.Recorded {
		t.Errorf("got results %+v, trace error %v, error %v; want an error of the trace only and the status %s", results, traceErr, err, ledger.Recorded)
	}
}
