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

// output is a call with the output of its failure, and the slug of the expected lesson, "" for none.
type output struct {
	tool, args, text, slug string
}

// outputs reads testdata/known.txt. An entry has a line "$ command" or "> tool arguments", the output, and a line
// "= slug".
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

// known.json lists known failures and their lessons. Each output of testdata/known.txt gives the lesson of its failure,
// and the lesson matches the error in the output. known.txt has an output for each entry of known.json.
func TestKnownFailureMatchesItsOutput(t *testing.T) {
	for _, o := range outputs(t) {
		if j := detect.Classify(o.tool, o.args, o.text, 0); j.Outcome != detect.Error {
			t.Errorf("%s: Classify returns %v, want an error, for the output\n%s", o.args, j.Outcome, o.text)
		}
		b := newBench(t)
		b.session("one", user("Do it."), call(o.tool, o.args, o.text), call(o.tool, o.args, "done"))
		b.distil()
		slugs := b.slugs()
		if len(slugs) != 1 || slugs[0] != o.slug {
			t.Errorf("%s: got lessons %v, want %s; the error is\n%s", o.args, slugs, o.slug, signature(o.text))
			continue
		}
		l := b.toLesson(o.slug).Clone()
		l.State = lesson.Active
		if hits := lesson.NewBook([]*lesson.Lesson{l}).Match(&lesson.Query{Errors: []lesson.ErrorText{{Tool: o.tool, Text: signature(o.text)}}, Tenant: "default", Now: b.now}); len(hits) != 1 {
			t.Errorf("%s: patterns %v do not match, want a match in\n%s", o.slug, l.Trigger.ErrorPatterns, signature(o.text))
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
		for _, o := range outputs(t) {
			has := o.slug == k.Slug
			for _, w := range k.Holds {
				has = has && strings.Contains(strings.ToLower(o.text), w)
			}
			has = has && (len(k.OneOf) == 0 || slices.ContainsFunc(k.OneOf, func(w string) bool { return strings.Contains(strings.ToLower(o.text), w) }))
			found = found || has
		}
		if !found {
			t.Errorf("testdata/known.txt has no output of %s with words %q, want one", k.Slug, k.Holds)
		}
	}
}

// The words of a known failure give its lesson only in a short result of the command that fails this way. The words
// do not count in a long result, in a result with exit code 0, or in the result of a tool that may only have read
// the words.
func TestFailureWordsCountOnlyForTheirCommand(t *testing.T) {
	const words = "Automatic merge failed; fix conflicts and then commit the result.\n"
	merge := `{"command":"git merge topic"}`
	for _, c := range []struct {
		name string
		output
	}{
		{"its own command", output{"bash", merge, words, "resolve-conflicts-before-going-on"}},
		{"a tool that runs no command", output{"read_notes", `{"path":"notes"}`, words, ""}},
		{"another program", output{"bash", `{"command":"cat notes"}`, words, ""}},
		{"words of another failure", output{"bash", `{"command":"cat notes"}`, "pg_config executable not found\n", ""}},
		{"at the length limit", output{"bash", merge, words + strings.Repeat("x", 2000-len(words)), "resolve-conflicts-before-going-on"}},
		{"above the length limit", output{"bash", merge, words + strings.Repeat("x", 2001-len(words)), ""}},
		{"with an exit code", output{"bash", merge, `{"exit_code":0,"output":"` + strings.TrimSpace(words) + `"}`, ""}},
	} {
		b := newBench(t)
		b.session("one", user("Do it."), call(c.tool, c.args, c.text), call(c.tool, c.args, "done"))
		b.distil()
		if slugs := strings.Join(b.slugs(), " "); slugs != c.slug {
			t.Errorf("%s: got lessons %q, want %q", c.name, slugs, c.slug)
		}
	}
}
