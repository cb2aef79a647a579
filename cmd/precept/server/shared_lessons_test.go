package server

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"precept/configs"
)

// The watcher reads the lessons in "DIR/.", and the writer reads the lessons in "DIR". Both paths name the same
// directory, so the library parses each lesson file only once.
func TestWatcherAndWriterShareParsedLessons(t *testing.T) {
	dir := t.TempDir()
	text := `---
schema: learning/v1
slug: retry
title: Retry once
trigger:
  description: when a test is flaky
  metadata:
    precept:
      keywords: [flaky test]
outcome: success
evidence:
  - kind: run
    ref: r1
---

## What to do (or avoid)

Run the test again.
`
	if err := os.WriteFile(filepath.Join(dir, "retry.md"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := configs.Default()
	cfg.Lessons = dir + "/."
	// without Redis and without file events
	l := newLibrary(Tools{Now: time.Now}, cfg, nil, false, &failures{log: slog.New(slog.DiscardHandler)})
	l.open(t.Context())
	active := l.book.Load().Lessons()
	book, problems, err := l.bank.List(t.Context())
	if err != nil || len(active) != 1 || book.Len() != 1 {
		t.Fatalf("got %d lessons from the watcher, %d from the writer, problems %v, error %v; want one lesson from each, no problems, no error", len(active), book.Len(), problems, err)
	}
	if book.Lessons()[0] != active[0] {
		t.Error("lesson from the writer: got a lesson that was parsed again, want the lesson that the watcher parsed")
	}
}
