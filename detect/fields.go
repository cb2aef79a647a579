package detect

import (
	"slices"
	"strings"
)

// A domain tool (domain.go) that changes something may answer with fields, such as {"status": "REJECTED"} or "status:
// rejected". A flag, a status or a count shows whether the tool did anything.

// fieldEvidence is what an answer's fields say about the requested action.
type fieldEvidence struct {
	confirmed bool // a field confirms the action
	created   bool // a field holds a new or changed object
	refused   bool // a field denies the action
	limited   bool // the reason for the refusal is a limit, such as "within 30 days"
}

// maxFields is the maximum number of fields in an answer about an action. An object with more fields is a record.
const maxFields = 10

// fieldFailureRule returns "not-done" if the fields deny the action ({"created": false}), "no-such" if the requested
// object does not exist ({"product": null}), and "" otherwise.
func (c *toolCall) fieldFailureRule(v lenientValue) string {
	if c.purpose != purposeOther || c.nameMatches("text") || len(v.keys) == 0 || len(v.keys) > maxFields {
		return ""
	}
	if failed, ok := v.get("error"); ok && failed.isEmpty() { // "error": null
		return ""
	}
	if !c.changesState() {
		_, hasReason := v.get(append([]string{"decline_reason", "rejection_reason", "failure_reason"}, c.phrases.lists["key why"]...)...)
		switch {
		case (c.isLookup() || !c.hasVerb()) && c.hasMissingObject(v):
			return "no-such"
		case hasReason && !c.hasVerb() && !c.returnsRecords() && c.readFields(v, 0).refused:
			return "not-done"
		}
		return ""
	}
	if e := c.readFields(v, 0); !e.confirmed && (e.refused || e.limited && !e.created) {
		return "not-done"
	}
	return ""
}

// hasVerb reports whether the tool's name says what the tool does. The tool "position" may look up or change.
func (c *toolCall) hasVerb() bool {
	return slices.ContainsFunc(c.nameWords, func(w string) bool {
		return c.phrases.inList("verb looks", w) || c.phrases.inList("verb changes", w) || c.phrases.inList("verb first", w)
	})
}

// readFields returns the evidence in an object's fields. If there is none, it searches the objects inside these fields.
func (c *toolCall) readFields(v lenientValue, depth int) (e fieldEvidence) {
	const maxDepth = 2
	for i, key := range v.keys {
		e.add(c.readField(nameWords(key), v.vals[i], depth == 0))
	}
	if e != (fieldEvidence{}) || depth >= maxDepth {
		return e
	}
	for _, field := range v.vals {
		objects := field.vals
		if field.kind == objectValue {
			objects = []lenientValue{field}
		}
		for _, object := range objects {
			if object.kind == objectValue {
				e.add(c.readFields(object, depth+1))
			}
		}
	}
	return e
}

func (e *fieldEvidence) add(other fieldEvidence) {
	e.confirmed, e.created = e.confirmed || other.confirmed, e.created || other.created
	e.refused, e.limited = e.refused || other.refused, e.limited || other.limited
}

// readField returns the evidence in one field. words are the words in the field's name. outer is true for a field of
// the outermost object. A value that repeats an argument of the call is not evidence.
func (c *toolCall) readField(words []string, value lenientValue, outer bool) (e fieldEvidence) {
	isText := value.kind == stringValue
	if len(words) == 0 || isText && c.hasArgument(strings.ToLower(value.text())) || len(words) > 1 && c.phrases.inList("setting", words[0]) {
		return e
	}
	anyIn := func(list string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return c.phrases.inList(list, w) })
	}
	last := words[len(words)-1]
	e.created = outer && (anyIn("changed-field") || slices.ContainsFunc(words, c.isNamePresentParticiple))
	isAction := c.isNamePastParticiple(last)
	isFlag := isAction || c.phrases.inList("outcome-flag", last)
	switch {
	case isFlag && (value.kind == boolValue || isYesOrNo(value)):
		e.confirmed = value.isTrue || isYes(value)
		e.refused = !e.confirmed
	case isAction && value.kind == numberValue:
		e.confirmed, e.refused = value.num > 0, value.num == 0
	case isAction && isText && isNumber(value.raw): // "rows imported: 0"
		e.confirmed, e.refused = strings.Trim(value.raw, "0") != "", strings.Trim(value.raw, "0") == ""
	case value.kind == noValue:
		e.refused = outer && len(words) == 1 && slices.Contains(c.nameWords, last)
	case isText && c.isNamePastParticiple(strings.ToLower(value.raw)):
		e.confirmed = true
	case isText && c.phrases.isKey("outcome", last):
		e.refused, e.confirmed = c.isRefusalStatus(value.text()), c.isSuccessStatus(value.text())
	case slices.ContainsFunc(words, func(w string) bool { return c.phrases.inList("obstacle", w) && !c.sharesStemWithName(w) }):
		e.refused = value.kind != boolValue && !value.isEmpty()
	case isText && anyIn("key why"):
		e.limited = len(value.raw) <= maxClause && c.reportsLimit(value.text())
	case anyIn("limit-field"):
		e.limited = true
	case c.phrases.isKey("new-id", last):
		e.created = true
	}
	return e
}

func isYesOrNo(v lenientValue) bool {
	return isYes(v) || v.kind == stringValue && slices.Contains([]string{"n", "no", "false"}, strings.ToLower(v.raw))
}

func isYes(v lenientValue) bool {
	return v.kind == stringValue && slices.Contains([]string{"y", "yes", "true"}, strings.ToLower(v.raw))
}

func (c *toolCall) isNamePresentParticiple(word string) bool {
	stem, ok := strings.CutSuffix(word, "ing")
	return ok && len(stem) > 2 && slices.ContainsFunc(c.nameWords, func(w string) bool { return strings.HasPrefix(w, stem) })
}

// sharesStemWithName reports whether word has the same first four letters as a word in the tool's name. An example is
// "holds" for place_hold.
func (c *toolCall) sharesStemWithName(word string) bool {
	return slices.ContainsFunc(c.nameWords, func(w string) bool { return len(w) > 3 && len(word) > 3 && w[:4] == word[:4] })
}

// statusWords returns "not approved" for "NOT_APPROVED", and "" if the text is too long.
func statusWords(status string) string {
	const maxStatus = 40
	if len(status) > maxStatus {
		return ""
	}
	return strings.NewReplacer("_", " ", "-", " ", "*", "").Replace(strings.ToLower(status))
}

// isRefusalStatus reports whether a status denies the action. For a tool that rejects claims, "rejected" is not a
// refusal.
func (c *toolCall) isRefusalStatus(status string) bool {
	low := statusWords(status)
	return hasPhrase(low, c.phrases.lists["refused"]...) && !c.isNamePastParticiple(low)
}

func (c *toolCall) isSuccessStatus(status string) bool {
	low := statusWords(status)
	return !c.isRefusalStatus(status) && (c.isNamePastParticiple(low) || strings.HasSuffix(low, "ed") || hasPhrase(low, c.phrases.lists["confirms"]...))
}

// hasMissingObject matches {"found": false}, and {"product": null} from get_product.
func (c *toolCall) hasMissingObject(v lenientValue) bool {
	for i, k := range v.keys {
		key, value := strings.ToLower(k), &v.vals[i]
		if value.kind == boolValue && !value.isTrue && (key == "found" || key == "exists") ||
			value.kind == noValue && slices.Contains(c.nameWords, key) {
			return true
		}
	}
	return false
}

// readLineFields reads "key=value" or "key: value" lines in the first paragraph, or a two-column table.
func readLineFields(text string) (v lenientValue) {
	const maxKey, minFields = 30, 2
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n\n")
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.Trim(line, " \t|-*")
		if line == "" || strings.Trim(line, "|-: ") == "" {
			continue
		}
		separator := strings.IndexAny(line, "=:|")
		if separator <= 0 || separator > maxKey || len(v.keys) > maxFields {
			return lenientValue{}
		}
		v.kind = objectValue
		v.keys = append(v.keys, strings.Trim(line[:separator], " *"))
		v.vals = append(v.vals, lenientValue{kind: stringValue, raw: strings.Trim(line[separator+1:], " *")})
	}
	if len(v.keys) < minFields {
		return lenientValue{}
	}
	return v
}
