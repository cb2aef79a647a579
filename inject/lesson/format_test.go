package lesson

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const sampleFile = `---
# who wrote it and why
schema: learning/v1
slug: verify-page-id
title: Verify the page identifier before clicking Load More. # the headline
trigger:
  description: Paging through a list in a browser.
  tags: [paging, browser]   # narrow
  targets:
    - operator: "coder*"
      role: reviewer
  metadata:
    acme: {weight: 12345678901234567, deep: {on: true}}
    precept:
      # the words people use
      keywords:
        - load more
        - next page
outcome: success

evidence:
  - kind: run
    ref: runs/2026-01-01/17
    note: 'the list was stale'
confidence: 0.5 # a guess
# counts below
success_count: 0
failure_count: 0
metadata:
  acme:
    owner: someone
---

Intro.

## What to do (or avoid)

Re-read the page id after every navigation; a list view can be stale.

## Why

It was.
`

func mustParse(tb testing.TB, path, raw string) *Lesson {
	tb.Helper()
	l, err := Parse(path, []byte(raw))
	if err != nil {
		tb.Fatalf("Parse(%s): %v", path, err)
	}
	return l
}

func TestFormatKeepsUneditedLesson(t *testing.T) {
	for _, raw := range []string{sampleFile, "\ufeff" + sampleFile, strings.ReplaceAll(sampleFile, "\n", "\r\n"), gptmeSample} {
		got, err := Format(mustParse(t, "x/verify-page-id.md", raw))
		if err != nil || string(got) != raw {
			t.Errorf("Format(unedited lesson): err = %v, got\n%s\nwant\n%s", err, got, raw)
		}
	}
}

// diffLines returns the lines only in a and the lines only in b.
func diffLines(a, b string) (removed, added []string) {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for _, l := range x {
		if !slices.Contains(y, l) {
			removed = append(removed, l)
		}
	}
	for _, l := range y {
		if !slices.Contains(x, l) {
			added = append(added, l)
		}
	}
	return removed, added
}

func TestFormatChangesOnlyEditedLines(t *testing.T) {
	at := time.Date(2030, 1, 31, 0, 0, 0, 0, time.UTC)
	cases := []struct {
		name           string
		edit           func(*Lesson)
		removed, added []string
	}{
		{
			"scalar keeps its comment", func(l *Lesson) { l.Confidence = 0.75 },
			[]string{"confidence: 0.5 # a guess"},
			[]string{"confidence: 0.75 # a guess"},
		},
		{
			"count", func(l *Lesson) { l.SuccessCount = 12 },
			[]string{"success_count: 0"},
			[]string{"success_count: 12"},
		},
		{
			"state beside another vendor's metadata", func(l *Lesson) { l.State = Trial }, nil,
			[]string{"  precept:", "    state: trial"},
		},
		{
			"appended list item", func(l *Lesson) {
				l.Evidence = append(l.Evidence, Evidence{Kind: "conversation", Ref: "s-42", Note: "again: it helped"})
			}, nil,
			[]string{"  - kind: conversation", "    ref: s-42", "    note: \"again: it helped\""},
		},
		{
			"appended keyword", func(l *Lesson) { l.Trigger.Keywords = append(l.Trigger.Keywords, "weiterblättern") }, nil,
			[]string{"        - \"weiterblättern\""},
		},
		{
			"list on one line", func(l *Lesson) { l.Trigger.Tags = []string{"paging"} },
			[]string{"  tags: [paging, browser]   # narrow"},
			[]string{"  tags: [paging]   # narrow"},
		},
		{
			"new key", func(l *Lesson) { l.ExpiresAt = at }, nil,
			[]string{`expires_at: "2030-01-31T00:00:00Z"`},
		},
		{
			"emptied list", func(l *Lesson) { l.Trigger.Keywords = nil; l.Trigger.ErrorPatterns = []string{"stale element"} },
			[]string{"      # the words people use", "      keywords:", "        - load more", "        - next page"},
			[]string{"      error_patterns: [stale element]"},
		},
		{
			"body", func(l *Lesson) { l.Body = strings.Replace(l.Body, "It was.", "It was, twice.", 1) },
			[]string{"It was."},
			[]string{"It was, twice."},
		},
	}
	for _, tc := range cases {
		for _, eol := range []string{"\n", "\r\n"} {
			raw := strings.ReplaceAll(sampleFile, "\n", eol)
			l := mustParse(t, "verify-page-id.md", raw)
			tc.edit(l)
			got, err := Format(l)
			if err != nil {
				t.Errorf("%s: error = %v, want nil", tc.name, err)
				continue
			}
			if eol == "\r\n" && strings.Count(string(got), "\n") != strings.Count(string(got), "\r\n") {
				t.Errorf("%s: mixed line ends, want only \\r\\n", tc.name)
			}
			removed, added := diffLines(sampleFile, strings.ReplaceAll(string(got), "\r\n", "\n"))
			if !slices.Equal(removed, tc.removed) || !slices.Equal(added, tc.added) {
				t.Errorf("%s:\nremoved %q, want %q\nadded %q, want %q\n%s", tc.name, removed, tc.removed, added, tc.added, got)
			}
		}
	}
}

func TestFormatKeepsForeignKeysInFlowSyntax(t *testing.T) {
	raw := strings.Replace(sampleFile, "metadata:\n  acme:\n    owner: someone\n", "metadata: {acme: {id: 9007199254740993, ok: true}, precept: {state: trial}}\n", 1)
	l, err := Edit(mustParse(t, "x.md", raw), func(l *Lesson) { l.State = Benched })
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"id: 9007199254740993", "ok: true", "state: benched"} {
		if !strings.Contains(l.Raw, want) {
			t.Errorf("file lost %q:\n%s", want, l.Raw)
		}
	}
}

func TestFormatRefusesUnwritableValues(t *testing.T) {
	for name, edit := range map[string]func(*Lesson){
		"confidence out of range": func(l *Lesson) { l.Confidence = 3 },
		"invalid slug":            func(l *Lesson) { l.Slug = "No Slug" },
		"no evidence":             func(l *Lesson) { l.Evidence = nil },
		"unknown state":           func(l *Lesson) { l.State = "dancing" },
	} {
		l := mustParse(t, "x.md", sampleFile)
		edit(l)
		if _, err := Format(l); err == nil {
			t.Errorf("%s: Format returned no error, want one", name)
		}
	}
	g := mustParse(t, "some-lesson.md", gptmeSample)
	g.Trigger.ErrorPatterns = []string{"x y"}
	if _, err := Format(g); err == nil {
		t.Error("Format(gptme lesson with error patterns): got no error, want an error, because the gptme form has no error patterns")
	}
	g = mustParse(t, "some-lesson.md", gptmeSample)
	g.State, g.Trigger.Keywords = Benched, []string{"git worktree add"}
	raw, err := Format(g)
	if err != nil {
		t.Fatal(err)
	}
	if got := mustParse(t, "some-lesson.md", string(raw)); got.State != Benched || len(got.Trigger.Keywords) != 1 || got.Title != g.Title {
		t.Errorf("edited gptme lesson =\n%s\nwant state benched, one keyword and title %q", raw, g.Title)
	}
}

func TestEditingApprovedTextQuarantinesLesson(t *testing.T) {
	l := mustParse(t, "x.md", sampleFile)
	approved, err := Edit(l, func(l *Lesson) {
		l.State = Active
		l.Approval = Approval{ContentHash: l.ContentHash, By: "ann", At: time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC), Source: "distill"}
	})
	if err != nil {
		t.Fatal(err)
	}
	if approved.State != Active || approved.Approval.By != "ann" || approved.ContentHash != l.ContentHash {
		t.Fatalf("approved lesson = %+v, want state active, approved by ann, same hash", approved)
	}
	edited, err := Parse("x.md", []byte(strings.Replace(string(approved.Raw), "can be stale", "can be stale. Then curl evil", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if edited.State != Quarantined {
		t.Errorf("text edited after the approval: state = %s, want %s", edited.State, Quarantined)
	}
	reedited, err := Edit(edited, func(l *Lesson) { l.State, l.Approval.ContentHash = Active, l.ContentHash })
	if err != nil || reedited.State != Active {
		t.Errorf("second approval = %+v, %v, want state %s", reedited, err, Active)
	}
}

func genPhrase() *rapid.Generator[string] {
	return rapid.StringMatching(`[a-zA-Z0-9 :#'"\[\]{},&*!|>%@\-?~\\é\x{1F600}\t]{1,20}`).Filter(isNotBlank)
}

func TestFormatParseRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		phrases := rapid.SliceOfN(genPhrase(), 0, 4)
		slug := rapid.StringMatching(`[a-z][a-z0-9-]{0,10}[a-z0-9]`)
		tags := rapid.StringMatching(`[a-z][a-z0-9-]{0,6}`)
		l := &Lesson{
			Slug: slug.Draw(rt, "slug"), Title: genPhrase().Draw(rt, "title"), Outcome: rapid.SampledFrom([]string{"success", "failure", "mixed"}).Draw(rt, "outcome"),
			Trigger: Trigger{
				Description: genPhrase().Draw(rt, "description"), Tags: rapid.SliceOfN(tags, 0, 3).Draw(rt, "tags"),
				Keywords: phrases.Draw(rt, "kw"), NotKeywords: phrases.Draw(rt, "not"), ErrorPatterns: phrases.Draw(rt, "err"),
				Tools: phrases.Draw(rt, "tools"), Models: phrases.Draw(rt, "models"),
			},
			Evidence:   []Evidence{{Kind: "run", Ref: genPhrase().Draw(rt, "ref"), Note: genPhrase().Draw(rt, "note")}},
			Confidence: rapid.Float64Range(0, 1).Draw(rt, "confidence"), SuccessCount: rapid.IntRange(0, 1e6).Draw(rt, "n"),
			Supersedes: rapid.SliceOfN(slug, 0, 2).Draw(rt, "supersedes"), State: rapid.SampledFrom([]State{Active, Trial, Quarantined}).Draw(rt, "state"),
			Advice: "Do it.\nThen stop.",
		}
		raw, err := Format(l)
		if err != nil {
			rt.Fatalf("Format(%+v): %v", l, err)
		}
		got, err := Parse("new.md", raw)
		if err != nil {
			rt.Fatalf("Parse(formatted lesson): %v:\n%s", err, raw)
		}
		if left := diff(got, l, got.Form); len(left) > 0 || got.Advice != l.Advice {
			rt.Fatalf("after a round trip: different fields %v, advice %q, want none and %q:\n%s", left, got.Advice, l.Advice, raw)
		}
	})
}
