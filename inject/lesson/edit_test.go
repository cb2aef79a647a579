package lesson

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

type change struct {
	name  string
	apply func(*Lesson)
}

func changes() []change {
	at := time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)
	return []change{
		{"state trial", func(l *Lesson) { l.State = Trial }},
		{"state active", func(l *Lesson) { l.State = Active }},
		{"approve", func(l *Lesson) {
			l.Approval = Approval{ContentHash: l.Hash(), By: "ann: \"boss\"", At: at, Source: "api"}
		}},
		{"removed approval", func(l *Lesson) { l.Approval = Approval{} }},
		{"counts", func(l *Lesson) { l.SuccessCount, l.FailureCount = l.SuccessCount+3, 7 }},
		{"confidence", func(l *Lesson) { l.Confidence = 0.125 }},
		{"title", func(l *Lesson) { l.Title = "Do: \"it\" # now" }},
		{"evidence", func(l *Lesson) { l.Evidence = append(l.Evidence, Evidence{Kind: "run", Ref: "- #1", Note: "\ttab"}) }},
		{"removed evidence", func(l *Lesson) { l.Evidence = l.Evidence[:1] }},
		{"keywords", func(l *Lesson) { l.Trigger.Keywords = append(l.Trigger.Keywords, "yes", "a: b") }},
		{"removed keywords", func(l *Lesson) { l.Trigger.Keywords = nil }},
		{"targets", func(l *Lesson) { l.Trigger.Targets = []Target{{Skill: "*"}, {Operator: "x", Role: "y"}} }},
		{"removed targets", func(l *Lesson) { l.Trigger.Targets = nil }},
		{"models", func(l *Lesson) { l.Trigger.Models = []string{"gpt-*"} }},
		{"removed models", func(l *Lesson) { l.Trigger.Models = nil }},
		{"supersedes", func(l *Lesson) { l.Supersedes = []string{"old-one"} }},
		{"removed supersedes", func(l *Lesson) { l.Supersedes = nil }},
		{"expires", func(l *Lesson) { l.ExpiresAt = at }},
		{"removed expiry", func(l *Lesson) { l.ExpiresAt = time.Time{} }},
		{"body", func(l *Lesson) { l.Body = "## What to do\n\nThis.\n" }},
	}
}

func TestEditsKeepCommentsAndUnknownFields(t *testing.T) {
	flow := strings.Replace(sampleFile, "metadata:\n  acme:\n    owner: someone\n", "metadata: {acme: {owner: someone}} # ours\n", 1)
	commented := strings.Replace(sampleFile, "metadata:\n  acme:\n", "# about us\nmetadata:\n\n  # theirs\n  acme:\n", 1)
	crlf := strings.ReplaceAll(sampleFile, "\n", "\r\n")
	rapid.Check(t, func(rt *rapid.T) {
		l := mustParse(t, "x.md", rapid.SampledFrom([]string{sampleFile, flow, commented, crlf}).Draw(rt, "file"))
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, len(changes())-1), 1, 8).Draw(rt, "edits") {
			c := changes()[i]
			want := l.Clone()
			c.apply(want)
			want.Advice = section(want.Body, isAdviceHeading)
			got, err := Edit(l, c.apply)
			if l.State == Quarantined && isApprovalStale(want) {
				if err == nil {
					rt.Fatalf("%s: Edit activated a text that nobody approved, want an error:\n%s", c.name, got.Raw)
				}
				continue
			}
			if err != nil {
				rt.Fatalf("%s: Edit returned error %v for the file\n%s", c.name, err, l.Raw)
			}
			if isApprovalStale(want) {
				want.State = Quarantined // differs from the approved text
			}
			if left := diff(got, want, got.Form); len(left) > 0 || got.Body != want.Body {
				rt.Fatalf("%s: fields %v of the edited file, or the body, differ from the edited lesson:\n%s", c.name, left, got.Raw)
			}
			for _, keep := range []string{"# who wrote it and why", "12345678901234567", "owner: someone", "# counts below"} {
				if !strings.Contains(string(got.Raw), keep) {
					rt.Fatalf("%s: edited file lacks %q, which the original has:\n%s", c.name, keep, got.Raw)
				}
			}
			if strings.Contains(l.Raw, "\r\n") && strings.Contains(strings.ReplaceAll(got.Raw[:len(got.Raw)-len(got.Body)], "\r\n", ""), "\n") {
				rt.Fatalf("%s: mixed line ends, want only \\r\\n:\n%q", c.name, got.Raw)
			}
			l = got
		}
	})
}

// isApprovalStale reports whether an active lesson was approved with a different text.
func isApprovalStale(l *Lesson) bool {
	return l.State.IsActive() && l.Approval.ContentHash != "" && l.Approval.ContentHash != l.Hash()
}

func TestRevertedEditAddsOnlyPreceptMetadata(t *testing.T) {
	l := mustParse(t, "x.md", sampleFile)
	for _, tc := range []struct{ edit, reverse func(*Lesson) }{
		{func(l *Lesson) { l.State = Trial }, func(l *Lesson) { l.State = Active }},
		{func(l *Lesson) { l.SuccessCount = 4 }, func(l *Lesson) { l.SuccessCount = 0 }},
		{func(l *Lesson) { l.Trigger.Models = []string{"m"} }, func(l *Lesson) { l.Trigger.Models = nil }},
		{func(l *Lesson) { l.Supersedes = []string{"o-o"} }, func(l *Lesson) { l.Supersedes = nil }},
	} {
		edited, err := Edit(l, tc.edit)
		if err != nil {
			t.Fatal(err)
		}
		reverted, err := Edit(edited, tc.reverse)
		if err != nil {
			t.Fatal(err)
		}
		removed, added := diffLines(sampleFile, reverted.Raw)
		if len(removed) > 0 || slices.ContainsFunc(added, func(s string) bool { return !strings.Contains(s, "precept:") && !strings.Contains(s, "state: active") }) {
			t.Errorf("after an edit and its reversal: lines %q are missing and lines %q are new, want only new lines about the metadata of precept", removed, added)
		}
	}
	if l.State != Active || l.Raw != sampleFile {
		t.Error("Edit changed the lesson that it was given, want the lesson unchanged")
	}
}

func TestSectionsAndHeadingsAreParsed(t *testing.T) {
	body := "Intro\n\n# Title #\n\n```md\n## Rule\nnot this\n```\n\n## Rule:\nfirst\n### Detail\nmore\n~~~\n# code\n~~~\n\n## Next\nno\n\n## rule\nsecond\n"
	if got := section(body, isHeading("rule")); got != "first\n### Detail\nmore\n~~~\n# code\n~~~" {
		t.Errorf("section rule = %q, want \"first\\n### Detail\\nmore\\n~~~\\n# code\\n~~~\"", got)
	}
	if got := firstTitle(body); got != "Title" {
		t.Errorf("firstTitle = %q, want \"Title\"", got)
	}
	if got := section("## Rule\n", isHeading("rule")); got != "" {
		t.Errorf("empty section = %q, want no text", got)
	}
	for heading, want := range map[string]bool{
		"What to do (or avoid)": true, "WHAT TO DO": true, "What to do / avoid": true, "What to avoid:": true, "What to do next": false, "Why": false,
	} {
		if isAdviceHeading(heading) != want {
			t.Errorf("isAdviceHeading(%q) = %v, want %v", heading, !want, want)
		}
	}
	for _, no := range []string{"#hash", "    # code", "####### seven", "text # x"} {
		if level, _ := ParseHeading(no); level != 0 {
			t.Errorf("ParseHeading(%q) has level %d, want 0", no, level)
		}
	}
	for body, want := range map[string]string{
		"# Title\n\nRead the log.\r\nThen act.\n": "Read the log.\nThen act.", "Read the log.\n": "Read the log.", "# Title\n\n## Notes\nno\n": "", "# A\n# B\nno\n": "", "": "",
	} {
		if got := unsectionedText(body); got != want {
			t.Errorf("unsectionedText(%q) = %q, want %q", body, got, want)
		}
	}
	for line, want := range map[string]string{"# Use C#": "Use C#", "## Rule ##": "Rule", "###": ""} {
		if _, text := ParseHeading(line); text != want {
			t.Errorf("ParseHeading(%q) has text %q, want %q", line, text, want)
		}
	}
}
