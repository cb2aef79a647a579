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

// If the bank opened a named pipe, it would wait until a writer opens the pipe.
func TestDirectoryDoesNotOpenNamedPipes(t *testing.T) {
	dir := t.TempDir()
	d := bank.Directory(dir)
	if err := errors.Join(syscall.Mkfifo(filepath.Join(dir, "_log.jsonl"), 0o600), syscall.Mkfifo(filepath.Join(dir, "a.md"), 0o600)); err != nil {
		t.Fatal(err)
	}
	r, err := d.Read(t.Context())
	if err != nil || len(r.Texts) > 0 || len(r.Problems) != 1 {
		t.Fatalf("Read = %+v, %v, want no text, one problem and no error", r, err)
	}
	_, tailErr := d.Tail(t.Context(), 1)
	commitErr := d.Commit(t.Context(), bank.Change{Version: r.Version, Edits: []bank.Edit{{Name: "a.md", New: []byte("a")}}})
	for call, err := range map[string]error{"Tail": tailErr, "Commit": commitErr} {
		if err == nil || !strings.Contains(err.Error(), "is not a regular file") {
			t.Errorf(`%s: err = %v, want "is not a regular file"`, call, err)
		}
	}
}
