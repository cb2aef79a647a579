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

// output is the output of a failed program, with the slug of the known failure.
type output struct {
	tool, args, text, slug string
}

// outputs reads testdata/known.txt.
func outputs(t *testing.T) []output {
	t.Helper()
	var list []output
	var o output
	for line := range strings.Lines(knownOutputs) {
		word, rest, _ := strings.Cut(strings.TrimRight(line, "\n"), " ")
		switch {
		case word == "#" && o.tool == "":
		case word == "$":
			args, err := json.Marshal(map[string]string{"command": rest})
			if err != nil {
				t.Fatal(err)
			}
			o = output{tool: "bash", args: string(args)}
		case word == ">" && o.tool == "":
			tool, args, _ := strings.Cut(rest, " ")
			o = output{tool: tool, args: args}
		case word == "=" && o.tool != "":
			o.slug = rest
			list = append(list, o)
			o = output{}
		case o.tool != "":
			o.text += line
		}
	}
	return list
}

// Each known failure is recognised in the whole output of its program, and its lesson fires on that
// output: the search covers the error in the output.
func TestKnownFailureFiresOnItsOutput(t *testing.T) {
	for _, o := range outputs(t) {
		if j := detect.Classify(o.tool, o.args, o.text, 0); j.Outcome != detect.Error {
			t.Errorf("%s is not a failure to the proxy, so that no lesson fires on\n%s", o.args, o.text)
		}
		b := newBench(t)
		b.session("one", user("Do it."), call(o.tool, o.args, o.text), call(o.tool, o.args, "done"))
		b.distil()
		slugs := b.slugs()
		if len(slugs) != 1 || slugs[0] != o.slug {
			t.Errorf("%s: lessons %v, wanted %s; the error is\n%s", o.args, slugs, o.slug, signature(o.text))
			continue
		}
		l := b.lesson(o.slug).Clone()
		l.State = lesson.Active
		if hits := lesson.NewBook([]*lesson.Lesson{l}).Match(&lesson.Query{Errors: []lesson.ErrorText{{Tool: o.tool, Text: signature(o.text)}}, Tenant: "default", Now: b.now}); len(hits) != 1 {
			t.Errorf("%s: the patterns %v do not match, want a match in\n%s", o.slug, l.Trigger.ErrorPatterns, signature(o.text))
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
		shown := false
		for _, o := range outputs(t) {
			has := o.slug == k.Slug
			for _, w := range k.Holds {
				has = has && strings.Contains(strings.ToLower(o.text), w)
			}
			has = has && (len(k.OneOf) == 0 || slices.ContainsFunc(k.OneOf, func(w string) bool { return strings.Contains(strings.ToLower(o.text), w) }))
			shown = shown || has
		}
		if !shown {
			t.Errorf("no output in testdata/known.txt shows %s by %q", k.Slug, k.Holds)
		}
	}
}

// If only the words of a result report a failure, they count for the command itself; not for
// another tool or program that may have read them, not in a long result, and not against an exit
// code.
func TestFailureWordsCountOnlyForTheirCommand(t *testing.T) {
	const words = "Automatic merge failed; fix conflicts and then commit the result.\n"
	merge := `{"command":"git merge topic"}`
	for _, c := range []struct {
		name string
		output
	}{
		{"a command that says so", output{"bash", merge, words, "resolve-conflicts-before-going-on"}},
		{"a tool that runs no command", output{"read_notes", `{"path":"notes"}`, words, ""}},
		{"another program", output{"bash", `{"command":"cat notes"}`, words, ""}},
		{"words of no program in particular", output{"bash", `{"command":"cat notes"}`, "pg_config executable not found\n", ""}},
		{"as long as may be", output{"bash", merge, words + strings.Repeat("x", 2000-len(words)), "resolve-conflicts-before-going-on"}},
		{"longer", output{"bash", merge, words + strings.Repeat("x", 2001-len(words)), ""}},
		{"with an exit code", output{"bash", merge, `{"exit_code":0,"output":"` + strings.TrimSpace(words) + `"}`, ""}},
	} {
		b := newBench(t)
		b.session("one", user("Do it."), call(c.tool, c.args, c.text), call(c.tool, c.args, "done"))
		b.distil()
		if slugs := strings.Join(b.slugs(), " "); slugs != c.slug {
			t.Errorf("%s: lessons %q, wanted %q", c.name, slugs, c.slug)
		}
	}
}
