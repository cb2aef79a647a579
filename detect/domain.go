package detect

import (
	"slices"
	"strings"
)

// isContent reports whether a text is content that the tool returns, although the given rule found a failure in it. For
// example, a dictionary entry begins with a phrase in the "word-class" list. A text with a phrase in the "about-call"
// list is about the call, and so is not content.
func (c *toolCall) isContent(rule, text string) bool {
	low := strings.ToLower(cutText(text, 300))
	switch {
	case low != "" && isDigit(low[0]) && rule == "error-first": // "1 validation error for Input"
		return false
	case c.nameMatches("text"), c.asksAbout(text), c.repeatsArgument(text):
	case !c.returnsRecords():
		return hasAnyPrefix(low, c.phrases.lists["word-class"])
	case rule == "http" || rule == "exception-first" || c.phrases.message.errors.match(low):
		return hasAnyPrefix(low, c.phrases.lists["word-class"])
	}
	if hasPhrase(low, c.phrases.lists["about-call"]...) {
		return false
	}
	return !slices.ContainsFunc(c.nameWords, func(w string) bool {
		return len(w) > 2 && hasPhrase(low, w+" not found", "no "+w, w+" does not exist", "failed to "+w, "unable to "+w)
	})
}

// asksAbout reports whether the answer begins with an error code, such as ENOENT, that the arguments ask about.
func (c *toolCall) asksAbout(text string) bool {
	question, ok := c.args.get("question", "query", "q", "prompt", "term", "topic")
	first, _, _ := strings.Cut(text, " ")
	first = strings.Trim(first, ":.,")
	return ok && len(first) > 3 && first == strings.ToUpper(first) && !strings.EqualFold(first, "error") && hasPhrase(strings.ToLower(question.text()), strings.ToLower(first))
}

// repeatsArgument reports whether the first of several lines is an argument, as in a dictionary's entry.
func (c *toolCall) repeatsArgument(text string) bool {
	first, _, more := strings.Cut(text, "\n")
	return more && c.hasArgument(strings.TrimSpace(first))
}

// returnsRecords reports whether the tool's name says that the tool returns records or articles.
func (c *toolCall) returnsRecords() bool {
	return c.nameMatches("record") && c.nameWords[0] != "book" && !c.phrases.inList("verb changes", c.nameWords[0])
}

func (c *toolCall) hasArgument(text string) bool {
	return text != "" && slices.ContainsFunc(c.args.vals, func(v lenientValue) bool {
		return v.kind == stringValue && strings.EqualFold(v.text(), text) || v.kind == numberValue && v.raw == text
	})
}

// changesState reports whether the tool's name says that the tool changes something, that is, whether the first known
// verb is "create" or a similar one.
func (c *toolCall) changesState() bool {
	if n := len(c.nameWords); n > 1 && c.phrases.inList("verb looks", c.nameWords[n-1]) { // hire_search
		return false
	}
	if len(c.nameWords) > 1 && c.phrases.inList("verb first", c.nameWords[0]) {
		return !slices.ContainsFunc(c.nameWords, func(w string) bool { return c.phrases.inList("verb looks", w) })
	}
	if len(c.nameWords) == 2 && c.phrases.inList("verb looks", c.nameWords[1]) { // TaskList
		return false
	}
	for i, w := range c.nameWords {
		if w == "check" && i+1 < len(c.nameWords) && (c.nameWords[i+1] == "in" || c.nameWords[i+1] == "out") {
			return true
		}
		if c.phrases.inList("verb looks", w) {
			return false
		}
		if c.phrases.inList("verb changes", w) {
			return true
		}
	}
	return false
}

func withoutQuotes(low string) string {
	parts := strings.Split(low, `"`)
	if len(parts)%2 == 0 {
		return low
	}
	var b strings.Builder
	for i := 0; i < len(parts); i += 2 {
		b.WriteString(parts[i])
	}
	return b.String()
}

// endFailureRule returns the rule for a failure after progress lines ("Uploading...", "[2/3] Building", "40%"), or "".
// Up to three lines, such as a hint, can follow the failure.
func (p *phrases) endFailureRule(text string) string {
	const maxLines, maxHint = 12, 3
	text = strings.TrimSpace(text)
	if strings.IndexByte(text, '\n') < 0 || len(text) > 2000 || strings.Count(text, "\n") > maxLines {
		return ""
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		t := plainLine(line)
		failed := hasAnyPrefix(t, failureSymbols)
		if !failed && (t == "" || isProgress(t)) {
			continue
		}
		rest := lines[i+1:]
		if i == 0 || len(rest) > maxHint || slices.ContainsFunc(rest, func(l string) bool { return isProgress(plainLine(l)) }) {
			return ""
		}
		if rule, bad := p.errorMessageRule(t); bad {
			return rule
		}
		if failed {
			return "sign"
		}
		return ""
	}
	return ""
}

// failureSymbols are symbols that programs print before a failure.
//
//nolint:gochecknoglobals // immutable
var failureSymbols = []string{"💥", "❌", "🚨", "⛔", "🛑", "🚫", "✖", "✗", "✘"}

func isProgress(t string) bool {
	step, more, _ := strings.Cut(t, " ")
	if step == "Step" || step == "Stage" {
		step, _, _ = strings.Cut(more, " ")
	}
	done, total, ok := strings.Cut(strings.Trim(step, "[]():"), "/")
	return strings.HasSuffix(t, "...") || strings.HasSuffix(t, "…") || strings.HasSuffix(t, "%") ||
		strings.HasSuffix(t, "... done") || strings.HasSuffix(t, "... ok") || strings.HasSuffix(t, "... OK") ||
		ok && isNumber(done) && isNumber(total) || withoutSymbols(t) != t ||
		hasAnyPrefix(t, []string{"✓ ", "✔ ", "✅ ", "☑ ", "==> ", "--> ", "-----> "})
}
