package distill

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"precept/inject/lesson"
)

func code(s string) string { return "`" + s + "`" }

func joinOr(list []string) string {
	switch len(list) {
	case 0:
		return ""
	case 1:
		return list[0]
	default:
		return strings.Join(list[:len(list)-1], ", ") + " or " + list[len(list)-1]
	}
}

// shorten returns at most n bytes of a text, and an ellipsis if the text was cut at a word.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	if at := strings.LastIndexByte(s[:n], ' '); at > n/2 {
		return strings.TrimRight(s[:at], " ,;:…") + " …"
	}
	return s[:n]
}

// wording holds the templates of the lessons about one kind of fix. A name in braces, such as {tool}, is replaced by a
// value of the group.
type wording struct{ Title, Advice, Slug string }

//go:embed drafts.json
var draftsText []byte

// wordings holds the wordings by kind of fix. A key "kind: variant" has only the templates in which the variant
// differs.
//
//nolint:gochecknoglobals // immutable, read at first use
var wordings = sync.OnceValue(func() map[string]wording { return embedded[map[string]wording](draftsText) })

// embedded decodes an embedded data file.
func embedded[T any](text []byte) (v T) {
	if err := json.Unmarshal(text, &v); err != nil {
		panic("distill: " + err.Error()) // every test of a rule finds an invalid file
	}
	return v
}

// variant returns the name of the variant of the group's fix in drafts.json, "" for none.
func (g *group) variant() string {
	f, show := &g.fix, strings.ToLower(g.cases[0].Show)
	switch {
	case f.Kind == fixForm && strings.HasPrefix(f.How, leadingSign):
		return "sign"
	case f.Kind == fixForm && strings.HasSuffix(f.How, " case"):
		return "case"
	case f.Kind == fixOffered && wordList("bounds").containedIn(show):
		return "bounds"
	case f.Kind == fixRefused && f.Other != "":
		return "else"
	case f.Kind == fixFlags && strings.HasPrefix(f.How, "-"):
		return "instead"
	case f.Kind == fixLookup || f.Kind == fixFlags:
		return f.How // "part" or "without"
	}
	return ""
}

// draft returns the draft of a group in the wording of its kind of fix. The result is false if the draft is not usable.
func (g *group) draft() (Draft, bool) {
	f, c := &g.fix, g.cases[0]
	says, tools := g.quotedErrors(), g.tools()
	quoted := make([]string, len(tools))
	for i := range tools {
		quoted[i] = code(tools[i])
	}
	usual := wordings()[f.Kind]
	special := wordings()[f.Kind+": "+g.variant()]
	say := strings.NewReplacer("{tool}", code(c.Tool), "{tools}", joinOr(quoted[:min(3, len(quoted))]), "{param}", code(f.Param),
		"{other}", code(f.Other), "{how}", f.How, "{sign}", code(strings.TrimPrefix(f.How, leadingSign)),
		"{says}", says, "{show}", shorten(c.Show, 80)).Replace
	name := strings.NewReplacer("{tool}", c.Tool, "{param}", f.Param, "{other}", f.Other, "{how}", f.How, "{phrase}", c.Phrases[0]).Replace
	d := Draft{
		Comparison: &g.comparison,
		cases:      g.cases, Outcome: "mixed", Refs: g.refs, Sightings: g.sightings, Tools: tools,
		Title: say(cmp.Or(special.Title, usual.Title)), Advice: []string{say(cmp.Or(special.Advice, usual.Advice))},
		Slug: slugOf(name(cmp.Or(special.Slug, usual.Slug))),
	}
	d.Applies = joinOr(quoted[:min(4, len(quoted))]) + " fails with " + says + "."
	switch f.Kind {
	case fixFlags, fixProgram, fixInstall, fixHint, fixEnv:
		d.Tools, d.Applies = nil, "The command "+code(c.Tool)+" fails with "+says+"."
	case fixRefused, fixCorrected, fixOption:
		d.Tools, d.Applies = nil, "The agent is about to run "+code(f.Param)+"."
		for _, c := range g.cases {
			d.Keywords = appendMissing(d.Keywords, slices.DeleteFunc(slices.Clone(c.Phrases), func(k string) bool { return len(k) <= 2 })...)
		}
		return d, d.Slug != "" && len(d.Keywords) > 0
	case fixCheck, fixFirst:
		d.Title = shorten(d.Title, 190)
	}
	return g.addTriggers(d)
}

// maxPatterns is the maximum number of triggers of one lesson.
const maxPatterns = 12

// addTriggers adds the triggers of the lesson. A phrase of common words is no trigger for a command, because a lesson
// about a command has no tool as a further condition. The result is false if the draft is not usable.
func (g *group) addTriggers(d Draft) (Draft, bool) {
	for _, c := range g.cases {
		if len(d.Tools) > 0 && slices.Contains([]string{fixLookup, fixTool, fixNarrow, fixAsked, fixCheck}, g.fix.Kind) {
			d.Kinds = appendMissing(d.Kinds, c.Kinds...) // the advice also applies to other errors of this kind from these tools
		}
		for _, p := range c.Phrases {
			if len(d.Errors) < maxPatterns && !(c.Shell && wordList("bland").containsAllWords(p)) {
				d.Errors = appendMissing(d.Errors, p)
			}
		}
	}
	if g.fix.Kind == fixHint {
		_, name, _ := strings.Cut(g.fix.Other, "npx ")
		d.Errors = append(d.Errors, cmp.Or(name, g.fix.Other))
	}
	return d, len(d.Title) <= 200 && d.Slug != ""
}

// slugOf returns a slug of the letters and digits of a text, cut at a word to at most 72 bytes.
func slugOf(text string) string {
	const maxLen, minLen = 72, 8
	s := lesson.Hyphenated(text, len(text))
	if len(s) > maxLen {
		at := strings.LastIndexByte(s[:maxLen+1], '-')
		if at < minLen {
			at = maxLen
		}
		s = s[:at]
	}
	if len(s) < 2 {
		return ""
	}
	return s
}
