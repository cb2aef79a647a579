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

// Read refuses named pipes, because opening a pipe waits for a writer, and devices, because a read from a device might
// never end.
func TestReadRefusesPipesAndDevices(t *testing.T) {
	dir := t.TempDir()
	inDir := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(
		os.WriteFile(inDir("file"), []byte("text"), 0o600), os.Symlink(inDir("file"), inDir("link")),
		syscall.Mkfifo(inDir("pipe"), 0o600), os.Symlink(inDir("pipe"), inDir("linked pipe")),
	); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{inDir("pipe"), inDir("linked pipe"), os.DevNull} {
		if b, err := file.Read(path); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
			t.Errorf(`Read(%s) = %q, %v, want an error with "is not a regular file"`, path, b, err)
		}
	}
	if _, err := file.Read(inDir("nothing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Read(missing file) error = %v, want %v", err, fs.ErrNotExist)
	}
	if _, err := file.Read(dir); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("Read(directory) error = %v, want syscall.EISDIR", err)
	}
	for _, name := range []string{"file", "link"} {
		if b, err := file.Read(inDir(name)); err != nil || string(b) != "text" {
			t.Errorf("Read(%s) = %q, %v, want %q and no error", name, b, err, "text")
		}
	}
}
