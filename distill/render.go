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
func drafts(cases []*Case, list []known) []Draft {
	slices.SortFunc(cases, func(a, b *Case) int { return cmp.Or(b.Sessions-a.Sessions, cmp.Compare(a.Key, b.Key)) })
	groups := map[string]*group{}
	var order []string
	var out []Draft
	bySlug := map[string]*Draft{}
	for _, c := range cases {
		if c.Known != "" {
			if d, ok := knownDraft(c, list); ok {
				out = append(out, d)
			}
			continue
		}
		fix, refs, n, ok := conclude(c)
		if !ok || suspicious(c) {
			continue
		}
		key := c.Tool + "|" + fix.Kind + "|" + fix.Param + "|" + fix.Other + "|" + fix.How
		if fix.Kind == fixFirst {
			key = fix.Kind + "|" + fix.Other + "|" + strings.ToLower(c.Phrases[0])
		}
		if fix.Kind == fixCheck {
			key = fix.Kind + "|" + fix.Other
		}
		if fix.Kind == fixStop {
			key = fix.Kind + "|" + strings.ToLower(c.Phrases[0])
		}
		g := groups[key]
		if g == nil {
			g = &group{fix: fix}
			groups[key] = g
			order = append(order, key)
		}
		g.cases, g.seen = append(g.cases, c), g.seen+n
		for _, r := range refs {
			g.refs = addRef(g.refs, r)
		}
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
	for _, r := range o.Refs {
		d.Refs = addRef(d.Refs, r)
	}
	for _, e := range o.Errors {
		if !slices.Contains(d.Errors, e) {
			d.Errors = append(d.Errors, e)
		}
	}
	for _, t := range o.Tools {
		if !slices.Contains(d.Tools, t) {
			d.Tools = append(d.Tools, t)
		}
	}
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
	if vague(c.Show) {
		return f, nil, 0, false
	}
	// What helped once and failed to help often is chance.
	found = found && 4*best.Sessions >= c.Sessions
	if found {
		return best.Fix, best.Refs, best.Sessions, true
	}
	if permanent(c.Show) && (c.Stubborn >= 2 || c.Stubborn >= 1 && c.Most >= 3) && 2*c.Mended <= c.Sessions {
		return Fix{Kind: fixStop}, c.Refs, c.Sessions, true
	}
	return f, nil, 0, false
}

// plausible says whether a fix may be the reason why things went well afterwards.
func plausible(c *Case, h *Helped) bool {
	low := strings.ToLower(c.Show)
	switch h.Kind {
	case fixForm, fixOffered, fixNarrow, fixWanted, fixAdded, fixRemoved, fixFlags:
		return !passes(low)
	case fixCheck:
		return permanent(c.Show)
	case fixFewer:
		return strings.Contains(low, "limit") || strings.Contains(low, "too many") || strings.Contains(low, "exceed") || strings.Contains(low, "at most") || strings.Contains(low, "maximum")
	case fixTool:
		// What undoes things is no way to get them done, unless that was the aim.
		if destroys(h.Other) && !destroys(c.Tool) {
			return false
		}
		return permanent(c.Show) && (h.Sessions >= 2 || c.Most >= 3 || alike(c.Tool, h.Other))
	case fixFirst:
		return h.Sessions >= 2 || permanent(c.Show) && h.How != unlinked
	}
	return true
}

// passes says whether an error may go away by itself: what was different in the next call is not
// why it worked.
func passes(low string) bool {
	return slices.ContainsFunc([]string{"timeout", "timed out", "internal server error", "temporar", "unavailable", "try again", "connection refused", "connection reset", "rate limit", "too many requests", "too many attempts", "overloaded", "502", "503", "504"},
		func(w string) bool { return strings.Contains(low, w) })
}

// destroys: the tool undoes or gives away something.
func destroys(tool string) bool {
	return hasToken(tool, "cancel", "delete", "remove", "drop", "destroy", "refund", "terminate", "kill", "close", "revoke", "purge", "wipe", "reset", "rm", "uninstall", "send", "pay", "transfer")
}

// alike: the names of two tools have a word in common.
func alike(a, b string) bool {
	list := nameTokens(b)
	return slices.ContainsFunc(nameTokens(a), func(t string) bool { return len(t) > 3 && slices.Contains(list, t) })
}

// vague says whether an error says no more than that there was one.
func vague(show string) bool {
	if show == "" {
		return false // people's, and known ones
	}
	for _, w := range strings.FieldsFunc(strings.ToLower(show), func(r rune) bool { return (r < 'a' || r > 'z') && r != '\'' }) {
		switch w {
		case "error", "message", "request", "invalid", "bad", "internal", "server", "response", "failed", "data", "an", "a", "the", "occurred", "something", "went", "wrong", "unknown", "status", "code", "exception",
			"unexpected", "from", "you", "must", "specify", "argument", "could", "not", "fatal", "with", "try", "again", "please", "later", "result", "process", "in", "of", "to", "or", "and", "is", "command", "call", "tool", "execution", "run", "exit":
		default:
			return false
		}
	}
	return true
}

// bland says whether the words of a command's error stand in the errors of any other one, too.
func bland(phrase string) bool {
	for _, w := range strings.FieldsFunc(strings.ToLower(phrase), func(r rune) bool { return (r < 'a' || r > 'z') && r != '\'' }) {
		switch w {
		case "could", "not", "find", "found", "no", "such", "file", "or", "directory", "is", "a", "an", "the", "does", "exist", "exists", "unable", "to", "cannot", "can't", "failed", "error", "with", "from",
			"server", "in", "of", "for", "command", "module", "open", "read", "load", "resolve", "at", "line", "on", "by", "was", "been", "has", "have", "it", "this", "that", "you", "must", "specify", "be", "and", "your":
		default:
			return false
		}
	}
	return true
}

// permanent says whether an error tells that the same will fail again.
func permanent(show string) bool {
	low := strings.ToLower(show)
	for _, w := range []string{
		"does not exist", "doesn't exist", "doesn't exists", "authentication", "unauthorized", "forbidden", "api key", "not supported", "unsupported", "denied", "not implemented",
		"disabled", "cannot be", "can't be", "not available", "not found", "not allowed", "401", "403", "404", "invalid", "not permitted", "expired", "not enough", "insufficient", "already", "could not find",
		"unknown", "not subscribed", "exceeded", "must be", "should match", "no longer",
	} {
		if strings.Contains(low, w) {
			return true
		}
	}
	return false
}

func knownDraft(c *Case, list []known) (Draft, bool) {
	if c.Mended == 0 && c.Sessions < 2 && c.Most < 2 {
		return Draft{}, false
	}
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
		if packages()[w] {
			return strings.Join(words[:i], " ")
		}
	}
	return how
}

// sayings are the errors of the group, for people: at most three.
func (g *group) sayings() string {
	var list []string
	for _, c := range g.cases {
		s := "“" + shorten(c.Show, 90) + "”"
		if !slices.Contains(list, s) && len(list) < 3 {
			list = append(list, s)
		}
	}
	return either(list)
}

func (g *group) tools() []string {
	var list []string
	for _, c := range g.cases {
		if !slices.Contains(list, c.Tool) {
			list = append(list, c.Tool)
		}
	}
	slices.Sort(list)
	return list
}
