package proxy_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func checkNotOnDisk(t *testing.T, f *fixture, texts ...string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(f.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		b, err := os.ReadFile(path)
		for _, text := range texts {
			if bytes.Contains(b, []byte(text)) {
				t.Errorf("file %s on disk contains %q, want no such text", filepath.Base(path), text)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if files == 0 {
		t.Fatalf("data directory %s is empty", f.dir)
	}
}
