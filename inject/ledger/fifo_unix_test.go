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

// If Record opened the named pipe, it would wait forever and keep the folder's lock.
func TestRecordDoesNotOpenPipeAsLedger(t *testing.T) {
	l := newLedger(t, "")
	if err := syscall.Mkfifo(l.Path, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // no delay before the second attempt
	var results []ledger.Result
	var traceErr, err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		results, traceErr, err = l.Record(ctx, newEntry(1))
	}()
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		default: // the write fails unless Record has opened the pipe for reading
			if w, err := os.OpenFile(l.Path, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
				t.Error("Record opened the pipe")
				_ = w.Close()
			}
		}
	}
	if err != nil || traceErr != nil || results[0].Status != ledger.Failed || !strings.Contains(results[0].Message, "is not a regular file") {
		t.Errorf(`Record = %+v, trace error %v, error %v, want no errors, status %s and a message with "is not a regular file"`, results, traceErr, err, ledger.Failed)
	}
}

func TestRecordSucceedsIfTraceIsAPipe(t *testing.T) {
	l := newLedger(t, "")
	path := filepath.Join(filepath.Dir(l.Path), ledger.TraceFile)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), syscall.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // without a reader, a writer blocks
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	results, traceErr, err := l.Record(t.Context(), newEntry(1))
	if err != nil || traceErr == nil || results[0].Status != ledger.Recorded {
		t.Errorf("Record = %+v, trace error %v, error %v, want only a trace error and status %s", results, traceErr, err, ledger.Recorded)
	}
}
