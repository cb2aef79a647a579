package distill

import (
	"cmp"
	"slices"
	"strings"

	"precept/lesson"
)

// Draft is a lesson that a judge proposes, before it has a file.
type Draft struct {
	Slug        string   `json:"slug"`
	Title       string   `json:"title"`
	Applies     string   `json:"applies_when"`
	Advice      []string `json:"advice"`
	Keywords    []string `json:"keywords,omitempty"`
	Errors      []string `json:"error_patterns,omitempty"`
	Tools       []string `json:"tools,omitempty"`
	Outcome     string   `json:"outcome"`
	Refs        []Ref    `json:"refs"`
	Sightings   int      `json:"sightings"`
	Contradicts string   `json:"contradicts,omitempty"`

	cases []*Case // of the rules
}

// group is the cases that one lesson speaks of: the same thing helped.
type group struct {
	fix   Fix
	cases []*Case
	refs  []Ref
	seen  int
}

// drafts turns cases into lessons. Silence is fine: what cannot be said without a session's own
// words is not said.
func drafts(cases []*Case) []Draft {
	slices.SortFunc(cases, func(a, b *Case) int { return cmp.Or(b.Sessions-a.Sessions, cmp.Compare(a.Key, b.Key)) })
	groups := map[string]*group{}
	var order []string
	var out []Draft
	bySlug := map[string]*Draft{}
	for _, c := range cases {
		if c.Known != "" {
			if d, ok := knownDraft(c); ok {
				out = append(out, d)
			}
			continue
		}
		fix, refs, n, ok := conclude(c)
		if !ok || suspicious(c) {
			continue
		}
		key := c.Tool + "|" + fix.Kind + "|" + fix.Param + "|" + fix.Other + "|" + fix.How
		switch fix.Kind { // of these one lesson speaks of several tools
		case fixFirst, fixStop:
			key = fix.Kind + "|" + fix.Other + "|" + strings.ToLower(c.Phrases[0])
		case fixCheck:
			key = fix.Kind + "|" + fix.Other
		}
		g := groups[key]
		if g == nil {
			g = &group{fix: fix}
			groups[key] = g
			order = append(order, key)
		}
		g.cases, g.seen = append(g.cases, c), g.seen+n
		g.refs = addRefs(g.refs, refs)
	}
	for _, key := range order {
		if d, ok := groups[key].draft(); ok {
			out = append(out, d)
		}
	}
	kept := out[:0]
	for i := range out {
		if same := bySlug[out[i].Slug]; same != nil {
			same.merge(&out[i])
			continue
		}
		kept = append(kept, out[i])
		bySlug[out[i].Slug] = &kept[len(kept)-1]
	}
	return kept
}

// known says whether the draft tells of a known failure.
func (d *Draft) known() bool { return len(d.cases) > 0 && d.cases[0].Known != "" }

func (d *Draft) merge(o *Draft) {
	d.Sightings += o.Sightings
	d.cases = append(d.cases, o.cases...)
	d.Refs, d.Errors, d.Tools = addRefs(d.Refs, o.Refs), added(d.Errors, o.Errors...), added(d.Tools, o.Tools...)
}

// suspicious says whether an error reads like orders to a model: then somebody wants it in a
// lesson.
func suspicious(c *Case) bool {
	l := &lesson.Lesson{Title: c.Show, Advice: strings.Join(c.Phrases, "\n")}
	return len(lesson.Suspicious(l)) > 0
}

// conclude decides what a case teaches, if anything.
func conclude(c *Case) (f Fix, refs []Ref, sessions int, ok bool) {
	best, found := c.best()
	switch {
	case c.Show != "" && listed("vague").spell(c.Show): // it says no more than that there was an error
		return f, nil, 0, false
	case found && 4*best.Sessions >= c.Sessions: // what helped once and failed to help often is chance
		return best.Fix, best.Refs, best.Sessions, true
	case c.permanent() && (c.Stubborn >= 2 || c.Stubborn >= 1 && c.Most >= 3) && 2*c.Mended <= c.Sessions:
		return Fix{Kind: fixStop}, c.Refs, c.Sessions, true
	}
	return f, nil, 0, false
}

// plausible says whether a fix may be the reason why things went well afterwards.
func plausible(c *Case, h *Helped) bool {
	low := strings.ToLower(c.Show)
	if listed("no access").within(low) && getsRound(low, h) {
		return false
	}
	switch h.Kind {
	case fixForm, fixOffered, fixNarrow, fixWanted, fixAdded, fixRemoved, fixFlags:
		return !listed("passing").within(low)
	case fixCheck:
		return c.permanent()
	case fixFewer:
		return listed("too much").within(low)
	case fixTool:
		// What undoes things is no way to get them done, unless that was the aim.
		if toolDoes(h.Other, "destroys") && !toolDoes(c.Tool, "destroys") {
			return false
		}
		return c.permanent() && (h.Sessions >= 2 || c.Most >= 3 || alike(c.Tool, h.Other))
	case fixFirst:
		return h.Sessions >= 2 || c.permanent() && h.How != unlinked
	}
	return true
}

// getsRound says whether a fix gets round an error instead of doing what it asks for.
func getsRound(low string, h *Helped) bool {
	switch h.Kind {
	case fixTool, fixProgram:
		return !strings.Contains(low, strings.ToLower(h.Other))
	case fixAdded, fixRemoved:
		return !namesParameter(low, h.Param)
	}
	return false
}

// permanent says whether the error tells that the same will fail again.
func (c *Case) permanent() bool { return listed("permanent").within(strings.ToLower(c.Show)) }

// alike says whether the names of two tools have a word in common.
func alike(a, b string) bool {
	list := nameTokens(b)
	return slices.ContainsFunc(nameTokens(a), func(t string) bool { return len(t) > 3 && slices.Contains(list, t) })
}

func knownDraft(c *Case) (Draft, bool) {
	if c.Mended == 0 && c.Sessions < 2 && c.Most < 2 {
		return Draft{}, false
	}
	list := knownFailures()
	at := slices.IndexFunc(list, func(k known) bool { return k.Slug == c.Known })
	if at < 0 {
		return Draft{}, false
	}
	k := list[at]
	d := Draft{
		Slug: k.Slug, Title: k.Title, Applies: "A tool answers “" + c.Phrases[0] + "”.", Advice: k.Advice, Errors: slices.Clone(c.Phrases),
		Outcome: "mixed", Refs: c.Refs, Sightings: c.Sessions, cases: []*Case{c}, // it says what to do: no caution
	}
	for _, f := range c.Fixes {
		if f.Kind == fixInstall && strings.Contains(k.Slug, "python-module") {
			d.Advice = append(slices.Clone(d.Advice), "`"+installer(f.Other)+"` helped here.")
			break
		}
	}
	return d, true
}

// installer is an install without the packages, which differ from module to module.
func installer(how string) string {
	words := strings.Fields(how)
	for i, w := range words {
		if listed("packages")[w] {
			return strings.Join(words[:i], " ")
		}
	}
	return how
}

// sayings are the errors of the group, for people: at most three.
func (g *group) sayings() string {
	var list []string
	for _, c := range g.cases {
		list = added(list, "“"+shorten(c.Show, 90)+"”")
	}
	return either(list[:min(len(list), 3)])
}

func (g *group) tools() []string {
	var list []string
	for _, c := range g.cases {
		list = added(list, c.Tool)
	}
	slices.Sort(list)
	return list
}
