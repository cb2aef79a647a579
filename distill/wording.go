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

func codeSpan(s string) string { return "`" + s + "`" }

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

// shorten cuts a text to about n bytes and, if possible, ends it at a word boundary with an ellipsis.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	if end := strings.LastIndexByte(s[:n], ' '); end > n/2 {
		return strings.TrimRight(s[:end], " ,;:…") + " …"
	}
	return strings.ToValidUTF8(s[:n], "") // the cut may be inside a rune
}

// wording holds templates for one kind of fix. A name in braces, such as {tool}, stands for a value from the group.
type wording struct{ Title, Advice, Slug string }

//go:embed drafts.json
var draftsText []byte

// In drafts.json, a "KIND: VARIANT" entry has only the templates that differ from the "KIND" entry.
//
//nolint:gochecknoglobals // immutable, read at first use
var wordings = sync.OnceValue(func() map[string]wording { return decodeEmbedded[map[string]wording](draftsText) })

func decodeEmbedded[T any](text []byte) (v T) {
	if err := json.Unmarshal(text, &v); err != nil {
		panic("distill: " + err.Error()) // cannot happen, because tests read the embedded file
	}
	return v
}

// variant returns the key for the group's wording in drafts.json.
func (g *group) variant() string {
	f, show := &g.fix, strings.ToLower(g.cases[0].ShownMessage)
	switch {
	case f.Kind == fixForm && strings.HasPrefix(f.Variant, leadingSign):
		return "sign"
	case f.Kind == fixForm && strings.HasSuffix(f.Variant, " case"):
		return "case"
	case f.Kind == fixOffered && wordList("bounds").containedIn(show):
		return "bounds"
	case f.Kind == fixRefused && f.Other != "":
		return "else"
	case f.Kind == fixFlags && strings.HasPrefix(f.Variant, "-"):
		return "instead"
	case f.Kind == fixLookup || f.Kind == fixFlags:
		return f.Variant // "part" or "without"
	}
	return ""
}

// draft returns the group's draft. The result is false if the draft is not usable.
func (g *group) draft() (Draft, bool) {
	f, c := &g.fix, g.cases[0]
	errorQuotes, tools := g.quotedErrors(), g.tools()
	quoted := make([]string, len(tools))
	for i := range tools {
		quoted[i] = codeSpan(tools[i])
	}
	standard := wordings()[f.Kind]
	variant := wordings()[f.Kind+": "+g.variant()]
	fill := strings.NewReplacer("{tool}", codeSpan(c.Tool), "{tools}", joinOr(quoted[:min(3, len(quoted))]), "{param}", codeSpan(f.Param),
		"{other}", codeSpan(f.Other), "{how}", f.Variant, "{sign}", codeSpan(strings.TrimPrefix(f.Variant, leadingSign)),
		"{says}", errorQuotes, "{show}", shorten(c.ShownMessage, 80)).Replace
	fillSlug := strings.NewReplacer("{tool}", c.Tool, "{param}", f.Param, "{other}", f.Other, "{how}", f.Variant, "{phrase}", c.Phrases[0]).Replace
	d := Draft{
		Comparison: &g.comparison,
		cases:      g.cases, Outcome: "mixed", Refs: g.refs, Sightings: g.sightings, Tools: tools,
		Title: fill(cmp.Or(variant.Title, standard.Title)), Advice: []string{fill(cmp.Or(variant.Advice, standard.Advice))},
		Slug: makeSlug(fillSlug(cmp.Or(variant.Slug, standard.Slug))),
	}
	d.Applies = joinOr(quoted[:min(4, len(quoted))]) + " fails with " + errorQuotes + "."
	switch f.Kind {
	case fixFlags, fixProgram, fixInstall, fixHint, fixEnv:
		d.Tools, d.Applies = nil, "The command "+codeSpan(c.Tool)+" fails with "+errorQuotes+"."
	case fixRefused, fixCorrected, fixOption:
		d.Tools, d.Applies = nil, "The agent is about to run "+codeSpan(f.Param)+"."
		for _, c := range g.cases {
			d.Keywords = appendMissing(d.Keywords, slices.DeleteFunc(slices.Clone(c.Phrases), func(k string) bool { return len(k) <= 2 })...)
		}
		return d, d.Slug != "" && len(d.Keywords) > 0
	case fixLookupOnly, fixPriorCall:
		d.Title = shorten(d.Title, 190)
	}
	return g.addTriggers(d)
}

// maxPatterns is the maximum number of a lesson's triggers.
const maxPatterns = 12

// addTriggers adds the cases' triggers to a draft. For a command, common words are not used as triggers, because the
// lesson has no tool as a second condition. The result is false for an unusable draft.
func (g *group) addTriggers(d Draft) (Draft, bool) {
	for _, c := range g.cases {
		if len(d.Tools) > 0 && slices.Contains([]string{fixLookup, fixTool, fixShorterQuery, fixUserValue, fixLookupOnly}, g.fix.Kind) {
			d.Kinds = appendMissing(d.Kinds, c.Kinds...) // the advice also applies to other errors of this kind
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

// makeSlug returns a slug of at most 72 bytes, cut at a word boundary.
func makeSlug(text string) string {
	const maxLen, minLen = 72, 8
	s := lesson.Slugify(text, len(text))
	if len(s) > maxLen {
		end := strings.LastIndexByte(s[:maxLen+1], '-')
		if end < minLen {
			end = maxLen
		}
		s = s[:end]
	}
	if len(s) < 2 {
		return ""
	}
	return s
}
