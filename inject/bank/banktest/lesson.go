package banktest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// WriteLesson writes a manual, active lesson with a keyword to slug.md in dir.
func WriteLesson(t testing.TB, dir, slug, keyword string) {
	t.Helper()
	text := strings.NewReplacer("SLUG", slug, "KEYWORD", keyword).Replace(`---
schema: learning/v1
slug: SLUG
title: Look at the targets before you build one (SLUG).
trigger:
  description: when KEYWORD is met
  metadata:
    precept:
      keywords: ["KEYWORD"]
outcome: success
evidence:
  - kind: run
    ref: e2e/1
---

# Look at the targets before you build one (SLUG).

## What to do (or avoid)

List the targets first.
`)
	if err := os.WriteFile(filepath.Join(dir, slug+".md"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
