package proxy_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// checkDisk fails if a file in the rig's data directory contains one of the texts. The rig must be stopped.
func checkDisk(t *testing.T, r *rig, texts ...string) {
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
				t.Errorf("the file %s contains %q, want no file with this text", filepath.Base(path), text)
			}
		}
		return err
	})
	if err != nil || files == 0 {
		t.Fatalf("%d files were read, want at least 1: %v", files, err)
	}
}
