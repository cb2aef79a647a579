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

// The source code of the Go distribution is hardly changed by redaction, and remains the same code.
func TestSourceCodeIsHardlyRedacted(t *testing.T) {
	const enough = 6 << 20
	src := filepath.Join(build.Default.GOROOT, "src")
	size, total, counts := 0, 0, map[string]int{}
	err := filepath.WalkDir(src, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || len(path)%7 != 3 { // a sample of the files
			return err
		}
		if size > enough {
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
			t.Errorf("%s: the result is not JSON", path)
		}
		size += len(text)
		for k, n := range r.Counts() {
			total += n
			counts[k] += n
		}
		return nil
	})
	if err != nil || size < 1<<20 {
		t.Skipf("there is no source of the Go distribution here: %d bytes, %v", size, err)
	}
	t.Logf("%d redactions in %d bytes, %.2f in 10 KB: %v", total, size, float64(total)/float64(size)*10_000, counts)
	if total*10_000 >= size {
		t.Errorf("%d redactions in %d bytes: one in 10 KB or more", total, size)
	}
}
