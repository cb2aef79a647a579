package lesson

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"precept/detect"
	"precept/inject/request"
)

// Cause is a trigger that matched.
type Cause struct {
	Kind  string `json:"kind"`  // "keyword", "tag", "error_pattern", "error_kind", "request_kind" or "tool"
	Text  string `json:"text"`  // the trigger as written in the lesson
	Where string `json:"where"` // where the trigger matched: "words", "tool error" or "request"
}

// CauseText formats causes for users, as in `keyword "push it" in the user's message`.
func CauseText(causes []Cause) string {
	all := make([]string, 0, len(causes))
	for _, c := range causes {
		place := c.Where
		if place == "words" {
			place = "user's message"
		}
		all = append(all, fmt.Sprintf("%s %q in the %s", strings.ReplaceAll(c.Kind, "_", " "), c.Text, place))
	}
	return strings.Join(all, ", ")
}

// Explanation tells why a lesson matches a query or not.
type Explanation struct {
	Lesson    *Lesson
	Matches   bool
	Causes    []Cause  // triggers in the query
	Obstacles []string // reasons against a match
}

// Explain returns an explanation for every lesson with a trigger in the query, sorted by slug. Explanation.Matches is
// true for exactly the lessons that Match returns.
func (b *Book) Explain(q *Query) []Explanation {
	fires := map[*Lesson]bool{}
	for _, h := range b.Match(q) {
		fires[h.Lesson] = true
	}
	var out []Explanation
	texts := q.folded()
	for _, l := range b.lessons {
		e := Explanation{Lesson: l, Matches: fires[l]}
		hasTrigger := e.addCauses(texts)
		if !e.Matches && !hasTrigger {
			continue
		}
		if !e.Matches {
			e.Obstacles = append(e.Obstacles, b.obstacles(l, texts)...)
		}
		out = append(out, e)
	}
	return out
}

// addCauses adds the triggers in the query as causes. An error pattern that occurs only in the user's words becomes an
// obstacle. The result is false if there is neither a cause nor an obstacle.
func (e *Explanation) addCauses(q *foldedQuery) bool {
	t := &e.Lesson.Trigger
	add := func(kind, phrase string, alsoInWords bool) {
		if alsoInWords && phraseMatchesAny(phrase, e.Lesson.Form, q.words) {
			e.Causes = append(e.Causes, Cause{kind, phrase, "words"})
		}
		if phraseMatchesAny(phrase, e.Lesson.Form, q.errors) {
			e.Causes = append(e.Causes, Cause{kind, phrase, "tool error"})
		}
	}
	for _, k := range t.Keywords {
		add("keyword", k, true)
	}
	for _, tag := range t.Tags {
		given := func(s string) bool { return tagKey(s) == tagKey(tag) }
		if slices.ContainsFunc(q.query.Tags, given) || slices.ContainsFunc(q.query.Errors, func(text ErrorText) bool { return slices.ContainsFunc(text.Tags, given) }) {
			e.Causes = append(e.Causes, Cause{"tag", tag, "request"})
		}
		add("tag", tag, true)
	}
	for _, p := range t.ErrorPatterns {
		add("error_pattern", p, false)
		if form := e.Lesson.Form; phraseMatchesAny(p, form, q.words) && !phraseMatchesAny(p, form, q.errors) {
			e.Obstacles = append(e.Obstacles, fmt.Sprintf("the error pattern %q occurs in the user's message, but error patterns fire only on tool errors", p))
		}
	}
	for _, f := range q.requests {
		if slices.Contains(t.RequestKinds, string(f.Kind)) {
			e.Causes = append(e.Causes, Cause{"request_kind", string(f.Kind), "words"})
		}
	}
	e.addErrorKinds(q.query)
	if hasTrigger := len(e.Causes) > 0 || len(e.Obstacles) > 0; !hasTrigger {
		return false
	}
	for _, tool := range t.Tools {
		if anyTool([]string{tool}, q.query.Tools) || slices.ContainsFunc(q.query.Errors, func(text ErrorText) bool { return text.Tool != "" && matchesGlob(tool, text.Tool) }) {
			e.Causes = append(e.Causes, Cause{"tool", tool, "request"})
		}
	}
	return true
}

// addErrorKinds adds the lesson's error kinds that occur in the query as causes. If the lesson names tools and only
// other tools failed, the error kind becomes an obstacle.
func (e *Explanation) addErrorKinds(q *Query) {
	c := compiledLesson{lesson: e.Lesson}
	for _, kind := range e.Lesson.Trigger.ErrorKinds {
		failedTools, fires := []string(nil), false
		for i := range q.Errors {
			if x := &q.Errors[i]; slices.Contains(x.Kinds, detect.Kind(kind)) {
				failedTools, fires = append(failedTools, x.Tool), fires || c.firesOnToolError(&matchState{}, q, x.Tool)
			}
		}
		switch {
		case fires:
			e.Causes = append(e.Causes, Cause{"error_kind", kind, "tool error"})
		case len(failedTools) > 0 && failedTools[0] != "":
			e.Obstacles = append(e.Obstacles, fmt.Sprintf("the error kind %s fires only on errors from the lesson's tools (%s), but this error is from %s",
				kind, strings.Join(e.Lesson.Trigger.Tools, ", "), strings.Join(failedTools, ", ")))
		case len(failedTools) > 0:
			e.Causes = append(e.Causes, Cause{"error_kind", kind, "tool error"})
		}
	}
}

// foldedQuery is a query with texts in folded form (see appendFolded).
type foldedQuery struct {
	query         *Query
	words, errors [][]byte
	requests      []request.KindMatch
}

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

func phraseMatchesAny(phrase string, form Form, texts [][]byte) bool {
	p := readPhrase(phrase, form)
	return p.canTrigger() && slices.ContainsFunc(texts, p.occursIn)
}

// obstacles returns the reasons why a lesson does not match although the query contains a trigger.
func (b *Book) obstacles(l *Lesson, q *foldedQuery) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if !l.State.IsActive() {
		add("the lesson is %s; only lessons in the states active, trial, caution and benched fire", l.State)
		if l.State == Candidate || l.State == Quarantined {
			add("put the lesson to use with `precept lessons approve %s`", l.Slug)
		}
	}
	if l.ExpiredAt(q.query.Now) {
		add("the lesson expired at %s", l.ExpiresAt.UTC().Format(time.RFC3339))
	}
	for _, successor := range b.superseders[l.Slug] {
		if successor.IsActiveAt(q.query.Now) && successor.Scope.admits(q.query) {
			add("%s supersedes the lesson", successor.Slug)
		}
	}
	if !l.Scope.admits(q.query) {
		only := fmt.Sprintf("tenant %q", l.Scope.Tenant)
		if l.Scope.Agent != "" {
			only += fmt.Sprintf(" and agent %q", l.Scope.Agent)
		}
		add("the lesson is only for %s", only)
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
		from := targetsText([]Target{{q.query.Agent, q.query.Role, q.query.Skill}})
		add("the lesson's targets are %s; the request has %s", targetsText(t.Targets), cmp.Or(from, "no agent, role or skill"))
	}
	m, c, tools := &matchState{}, &compiledLesson{lesson: l}, strings.Join(l.Trigger.Tools, ", ")
	switch {
	case c.isOffered(m, q.query, ""):
	case !slices.ContainsFunc(q.query.Errors, func(e ErrorText) bool { return c.isOffered(&matchState{}, q.query, e.Tool) }):
		add("the request offers none of the lesson's tools (%s)", tools)
	case len(out) == 0: // a different tool failed
		add("the request with the trigger offers none of the lesson's tools (%s)", tools)
	}
	return out
}

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

// FiredTriggers returns the lesson's triggers that occur in the query, as spelled in the file. Tools are not included.
func (l *Lesson) FiredTriggers(q *Query) []string {
	var out []string
	e := Explanation{Lesson: l}
	e.addCauses(q.folded())
	for _, c := range e.Causes {
		if c.Kind != "tool" && !slices.Contains(out, c.Text) {
			out = append(out, c.Text)
		}
	}
	return out
}
