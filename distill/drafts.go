package distill

import (
	"cmp"
	"slices"
	"strings"

	"precept/inject/lesson"
)

// Draft is a lesson not yet proposed to the bank.
type Draft struct {
	Slug           string   `json:"slug"`
	Title          string   `json:"title"`
	Applies        string   `json:"applies_when"`
	Advice         []string `json:"advice"`
	CounterExample string   `json:"counter_example,omitempty"` // a situation where the advice is wrong
	Keywords       []string `json:"keywords,omitempty"`
	Errors         []string `json:"error_patterns,omitempty"`
	Kinds          []string `json:"error_kinds,omitempty"`
	Tools          []string `json:"tools,omitempty"`
	Outcome        string   `json:"outcome"`
	Refs           []Ref    `json:"refs"`
	Sightings      int      `json:"sightings"`             // number of sessions that support the lesson
	Contradicts    string   `json:"contradicts,omitempty"` // slug of a lesson with the opposite outcome
	SameAs         string   `json:"same_as,omitempty"`     // slug of an existing lesson, if a judge named one

	Comparison *Comparison `json:"comparison,omitempty"` // sessions with and without the advice; nil for a judge's draft

	State  string `json:"state,omitempty"`  // lesson state after the proposal, or "refused"
	Reason string `json:"reason,omitempty"` // why the draft was refused

	cases []*Case    // source of a draft made without a judge; empty for a judge's draft
	mark  *judgeMark // what the judge has read of the session; nil for a draft made without a judge
}

// group holds the cases with the same fix. All of them get one lesson.
type group struct {
	fix       Fix
	cases     []*Case
	refs      []Ref
	sightings int

	comparison Comparison
}

// caseDrafts returns lesson drafts from the cases. A case that only private words describe gets no draft. If orgWords
// is true, the organisation's words are not private.
func caseDrafts(cases []*Case, orgWords bool) []Draft {
	slices.SortFunc(cases, func(a, b *Case) int { return cmp.Or(b.Sessions-a.Sessions, cmp.Compare(a.Key, b.Key)) })
	var out []Draft
	bySlug := map[string]int{} // index in out
	add := func(d Draft, ok bool) {
		pos, exists := bySlug[d.Slug]
		switch {
		case !ok:
		case exists:
			out[pos].merge(&d)
		default:
			bySlug[d.Slug] = len(out)
			out = append(out, d)
		}
	}
	groups := map[string]*group{}
	var order []*group
	for _, c := range cases {
		if c.Known != "" {
			add(knownDraft(c))
			continue
		}
		c, ok := c.withWording(orgWords)
		if !ok {
			continue
		}
		counted, ok := c.supportedFix()
		if !ok || isSuspicious(c) {
			continue
		}
		key := c.groupKey(&counted)
		g := groups[key]
		if g == nil {
			g = &group{fix: counted.fix()}
			groups[key], order = g, append(order, g)
		}
		g.cases, g.sightings = append(g.cases, c), g.sightings+counted.Distinct
		g.refs = addRefs(g.refs, counted.Refs)
		g.comparison.add(c.comparison(&counted))
	}
	for _, g := range order {
		add(g.draft())
	}
	return out
}

// groupKey returns the same key for all cases that get one lesson.
func (c *Case) groupKey(counted *CountedFix) string {
	switch counted.Kind { // the group depends on the other tool and not on the failing tool
	case fixPriorCall:
		return counted.Kind + "|" + counted.Other + "|" + strings.ToLower(strings.Join(c.Phrases, "|"))
	case fixLookupOnly:
		return counted.Kind + "|" + counted.Other
	}
	return c.Tool + "|" + counted.fix().key()
}

func (d *Draft) isKnownFailure() bool { return len(d.cases) > 0 && d.cases[0].Known != "" }

func (d *Draft) merge(other *Draft) {
	d.Sightings += other.Sightings
	d.cases = append(d.cases, other.cases...)
	d.Comparison.add(*other.Comparison)
	d.Refs, d.Errors, d.Tools = addRefs(d.Refs, other.Refs), appendMissing(d.Errors, other.Errors...), appendMissing(d.Tools, other.Tools...)
	d.Kinds = appendMissing(d.Kinds, other.Kinds...)
}

// isSuspicious reports whether an error reads like instructions to a model. An attacker may plant such an error.
func isSuspicious(c *Case) bool {
	l := &lesson.Lesson{Title: c.ShownMessage, Advice: strings.Join(c.Phrases, "\n")}
	return len(lesson.InjectionFindings(l)) > 0
}

// supportedFix returns the best fix for a case. ok is false if the error has no specific word, or if the fix worked in
// fewer than a quarter of the sessions.
func (c *Case) supportedFix() (CountedFix, bool) {
	best, found := c.bestFix()
	switch {
	case c.ShownMessage != "" && wordList("vague").containsAllWords(c.ShownMessage): // the error has no specific word
		return CountedFix{}, false
	case found && 4*best.Sessions >= c.Sessions: // a smaller share may be chance
		return best, true
	}
	return CountedFix{}, false
}

// isPlausibleFix reports whether a fix may explain the success after the error.
func isPlausibleFix(c *Case, counted *CountedFix) bool {
	errorText := strings.ToLower(c.ShownMessage)
	if wordList("no access").containedIn(errorText) && circumventsError(errorText, counted) {
		return false
	}
	switch counted.Kind {
	case fixForm, fixOffered, fixShorterQuery, fixDescribedValue, fixAdded, fixRemoved, fixFlags:
		return !wordList("passing").containedIn(errorText) // such an error ends without a fix
	case fixLookupOnly:
		return c.isPermanent()
	case fixShorterList:
		return wordList("too much").containedIn(errorText)
	case fixTool:
		// A destructive call is not a fix, unless the failed call was also destructive.
		if toolDoes(counted.Other, "destroys") && !toolDoes(c.Tool, "destroys") {
			return false
		}
		isLinked := shareNameWord(c.Tool, counted.Other) || strings.Contains(errorText, strings.ToLower(counted.Other))
		return c.isPermanent() && (isLinked || counted.Sessions >= 2 && c.Sessions-counted.Sessions-counted.Failed >= minCompared)
	case fixPriorCall:
		// If a program works after an edit, it works because of what the edit changed.
		if toolDoes(counted.Other, "edits") || toolDoes(c.Tool, "executes") {
			return false
		}
		return counted.Sessions >= 2 || c.isPermanent() && counted.Variant != unlinked
	}
	return true
}

// circumventsError reports whether a fix avoids a missing permission instead of doing what the error asks for.
func circumventsError(errorText string, counted *CountedFix) bool {
	switch counted.Kind {
	case fixTool, fixProgram:
		return !strings.Contains(errorText, strings.ToLower(counted.Other))
	case fixAdded, fixRemoved:
		return !namesParameter(errorText, counted.Param)
	}
	return false
}

// isPermanent reports whether the error would occur again if the call were repeated.
func (c *Case) isPermanent() bool {
	return wordList("permanent").containedIn(strings.ToLower(c.ShownMessage))
}

func shareNameWord(a, b string) bool {
	list := nameTokens(b)
	return slices.ContainsFunc(nameTokens(a), func(t string) bool { return len(t) > 3 && slices.Contains(list, t) })
}

// knownDraft returns the draft for a known failure. ok is false if the case is too rare, or if known.json no longer has
// the failure.
func knownDraft(c *Case) (d Draft, ok bool) {
	if c.Repaired == 0 && c.Sessions < 2 && c.MaxFailures < 2 {
		return Draft{}, false
	}
	k := findKnownFailure(c.Known)
	if k == nil {
		return Draft{}, false
	}
	d = Draft{
		Comparison: c.knownComparison(k),
		Slug:       k.Slug, Title: k.Title, Applies: "A tool call fails with “" + c.Phrases[0] + "”.", Advice: k.Advice, Errors: slices.Clone(c.Phrases), Kinds: slices.Clone(c.Kinds),
		Outcome: "mixed", Refs: c.Refs, Sightings: c.Sessions, cases: []*Case{c}, // not "failure", because a failure lesson is a warning
	}
	for _, f := range c.Fixes {
		if f.Kind == fixInstall && strings.Contains(k.Slug, "python-module") {
			d.Advice = append(slices.Clone(d.Advice), "`"+withoutPackages(f.Other)+"` installed the module in an earlier session.")
			break
		}
	}
	return d, true
}

// knownComparison compares the sessions that followed a known failure's advice with the others. It returns nil for all
// failures other than refused edits, because other calls do not show whether a session followed the advice.
func (c *Case) knownComparison(k *knownFailure) *Comparison {
	if k.Edit == "" {
		return &Comparison{}
	}
	redone := CountedFix{Kind: fixRedone}
	if pos := slices.IndexFunc(c.Fixes, func(f CountedFix) bool { return f.Kind == fixRedone }); pos >= 0 {
		redone = c.Fixes[pos]
	}
	compared := c.comparison(&redone)
	return &compared
}

func withoutPackages(install string) string {
	words := strings.Fields(install)
	for i, w := range words {
		if wordList("packages")[w] {
			return strings.Join(words[:i], " ")
		}
	}
	return install
}

func (g *group) quotedErrors() string {
	var list []string
	for _, c := range g.cases {
		list = appendMissing(list, "“"+shorten(c.ShownMessage, 90)+"”")
	}
	return joinOr(list[:min(len(list), 3)])
}

func (g *group) tools() []string {
	var list []string
	for _, c := range g.cases {
		list = appendMissing(list, c.Tool)
	}
	slices.Sort(list)
	return list
}
