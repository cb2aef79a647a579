package distill

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

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
	case fixFlags, fixProgram, fixInstall, fixHint, fixEnv:
		return g.shellDraft(d)
	case fixRefused, fixTold, fixOption:
		return g.peopleDraft(d)
	case fixForm, fixOffered, fixNarrow, fixFewer, fixWanted, fixAdded, fixRemoved:
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
		if sign, ok := strings.CutPrefix(g.fix.How, leading); ok {
			return say(fmt.Sprintf("Give %s to %s with its leading %s.", p, tool, code(sign)),
				fmt.Sprintf("Without the %s it answered %s; the same call with it worked.", code(sign), says),
				"give-"+g.fix.Param+"-with-its-leading-sign-to-"+name)
		}
		return say(fmt.Sprintf("Give %s to %s as %s.", p, tool, g.fix.How),
			fmt.Sprintf("%s refuses other forms with %s; the same call with %s in %s worked.", tool, says, g.fix.How, p),
			"give-"+g.fix.Param+"-as-"+g.fix.How+"-to-"+name)
	case fixOffered:
		if bounds(strings.ToLower(g.cases[0].Show)) {
			return say(fmt.Sprintf("Keep %s of %s within the bounds that its error tells.", p, tool),
				fmt.Sprintf("%s answers %s. Take the nearest value that is allowed, and call several times where that is not enough.", tool, says),
				"keep-"+g.fix.Param+"-of-"+name+"-within-its-bounds")
		}
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
	case fixWanted:
		return say(fmt.Sprintf("Give %s to %s as its error describes it.", p, tool),
			fmt.Sprintf("It answers %s. Write %s so from the first call.", says, p),
			"give-"+g.fix.Param+"-to-"+name+"-as-its-error-describes")
	case fixAdded:
		it := "it"
		if strings.Contains(p, "` and `") {
			it = "them"
		}
		return say(fmt.Sprintf("Give %s when you call %s.", p, tool),
			fmt.Sprintf("Without %s it answered %s; with %s the same call worked.", p, says, it),
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
		if g.fix.How == "part" {
			return say(fmt.Sprintf("Look up with %s what goes into %s before you call %s.", other, p, tool),
				fmt.Sprintf("%s answers %s where %s holds a guessed or outdated name. Call %s and use the names that it gives.", tool, says, p, other),
				"look-up-with-"+g.fix.Other+"-what-goes-into-"+g.fix.Param+"-of-"+c.Tool)
		}
		return say(fmt.Sprintf("Take %s from %s before you call %s.", p, other, tool),
			fmt.Sprintf("%s answers %s where %s is missing, guessed or outdated. Call %s and use a value that it gives.", tool, says, p, other),
			"take-"+g.fix.Param+"-from-"+g.fix.Other+"-before-"+c.Tool)
	case fixAsked:
		return say(fmt.Sprintf("Ask the user to confirm %s when %s finds nothing for it.", p, tool),
			fmt.Sprintf("After %s a corrected %s from the user worked. Ask for it once instead of trying variants or giving up.", says, p),
			"ask-the-user-for-"+g.fix.Param+"-of-"+c.Tool)
	case fixTool:
		return say(fmt.Sprintf("Use %s when %s answers “%s”.", other, tool, shorten(c.Show, 80)),
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
		return say(shorten(fmt.Sprintf("Call %s before %s.", other, either(tools)), 190),
			fmt.Sprintf("%s answered %s; after %s the very same call worked.", either(tools), says, other),
			"call-"+g.fix.Other+"-before-"+c.Tool)
	default: // fixStop
		d.Outcome = "failure"
		return say(fmt.Sprintf("Stop calling %s after “%s”; another try will not help.", either(tools), shorten(c.Show, 80)),
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
	case has("quota", "limit exceeded"):
		return "No call of yours lifts that limit: ask for less, free what nobody needs, or tell the user what has to be raised."
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
	case fixHint:
		d.Title = fmt.Sprintf("Run %s first when %s answers “%s”.", code(g.fix.Other), code(g.fix.Param), shorten(c.Show, 80))
		d.Advice = []string{fmt.Sprintf("The error itself names %s; after it the very same %s worked. Do what an error asks for before you repeat the command.", code(g.fix.Other), code(g.fix.Param))}
		slug = "run-" + g.fix.Other + "-before-" + g.fix.Param
	case fixEnv:
		d.Title = fmt.Sprintf("Set %s for %s.", code(g.fix.Other), code(g.fix.Param))
		d.Advice = []string{fmt.Sprintf("Without it the command failed with %s; with it the same command worked. Take its value from the project's scripts or configuration.", says)}
		slug = "set-" + strings.ReplaceAll(g.fix.Other, "_", "-") + "-for-" + g.fix.Param
	case fixInstall:
		d.Title = fmt.Sprintf("Install what is missing with %s when %s answers “%s”.", code(g.fix.Other), code(c.Tool), shorten(c.Show, 80))
		d.Advice = []string{fmt.Sprintf("%s failed with %s; after %s the same command worked.", code(c.Tool), says, code(g.fix.Other))}
		slug = "install-with-" + g.fix.Other + "-for-" + c.Tool
	}
	d.Applies = fmt.Sprintf("The command %s fails with %s.", code(c.Tool), says)
	return g.finish(d, slug, nil)
}

// finish adds what fires the lesson. A phrase that would fire on many other errors is no trigger
// without its tool.
func (g *group) finish(d Draft, slug string, tools []string) (Draft, bool) {
	d.Slug = slugOf(slug)
	for _, c := range g.cases {
		for _, p := range c.Phrases {
			if !slices.Contains(d.Errors, p) && len(d.Errors) < 12 && !(c.Shell && bland(p)) {
				d.Errors = append(d.Errors, p)
			}
		}
	}
	if g.fix.Kind == fixHint {
		_, name, _ := strings.Cut(g.fix.Other, "npx ")
		d.Errors = append(d.Errors, cmp.Or(name, g.fix.Other))
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
