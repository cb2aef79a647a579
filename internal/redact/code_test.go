package redact

import (
	"encoding/json"
	"go/build"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFalseRedactionsInSourceCodeAreRare(t *testing.T) {
	const maxSample = 6 << 20
	src := filepath.Join(build.Default.GOROOT, "src")
	size, total, counts := 0, 0, map[string]int{}
	err := filepath.WalkDir(src, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || len(path)%7 != 3 { // a sample
			return err
		}
		if size > maxSample {
			return filepath.SkipAll
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		item, err := json.Marshal(map[string]string{"role": "tool", "content": string(text)})
		if err != nil {
			return err
		}
		r := New(true)
		if out := r.JSON(nil, item); !json.Valid(out) {
			t.Errorf("JSON(%s) = %.200s, want valid JSON", path, out)
		}
		size += len(text)
		for k, n := range r.Counts() {
			total += n
			counts[k] += n
		}
		return nil
	})
	if err != nil || size < 1<<20 {
		t.Skipf("Go distribution in %s: got a %d-byte sample, error %v", src, size, err)
	}
	t.Logf("%d redactions in %d bytes, %.2f per 10 KB: %v", total, size, float64(total)/float64(size)*10_000, counts)
	if total*10_000 >= size {
		t.Errorf("got %d redactions in %d source code bytes, want fewer than one per 10,000 bytes", total, size)
	}
}
