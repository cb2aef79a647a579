package file_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"precept/internal/file"
)

func TestWriteReplacesFileAndSetsModes(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "made", "a.md")
	for _, text := range []string{"first", "second"} {
		if err := file.Write(path, 0o640, []byte(text), []byte("\n")); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != text+"\n" {
			t.Errorf("got content %q, error %v, want %q and no error", got, err, text+"\n")
		}
	}
	for path, mode := range map[string]fs.FileMode{path: 0o640, filepath.Dir(path): 0o750} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != mode {
			t.Errorf("%s: got mode %v, want %v", path, got, mode)
		}
	}
	if err := file.Write(filepath.Join(dir, "private", "key"), 0o600, []byte("k")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "private"))
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o700 {
		t.Errorf("private file's folder: got mode %v, want 0700", got)
	}
}

func TestFailedReplaceKeepsOldContent(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	if err := file.Write(path, 0o600, []byte("old")); err != nil {
		t.Fatal(err)
	}
	failure := errors.New("disk failure")
	err := file.Replace(path, 0o600, func(w io.Writer) error { _, _ = io.WriteString(w, "half"); return failure })
	if !errors.Is(err, failure) || !strings.Contains(err.Error(), path) {
		t.Errorf("Replace: err = %v, want %v with the path %s", err, failure, path)
	}
	if got, _ := os.ReadFile(path); string(got) != "old" {
		t.Errorf("content after a failed write: got %q, want old", got)
	}
	if err := file.Write(filepath.Join(path, "below"), 0o600, nil); err == nil {
		t.Error("Write below a file: err = nil, want an error")
	}
	if err := os.Mkdir(filepath.Join(dir, "taken"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := file.Write(filepath.Join(dir, "taken"), 0o600, nil); err == nil {
		t.Error("Write(folder path) error = nil, want an error")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || !slices.Equal(names(entries), []string{"a", "taken"}) {
		t.Errorf("got entries %v, error %v, want [a taken] and no error", names(entries), err)
	}
}

func names(entries []fs.DirEntry) (out []string) {
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestReadersNeverSeePartialFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	text := func(i int) string { return strings.Repeat(string(rune('a'+i)), 1<<16) }
	if err := file.Write(path, 0o600, []byte(text(0))); err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for i := range 4 {
		writers.Go(func() {
			for range 10 {
				if err := file.Write(path, 0o600, []byte(text(i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 100 {
		got, err := os.ReadFile(path)
		if err != nil || len(got) != 1<<16 || strings.Trim(string(got), string(got[:1])) != "" {
			t.Fatalf("got %d bytes, error %v, want one writer's complete text", len(got), err)
		}
	}
	writers.Wait()
}

// A crash can leave an incomplete last line. Append ends this line before it adds another.
func TestAppendEndsTruncatedLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made", "log.jsonl")
	for _, text := range []string{"one\n", "tw", "three\n"} {
		if err := file.Append(path, 0o600, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "one\ntw\nthree\n" {
		t.Errorf("got content %q, error %v, want %q and no error", b, err, "one\ntw\nthree\n")
	}
	if err := file.Append(filepath.Dir(path), 0o600, nil); err == nil {
		t.Error("Append to a directory: err = nil, want an error")
	}
}
