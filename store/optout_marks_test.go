package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"precept/internal/session"
)

// The marks of opt-outs are found again, are bounded by number, tell nothing without the secret,
// and a file that was cut is read as far as it goes.
func TestMarksOfOptOuts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func(secret string) *optOutMarks {
		t.Helper()
		h, err := openMarks(dir, []byte(secret), nil)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	h := open("a")
	id := sessionOf("quiet")
	for turns := 1; turns <= 3; turns++ {
		same(t, "marked", h.add(id, turns, 2*turns), true)
	}
	if err := h.keep(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, marksFile)
	b, err := os.ReadFile(path)
	if err != nil || len(b) != 3*markSize || strings.Contains(string(b), string(id[:8])) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if err := os.WriteFile(path, append(b, 1, 2, 3), 0o600); err != nil {
		t.Fatal(err)
	}
	rec := &session.Record{Identity: session.Identity{ID: id}}
	open("a").recall(rec)
	same(t, "turns", rec.Thread.Turns, 3)
	same(t, "items", rec.Thread.Items, 6)
	same(t, "silent", rec.Silent(), true)
	b, err = os.ReadFile(path)
	if err != nil || len(b) != markSize {
		t.Errorf("written anew: %d bytes, %v", len(b), err)
	}
	other := &session.Record{Identity: session.Identity{ID: id}}
	open("b").recall(other)
	same(t, "by another secret", other.Thread.Turns, 0)
	for i := range mostMarks + 10 {
		h.set(uint64(i), optOutMark{1, 1}) //nolint:gosec // small
	}
	same(t, "marks", len(h.of), mostMarks)
}
