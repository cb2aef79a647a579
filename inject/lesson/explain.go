package lesson

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Cause is one trigger of a lesson that a query pulls.
type Cause struct {
	Kind  string `json:"kind"`  // keyword, tag, error_pattern, tool
	Text  string `json:"text"`  // as the lesson has it
	Where string `json:"where"` // words, tool error, request
}

// Explanation says of a lesson that a query comes near why it fires, or does not.
type Explanation struct {
	Lesson *Lesson
	Fires  bool
	By     []Cause
	Not    []string // why it does not, each with what would be needed
}

// Explain tells of every lesson of which some trigger stands in the query, by slug. Whether it
// fires is Match's own answer.
func (b *Book) Explain(q *Query) []Explanation {
	fires := map[*Lesson]bool{}
	for _, h := range b.Match(q) {
		fires[h.Lesson] = true
	}
	var out []Explanation
	texts := q.folded()
	for _, l := range b.lessons {
		e := Explanation{Lesson: l, Fires: fires[l]}
		near := e.causes(texts)
		if !e.Fires && !near {
			continue
		}
		if !e.Fires {
			e.Not = append(e.Not, b.obstacles(l, texts)...)
		}
		out = append(out, e)
	}
	return out
}

// causes collects the triggers, and says whether there are any, be it in the wrong place.
func (e *Explanation) causes(q *foldedQuery) bool {
	t := &e.Lesson.Trigger
	add := func(kind, phrase string, wordsToo bool) {
		if wordsToo && standsInAny(phrase, q.words) {
			e.By = append(e.By, Cause{kind, phrase, "words"})
		}
		if standsInAny(phrase, q.errors) {
			e.By = append(e.By, Cause{kind, phrase, "tool error"})
		}
	}
	for _, k := range t.Keywords {
		add("keyword", k, true)
	}
	for _, tag := range t.Tags {
		given := func(s string) bool { return strings.EqualFold(strings.TrimSpace(s), strings.TrimSpace(tag)) }
		if slices.ContainsFunc(q.Tags, given) || slices.ContainsFunc(q.Errors, func(text ErrorText) bool { return slices.ContainsFunc(text.Tags, given) }) {
			e.By = append(e.By, Cause{"tag", tag, "request"})
		}
		add("tag", tag, true)
	}
	for _, p := range t.ErrorPatterns {
		add("error_pattern", p, false)
		if standsInAny(p, q.words) && !standsInAny(p, q.errors) {
			e.Not = append(e.Not, fmt.Sprintf("its error pattern %q stands in the words, and fires on tool errors only", p))
		}
	}
	if near := len(e.By) > 0 || len(e.Not) > 0; !near {
		return false
	}
	for _, tool := range t.Tools {
		if anyTool([]string{tool}, q.Tools) || slices.ContainsFunc(q.Errors, func(text ErrorText) bool { return text.Tool != "" && glob(tool, text.Tool) }) {
			e.By = append(e.By, Cause{"tool", tool, "request"})
		}
	}
	return true
}

// foldedQuery is a query with its texts as phrases are looked for in them.
type foldedQuery struct {
	*Query
	words, errors [][]byte
}

func (q *Query) folded() *foldedQuery {
	out := &foldedQuery{Query: q}
	for _, text := range q.Words {
		out.words = append(out.words, appendText(nil, text))
	}
	for i := range q.Errors {
		out.errors = append(out.errors, appendText(nil, q.Errors[i].Text))
	}
	return out
}

// standsInAny says whether a phrase stands in one of some folded texts.
func standsInAny(phrase string, texts [][]byte) bool {
	p := readPhrase(phrase)
	return p.fires() && slices.ContainsFunc(texts, p.in)
}

// obstacles says what keeps a lesson from firing although a trigger of it is there.
func (b *Book) obstacles(l *Lesson, q *foldedQuery) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if !l.State.Fires() {
		say("it is %s; only lessons in trial, active or caution fire", l.State)
	}
	if l.ExpiredAt(q.Now) {
		say("it expired at %s", l.ExpiresAt.UTC().Format(time.RFC3339))
	}
	for _, heir := range b.above[l.Slug] {
		if heir.InForce(q.Now) && heir.Scope.holds(q.Query) {
			say("%s supersedes it", heir.Slug)
		}
	}
	if !l.Scope.holds(q.Query) {
		say("it is of tenant %q, agent %q alone", l.Scope.Tenant, l.Scope.Agent)
	}
	for _, veto := range l.Trigger.NotKeywords {
		if standsInAny(veto, q.words) || standsInAny(veto, q.errors) {
			say("its not_keyword %q stands in the text", veto)
		}
	}
	if t := &l.Trigger; len(t.Models) > 0 && !anyGlob(t.Models, q.Model) {
		say("it is for the models %s, not for %q", strings.Join(t.Models, ", "), q.Model)
	}
	if t := &l.Trigger; !t.targeted(q.Query) {
		say("its targets are %s; this is agent %q, role %q, skill %q", targetsText(t.Targets), q.Agent, q.Role, q.Skill)
	}
	m, u, tools := &signs{}, &compiled{lesson: l}, strings.Join(l.Trigger.Tools, ", ")
	switch {
	case u.offered(m, q.Query, ""):
	case !slices.ContainsFunc(q.Errors, func(e ErrorText) bool { return u.offered(&signs{}, q.Query, e.Tool) }):
		say("none of its tools (%s) is offered", tools)
	case len(out) == 0: // one of them failed, of something else
		say("its tools (%s) are not offered where its trigger stands", tools)
	}
	return out
}

// targetsText is a list of targets as a person would write it.
func targetsText(targets []Target) string {
	var all []string
	for _, t := range targets {
		var fields []string
		for _, f := range [...]struct{ name, value string }{{"agent", t.Operator}, {"role", t.Role}, {"skill", t.Skill}} {
			if f.value != "" {
				fields = append(fields, f.name+" "+f.value)
			}
		}
		all = append(all, strings.Join(fields, " and "))
	}
	return strings.Join(all, ", or ")
}

// Fired lists the phrases and tags by which the lesson's trigger matches the query, as its file has
// them.
func (l *Lesson) Fired(q *Query) []string {
	var out []string
	e := Explanation{Lesson: l}
	e.causes(q.folded())
	for _, c := range e.By {
		if c.Kind != "tool" && !slices.Contains(out, c.Text) {
			out = append(out, c.Text)
		}
	}
	return out
}
