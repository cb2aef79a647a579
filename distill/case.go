package distill

import (
	"slices"
	"strings"

	"precept/detect"
)

// maxRefs is how many sessions a case lists by id. Further sessions are only counted.
const maxRefs = 8

// Case is one kind of failure, with counts over all sessions with that failure. From the sessions it keeps only the
// ids, callers and runs, and words that a lesson may quote.
type Case struct {
	Key          string              `json:"key"`
	Tool         string              `json:"tool"`              // name of the tool, or of the program in a shell command
	Shell        bool                `json:"shell,omitempty"`   // Tool is a program in a shell command
	Known        string              `json:"known,omitempty"`   // slug in known.json; "" if the failure is not known
	ShownMessage string              `json:"show,omitempty"`    // error message to show in a lesson
	Phrases      []string            `json:"phrases,omitempty"` // phrases in the error message that become triggers
	Terms        organisationWording `json:"terms,omitzero"`    // the message with the organisation's terms
	Names        organisationWording `json:"names,omitzero"`    // the message with the organisation's terms and names
	Kinds        []string            `json:"kinds,omitempty"`
	Sessions     int                 `json:"sessions"`         // sessions with the failure
	Refs         []Ref               `json:"refs,omitempty"`   // some of these sessions
	Repaired     int                 `json:"mended,omitempty"` // sessions with a fix
	Ended        int                 `json:"ended,omitempty"`  // sessions where the call later worked, for whatever reason
	FailedOnce   int                 `json:"once,omitempty"`   // sessions where the failure occurred only once
	MaxFailures  int                 `json:"most,omitempty"`   // maximum number of failures in one session
	Fixes        []CountedFix        `json:"fixes,omitempty"`
	Last         int64               `json:"last,omitempty"` // sequence number of the newest session with the failure
	Changed      bool                `json:"open,omitempty"` // the case has changed since its lesson was last proposed
}

// organisationWording is a failure message with the organisation's words. If words differ between sessions, they are
// session data and not the organisation's words.
type organisationWording struct {
	ShownMessage string `json:"show,omitempty"`
	Phrase       string `json:"phrase,omitempty"`
	Sessions     int    `json:"sessions,omitempty"` // sessions with such a message
	Varied       bool   `json:"varied,omitempty"`   // the words differ between sessions
}

func (w *organisationWording) add(other *organisationWording) {
	w.Varied = w.Varied || other.Varied || w.Phrase != other.Phrase
	w.Sessions += other.Sessions
}

func (w *organisationWording) occurInSessions(n int) bool {
	return w.Phrase != "" && !w.Varied && w.Sessions >= n
}

// CountedFix is a Fix with counts over the sessions that tried it.
type CountedFix struct {
	Kind     string `json:"kind"`
	Param    string `json:"param,omitempty"`
	Other    string `json:"other,omitempty"`
	Variant  string `json:"how,omitempty"`
	Sessions int    `json:"sessions"`           // sessions where the fix worked
	Failed   int    `json:"failed,omitempty"`   // sessions that tried the fix without success
	Distinct int    `json:"distinct,omitempty"` // Sessions, minus those that another case of the same lesson counts
	Refs     []Ref  `json:"refs,omitempty"`
}

func (c *CountedFix) fix() Fix { return Fix{c.Kind, c.Param, c.Other, c.Variant} }

// addRefs adds the sessions in more that are missing in list. If list is full, a session from a new caller replaces the
// last session, so that one caller does not hide another.
func addRefs(list []Ref, more []Ref) []Ref {
	for _, r := range more {
		if slices.ContainsFunc(list, func(o Ref) bool { return o.Session == r.Session }) {
			continue
		}
		if len(list) < maxRefs {
			list = append(list, r)
			continue
		}
		if len(r.Callers) > 0 && !slices.ContainsFunc(list, func(o Ref) bool { return countCommon(o.Callers, r.Callers) > 0 }) {
			list[len(list)-1] = r
		}
	}
	return list
}

// occurrence is a kind of failure, or a rejection or correction by the user, in one session.
type occurrence struct {
	failure    Case      // the case with this session's counts
	seen       seenError // the error, to test a draft's triggers; never stored
	lookupStep int       // step of the lookup for fixLookupOnly; 0 for none
}

// seenError is an error as the proxy sees it when the proxy matches lessons.
type seenError struct {
	text  string
	kinds []detect.Kind
}

func (ps *parsedSession) newOccurrence(c Case, seen seenError) *occurrence {
	c.Sessions, c.Refs = 1, []Ref{ps.ref}
	return &occurrence{failure: c, seen: seen}
}

// addFix counts a successful fix once, even if an earlier attempt failed. A lookup that failed to help stays failed.
func (o *occurrence) addFix(f Fix) {
	worked := CountedFix{Kind: f.Kind, Param: f.Param, Other: f.Other, Variant: f.Variant, Sessions: 1, Refs: o.failure.Refs}
	pos := slices.IndexFunc(o.failure.Fixes, func(counted CountedFix) bool { return counted.fix() == f })
	switch {
	case pos < 0:
		o.failure.Fixes = append(o.failure.Fixes, worked)
	case o.failure.Fixes[pos].Sessions == 0 && f.Kind != fixLookupOnly: // an earlier attempt failed
		o.failure.Fixes[pos] = worked
	}
}

func (o *occurrence) addFailedFix(f Fix) {
	if !slices.ContainsFunc(o.failure.Fixes, func(counted CountedFix) bool { return counted.fix() == f }) {
		o.failure.Fixes = append(o.failure.Fixes, CountedFix{Kind: f.Kind, Param: f.Param, Other: f.Other, Variant: f.Variant, Failed: 1})
	}
}

// addRedoneEdit records whether the session followed the known advice after the refused edit in step i, and whether the
// next edit worked.
func (o *occurrence) addRedoneEdit(parsed *parsedSession, i int) {
	followed, worked, _ := parsed.redoneEdit(i, findKnownFailure(o.failure.Known).Edit)
	switch {
	case followed && worked:
		o.addFix(Fix{Kind: fixRedone})
		o.failure.Ended = 1
	case followed:
		o.addFailedFix(Fix{Kind: fixRedone})
	case worked:
		o.failure.Ended = 1
	}
}

// failures returns the session's failures, one occurrence for each kind of failure.
func (ps *parsedSession) failures() []*occurrence {
	var found []*occurrence
	for i := range ps.steps {
		s := &ps.steps[i]
		if !s.failed() {
			continue
		}
		c, ok := ps.failureCase(s)
		if !ok {
			continue
		}
		pos := slices.IndexFunc(found, func(m *occurrence) bool { return m.failure.Key == c.Key })
		if pos < 0 {
			pos, found = len(found), append(found, ps.newOccurrence(c, seenError{detect.Signature(s.text), s.errorKinds()}))
		}
		found[pos].addFailure(ps, i)
	}
	for _, m := range found {
		if m.failure.MaxFailures == 1 {
			m.failure.FailedOnce = 1
		}
	}
	return found
}

// addFailure counts the failed step i, and adds the fixes that the session tried afterwards.
func (o *occurrence) addFailure(parsed *parsedSession, i int) {
	o.failure.MaxFailures++
	if o.lookupStep > 0 && i > o.lookupStep { // the call failed again after the lookup
		o.markLookupsFailed()
	}
	if k := findKnownFailure(o.failure.Known); k != nil && k.Edit != "" {
		if o.failure.MaxFailures == 1 {
			o.addRedoneEdit(parsed, i)
		}
		if parsed.toolWorksLater(i) {
			o.failure.Repaired = 1
		}
		return
	}
	f, ok := parsed.findFix(i)
	if ok {
		o.addFix(f)
	}
	if ok && f.Kind == fixLookupOnly && o.lookupStep == 0 {
		o.lookupStep = i + 1 + slices.IndexFunc(parsed.steps[i+1:], func(s step) bool { return s.tool == f.Other && s.succeeded() })
	}
	if ok && f.Kind != fixLookupOnly || !ok && o.failure.Known != "" && parsed.toolWorksLater(i) {
		o.failure.Repaired = 1
	}
	for _, tried := range parsed.failedFixes(i) {
		o.addFailedFix(tried)
	}
	if o.failure.Repaired == 1 || parsed.failureEndsLater(i) {
		o.failure.Ended = 1
	}
}

// markLookupsFailed marks lookups as failed fixes, because the failure occurred again after the lookup.
func (o *occurrence) markLookupsFailed() {
	for i := range o.failure.Fixes {
		if fix := &o.failure.Fixes[i]; fix.Kind == fixLookupOnly {
			fix.Sessions, fix.Failed, fix.Refs = 0, 1, nil
		}
	}
}

func (ps *parsedSession) toolWorksLater(i int) bool {
	for j := i + 1; j < len(ps.steps) && j <= i+repairWindow; j++ {
		if ps.steps[j].tool == ps.steps[i].tool && ps.steps[j].succeeded() {
			return true
		}
	}
	return false
}

// failureCase returns a failed step's case; ok is false if the error has too few quotable words.
func (ps *parsedSession) failureCase(s *step) (c Case, ok bool) {
	if k := recogniseFailure(s); k != nil {
		return Case{Key: "known|" + k.Slug, Tool: s.tool, Shell: s.shell != nil, Known: k.Slug, Phrases: k.Triggers, Kinds: k.Kinds}, true
	}
	if s.shell == nil && !isToolName(s.tool) || s.shell != nil && !s.blamedCommand().mayNameProgram() {
		return c, false
	}
	c = Case{Tool: s.tool, Shell: s.shell != nil}
	m, ok := s.caseMessage(newStableMessage(s.text, publicWords(s), s.callWords()))
	if ok {
		c.ShownMessage, c.Phrases = m.display, []string{m.phrase}
	}
	if ps.orgWords {
		for scope, words := range map[wordScope]*organisationWording{scopeTerms: &c.Terms, scopeNames: &c.Names} {
			if own, identifies := s.caseMessage(organisationMessage(s.text, publicWords(s), s.callWords(), scope)); identifies {
				*words = organisationWording{ShownMessage: own.display, Phrase: own.phrase, Sessions: 1}
			}
		}
	}
	if !ok {
		m.phrase = c.Terms.Phrase
	}
	if m.phrase == "" {
		return c, false
	}
	if s.shell != nil {
		c.Tool = s.blamedCommand().program
		c.Key = "shell|" + c.Tool + "|" + strings.ToLower(m.phrase)
		return c, true
	}
	for _, kind := range s.errorKinds() {
		c.Kinds = append(c.Kinds, string(kind))
	}
	c.Key = "tool|" + s.tool + "|" + strings.ToLower(m.phrase)
	return c, true
}

// caseMessage returns m without a shell's name at the start, and without words at the end that introduce an example.
// The result is false if the phrase is too short or too long. A phrase from a command's output needs three words,
// because two words often occur in other outputs.
func (s *step) caseMessage(m stableMessage) (stableMessage, bool) {
	minWords := 2
	if s.shell != nil {
		minWords = 3
		if name, rest, _ := strings.Cut(m.phrase, ": "); name == "bash" || name == "sh" || name == "zsh" {
			m.phrase, m.display = rest, strings.TrimPrefix(m.display, name+": ")
		}
		m.display = strings.TrimPrefix(m.display, "line … ")
	}
	for _, end := range []string{"e.g", "i.e", ",", "("} { // the end introduced an example, which was omitted because it is private
		m.display = strings.TrimRight(strings.TrimSuffix(m.display, end), " ")
	}
	return m, m.wordCount >= minWords && len(m.phrase) >= 8 && len(m.phrase) <= 160
}

// withWording returns the case with the message and the trigger for the lesson. If orgWords is true, the organisation's
// words are allowed. A phrase with at least longPhrase public words stays the trigger, because it is specific enough,
// and still matches if the private words in the error differ.
func (c *Case) withWording(orgWords bool) (out *Case, ok bool) {
	const (
		longPhrase = 4 // words
		namesFrom  = 2 // sessions; a name in only one session may be a customer
	)
	var own *organisationWording
	switch {
	case orgWords && c.Names.occurInSessions(namesFrom):
		own = &c.Names
	case orgWords && c.Terms.occurInSessions(1):
		own = &c.Terms
	default:
		return c, c.Known != "" || len(c.Phrases) > 0
	}
	worded := *c
	worded.ShownMessage = own.ShownMessage
	if len(c.Phrases) == 0 || len(strings.Fields(c.Phrases[0])) < longPhrase {
		worded.Phrases = []string{own.Phrase}
	}
	return &worded, true
}

// callWords returns the words in the call's values. These words are private, even if the error repeats them.
func (s *step) callWords() map[string]bool {
	if s.shell != nil {
		return s.shell.optionValues()
	}
	return valueWords(&s.args)
}

// isToolName reports whether a name has the form that APIs accept for a tool. Other names could bring arbitrary text
// into a lesson.
func isToolName(name string) bool {
	return name != "" && len(name) <= 80 && containsOnly(name, letters+digits+"_-.:/")
}

func (c *Case) add(other *Case) {
	c.Sessions += other.Sessions
	c.Repaired += other.Repaired
	c.Ended += other.Ended
	c.FailedOnce += other.FailedOnce
	if c.Known != "" { // a known failure has several wordings
		c.Phrases, c.Kinds = appendMissing(slices.Clip(c.Phrases), other.Phrases...), appendMissing(slices.Clip(c.Kinds), other.Kinds...)
	}
	if other.Sessions > 0 {
		c.Terms.add(&other.Terms)
		c.Names.add(&other.Names)
	}
	c.MaxFailures, c.Changed = max(c.MaxFailures, other.MaxFailures), c.Changed || other.Changed
	c.Refs = addRefs(c.Refs, other.Refs)
	for _, counted := range other.Fixes {
		pos := slices.IndexFunc(c.Fixes, func(f CountedFix) bool { return f.fix() == counted.fix() })
		if pos < 0 {
			if len(c.Fixes) < 16 {
				c.Fixes = append(c.Fixes, counted)
			}
			continue
		}
		c.Fixes[pos].Sessions += counted.Sessions
		c.Fixes[pos].Failed += counted.Failed
		c.Fixes[pos].Distinct += counted.Distinct
		c.Fixes[pos].Refs = addRefs(c.Fixes[pos].Refs, counted.Refs)
	}
}

// bestFix returns the plausible fix with the most successful sessions, or the more specific kind if two are equal.
func (c *Case) bestFix() (CountedFix, bool) {
	rank := []string{fixForm, fixOffered, fixShorterList, fixDescribedValue, fixLookup, fixHint, fixInstall, fixEnv, fixProgram, fixFlags, fixUserValue, fixTool, fixAdded, fixRemoved, fixPriorCall, fixShorterQuery, fixLookupOnly}
	var out CountedFix
	for _, f := range c.Fixes {
		switch {
		case f.Sessions == 0 || !isPlausibleFix(c, &f):
		case f.Sessions > out.Sessions,
			f.Sessions == out.Sessions && slices.Index(rank, f.Kind) < slices.Index(rank, out.Kind):
			out = f
		}
	}
	return out, out.Sessions > 0
}
