package distill

import (
	"cmp"
	"fmt"
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

// drafts turns cases into lessons. Silence is fine: what cannot be said without a session's own words is not said.
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

// suspicious says whether an error reads like orders to a model: then somebody wants it in a lesson.
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
	found = found && 4*best.Sessions >= c.Sessions && plausible(c, &best)
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
	case fixCheck:
		return permanent(c.Show)
	case fixFewer:
		return strings.Contains(low, "limit") || strings.Contains(low, "too many") || strings.Contains(low, "exceed") || strings.Contains(low, "at most") || strings.Contains(low, "maximum")
	case fixTool:
		// What undoes things is no way to get them done, unless that was the aim.
		if destroys(h.Other) && !destroys(c.Tool) {
			return false
		}
		return permanent(c.Show) && (h.Sessions >= 2 || alike(c.Tool, h.Other))
	case fixFirst:
		return h.Sessions >= 2 || permanent(c.Show)
	}
	return true
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
			"unexpected", "could", "not", "fatal", "with", "try", "again", "please", "later", "result", "process", "in", "of", "to", "or", "and", "is", "command", "call", "tool", "execution", "run", "exit":
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
		Outcome: "failure", Refs: c.Refs, Sightings: c.Sessions, cases: []*Case{c},
	}
	for _, f := range c.Fixes {
		if f.Kind == fixInstall && strings.Contains(k.Slug, "python-module") {
			d.Advice = append(slices.Clone(d.Advice), "`"+f.Other+"` helped here.")
			break
		}
	}
	return d, true
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

func code(s string) string { return "`" + s + "`" }

func either(list []string) string {
	switch len(list) {
	case 0:
		return ""
	case 1:
		return list[0]
	default:
		return strings.Join(list[:len(list)-1], ", ") + " or " + list[len(list)-1]
	}
}

// shorten cuts a text at a word.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	if at := strings.LastIndexByte(s[:n], ' '); at > n/2 {
		return strings.TrimRight(s[:at], " ,;:…") + " …"
	}
	return s[:n]
}

// draft words the lesson of a group.
func (g *group) draft() (Draft, bool) {
	d := Draft{cases: g.cases, Outcome: "mixed", Refs: g.refs, Sightings: g.seen, Applies: fmt.Sprintf("%s answers %s.", code(g.cases[0].Tool), g.sayings())}
	switch g.fix.Kind {
	case fixFlags, fixProgram, fixInstall:
		return g.shellDraft(d)
	case fixRefused, fixTold, fixOption:
		return g.peopleDraft(d)
	case fixForm, fixOffered, fixNarrow, fixFewer, fixAdded, fixRemoved:
		return g.finish(d, g.argument(&d), g.tools())
	default:
		if tools := g.tools(); len(tools) > 1 {
			for i := range tools {
				tools[i] = code(tools[i])
			}
			d.Applies = fmt.Sprintf("%s answers %s.", either(tools[:min(4, len(tools))]), g.sayings())
		}
		return g.finish(d, g.way(&d), g.tools())
	}
}

// argument words what was wrong with a call's arguments, and makes the slug.
func (g *group) argument(d *Draft) string {
	tool, says, p := code(g.cases[0].Tool), g.sayings(), code(g.fix.Param)
	name := g.cases[0].Tool
	say := func(title, advice, slug string) string {
		d.Title, d.Advice = title, []string{advice}
		return slug
	}
	switch g.fix.Kind {
	case fixForm:
		return say(fmt.Sprintf("Give %s to %s as %s.", p, tool, g.fix.How),
			fmt.Sprintf("%s refuses other forms with %s; the same call with %s in %s worked.", tool, says, g.fix.How, p),
			"give-"+g.fix.Param+"-as-"+g.fix.How+"-to-"+name)
	case fixOffered:
		return say(fmt.Sprintf("Take one of the values that %s offers in its error, exactly as it is written there.", tool),
			fmt.Sprintf("When %s answers %s, the answer itself names what exists. Choose the fitting one for %s instead of rewording the call.", tool, says, p),
			"take-what-the-error-of-"+name+"-offers")
	case fixNarrow:
		return say(fmt.Sprintf("Ask %s for fewer words when it finds nothing.", tool),
			fmt.Sprintf("After %s, cut %s down to the name of one thing and read what comes back; longer questions found nothing.", says, p),
			"ask-"+name+"-for-fewer-words")
	case fixFewer:
		return say(fmt.Sprintf("Give fewer values at once in %s of %s.", p, tool),
			fmt.Sprintf("%s answers %s when %s holds too many values. Split them over several calls.", tool, says, p),
			"give-fewer-values-in-"+g.fix.Param+"-of-"+name)
	case fixAdded:
		return say(fmt.Sprintf("Give %s when you call %s.", p, tool),
			fmt.Sprintf("Without %s it answered %s; with it the same call worked.", p, says),
			"give-"+g.fix.Param+"-to-"+name)
	default: // fixRemoved
		return say(fmt.Sprintf("Leave %s out when %s does not take it.", p, tool),
			fmt.Sprintf("With %s it answered %s; without it the same call worked.", p, says),
			"leave-"+g.fix.Param+"-out-of-"+name)
	}
}

// way words another way to the same end, and makes the slug.
func (g *group) way(d *Draft) string {
	c := g.cases[0]
	tool, says, p, other := code(c.Tool), g.sayings(), code(g.fix.Param), code(g.fix.Other)
	tools := g.tools()
	for i := range tools {
		tools[i] = code(tools[i])
	}
	tools = tools[:min(3, len(tools))]
	say := func(title, advice, slug string) string {
		d.Title, d.Advice = title, []string{advice}
		return slug
	}
	switch g.fix.Kind {
	case fixLookup:
		return say(fmt.Sprintf("Take %s from %s before you call %s.", p, other, tool),
			fmt.Sprintf("%s answered %s to a guessed or outdated %s. Call %s and use a value that it gives.", tool, says, p, other),
			"take-"+g.fix.Param+"-from-"+g.fix.Other+"-before-"+c.Tool)
	case fixAsked:
		return say(fmt.Sprintf("Ask the user to confirm %s when %s finds nothing for it.", p, tool),
			fmt.Sprintf("After %s a corrected %s from the user worked. Ask for it once instead of trying variants or giving up.", says, p),
			"ask-the-user-for-"+g.fix.Param+"-of-"+c.Tool)
	case fixTool:
		return say(fmt.Sprintf("Use %s when %s answers “%s”.", other, tool, shorten(c.Show, 60)),
			fmt.Sprintf("%s answered %s; %s then did what was wanted. Check that it fits the case, and do not repeat the first call.", tool, says, other),
			"use-"+g.fix.Other+"-when-"+c.Tool+"-fails")
	case fixCheck:
		who, end := "They refuse", "choose the call that fits the state."
		if len(tools) == 1 {
			who, end = "It refuses", "do not send the same call again."
		}
		return say(shorten(fmt.Sprintf("Check with %s how things stand before you call %s.", other, either(tools)), 190),
			fmt.Sprintf("%s with %s when the state does not allow the change. Look first, tell the user what is possible, and %s", who, says, end),
			"check-with-"+g.fix.Other+"-first")
	case fixFirst:
		return say(fmt.Sprintf("Call %s before %s.", other, tool),
			fmt.Sprintf("%s answered %s; after %s the very same call worked.", tool, says, other),
			"call-"+g.fix.Other+"-before-"+c.Tool)
	default: // fixStop
		d.Outcome = "failure"
		return say(fmt.Sprintf("Stop calling %s after “%s”; another try will not help.", either(tools), shorten(c.Show, 60)),
			"Repeated calls failed the same way each time. "+instead(c.Show),
			"stop-calling-"+c.Tool+"-after-"+c.Phrases[0])
	}
}

// instead says what to do where nothing helped.
func instead(show string) string {
	low := strings.ToLower(show)
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(low, w) })
	}
	switch {
	case has("authentication", "unauthorized", "401", "403", "forbidden", "api key", "not subscribed"):
		return "Access is missing, and no argument gives it: go on with another tool, or tell the user what has to be configured."
	case has("exist", "not found", "could not find", "404", "unknown"):
		return "What was asked for is not there under that name: use another tool or another source, or say that it cannot be found."
	case has("not enough", "not available", "insufficient", "expired"):
		return "Look for an alternative first, offer it to the user, and only then call again with the new choice."
	case has("cannot be", "can't be", "not allowed", "not permitted", "denied"):
		return "The rule stands: tell the user that it is not possible and what is, instead of trying once more."
	default:
		return "Change what the error names, or take another way."
	}
}

func (g *group) shellDraft(d Draft) (Draft, bool) {
	c := g.cases[0]
	says := g.sayings()
	var slug string
	switch g.fix.Kind {
	case fixFlags:
		if g.fix.How == "without" {
			d.Title = fmt.Sprintf("Leave %s out of %s.", code(g.fix.Other), code(g.fix.Param))
			d.Advice = []string{fmt.Sprintf("With it the command failed with %s; without it the same command worked.", says)}
			slug = "leave-" + g.fix.Other + "-out-of-" + g.fix.Param
			break
		}
		d.Title = fmt.Sprintf("Run %s with %s.", code(g.fix.Param), code(g.fix.Other))
		d.Advice = []string{fmt.Sprintf("Without it the command failed with %s; with it the same command worked.", says)}
		slug = "run-" + g.fix.Param + "-with-" + g.fix.Other
	case fixProgram:
		d.Title = fmt.Sprintf("Use %s instead of %s here.", code(g.fix.Other), code(g.fix.Param))
		d.Advice = []string{fmt.Sprintf("%s failed with %s; the same arguments worked with %s.", code(g.fix.Param), says, code(g.fix.Other))}
		slug = "use-" + g.fix.Other + "-instead-of-" + g.fix.Param
	case fixInstall:
		d.Title = fmt.Sprintf("Install what is missing with %s when %s answers “%s”.", code(g.fix.Other), code(c.Tool), shorten(c.Show, 60))
		d.Advice = []string{fmt.Sprintf("%s failed with %s; after %s the same command worked.", code(c.Tool), says, code(g.fix.Other))}
		slug = "install-with-" + g.fix.Other + "-for-" + c.Tool
	}
	d.Applies = fmt.Sprintf("The command %s fails with %s.", code(c.Tool), says)
	return g.finish(d, slug, nil)
}

// finish adds what fires the lesson. A phrase that would fire on many other errors is no trigger without its tool.
func (g *group) finish(d Draft, slug string, tools []string) (Draft, bool) {
	d.Slug = slugOf(slug)
	for _, c := range g.cases {
		for _, p := range c.Phrases {
			if !slices.Contains(d.Errors, p) && len(d.Errors) < 12 {
				d.Errors = append(d.Errors, p)
			}
		}
	}
	d.Tools = tools
	if len(d.Title) > 200 || d.Slug == "" {
		return d, false
	}
	return d, true
}

// slugOf makes a slug of a text: the letters and digits of at most 80 bytes, whole words.
func slugOf(text string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(text) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	s := strings.Trim(b.String(), "-")
	for len(s) > 72 {
		at := strings.LastIndexByte(s, '-')
		if at < 8 {
			s = s[:72]
			break
		}
		s = s[:at]
	}
	s = strings.TrimLeft(s, "0123456789-")
	if len(s) < 2 {
		return ""
	}
	return s
}
