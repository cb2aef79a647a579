//go:build !race

package distill_test

import (
	_ "embed"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"precept/detect"
	"precept/inject/lesson"
)

//go:embed testdata/known.txt
var knownOutputs string

// knownOutput is the output of a tool and the slug of the lesson that it should give. The slug is empty if there should
// be no lesson.
type knownOutput struct {
	tool, args, text, slug string
}

// readKnownOutputs reads testdata/known.txt. An entry consists of a "$ command" or "> tool arguments" line, the output,
// and a "= slug" line.
func readKnownOutputs(t *testing.T) []knownOutput {
	t.Helper()
	var list []knownOutput
	var o knownOutput
	for line := range strings.Lines(knownOutputs) {
		word, rest, _ := strings.Cut(strings.TrimRight(line, "\n"), " ")
		switch {
		case word == "#" && o.tool == "":
		case word == "$":
			args, err := json.Marshal(map[string]string{"command": rest})
			if err != nil {
				t.Fatal(err)
			}
			o = knownOutput{tool: "bash", args: string(args)}
		case word == ">" && o.tool == "":
			tool, args, _ := strings.Cut(rest, " ")
			o = knownOutput{tool: tool, args: args}
		case word == "=" && o.tool != "":
			o.slug = rest
			list = append(list, o)
			o = knownOutput{}
		case o.tool != "":
			o.text += line
		}
	}
	return list
}

// For each known failure in known.json, there is an output in testdata/known.txt. The output must give the lesson about
// this failure, and the triggers of the lesson must match the error in the output.
func TestKnownOutputsGiveMatchingLessons(t *testing.T) {
	for _, o := range readKnownOutputs(t) {
		if j := detect.Classify(o.tool, o.args, o.text, 0); j.Outcome != detect.Error {
			t.Errorf("%s: Classify = %v, want %v, for output\n%s", o.args, j.Outcome, detect.Error, o.text)
		}
		f := newFixture(t)
		f.addSession("one", user("Do it."), call(o.tool, o.args, o.text), call(o.tool, o.args, "done"))
		f.runDistiller()
		slugs := f.slugs()
		if len(slugs) != 1 {
			t.Fatalf("%s: slugs = %q, want 1 item", o.args, slugs)
			continue
		}
		if slugs[0] != o.slug {
			t.Errorf("%s: slugs[0] = %q, want %q", o.args, slugs[0], o.slug)
			continue
		}
		l := f.lessonBySlug(o.slug).Clone()
		l.State = lesson.Active
		if hits := lesson.NewBook([]*lesson.Lesson{l}).Match(&lesson.Query{Errors: []lesson.ErrorText{{Tool: o.tool, Text: signature(o.text)}}, Tenant: "default", Now: f.now}); len(hits) != 1 {
			t.Errorf("%s: error patterns %v do not match\n%s", o.slug, l.Trigger.ErrorPatterns, signature(o.text))
		}
	}

	text, err := os.ReadFile("known.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []struct {
		Slug  string   `json:"slug"`
		Holds []string `json:"holds"`
		OneOf []string `json:"one_of"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	for _, k := range list {
		found := false
		for _, o := range readKnownOutputs(t) {
			has := o.slug == k.Slug
			for _, w := range k.Holds {
				has = has && strings.Contains(strings.ToLower(o.text), w)
			}
			has = has && (len(k.OneOf) == 0 || slices.ContainsFunc(k.OneOf, func(w string) bool { return strings.Contains(strings.ToLower(o.text), w) }))
			found = found || has
		}
		if !found {
			t.Errorf("testdata/known.txt has no output for %s with %q", k.Slug, k.Holds)
		}
	}
}

// A failure message in a result does not count if the result is long, if the exit code is 0, or if the tool may have
// printed the content of a file.
func TestFailureMessageCountsOnlyForTheFailedCommand(t *testing.T) {
	const message = "Automatic merge failed; fix conflicts and then commit the result.\n"
	merge := `{"command":"git merge topic"}`
	for _, tc := range []struct {
		name string
		knownOutput
	}{
		{"the failed command", knownOutput{"bash", merge, message, "resolve-conflicts-before-going-on"}},
		{"tool that runs no command", knownOutput{"read_notes", `{"path":"notes"}`, message, ""}},
		{"different program", knownOutput{"bash", `{"command":"cat notes"}`, message, ""}},
		{"a different failure's message", knownOutput{"bash", `{"command":"cat notes"}`, "pg_config executable not found\n", ""}},
		{"at the length limit", knownOutput{"bash", merge, message + strings.Repeat("x", 2000-len(message)), "resolve-conflicts-before-going-on"}},
		{"above the length limit", knownOutput{"bash", merge, message + strings.Repeat("x", 2001-len(message)), ""}},
		{"exit code 0", knownOutput{"bash", merge, `{"exit_code":0,"output":"` + strings.TrimSpace(message) + `"}`, ""}},
	} {
		f := newFixture(t)
		f.addSession("one", user("Do it."), call(tc.tool, tc.args, tc.text), call(tc.tool, tc.args, "done"))
		f.runDistiller()
		if slugs := strings.Join(f.slugs(), " "); slugs != tc.slug {
			t.Errorf("%s: lessons = %q, want %q", tc.name, slugs, tc.slug)
		}
	}
}
