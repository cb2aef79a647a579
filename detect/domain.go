package detect

import (
	"slices"
	"strings"
	"unicode"
)

// A domain tool does anything other than running commands or handling files, pages or notes. For example, it books a
// table. Such a tool often answers in plain language, and the answer's content may contain words such as "failed". If
// the tool did nothing, the first clause usually says so.

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

const maxClause = 300 // bytes in a message about the call

// isProse reports whether an answer is short and has no heading, table, code block or patch.
func isProse(text string) bool {
	const maxLen, maxLines = 1500, 20
	return len(text) <= maxLen && strings.Count(text, "\n") < maxLines &&
		!containsAny(text, "|", "```", "diff --git ") && !hasAnyPrefix(text, []string{"#", "Address: "})
}

// domainFailureRule returns a rule if the answer says that the tool found nothing or did nothing, and "" otherwise.
func (c *toolCall) domainFailureRule(text string) string {
	changes, wholeText := c.changesState(), text
	if changes { // a later paragraph may offer an alternative, such as another date
		text, _, _ = strings.Cut(text, "\n\n")
	}
	if c.purpose == purposeOther && changes {
		if rule := c.fieldFailureRule(readLineFields(wholeText)); rule != "" {
			return rule
		}
		if isProse(wholeText) && !c.nameMatches("text") && !c.nameMatches("report") && c.reportsLimit(wholeText) {
			return "not-done"
		}
	}
	if c.purpose == purposeOther && (changes || c.nameMatches("gesture")) && c.headingReportsNotDone(wholeText) {
		return "not-done"
	}
	if c.purpose != purposeOther || len(text) > maxClause {
		return ""
	}
	plain := c.phrases.withoutHarmlessNegations(withoutQuotes(fold(withoutSymbols(plainLine(text)))))
	sentences := strings.FieldsFunc(plain, func(r rune) bool { return r == '.' || r == '!' || r == '?' || r == ';' })
	if slices.ContainsFunc(sentences, c.saysDoesNotExist) {
		return "no-such"
	}
	if len(sentences) == 0 || strings.Count(text, "\n") > 2 || strings.Contains(text, "|") ||
		c.nameMatches("text") || c.returnsRecords() || c.nameMatches("person") && !changes {
		return ""
	}
	sentence := sentences[0]
	switch {
	case hasPhrase(sentence, c.phrases.lists["service-fails"]...), containsAny(plain, "try again later"):
		return "service"
	case !changes:
		if c.isLookup() && (startsWithPhrase(sentence, c.phrases.lists["lookup-fails"]...) || c.saysRemoved(sentence)) {
			return "no-such"
		}
	case c.clauseReportsNotDone(firstClause(sentence)), len(sentences) > 1 && c.laterSentenceReportsNotDone(sentences):
		return "not-done"
	}
	return ""
}

// reportsLimit reports whether an answer states a limit and does not confirm the action, as in "Refunds are only
// possible within 30 days."
func (c *toolCall) reportsLimit(text string) bool {
	low := c.phrases.withoutHarmlessNegations(withoutQuotes(fold(withoutSymbols(plainLine(text)))))
	for _, arg := range c.args.vals { // a report about denied requests names them
		if word := strings.ToLower(arg.text()); arg.kind == stringValue && len(word) > 3 && !strings.Contains(word, " ") {
			low = strings.ReplaceAll(low, word, "")
		}
	}
	limited := hasPhrase(low, c.phrases.lists["limit"]...) || containsAny(low, c.phrases.lists["limit-anywhere"]...)
	return limited && !c.confirmsAction(low)
}

// withoutHarmlessNegations removes negations that do not deny a success, such as "no further action is required".
func (p *phrases) withoutHarmlessNegations(low string) string {
	for _, negation := range p.lists["harmless-no"] {
		low = strings.ReplaceAll(low, negation, "")
	}
	return low
}

// confirmsAction reports whether an answer, such as "Booked", confirms the action. An answer with a condition ("until
// the bill is paid") or about an unchanged state ("It remains confirmed") is not a confirmation.
func (c *toolCall) confirmsAction(low string) bool {
	if hasPhrase(low, "already", "nothing", "nobody") {
		return false
	}
	if c.nameHas("delete", "remove", "cancel") && hasPhrase(low, "was removed", "was deleted", "were removed", "were deleted") {
		return true
	}
	low = withoutConditions(low)
	if hasPhrase(low, c.phrases.lists["confirms"]...) || containsAny(low, c.phrases.lists["confirms-anywhere"]...) {
		return true
	}
	words := strings.FieldsFunc(low, func(r rune) bool { return !unicode.IsLetter(r) })
	for i, word := range words {
		if (c.isNamePastParticiple(word) || c.phrases.inList("participle", word)) && !c.isUnconfirmed(words[:i]) {
			return true
		}
	}
	return false
}

// isUnconfirmed reports whether the words before a participle take the confirmation back: "cannot be booked", "wurde
// leider nicht gebucht".
func (c *toolCall) isUnconfirmed(before []string) bool {
	const maxDistance = 3
	if n := len(before); n > 0 && c.phrases.inList("unconfirmed", before[n-1]) {
		return true
	}
	return slices.ContainsFunc(before[max(0, len(before)-maxDistance):], func(w string) bool { return c.phrases.inList("negation", w) })
}

func withoutConditions(low string) string {
	const conditions = " until unless once if when before after remains remain stays still "
	var kept []string
	skip := false
	for word := range strings.FieldsSeq(low) {
		skip = skip || strings.Contains(conditions, " "+word+" ")
		if !skip {
			kept = append(kept, word)
		}
		skip = skip && !strings.ContainsAny(word[len(word)-1:], ",.;!?")
	}
	return strings.Join(kept, " ")
}

// isNamePastParticiple reports whether word is a past participle of a verb in the tool's name: "booked" for
// book_table.
func (c *toolCall) isNamePastParticiple(word string) bool {
	return slices.ContainsFunc(c.nameWords, func(verb string) bool {
		stem := strings.TrimRight(verb, "ey")
		return (c.phrases.inList("verb changes", verb) || c.phrases.inList("verb first", verb)) && len(stem) > 1 && strings.HasPrefix(word, stem) &&
			(strings.HasSuffix(word, "ed") || strings.HasSuffix(word, "id") || word == verb && strings.HasSuffix(verb, "set")) && len(word) <= len(verb)+4
	})
}

// isLookup reports whether a tool returns one requested object. For such a tool, a missing object is a failure.
func (c *toolCall) isLookup() bool {
	return c.nameHas("get", "read", "show", "retrieve", "find", "lookup", "look", "fetch") && !c.nameHas("search", "list") || c.nameHas("by") && c.nameHas("id")
}

func (c *toolCall) clauseReportsNotDone(clause string) bool {
	if hasPhrase(clause, c.phrases.lists["no-complaint"]...) && !hasPhrase(clause, "not", "no", "cannot", "failed") {
		return false
	}
	if startsWithPhrase(clause, "no", "none", "nothing", "there is no", "there's no", "there are no") &&
		!startsWithPhrase(clause, "no problem", "no further", "no additional", "no extra", "no fee", "no charge") ||
		strings.Contains(clause, "n't ") && !hasPhrase(clause, "don't need", "don't have to") {
		return true
	}
	return slices.ContainsFunc(c.phrases.lists["action-fails"], func(word string) bool {
		// "Claim rejected" is a success for a tool that rejects claims.
		named := slices.ContainsFunc(c.nameWords, func(w string) bool { return len(w) > 3 && len(word) > 3 && w[:4] == word[:4] })
		return !named && !c.isNamePastParticiple(word) && !c.hasArgument(word) && hasPhrase(clause, word)
	})
}

// laterSentenceReportsNotDone matches "The seat was taken by another guest. The visit was not booked."
func (c *toolCall) laterSentenceReportsNotDone(sentences []string) bool {
	first := sentences[0]
	if hasPhrase(first, c.phrases.lists["no-complaint"]...) || hasPhrase(first, "has been", "have been", "confirmed", "done", "booked", "ok") {
		return false
	}
	return slices.ContainsFunc(sentences[1:], func(s string) bool {
		return hasPhrase(s, "was not", "were not", "not been", "wasn't", "weren't", "hasn't been", "haven't been", "nothing was")
	})
}

// headingReportsNotDone reports whether the first of several lines says that the tool did nothing: "FILING REJECTED",
// "Element 7 does not exist - retry". Details or the state of a page follow.
func (c *toolCall) headingReportsNotDone(text string) bool {
	const maxHeading = 160
	heading, rest, _ := strings.Cut(text, "\n")
	if rest == "" || len(heading) > maxHeading {
		return false
	}
	low := c.phrases.withoutHarmlessNegations(withoutQuotes(fold(withoutSymbols(plainLine(heading)))))
	return !c.confirmsAction(low) && (c.clauseReportsNotDone(firstClause(low)) || c.phrases.endsWithMissingPhrase(firstClause(firstSentence(low))))
}

// saysDoesNotExist matches "There is no patient with this number" for get_patient.
func (c *toolCall) saysDoesNotExist(sentence string) bool {
	sentence = strings.TrimSpace(sentence)
	for _, lead := range []string{"there is no ", "there's no ", "no "} {
		rest, ok := strings.CutPrefix(sentence, lead)
		noun, rest, _ := strings.Cut(rest, " ")
		switch {
		case !ok, noun == "":
		case !slices.Contains(c.nameWords, noun):
			for _, link := range []string{"named ", "called ", "with the id ", "with id "} {
				rest = strings.TrimPrefix(rest, link)
			}
			name, _, _ := strings.Cut(rest, " ")
			return lead != "no " && c.hasArgument(name)
		case startsWithPhrase(rest, "with", "for", "under", "called", "named", "matches", "matched", "matching", "exists"):
			// A search may answer "No orders for today".
			return lead != "no " || c.isLookup() && !strings.HasSuffix(noun, "s") || c.changesState()
		default:
			name, _, _ := strings.Cut(rest, " ")
			return c.hasArgument(name) || lead != "no " && c.hasArgument(strings.TrimSpace(rest))
		}
	}
	return false
}

// saysRemoved matches "This photo was deleted in May" for get_photo.
func (c *toolCall) saysRemoved(sentence string) bool {
	determiner, noun, _ := strings.Cut(sentence, " ")
	noun, rest, _ := strings.Cut(noun, " ")
	return startsWithPhrase(determiner, "this", "that", "the") && slices.Contains(c.nameWords, noun) &&
		startsWithPhrase(rest, "was deleted", "has been deleted", "was removed", "has been removed", "does not exist", "doesn't exist", "no longer exists")
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

// firstClause returns a sentence's first clause, without a reason or consequence.
func firstClause(sentence string) string {
	for _, end := range []string{": ", "; ", ", ", " because ", " since ", " and ", " - "} {
		if before, _, ok := strings.Cut(sentence, end); ok && strings.Contains(before, " ") {
			sentence = before
		}
	}
	return sentence
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
