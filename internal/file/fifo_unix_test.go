//go:build unix

package file_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"precept/internal/file"
)

// Read opens only regular files, because opening a named pipe waits for a writer and reading a device may never end.
func TestReadRefusesPipesAndDevices(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(
		os.WriteFile(at("file"), []byte("text"), 0o600), os.Symlink(at("file"), at("link")),
		syscall.Mkfifo(at("pipe"), 0o600), os.Symlink(at("pipe"), at("linked pipe")),
	); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{at("pipe"), at("linked pipe"), os.DevNull} {
		if b, err := file.Read(path); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
			t.Errorf(`Read(%s) = %q, %v, want an error with "is not a regular file"`, path, b, err)
		}
	}
	if _, err := file.Read(at("nothing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Read of a missing file: err = %v, want %v", err, fs.ErrNotExist)
	}
	if _, err := file.Read(dir); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("Read of a directory: err = %v, want syscall.EISDIR", err)
	}
	for _, name := range []string{"file", "link"} {
		if b, err := file.Read(at(name)); err != nil || string(b) != "text" {
			t.Errorf("Read(%s) = %q, %v, want %q and no error", name, b, err, "text")
		}
	}
}
