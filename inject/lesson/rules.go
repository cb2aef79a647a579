package lesson

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"precept/internal/spell"
)

// Limits for the fields in a file. precept sets the limits for lists in metadata.precept; all others are from the
// learning/v1 schema.
const (
	minSlug, maxSlug = 2, 80
	maxTitle         = 200
	maxDescription   = 1000
	maxTags          = 12
	maxRef           = 256
	maxNote          = 500
	maxPhraseChars   = 200 // per list entry in metadata.precept
	maxListEntries   = 100 // per list in metadata.precept
)

// reader reads a lesson from YAML, and collects the faults.
type reader struct{ errs ValidationErrors }

// addError records a fault in a frontmatter line; 0 means that the line is unknown.
func (r *reader) addError(code Code, field string, line int, format string, args ...any) {
	if line > 0 {
		line++ // for the opening --- line
	}
	r.errs = append(r.errs, ValidationError{Code: code, Field: field, Line: line, Message: fmt.Sprintf(format, args...)})
}

func (r *reader) addInvalid(field string, line int, format string, args ...any) {
	r.addError(CodeInvalid, field, line, format, args...)
}

// checkKeys records an error for each unknown key.
func (r *reader) checkKeys(prefix string, n *node, keys ...string) {
	for i := range n.keys {
		p := &n.keys[i]
		if !slices.Contains(keys, p.key) {
			r.addInvalid(joinField(prefix, p.key), p.line, "is not a known key; %s, or use one of %s", keyRemedy(prefix, p.key, keys), strings.Join(keys, ", "))
		}
	}
}

func preceptTriggerKeys() []string {
	return []string{"keywords", "not_keywords", "tools", "error_patterns", "error_kinds", "request_kinds", "models", "like"}
}

func keyRemedy(prefix, key string, known []string) string {
	if (prefix == "" || prefix == "trigger") && slices.Contains(preceptTriggerKeys(), key) {
		return "move it to trigger.metadata.precept." + key
	}
	if nearest := spell.Suggest(key, known); nearest != "" {
		return "write " + nearest
	}
	return "remove it"
}

func joinField(prefix, key string) string {
	if prefix == "" {
		return key
	}
	return prefix + "." + key
}

// example returns a line of YAML that sets a field.
func example(field string) string {
	key := field[strings.LastIndex(field, ".")+1:]
	value := map[string]string{
		"slug": "pin-the-page", "title": "Pin the page before clicking", "outcome": "success", "kind": "wiki-page", "ref": "docs/handbook.md",
		"description": "The page changes while it loads.", "evidence": "[{kind: wiki-page, ref: docs/handbook.md}]",
		"trigger":  "{description: The page changes while it loads., metadata: {precept: {keywords: [load more]}}}",
		"metadata": "{precept: {...}}", "precept": "{...}", "match": "{keywords: [load more]}",
	}[key]
	return key + ": " + cmp.Or(value, "...")
}

// mapping returns the mapping under key, or nil. A value of a different kind, or a missing required key, is recorded as
// an error.
func (r *reader) mapping(prefix string, n *node, key string, required bool) *node {
	v, ok := n.get(key)
	field := joinField(prefix, key)
	switch {
	case !ok && required:
		r.addInvalid(field, n.line, "is missing; write %s", example(field))
		return nil
	case !ok:
		return nil
	case v.kind != kindMap:
		r.addInvalid(field, v.line, "is %s; write a mapping, such as %s", v.kind, example(field))
		return nil
	}
	return v
}

// text returns the string under key, or "". If the string does not have lo to hi characters, an error is recorded.
func (r *reader) text(prefix string, n *node, key string, required bool, lo, hi int) string {
	v, ok := n.get(key)
	field := joinField(prefix, key)
	if !ok {
		if required {
			r.addInvalid(field, n.line, "is missing; write %s", example(field))
		}
		return ""
	}
	if !r.checkText(field, v, lo, hi) {
		return ""
	}
	return v.text
}

func (r *reader) checkText(field string, v *node, lo, hi int) bool {
	if v.kind != kindString {
		r.addInvalid(field, v.line, "is %s; write text, in quotes if it looks like something else", v.kind)
		return false
	}
	if n := utf8.RuneCountInString(v.text); n < lo || n > hi {
		r.addInvalid(field, v.line, "has %d characters; write %d to %d", n, lo, hi)
		return false
	}
	return true
}

// items returns the list under key, or nil. A limit of 0 means no limit.
func (r *reader) items(prefix string, n *node, key string, limit int) []node {
	v, ok := n.get(key)
	if !ok {
		return nil
	}
	field := joinField(prefix, key)
	if v.kind != kindList {
		r.addInvalid(field, v.line, "is %s; write a list: [a, b], or a line \"- a\" for each entry", v.kind)
		return nil
	}
	if limit > 0 && len(v.list) > limit {
		r.addInvalid(field, v.line, "has %d entries; keep at most %d", len(v.list), limit)
	}
	return v.list
}

// textList returns the valid strings under key, and records an error for each other entry. description describes a
// valid string in messages.
func (r *reader) textList(prefix string, n *node, key string, limit, hi int, accepts func(string) bool, description string) []string {
	items := r.items(prefix, n, key, limit)
	out := make([]string, 0, len(items))
	for i := range items {
		field := fmt.Sprintf("%s[%d]", joinField(prefix, key), i)
		if !r.checkText(field, &items[i], 1, hi) {
			continue
		}
		if accepts != nil && !accepts(items[i].text) {
			r.addInvalid(field, items[i].line, "%q is not %s; rewrite it", items[i].text, description)
			continue
		}
		out = append(out, items[i].text)
	}
	return out
}

// number returns the number under key, or 0. If accepts returns false, an error with the message want is recorded.
func (r *reader) number(prefix string, n *node, key string, accepts func(float64) bool, want string, args ...any) float64 {
	v, hasKey := n.get(key)
	if !hasKey {
		return 0
	}
	if v.kind != kindNumber || !accepts(v.number) {
		r.addInvalid(joinField(prefix, key), v.line, want, args...)
		return 0
	}
	return v.number
}

func isWholeBetween(lo, hi float64) func(float64) bool {
	return func(x float64) bool { return x == math.Trunc(x) && x >= lo && x <= hi }
}

func (r *reader) flag(prefix string, n *node, key string) bool {
	v, ok := n.get(key)
	if !ok {
		return false
	}
	if v.kind != kindBool {
		r.addInvalid(joinField(prefix, key), v.line, "is %s; write true or false", v.kind)
	}
	return v.kind == kindBool && v.number != 0
}

func (r *reader) count(n *node, key string) int {
	return int(r.number("", n, key, isWholeBetween(0, math.MaxInt32), "is not a whole number of at least 0; correct the number, or remove the line"))
}

func (r *reader) confidence(n *node) float64 {
	v, ok := n.get("confidence")
	if !ok {
		return defaultConfidence
	}
	if v.kind != kindNumber {
		r.addInvalid("confidence", v.line, "is %s; write a number from 0 to 1", v.kind)
		return defaultConfidence
	}
	if !(v.number >= 0 && v.number <= 1) { // the negation catches NaN
		r.addError(CodeConfidence, "confidence", v.line, "%v is not between 0 and 1; write 0.5 if you do not know", v.number)
		return defaultConfidence
	}
	return v.number
}

const defaultConfidence = 0.5

// openUnitNumber returns the number between 0 and 1, both excluded, or 0 if the key is missing.
func (r *reader) openUnitNumber(prefix string, n *node, key string) float64 {
	between := func(x float64) bool { return x > 0 && x < 1 }
	return r.number(prefix, n, key, between, "must lie between 0 and 1; write a number such as 0.5")
}

// timestamp returns the RFC 3339 time under key, or the zero time.
func (r *reader) timestamp(prefix string, n *node, key string) time.Time {
	v, ok := n.get(key)
	if !ok {
		return time.Time{}
	}
	field := joinField(prefix, key)
	if v.kind != kindString {
		r.addInvalid(field, v.line, "is %s; write a date and time such as 2030-01-31T00:00:00Z", v.kind)
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, strings.ToUpper(v.text))
	if err != nil {
		r.addInvalid(field, v.line, "%q is not a date and time; write one such as 2030-01-31T00:00:00Z", v.text)
	}
	return t
}

// IsSlug reports whether s matches ^[a-z][a-z0-9-]*[a-z0-9]$ and has minSlug to maxSlug bytes, as the schema requires.
func IsSlug(s string) bool {
	return len(s) >= minSlug && len(s) <= maxSlug && isSlugRef(s)
}

// isSlugRef reports whether s is a slug of any length. The schema has no maximum for slugs in supersedes.
func isSlugRef(s string) bool {
	return len(s) >= minSlug && isTag(s) && s[len(s)-1] != '-'
}

// isTag matches the schema's ^[a-z][a-z0-9-]*$.
func isTag(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c >= 'a' && c <= 'z' || i > 0 && (c >= '0' && c <= '9' || c == '-') {
			continue
		}
		return false
	}
	return s != ""
}
