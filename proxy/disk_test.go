package proxy_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// checkDisk fails if a file in the fixture's data directory contains one of the strings. The fixture must be stopped.
func checkDisk(t *testing.T, r *fixture, texts ...string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(r.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		b, err := os.ReadFile(path)
		for _, text := range texts {
			if bytes.Contains(b, []byte(text)) {
				t.Errorf("file %s contains %q, want no file with this text", filepath.Base(path), text)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if files == 0 {
		t.Fatalf("the data directory %s has no file, want at least 1", r.dir)
	}
}
