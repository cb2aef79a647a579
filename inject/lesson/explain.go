package lesson

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"precept/detect"
	"precept/inject/request"
)

// Cause is one matching trigger of a lesson.
type Cause struct {
	Kind  string `json:"kind"`  // "keyword", "tag", "error_pattern", "error_kind", "request_kind" or "tool"
	Text  string `json:"text"`  // the trigger as written in the lesson
	Where string `json:"where"` // where the trigger matched: "words", "tool error" or "request"
}

// CauseText formats causes for users, as in `keyword "push it" in the user's message, error kind "port-in-use" in the
// tool error`.
func CauseText(by []Cause) string {
	all := make([]string, 0, len(by))
	for _, c := range by {
		place := c.Where
		if place == "words" {
			place = "user's message"
		}
		all = append(all, fmt.Sprintf("%s %q in the %s", strings.ReplaceAll(c.Kind, "_", " "), c.Text, place))
	}
	return strings.Join(all, ", ")
}

// Explanation gives the reasons why a lesson with a matching trigger matches a query, or does not match it.
type Explanation struct {
	Lesson *Lesson
	Fires  bool
	By     []Cause  // matching triggers
	Not    []string // reasons against a match
}

// Explain returns an explanation for every lesson that matches the query or has a trigger in it, in the order of the
// slugs. Fires is true for exactly the lessons that Match returns.
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

// causes adds the triggers that occur in the query to e.By, and reports whether one occurs. An error pattern that
// occurs only in the user's words counts, but is a reason against the match.
func (e *Explanation) causes(q *foldedQuery) bool {
	t := &e.Lesson.Trigger
	add := func(kind, phrase string, wordsToo bool) {
		if wordsToo && phraseMatchesAny(phrase, e.Lesson.Form, q.words) {
			e.By = append(e.By, Cause{kind, phrase, "words"})
		}
		if phraseMatchesAny(phrase, e.Lesson.Form, q.errors) {
			e.By = append(e.By, Cause{kind, phrase, "tool error"})
		}
	}
	for _, k := range t.Keywords {
		add("keyword", k, true)
	}
	for _, tag := range t.Tags {
		given := func(s string) bool { return tagKey(s) == tagKey(tag) }
		if slices.ContainsFunc(q.query.Tags, given) || slices.ContainsFunc(q.query.Errors, func(text ErrorText) bool { return slices.ContainsFunc(text.Tags, given) }) {
			e.By = append(e.By, Cause{"tag", tag, "request"})
		}
		add("tag", tag, true)
	}
	for _, p := range t.ErrorPatterns {
		add("error_pattern", p, false)
		if form := e.Lesson.Form; phraseMatchesAny(p, form, q.words) && !phraseMatchesAny(p, form, q.errors) {
			e.Not = append(e.Not, fmt.Sprintf("its error pattern %q occurs in the user's message, but error patterns fire only on tool errors", p))
		}
	}
	for _, f := range q.requests {
		if slices.Contains(t.RequestKinds, string(f.Kind)) {
			e.By = append(e.By, Cause{"request_kind", string(f.Kind), "words"})
		}
	}
	e.kinds(q.query)
	if near := len(e.By) > 0 || len(e.Not) > 0; !near {
		return false
	}
	for _, tool := range t.Tools {
		if anyTool([]string{tool}, q.query.Tools) || slices.ContainsFunc(q.query.Errors, func(text ErrorText) bool { return text.Tool != "" && glob(tool, text.Tool) }) {
			e.By = append(e.By, Cause{"tool", tool, "request"})
		}
	}
	return true
}

// kinds adds the error kinds of the lesson that occur in the query to e.By or, for errors of other tools, to e.Not.
func (e *Explanation) kinds(q *Query) {
	c := compiled{lesson: e.Lesson}
	for _, kind := range e.Lesson.Trigger.ErrorKinds {
		failing, fires := []string(nil), false
		for i := range q.Errors {
			if x := &q.Errors[i]; slices.Contains(x.Kinds, detect.Kind(kind)) {
				failing, fires = append(failing, x.Tool), fires || c.isForErrorOf(&matchState{}, q, x.Tool)
			}
		}
		switch {
		case fires:
			e.By = append(e.By, Cause{"error_kind", kind, "tool error"})
		case len(failing) > 0 && failing[0] != "":
			e.Not = append(e.Not, fmt.Sprintf("its error kind %s fires on errors of its tools (%s), and this is an error of %s",
				kind, strings.Join(e.Lesson.Trigger.Tools, ", "), strings.Join(failing, ", ")))
		case len(failing) > 0:
			e.By = append(e.By, Cause{"error_kind", kind, "tool error"})
		}
	}
}

// foldedQuery is a query with its texts in folded form (see appendFolded).
type foldedQuery struct {
	query         *Query
	words, errors [][]byte
	requests      []request.Found
}

// folded returns the query with its texts in folded form.
func (q *Query) folded() *foldedQuery {
	out := &foldedQuery{query: q}
	for _, text := range q.Words {
		out.words = append(out.words, appendText(nil, text))
		out.requests = append(out.requests, request.Kinds(text)...)
	}
	for i := range q.Errors {
		out.errors = append(out.errors, appendText(nil, q.Errors[i].Text))
	}
	return out
}

// phraseMatchesAny reports whether one of the folded texts contains the phrase.
func phraseMatchesAny(phrase string, form Form, texts [][]byte) bool {
	p := readPhrase(phrase, form)
	return p.fires() && slices.ContainsFunc(texts, p.isIn)
}

// obstacles returns the reasons why a lesson does not match although one of its triggers occurs in the query.
func (b *Book) obstacles(l *Lesson, q *foldedQuery) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if !l.State.Fires() {
		add("the lesson is %s; only lessons in trial, active, caution or benched fire", l.State)
	}
	if l.ExpiredAt(q.query.Now) {
		add("the lesson expired at %s", l.ExpiresAt.UTC().Format(time.RFC3339))
	}
	for _, successor := range b.superseders[l.Slug] {
		if successor.InForce(q.query.Now) && successor.Scope.admits(q.query) {
			add("%s supersedes the lesson", successor.Slug)
		}
	}
	if !l.Scope.admits(q.query) {
		add("the lesson is for tenant %q, agent %q only", l.Scope.Tenant, l.Scope.Agent)
	}
	for _, veto := range l.Trigger.NotKeywords {
		if phraseMatchesAny(veto, l.Form, q.words) || phraseMatchesAny(veto, l.Form, q.errors) {
			add("the not_keyword %q occurs in the text", veto)
		}
	}
	if t := &l.Trigger; len(t.Models) > 0 && !anyGlob(t.Models, q.query.Model) {
		add("the lesson is for the models %s, not for %q", strings.Join(t.Models, ", "), q.query.Model)
	}
	if t := &l.Trigger; !t.admitsAgent(q.query) {
		add("the targets of the lesson are %s; this is agent %q, role %q, skill %q", targetsText(t.Targets), q.query.Agent, q.query.Role, q.query.Skill)
	}
	m, c, tools := &matchState{}, &compiled{lesson: l}, strings.Join(l.Trigger.Tools, ", ")
	switch {
	case c.isOffered(m, q.query, ""):
	case !slices.ContainsFunc(q.query.Errors, func(e ErrorText) bool { return c.isOffered(&matchState{}, q.query, e.Tool) }):
		add("none of the lesson's tools (%s) is offered", tools)
	case len(out) == 0: // another tool failed
		add("the request with its trigger offers none of the lesson's tools (%s)", tools)
	}
	return out
}

// targetsText formats targets for people.
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

// Fired returns the triggers of the lesson, except tools, that occur in the query. They are spelled as in the file.
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
