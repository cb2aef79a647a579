package lesson

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

const gptmeSample = `---
match:
  keywords:
    - "git worktree add"
    - branch is already checked out
  session_categories: [code]
status: active
---

# Remove stale worktrees before adding one

## Rule
Run ` + "`git worktree prune`" + ` before adding a worktree for a branch that was used before.

## Context
When a branch is checked out in a directory that no longer exists.

## Detection
- the add fails

## Pattern
` + "```sh\ngit worktree prune\n# then\ngit worktree list\n```" + `

## Outcome
The add works.
`

func TestParseReadsEveryField(t *testing.T) {
	l := mustParse(t, "browser/verify-page-id.md", strings.Replace(sampleFile, "confidence: 0.5 # a guess", "confidence: 1\nsupersedes: [old-one]\nexpires_at: 2030-01-31t10:00:00+02:00", 1))
	want := Trigger{
		Description: "Paging through a list in a browser.", Tags: []string{"paging", "browser"},
		Targets: []Target{{Operator: "coder*", Role: "reviewer"}}, Keywords: []string{"load more", "next page"},
	}
	got := l.Trigger
	got.NotKeywords, got.Tools, got.ErrorPatterns, got.ErrorKinds, got.RequestKinds, got.Models = nil, nil, nil, nil, nil, nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("trigger = %+v, want %+v", got, want)
	}
	if l.Slug != "verify-page-id" || l.Outcome != "success" || l.Confidence != 1 || l.State != Active || l.Form != FormAIP11 ||
		!slices.Equal(l.Supersedes, []string{"old-one"}) || !l.ExpiresAt.Equal(time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)) ||
		len(l.Evidence) != 1 || l.Evidence[0].Note != "the list was stale" {
		t.Errorf("parsed lesson = %+v, want slug verify-page-id, outcome success, confidence 1, state %s, form %s, "+
			"Supersedes [old-one], ExpiresAt 2030-01-31 08:00 UTC and one evidence with the note \"the list was stale\"", l, Active, FormAIP11)
	}
	if l.Advice != "Re-read the page id after every navigation; a list view can be stale." {
		t.Errorf("advice = %q, want the section text", l.Advice)
	}
	if len(l.ContentHash) != 64 || l.ArmHash() != l.ContentHash[:12] {
		t.Errorf("hash = %q, arm = %q, want a hash with 64 characters, and an arm with the first 12", l.ContentHash, l.ArmHash())
	}
	preceptMetadata := "metadata:\n  precept: {state: trial, content_hash: X, approved_by: ann, approved_at: 2026-01-02T03:04:05Z, source: distill}\n"
	preceptMetadata = strings.Replace(preceptMetadata, "X", l.ContentHash, 1)
	l = mustParse(t, "x.md", strings.Replace(sampleFile, "metadata:\n  acme:\n    owner: someone\n", preceptMetadata, 1))
	if l.State != Trial || l.Approval.By != "ann" || l.Approval.Source != "distill" || l.Approval.At.Year() != 2026 {
		t.Errorf("approval = %+v, state = %s, want a trial approved by ann in 2026, source distill", l.Approval, l.State)
	}
}

func TestParseReadsGptmeForm(t *testing.T) {
	l := mustParse(t, "git/Remove_stale Worktrees.md", gptmeSample)
	if l.Slug != "remove-stale-worktrees" || l.Title != "Remove stale worktrees before adding one" || l.State != Active || l.Form != FormGptme {
		t.Errorf("parsed lesson = %+v, want slug remove-stale-worktrees, the first heading as title, state %s and form %s", l, Active, FormGptme)
	}
	if !slices.Equal(l.Trigger.Keywords, []string{"git worktree add", "branch is already checked out"}) {
		t.Errorf("keywords = %q, want \"git worktree add\" and \"branch is already checked out\"", l.Trigger.Keywords)
	}
	want := []string{"Run `git worktree prune` before adding a worktree for a branch that was used before.", "git worktree prune", "# then", "git worktree list"}
	if got := renderText(l).Lines(MaxAdvice); !slices.Equal(got, want) {
		t.Errorf("Lines(MaxAdvice) = %q, want %q", got, want)
	}
	if got := matchedSlugs(NewBook([]*Lesson{l}), &Query{Words: []string{"git worktree add ../x"}}); len(got) != 1 {
		t.Errorf("matches = %q, want one", got)
	}
	for status, want := range map[string]State{"automated": Archived, "deprecated": Archived, "archived": Archived} {
		raw := strings.Replace(gptmeSample, "status: active", "status: "+status, 1)
		if got := mustParse(t, "some-lesson.md", raw); got.State != want {
			t.Errorf("status %s: state = %s, want %s", status, got.State, want)
		}
	}
	for _, bad := range []string{"status: dancing", "status: [active]", "match: words"} {
		raw := strings.Replace(gptmeSample, "status: active", bad, 1)
		if _, err := Parse("some-lesson.md", []byte(raw)); err == nil {
			t.Errorf("Parse with %s: got no error, want an error", bad)
		}
	}
	if _, err := Parse("42.md", []byte(gptmeSample)); err == nil {
		t.Error("Parse with a file name that gives no slug: got no error, want an error")
	}
}

func TestParseReportsAllErrorsTogether(t *testing.T) {
	raw := `---
schema: learning/v2
slug: Bad Slug
title: ""
author: me
trigger:
  tags: [Upper, ok]
  when: always
  targets: [{who: x}]
  metadata:
    precept:
      keywords: ["", 7]
      regexps: [x]
outcome: maybe
evidence:
  - kind: blog
confidence: 1.5
success_count: -1
failure_count: many
supersedes: [x-]
expires_at: tomorrow
metadata:
  precept:
    state: dancing
    approved: true
---
`
	_, err := Parse("x.md", []byte(raw))
	var errs ValidationErrors
	if !errors.As(err, &errs) {
		t.Fatalf("error has type %T, want ValidationErrors", err)
	}
	got := map[string]Code{}
	for _, f := range errs {
		got[f.Field] = f.Code
		if f.Line == 0 || f.Line > strings.Count(raw, "\n") || len(f.Message) < 10 {
			t.Errorf("%s: fault = %+v, want a line from 1 to %d and a message of at least 10 bytes", f.Field, f, strings.Count(raw, "\n"))
		}
	}
	for _, field := range []string{
		"schema", "slug", "title", "author", "trigger.description", "trigger.tags[0]", "trigger.when", "trigger.targets[0].who",
		"trigger.metadata.precept.keywords[0]", "trigger.metadata.precept.keywords[1]", "trigger.metadata.precept.regexps",
		"outcome", "evidence[0].kind", "evidence[0].ref", "success_count", "failure_count", "supersedes[0]", "expires_at",
		"metadata.precept.state", "metadata.precept.approved",
	} {
		if got[field] != CodeInvalid {
			t.Errorf("%s: code = %q, want %q", field, got[field], CodeInvalid)
		}
	}
	if got["confidence"] != CodeConfidence {
		t.Errorf("confidence: code = %q, want %q", got["confidence"], CodeConfidence)
	}
	if !strings.Contains(err.Error(), "lesson_invalid: slug (line 3): ") {
		t.Errorf("error =\n%s\nwant it to contain \"lesson_invalid: slug (line 3): \"", err)
	}
}

func TestParseRefusesMalformedFiles(t *testing.T) {
	slow := "---\na: " + strings.Repeat("! ", 15_000) + "\n---\n"
	open := "---\na: " + strings.Repeat("[", 30_000) + "\n---\n"
	deep := "---\nmetadata: " + strings.Repeat("[", 15_000) + strings.Repeat("]", 15_000) + "\n---\n"
	for name, raw := range map[string]string{
		"empty":                "",
		"no frontmatter":       "# Title\n",
		"unclosed frontmatter": "---\nschema: learning/v1\n",
		"empty frontmatter":    "---\n---\nbody",
		"list":                 "---\n- a\n---\n",
		"scalar":               "---\nhello\n---\n",
		"not YAML":             "---\na: [\n---\n",
		"invalid UTF-8":        strings.Replace(sampleFile, "Intro", "\xff", 1),
		"NUL":                  strings.Replace(sampleFile, "Intro", "\x00", 1),
		"huge":                 sampleFile + strings.Repeat("x", MaxFileSize),
		"large frontmatter":    strings.Replace(sampleFile, "schema:", "# "+strings.Repeat("x", maxFrontmatter)+"\nschema:", 1),
		"deep nesting":         deep,
		"unclosed brackets":    open,
		"many indicators":      slow,
		"repeated key":         strings.Replace(sampleFile, "outcome: success", "outcome: success\noutcome: failure", 1),
		"anchors and aliases":  strings.Replace(sampleFile, "outcome: success", "outcome: &a success\nconfidence: *a", 1),
		"merge keys":           strings.Replace(sampleFile, "    acme: {weight", "    <<: {a: b}\n    acme: {weight", 1),
		"YAML tags":            strings.Replace(sampleFile, "outcome: success", "outcome: !!str success", 1),
		"lone carriage return": strings.Replace(sampleFile, "outcome: success", "outcome: success\routcome: x", 1),
		"two documents":        strings.Replace(sampleFile, "outcome: success", "outcome: success\n...\nx: y", 1),
	} {
		l, err := Parse("x.md", []byte(raw))
		if err == nil {
			t.Errorf("%s: Parse = %+v, want an error", name, l)
			continue
		}
		var errs ValidationErrors
		if !errors.As(err, &errs) || len(errs) == 0 || errs[0].Message == "" {
			t.Errorf("%s: error %[2]T %[3]v, want ValidationErrors with messages", name, err, err)
		}
	}
}

func TestContentHashCoversRelevantFields(t *testing.T) {
	base := mustParse(t, "x.md", sampleFile)
	for edit, changed := range map[string]bool{ // each key is "old text|new text"
		"success_count: 0|success_count: 9":      false,
		"confidence: 0.5|confidence: 0.9":        false,
		"Paging through|While paging through":    false,
		"It was.|It was, twice.":                 false,
		"[paging, browser]|[browser, paging]":    false,
		"owner: someone|owner: me":               false,
		"Load More. #|Load more. #":              true,
		"a list view can|the list view can":      true,
		"- next page|- other page":               true,
		"role: reviewer|role: writer":            true,
		"[paging, browser]|[paging]":             true,
		"slug: verify-page-id|slug: verify-page": true,
	} {
		from, to, _ := strings.Cut(edit, "|")
		l, err := Parse("x.md", []byte(strings.Replace(sampleFile, from, to, 1)))
		if err != nil {
			t.Errorf("%s: Parse: %v", edit, err)
			continue
		}
		if (l.ContentHash != base.ContentHash) != changed {
			t.Errorf("%s: hash changed = %v, want %v", edit, !changed, changed)
		}
	}
	a, b := Lesson{Slug: "a", Title: "bc"}, Lesson{Slug: "ab", Title: "c"}
	if a.Hash() == b.Hash() {
		t.Error("slug \"a\" with title \"bc\" and slug \"ab\" with title \"c\": got equal hashes, want different hashes")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(sampleFile))
	f.Add([]byte(gptmeSample))
	f.Add([]byte("---\r\nmatch: {keywords: [a b]}\r\nstatus: active\r\n---\r\n# T\r\n## Rule\r\nx\r\n"))
	f.Add([]byte("---\n{schema: learning/v1, slug: a-b, title: t, trigger: {description: d}, outcome: mixed, evidence: [{kind: run, ref: x}]}\n---\n## What to do\n" + "x <|im_start|>"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		l, err := Parse("some-lesson.md", raw)
		if err != nil {
			var errs ValidationErrors
			if !errors.As(err, &errs) || len(errs) == 0 {
				t.Fatalf("error has type %T, want ValidationErrors: %v", err, err)
			}
			return
		}
		out, err := Format(l)
		if err != nil || !bytes.Equal(out, raw) {
			t.Fatalf("Format(unedited lesson): err = %v, got\n%q\nwant\n%q", err, out, raw)
		}
		if edited, err := Edit(l, func(l *Lesson) { l.State = Trial }); err == nil {
			if edited.State != Trial || edited.ContentHash != l.ContentHash || edited.Body != l.Body {
				t.Fatalf("editing the state changed the file\n%s\nto\n%s\nwant state %s and the same text", raw, edited.Raw, Trial)
			}
		}
		assertSafe(t, l)
	})
}
