//go:build unix

package bank_test

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"precept/inject/bank"
)

// A named pipe in the place of a file is an error. The bank does not open the pipe, because opening
// would block until a writer opens the pipe.
func TestDirectoryOpensNoPipe(t *testing.T) {
	dir := t.TempDir()
	d := bank.Directory(dir)
	if err := errors.Join(syscall.Mkfifo(filepath.Join(dir, "_log.jsonl"), 0o600), syscall.Mkfifo(filepath.Join(dir, "a.md"), 0o600)); err != nil {
		t.Fatal(err)
	}
	r, err := d.Read(t.Context())
	if err != nil || len(r.Texts) > 0 || len(r.Problems) != 1 {
		t.Fatalf("got r %+v, error %v, want no error, empty Texts and one entry in Problems", r, err)
	}
	_, log := d.Tail(t.Context(), 1)
	write := d.Commit(t.Context(), bank.Change{Version: r.Version, Edits: []bank.Edit{{Name: "a.md", New: []byte("a")}}})
	for _, err := range []error{log, write} {
		if err == nil || !strings.Contains(err.Error(), "is not a regular file") {
			t.Errorf(`got %v, want an error with "is not a regular file"`, err)
		}
	}
}
