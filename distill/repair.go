package distill

import (
	"slices"
	"strings"
	"unicode"
)

// Kinds of fixes after a failure.
const (
	fixForm           = "form"    // same tool, one parameter in a different form
	fixOffered        = "offered" // a value that the error offers
	fixShorterQuery   = "narrow"  // a query with fewer words
	fixShorterList    = "fewer"   // a list with fewer values
	fixAdded          = "added"   // one more parameter
	fixRemoved        = "removed" // one parameter fewer
	fixLookup         = "lookup"  // a value from an earlier call to a different tool
	fixUserValue      = "asked"   // a value given by the user
	fixTool           = "tool"    // a different tool
	fixLookupOnly     = "check"   // a lookup showed the reason, but nothing fixed the call
	fixPriorCall      = "first"   // same call after a different call
	fixFlags          = "flags"   // same command with a different option
	fixProgram        = "program" // a different program
	fixInstall        = "install" // same command after installing a package
	fixHint           = "hint"    // same command after a command named in the error
	fixEnv            = "env"     // same command with a variable set
	fixDescribedValue = "wanted"  // the value that the error describes
)

// Fix is the change that made a failed call work.
type Fix struct {
	Kind    string `json:"kind"`
	Param   string `json:"param,omitempty"`
	Other   string `json:"other,omitempty"` // tool, program or option that the fix names
	Variant string `json:"how,omitempty"`   // variant of the kind: for example the new form, unlinked, or the old option
}

func (f Fix) key() string { return f.Kind + "|" + f.Param + "|" + f.Other + "|" + f.Variant }

// nameSeparator separates two names in Fix.Param.
const nameSeparator = "` and `"

// unlinked is the Variant of a fixPriorCall if the two calls share no value. A single session then does not show that
// the prior call helped.
const unlinked = "unlinked"

// repairWindow is how many calls after a failure are searched for a fix.
const repairWindow = 10

// findFix returns the fix for the failed call in step i, if one of the next repairWindow calls shows a fix.
func (ps *parsedSession) findFix(i int) (Fix, bool) {
	s := &ps.steps[i]
	if s.shell != nil {
		return ps.findShellFix(i)
	}
	var lookups []int
	for j := i + 1; j < len(ps.steps) && j <= i+repairWindow; j++ {
		if t := &ps.steps[j]; t.succeeded() && t.tool == s.tool && sameArguments(&s.args, &t.args) {
			return ps.repeatedCallFix(i, j)
		}
	}
	for j := i + 1; j < len(ps.steps) && j <= i+repairWindow; j++ {
		t := &ps.steps[j]
		switch {
		case !t.succeeded() || toolDoes(t.tool, "thinks"):
		case t.tool == s.tool:
			return ps.changedCallFix(s, t, lookups, i, j)
		case t.shell == nil && !toolDoes(t.tool, "looks") && shareValue(&s.args, &t.args) && !toolDoes(t.tool, "gives"):
			return Fix{Kind: fixTool, Other: t.tool}, true
		case toolDoes(t.tool, "looks") && toolDoes(s.tool, "looks") && countCommonLeadingWords(s.tool, t.tool) >= 2:
			return Fix{Kind: fixTool, Other: t.tool}, true
		case toolDoes(t.tool, "looks"):
			lookups = append(lookups, j)
		}
	}
	for _, j := range lookups {
		if t := &ps.steps[j]; !toolDoes(s.tool, "looks") && t.shell == nil && shareValue(&s.args, &t.args) {
			return Fix{Kind: fixLookupOnly, Other: t.tool}, true
		}
	}
	return Fix{}, false
}

// repeatedCallFix returns the fix for a call that failed in step i and worked unchanged in step j. The fix is a call in
// between that shares a value with the failed call, or else the only other tool that was called in between.
func (ps *parsedSession) repeatedCallFix(i, j int) (Fix, bool) {
	var between []string
	for k := j - 1; k > i; k-- {
		t := &ps.steps[k]
		if !t.succeeded() || t.shell != nil || toolDoes(t.tool, "thinks") || t.tool == ps.steps[i].tool {
			continue
		}
		if shareValue(&ps.steps[i].args, &t.args) || len(ps.steps[i].args.object) == 0 {
			return Fix{Kind: fixPriorCall, Other: t.tool}, true
		}
		between = appendMissing(between, t.tool)
	}
	if len(between) != 1 || toolDoes(between[0], "looks") {
		return Fix{}, false
	}
	return Fix{Kind: fixPriorCall, Other: between[0], Variant: unlinked}, true
}

// changedCallFix compares the calls in steps i and j and returns the fix that the comparison shows. lookups holds the
// indices of the lookups in between.
func (ps *parsedSession) changedCallFix(s, t *step, lookups []int, i, j int) (Fix, bool) {
	if s.args.object == nil || t.args.object == nil {
		return Fix{}, false
	}
	d := diffArguments(&s.args, &t.args)
	errorText := strings.ToLower(s.text)
	if wordList("passing").containedIn(errorText) {
		return Fix{}, false
	}
	withoutChatter := func(list []string) []string { // removes parameters such as comments, unless the error names them
		return slices.DeleteFunc(list, func(k string) bool {
			return wordList("chatter")[strings.ToLower(k)] && !namesParameter(errorText, strings.ToLower(k))
		})
	}
	d.added, d.removed, d.changed = withoutChatter(d.added), withoutChatter(d.removed), withoutChatter(d.changed)
	if slices.ContainsFunc(slices.Concat(d.added, d.removed), isRiskyOption) {
		return Fix{}, false
	}
	blamed := d.changed // if several parameters changed, only those that the error names
	if len(blamed) > 1 {
		blamed = slices.DeleteFunc(slices.Clone(blamed), func(k string) bool { return !namesParameter(errorText, k) })
	}
	switch {
	case len(blamed) == 1 && d.size() <= 3:
		p := blamed[0]
		if f, ok := ps.changedParameterFix(s, p, s.args.object[p], t.args.object[p], lookups, i, j); ok {
			f.Param = p
			return f, true
		}
	case len(d.added) == 2 && d.size() == 2 && !mayBePrivateName(d.added[0]+d.added[1]) && asksForBoth(errorText, d.added[0], d.added[1]):
		return Fix{Kind: fixAdded, Param: d.added[0] + nameSeparator + d.added[1]}, true
	case len(d.added) == 1 && !mayBePrivateName(d.added[0]) && (d.size() == 1 || d.size() == 2 && namesParameter(errorText, d.added[0])):
		if f, ok := ps.lookupFix(d.added[0], nil, t.args.object[d.added[0]], lookups); ok && f.Variant == "" {
			return f, true
		}
		return Fix{Kind: fixAdded, Param: d.added[0]}, true
	case len(d.removed) == 1 && d.size() == 1 && !mayBePrivateName(d.removed[0]) && strings.Contains(errorText, strings.ToLower(d.removed[0])):
		return Fix{Kind: fixRemoved, Param: d.removed[0]}, true
	}
	for _, p := range d.changed {
		if f, ok := ps.lookupFix(p, s.args.object[p], t.args.object[p], lookups); ok && d.size() <= 3 {
			return f, true
		}
	}
	return Fix{}, false
}

// offersPart reports whether the accepted list or object has exactly one new value, and the error message contains this
// value.
func offersPart(errorText string, failed, accepted any) bool {
	before := arguments{object: map[string]any{"": failed}}
	oldValues := strings.ToLower(strings.Join(before.distinctiveValues(), "\n"))
	after := arguments{object: map[string]any{"": accepted}}
	added := slices.DeleteFunc(after.distinctiveValues(), func(v string) bool { return strings.Contains(oldValues, strings.ToLower(v)) })
	switch accepted.(type) {
	case []any, map[string]any:
		return len(added) == 1 && containsPhrase(errorText, strings.ToLower(added[0]), true)
	}
	return false
}

// asksForBoth reports whether an error contains both names, or one name and the word "required" or "missing".
func asksForBoth(errorText, a, b string) bool {
	return strings.Contains(errorText, strings.ToLower(a)) && strings.Contains(errorText, strings.ToLower(b)) ||
		(strings.Contains(errorText, "required") || strings.Contains(errorText, "missing")) && (namesParameter(errorText, a) || namesParameter(errorText, b))
}

// changedParameterFix returns the fix for a call that failed with one value and worked with the accepted value. The
// result is false if the change explains nothing.
func (ps *parsedSession) changedParameterFix(s *step, param string, failed, accepted any, lookups []int, i, j int) (Fix, bool) {
	a, b := plainText(failed), plainText(accepted)
	if form := valueForm(failed, accepted); form != "" {
		return Fix{Kind: fixForm, Variant: form}, true
	}
	body := strings.ToLower(s.text)
	switch {
	case isQuantity(failed) && isQuantity(accepted) && wordList("bounds").containedIn(body) && namesParameter(body, strings.ToLower(param)):
		return Fix{Kind: fixOffered}, true
	case !isQuantity(accepted) && len(b) >= 3 && !strings.EqualFold(a, b) && strings.Contains(withoutSentValue(body, strings.ToLower(a)), strings.ToLower(b)):
		return Fix{Kind: fixOffered}, true
	case offersPart(body, failed, accepted):
		return Fix{Kind: fixOffered}, true
	case isSubset(b, a) && toolDoes(s.tool, "looks"):
		return Fix{Kind: fixShorterQuery}, true
	case isShorterList(failed, accepted):
		return Fix{Kind: fixShorterList}, true
	}
	if f, ok := ps.lookupFix(param, failed, accepted, lookups); ok {
		return f, true
	}
	if len(b) >= 4 && ps.userNamedBetween(b, i, j) {
		return Fix{Kind: fixUserValue}, true
	}
	return Fix{Kind: fixDescribedValue}, namesParameter(body, strings.ToLower(param)) && describesValue(ps.showableWords(s))
}

// showableWords returns those words of the error that a lesson may show.
func (ps *parsedSession) showableWords(s *step) string {
	if ps.orgWords {
		return organisationMessage(s.text, publicWords(s), s.callWords(), scopeTerms).display
	}
	return newStableMessage(s.text, publicWords(s), s.callWords()).display
}

// describesValue reports whether an error describes the value that it expects. If a word of the description was omitted
// (…), the description is useless.
func describesValue(errorText string) bool {
	low := strings.ToLower(errorText)
	for _, w := range []string{"must be ", "must include ", "must contain ", "must start ", "must end ", "must have ", "must match ", "must use ", "should be ", "has to be ", "needs to be ", "expected ", "requires ", "use the "} {
		if _, rest, ok := strings.Cut(low, w); ok {
			return len(strings.Fields(rest)) >= 2 && !strings.Contains(rest, "…")
		}
	}
	return false
}

// withoutSentValue removes the value that was sent in the call from an error, because many errors repeat that value.
func withoutSentValue(body, sent string) string {
	if len(sent) < 3 {
		return body
	}
	return strings.Replace(body, sent, "", 1)
}

// lookupFix returns the fix if a lookup's result contains the new value, or all words in the new value that the old
// value lacks.
func (ps *parsedSession) lookupFix(param string, old, value any, lookups []int) (Fix, bool) {
	v := plainText(value)
	if len(v) > 200 || len(v) < 4 && !isCode(v) {
		return Fix{}, false
	}
	parts := addedWords(plainText(old), v)
	for _, stepIndex := range slices.Backward(lookups) {
		t := &ps.steps[stepIndex]
		if t.shell != nil {
			continue
		}
		hasAllParts := len(parts) > 0 && len(t.text) < maxLookedUp
		for _, p := range parts {
			hasAllParts = hasAllParts && strings.Contains(t.text, p)
		}
		switch {
		case containsValue(t.text, v):
			return Fix{Kind: fixLookup, Param: param, Other: t.tool}, true
		case hasAllParts && len(v) >= 4:
			return Fix{Kind: fixLookup, Param: param, Other: t.tool, Variant: "part"}, true
		}
	}
	return Fix{}, false
}

// isCode matches short codes such as JFK, 14C and EU.
func isCode(v string) bool {
	return len(v) >= 2 && containsOnly(v, upper+digits) && !containsOnly(v, digits)
}

// containsValue reports whether a text contains a value. A short code must be a separate word, because three letters
// occur in other words by chance.
func containsValue(text, v string) bool {
	if len(v) >= 4 {
		return strings.Contains(text, v)
	}
	return slices.Contains(strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }), v)
}

// maxLookedUp is the size in bytes up to which a text is searched for single words. A longer text contains many words
// by chance.
const maxLookedUp = 4 << 10

// addedWords returns the new words in a value, or nil if a new word is too short to be specific.
func addedWords(old, value string) []string {
	var out []string
	for _, p := range strings.FieldsFunc(value, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' && r != '-' }) {
		switch {
		case strings.Contains(old, p):
		case len(p) < 3:
			return nil
		default:
			out = append(out, p)
		}
	}
	return out
}

// namesParameter reports whether an error contains a parameter's name as a whole word.
func namesParameter(errorText, name string) bool {
	return containsPhrase(errorText, strings.ToLower(name), true)
}

// containsPhrase reports whether a text contains a phrase. The phrase must begin at a word boundary, so "corporate
// limit" does not contain "rate limit". If whole is true, the phrase must also end at a word boundary.
func containsPhrase(text, phrase string, whole bool) bool {
	for from := 0; from < len(text); from++ { // the phrase can be empty, because a parameter's name can be empty
		offset := strings.Index(text[from:], phrase)
		if offset < 0 {
			return false
		}
		from += offset
		end := from + len(phrase)
		if !(isWordByteAt(text, from-1) && (whole || isWordByteAt(phrase, 0))) && !(whole && isWordByteAt(text, end)) {
			return true
		}
	}
	return false
}

// isWordByteAt reports whether byte i is part of a word. The result is false if i is out of range.
func isWordByteAt(s string, i int) bool {
	return i >= 0 && i < len(s) && (s[i] == '_' || s[i] >= 'a' && s[i] <= 'z' || s[i] >= '0' && s[i] <= '9')
}

// userNamedBetween reports whether the user named the value for the first time between the two steps.
func (ps *parsedSession) userNamedBetween(value string, i, j int) bool {
	low, found := strings.ToLower(value), false
	for _, t := range ps.messages {
		if strings.Contains(strings.ToLower(t.words), low) {
			if t.stepsBefore <= i {
				return false
			}
			found = found || t.stepsBefore <= j
		}
	}
	return found
}
