package detect

import (
	"slices"
	"strings"
	"unicode"
)

// A tool of a domain is any tool but those for commands, files, pages and notes: a translation, a search for
// films, a booking. Such tools often answer in words. A tool that returns texts or records may return content
// with words such as "failed". A tool that acts reports in its first clause that nothing was done.

// isContent reports whether a text that rule takes for a failure is the content that the tool returns, not a
// message about the call. "Error:" is content only for a tool that returns any text.
func (c *toolCall) isContent(rule, text string) bool {
	low := strings.ToLower(cutText(text, 300))
	switch {
	case c.nameMatches("text"), c.asksAbout(text):
	case !c.returnsRecords():
		return hasPrefixOf(low, c.phrases.lists["word-class"])
	case rule == "http" || rule == "exception-first" || c.phrases.message.errors.match(low):
		return hasPrefixOf(low, c.phrases.lists["word-class"])
	}
	if hasPhrase(low, c.phrases.lists["about-call"]...) {
		return false
	}
	return !slices.ContainsFunc(c.nameWords, func(w string) bool {
		return len(w) > 2 && hasPhrase(low, w+" not found", "no "+w, w+" does not exist", "failed to "+w, "unable to "+w)
	})
}

// asksAbout reports whether the answer begins with an error code, such as ENOENT, that the question in the call
// names.
func (c *toolCall) asksAbout(text string) bool {
	question, ok := c.args.get("question", "query", "q", "prompt", "term", "topic")
	first, _, _ := strings.Cut(text, " ")
	first = strings.Trim(first, ":.,")
	return ok && len(first) > 3 && first == strings.ToUpper(first) && !strings.EqualFold(first, "error") && hasPhrase(strings.ToLower(question.text()), strings.ToLower(first))
}

// returnsRecords reports whether a tool returns records or articles. A name that begins with "book" or with a
// verb of change is the name of a tool that acts.
func (c *toolCall) returnsRecords() bool {
	return c.nameMatches("record") && c.nameWords[0] != "book" && !c.phrases.inList("verb changes", c.nameWords[0])
}

// maxClause is the largest number of bytes of an answer that may be a message about the call.
const maxClause = 300

// isProse reports whether an answer is prose of some paragraphs, without a heading, a table, a patch or the head of a
// page.
func isProse(text string) bool {
	const maxLen, maxLines = 1500, 20
	return len(text) <= maxLen && strings.Count(text, "\n") < maxLines &&
		!containsAny(text, "|", "```", "diff --git ") && !hasPrefixOf(text, []string{"#", "Address: "})
}

// domainFailureRule returns the rule of a short answer in words that reports a failure of the call, "" for
// other answers.
func (c *toolCall) domainFailureRule(text string) string {
	acts, whole := c.changesState(), text
	if acts { // a further paragraph may offer something else, such as another date
		text, _, _ = strings.Cut(text, "\n\n")
	}
	if c.purpose == purposeOther && acts {
		if rule := c.fieldFailureRule(fieldsOfLines(whole)); rule != "" {
			return rule
		}
		if isProse(whole) && !c.nameMatches("text") && !c.nameMatches("report") && c.refusesByRule(whole) {
			return "not-done"
		}
	}
	if c.purpose != purposeOther || len(text) > maxClause {
		return ""
	}
	low := c.phrases.withoutHarmlessNo(withoutQuotes(fold(withoutSigns(plainLine(text)))))
	sentences := strings.FieldsFunc(low, func(r rune) bool { return r == '.' || r == '!' || r == '?' || r == ';' })
	if slices.ContainsFunc(sentences, c.namesNone) {
		return "no-such"
	}
	if len(sentences) == 0 || strings.Count(text, "\n") > 2 || strings.Contains(text, "|") ||
		c.nameMatches("text") || c.returnsRecords() || c.nameMatches("person") && !acts {
		return ""
	}
	sentence := sentences[0]
	switch {
	case hasPhrase(sentence, c.phrases.lists["service-fails"]...), containsAny(low, "try again later"):
		return "service"
	case !acts:
		if c.looksUp() && (startsWord(sentence, c.phrases.lists["lookup-fails"]...) || c.namesGone(sentence)) {
			return "no-such"
		}
	case c.reportsNotDone(firstClause(sentence)), len(sentences) > 1 && c.reportsUndone(sentences):
		return "not-done"
	}
	return ""
}

// refusesByRule reports whether the answer of a tool that acts names a limit or a refusal in any sentence, and no
// sentence confirms the action: "Refunds are only possible within 30 days."
func (c *toolCall) refusesByRule(text string) bool {
	low := c.phrases.withoutHarmlessNo(withoutQuotes(fold(withoutSigns(plainLine(text)))))
	limited := hasPhrase(low, c.phrases.lists["limit"]...) || containsAny(low, c.phrases.lists["limit-anywhere"]...)
	return limited && !c.confirms(low)
}

// withoutHarmlessNo removes the negations that occur in reports of a success: "no further action is required".
func (p *phrases) withoutHarmlessNo(low string) string {
	for _, no := range p.lists["harmless-no"] {
		low = strings.ReplaceAll(low, no, "")
	}
	return low
}

// confirms reports whether an answer says that the action of the tool was done: "Booked", "has been sent". A
// condition ("until the bill is paid") and a state that remains ("It remains confirmed") confirm nothing.
func (c *toolCall) confirms(low string) bool {
	if hasPhrase(low, "already", "nothing", "nobody") {
		return false
	}
	low = withoutConditions(low)
	if hasPhrase(low, c.phrases.lists["confirms"]...) {
		return true
	}
	before := ""
	for word := range strings.FieldsFuncSeq(low, func(r rune) bool { return !unicode.IsLetter(r) }) {
		if !c.phrases.inList("unconfirmed", before) && (c.isDone(word) || c.phrases.inList("participle", word)) {
			return true
		}
		before = word
	}
	return false
}

// withoutConditions removes the clauses that begin with "until", "if" or a like word, up to a comma or the end of the
// sentence, and the states that remain: "it remains confirmed".
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

// isDone reports whether a word is the past participle of a verb in the name of the tool: "booked" of
// book_table.
func (c *toolCall) isDone(word string) bool {
	return slices.ContainsFunc(c.nameWords, func(verb string) bool {
		stem := strings.TrimRight(verb, "ey")
		return (c.phrases.inList("verb changes", verb) || c.phrases.inList("verb first", verb)) && len(stem) > 1 && strings.HasPrefix(word, stem) &&
			(strings.HasSuffix(word, "ed") || strings.HasSuffix(word, "id") || word == verb && strings.HasSuffix(verb, "set")) && len(word) <= len(verb)+4
	})
}

// looksUp reports whether a tool returns one requested object. A tool that searches or lists may find nothing
// without a failure.
func (c *toolCall) looksUp() bool {
	return c.has("get", "read", "show", "retrieve", "find", "lookup", "look", "fetch") && !c.has("search", "list") || c.has("by") && c.has("id")
}

// reportsNotDone reports whether the first clause of an answer says that nothing was done.
func (c *toolCall) reportsNotDone(clause string) bool {
	if hasPhrase(clause, c.phrases.lists["no-complaint"]...) && !hasPhrase(clause, "not", "no", "cannot", "failed") {
		return false
	}
	if startsWord(clause, "no", "none", "nothing", "there is no", "there's no", "there are no") &&
		!startsWord(clause, "no problem", "no further", "no additional", "no extra", "no fee", "no charge") ||
		strings.Contains(clause, "n't ") && !hasPhrase(clause, "don't need", "don't have to") {
		return true
	}
	return slices.ContainsFunc(c.phrases.lists["action-fails"], func(word string) bool {
		// "Claim rejected" is a success of a tool that rejects claims.
		named := slices.ContainsFunc(c.nameWords, func(w string) bool { return len(w) > 3 && len(word) > 3 && w[:4] == word[:4] })
		return !named && !c.isDone(word) && hasPhrase(clause, word)
	})
}

// reportsUndone reports whether a later sentence says that something was not done, after a first sentence that
// reports no success: "The seat was taken by another guest. The visit was not booked."
func (c *toolCall) reportsUndone(sentences []string) bool {
	first := sentences[0]
	if hasPhrase(first, c.phrases.lists["no-complaint"]...) || hasPhrase(first, "has been", "have been", "confirmed", "done", "booked", "ok") {
		return false
	}
	return slices.ContainsFunc(sentences[1:], func(s string) bool {
		return hasPhrase(s, "was not", "were not", "not been", "wasn't", "weren't", "hasn't been", "haven't been", "nothing was")
	})
}

// namesNone reports whether a sentence says that the requested object does not exist: "There is no patient with
// this number" of get_patient.
func (c *toolCall) namesNone(sentence string) bool {
	sentence = strings.TrimSpace(sentence)
	for _, lead := range []string{"there is no ", "there's no ", "no "} {
		rest, ok := strings.CutPrefix(sentence, lead)
		noun, rest, _ := strings.Cut(rest, " ")
		switch {
		case !ok, noun == "", !slices.Contains(c.nameWords, noun):
		case startsWord(rest, "with", "for", "under", "called", "named", "matches", "matched", "matching", "exists"):
			// "No orders for today" of a search is an answer.
			return lead != "no " || c.looksUp() && !strings.HasSuffix(noun, "s") || c.changesState()
		default:
			name, _, _ := strings.Cut(rest, " ")
			return c.hasArgument(name) || lead != "no " && c.hasArgument(strings.TrimSpace(rest))
		}
	}
	return false
}

// namesGone reports whether a sentence says that the requested object was removed or does not exist: "This
// photo was deleted in May" of get_photo.
func (c *toolCall) namesGone(sentence string) bool {
	who, noun, _ := strings.Cut(sentence, " ")
	noun, rest, _ := strings.Cut(noun, " ")
	return startsWord(who, "this", "that", "the") && slices.Contains(c.nameWords, noun) &&
		startsWord(rest, "was deleted", "has been deleted", "was removed", "has been removed", "does not exist", "doesn't exist", "no longer exists")
}

// hasArgument reports whether a text in lower case is the value of an argument of the call.
func (c *toolCall) hasArgument(text string) bool {
	return text != "" && slices.ContainsFunc(c.args.vals, func(v lenientValue) bool {
		return v.kind == stringValue && strings.EqualFold(v.text(), text) || v.kind == numberValue && v.raw == text
	})
}

// changesState reports whether a tool changes state. The first known verb in its name decides.
func (c *toolCall) changesState() bool {
	if len(c.nameWords) > 1 && c.phrases.inList("verb first", c.nameWords[0]) {
		return !slices.ContainsFunc(c.nameWords, func(w string) bool { return c.phrases.inList("verb looks", w) })
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

// firstClause returns a sentence without the clause for the reason or the consequence.
func firstClause(sentence string) string {
	for _, end := range []string{": ", "; ", ", ", " because ", " since ", " and ", " - "} {
		if before, _, ok := strings.Cut(sentence, end); ok && strings.Contains(before, " ") {
			sentence = before
		}
	}
	return sentence
}

// withoutQuotes removes the parts of a text in double quotes.
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

// endFailureRule returns the rule of a failure after some lines of progress ("Uploading...", "[2/3] Building",
// "40%"), "" for none. At most three lines with a hint may follow the failure.
func (p *phrases) endFailureRule(text string) string {
	const maxLines, maxHint = 12, 3
	text = strings.TrimSpace(text)
	if strings.IndexByte(text, '\n') < 0 || len(text) > 2000 || strings.Count(text, "\n") > maxLines {
		return ""
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		t := plainLine(line)
		failed := hasPrefixOf(t, failSigns)
		if !failed && (t == "" || isProgress(t)) {
			continue
		}
		rest := lines[i+1:]
		if i == 0 || len(rest) > maxHint || slices.ContainsFunc(rest, func(l string) bool { return isProgress(plainLine(l)) }) {
			return ""
		}
		if rule, bad := p.statement(t); bad {
			return rule
		}
		if failed {
			return "sign"
		}
		return ""
	}
	return ""
}

// failSigns are the symbols that mark a failure.
//
//nolint:gochecknoglobals // immutable
var failSigns = []string{"💥", "❌", "🚨", "⛔", "🛑", "🚫", "✖", "✗", "✘"}

// isProgress reports whether a line reports the progress of a task.
func isProgress(t string) bool {
	step, more, _ := strings.Cut(t, " ")
	if step == "Step" || step == "Stage" {
		step, _, _ = strings.Cut(more, " ")
	}
	done, total, ok := strings.Cut(strings.Trim(step, "[]():"), "/")
	return strings.HasSuffix(t, "...") || strings.HasSuffix(t, "…") || strings.HasSuffix(t, "%") ||
		strings.HasSuffix(t, "... done") || strings.HasSuffix(t, "... ok") || strings.HasSuffix(t, "... OK") ||
		ok && isNumber(done) && isNumber(total) || withoutSigns(t) != t ||
		hasPrefixOf(t, []string{"✓ ", "✔ ", "✅ ", "☑ ", "==> ", "--> ", "-----> "})
}
