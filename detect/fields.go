package detect

import (
	"slices"
	"strings"
)

// A tool that acts may answer with fields, as JSON or as lines: {"status": "REJECTED"}, "status: rejected". A flag, a
// status or a count says whether the tool did anything, and a reason says why not.

// fieldEvidence is the evidence of one object of an answer.
type fieldEvidence struct {
	done    bool // a flag, a count or a status confirms the action
	created bool // the answer has the id of a new object
	refused bool // a flag, a count, a status or a list of obstacles denies the action
	limited bool // a reason names a limit or a refusal
}

// maxFields is the largest number of fields of an answer that reports on the call. Records have more.
const maxFields = 10

// fieldFailureRule returns the rule of an answer with fields that reports that the tool did nothing ({"created":
// false}, {"status": "REJECTED"}), or that the requested object does not exist ({"product": null}), "" for other
// answers.
func (c *toolCall) fieldFailureRule(v lenientValue) string {
	if c.purpose != purposeOther || c.nameMatches("text") || len(v.keys) == 0 || len(v.keys) > maxFields {
		return ""
	}
	if !c.changesState() {
		if c.looksUp() && c.namesNothing(v) {
			return "no-such"
		}
		return ""
	}
	if e := c.readFields(v, 0); !e.done && (e.refused || e.limited && !e.created) {
		return "not-done"
	}
	return ""
}

// readFields returns the evidence of an object. An object without evidence has the evidence of the objects inside.
func (c *toolCall) readFields(v lenientValue, depth int) (e fieldEvidence) {
	const maxDepth = 2
	for i, key := range v.keys {
		e.add(c.readField(nameWords(key), v.vals[i], depth == 0))
	}
	if e != (fieldEvidence{}) || depth >= maxDepth {
		return e
	}
	for _, value := range v.vals {
		inner := value.vals
		if value.kind == objectValue {
			inner = []lenientValue{value}
		}
		for _, object := range inner {
			if object.kind == objectValue {
				e.add(c.readFields(object, depth+1))
			}
		}
	}
	return e
}

func (e *fieldEvidence) add(other fieldEvidence) {
	e.done, e.created = e.done || other.done, e.created || other.created
	e.refused, e.limited = e.refused || other.refused, e.limited || other.limited
}

// readField returns the evidence of one field. words are the words of the name of the field; outer is true for a field
// of the whole answer. A value that repeats an argument of the call is no evidence.
func (c *toolCall) readField(words []string, value lenientValue, outer bool) (e fieldEvidence) {
	isText := value.kind == stringValue
	if len(words) == 0 || isText && c.hasArgument(strings.ToLower(value.text())) {
		return e
	}
	anyIn := func(list string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return c.phrases.inList(list, w) })
	}
	last := words[len(words)-1]
	e.created = outer && (anyIn("changed-field") || slices.ContainsFunc(words, c.isDoing))
	isAction := c.isDone(last)
	isFlag := isAction || c.phrases.inList("outcome-flag", last)
	switch {
	case isFlag && (value.kind == boolValue || isYesOrNo(value)):
		e.done = value.yes || isYes(value)
		e.refused = !e.done
	case isAction && value.kind == numberValue:
		e.done, e.refused = value.num > 0, value.num == 0
	case value.kind == noValue:
		e.refused = outer && len(words) == 1 && slices.Contains(c.nameWords, last)
	case isText && c.isDone(strings.ToLower(value.raw)):
		e.done = true
	case isText && c.phrases.isKey("outcome", last):
		e.refused, e.done = c.refusesAs(value.text()), c.confirmsAs(value.text())
	case slices.ContainsFunc(words, func(w string) bool { return c.phrases.inList("obstacle", w) && !c.hasStem(w) }):
		e.refused = value.kind != boolValue && !value.empty()
	case isText && anyIn("key why"):
		e.limited = len(value.raw) <= maxClause && c.refusesByRule(value.text())
	case anyIn("limit-field"):
		e.limited = true
	case c.phrases.isKey("new-id", last):
		e.created = true
	}
	return e
}

// isYesOrNo reports whether a value is a boolean in words: "Y", "no".
func isYesOrNo(v lenientValue) bool {
	return isYes(v) || v.kind == stringValue && slices.Contains([]string{"n", "no", "false"}, strings.ToLower(v.raw))
}

func isYes(v lenientValue) bool {
	return v.kind == stringValue && slices.Contains([]string{"y", "yes", "true"}, strings.ToLower(v.raw))
}

// isDoing reports whether a word is the present participle of a verb in the name of the tool.
func (c *toolCall) isDoing(word string) bool {
	stem, ok := strings.CutSuffix(word, "ing")
	return ok && len(stem) > 2 && slices.ContainsFunc(c.nameWords, func(w string) bool { return strings.HasPrefix(w, stem) })
}

// hasStem reports whether a word of the tool's name begins as the word: "hold" of place_hold and "holds".
func (c *toolCall) hasStem(word string) bool {
	return slices.ContainsFunc(c.nameWords, func(w string) bool { return len(w) > 3 && len(word) > 3 && w[:4] == word[:4] })
}

// statusWords returns a short status in lower case, without underscores: "NOT_APPROVED" is "not approved". Longer
// texts are no status.
func statusWords(status string) string {
	const maxStatus = 40
	if len(status) > maxStatus {
		return ""
	}
	return strings.NewReplacer("_", " ", "-", " ", "*", "").Replace(strings.ToLower(status))
}

// refusesAs reports whether a status says that nothing was done. For a tool that rejects claims, "rejected" is a
// success.
func (c *toolCall) refusesAs(status string) bool {
	low := statusWords(status)
	return hasPhrase(low, c.phrases.lists["refused"]...) && !c.isDone(low)
}

// confirmsAs reports whether a status says that the action was done.
func (c *toolCall) confirmsAs(status string) bool {
	low := statusWords(status)
	return !c.refusesAs(status) && (c.isDone(low) || strings.HasSuffix(low, "ed") || hasPhrase(low, c.phrases.lists["confirms"]...))
}

// namesNothing reports whether a field of an answer says that the requested object does not exist: {"found":
// false}, {"product": null} of get_product.
func (c *toolCall) namesNothing(v lenientValue) bool {
	for i, k := range v.keys {
		key, value := strings.ToLower(k), &v.vals[i]
		if value.kind == boolValue && !value.yes && (key == "found" || key == "exists") ||
			value.kind == noValue && slices.Contains(c.nameWords, key) {
			return true
		}
	}
	return false
}

// fieldsOfLines returns the fields of an answer that consists of lines "key=value" or "key: value", or of the rows of
// a table with two columns. A text with other lines before a blank line has no fields.
func fieldsOfLines(text string) (v lenientValue) {
	const maxKey, minFields = 30, 2
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n\n")
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.Trim(line, " \t|-*")
		if line == "" || strings.Trim(line, "|-: ") == "" {
			continue
		}
		sign := strings.IndexAny(line, "=:|")
		if sign <= 0 || sign > maxKey || len(v.keys) > maxFields {
			return lenientValue{}
		}
		v.kind = objectValue
		v.keys = append(v.keys, strings.Trim(line[:sign], " *"))
		v.vals = append(v.vals, lenientValue{kind: stringValue, raw: strings.Trim(line[sign+1:], " *")})
	}
	if len(v.keys) < minFields {
		return lenientValue{}
	}
	return v
}
