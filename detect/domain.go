package detect

import (
	"slices"
	"strings"
)

// Tools of a domain answer in words. A tool that returns texts (a translation) or records (a film, an exam)
// may return content with words such as "failed". A tool that acts (a booking) reports in its first clause
// that nothing was done.

// isContent reports whether a text with the words of a failure is the content that the tool returns, not a
// message about the call. "Error:" is content only for a tool that returns any text.
func (c *toolCall) isContent(rule, text string) bool {
	low := strings.ToLower(cutText(text, 300))
	switch {
	case c.nameMatches("text"):
	case !c.returnsRecords():
		return hasPrefixOf(low, c.phrases.lists["word-class"])
	case rule == "http" || rule == "exception-first" || c.phrases.message.errors.match(low):
		return hasPrefixOf(low, c.phrases.lists["word-class"])
	}
	if hasPhrase(low, c.phrases.lists["about-call"]...) {
		return false
	}
	return !slices.ContainsFunc(c.words, func(w string) bool {
		return len(w) > 2 && hasPhrase(low, w+" not found", "no "+w, w+" does not exist", "failed to "+w, "unable to "+w)
	})
}

// returnsRecords reports whether a tool returns records or articles. At the start of a name, "book" is a verb.
// A tool that deletes or changes records acts.
func (c *toolCall) returnsRecords() bool {
	return c.nameMatches("record") && c.words[0] != "book" && !c.phrases.inList("verb changes", c.words[0])
}

// maxClause is the number of bytes of an answer in words that may be a message.
const maxClause = 300

// domainFails returns the rule of a short answer in words that reports a failure of the call.
func (c *toolCall) domainFails(text string) string {
	if c.purpose == purposeOther && len(text) <= maxClause && c.namesNone(text) {
		return "no-such"
	}
	if c.purpose != purposeOther || len(text) > maxClause || strings.Count(text, "\n") > 2 ||
		strings.Contains(text, "|") || c.nameMatches("text") || c.returnsRecords() || c.nameMatches("person") && !c.changesState() {
		return ""
	}
	low := withoutQuotes(fold(withoutSigns(plain(text))))
	sentence := low
	if i := strings.IndexAny(low, ".!"); i > 0 {
		sentence = low[:i]
	}
	switch {
	case hasPhrase(sentence, c.phrases.lists["service-fails"]...), containsAny(low, "try again later"):
		return "service"
	case startsWord(sentence, "no", "there is no") && c.has("get", "read", "show", "retrieve") && hasPhrase(sentence, "with", "exists"):
		return "no-such"
	case !c.changesState():
		return ""
	}
	clause := firstClause(sentence)
	if hasPhrase(clause, c.phrases.lists["no-complaint"]...) && !hasPhrase(clause, "not", "no", "cannot", "failed") {
		return ""
	}
	for _, word := range c.phrases.lists["action-fails"] {
		// For a tool that rejects claims, "Claim rejected" is a success.
		named := slices.ContainsFunc(c.words, func(w string) bool { return len(w) > 3 && len(word) > 3 && w[:4] == word[:4] })
		if !named && hasPhrase(clause, word) {
			return "not-done"
		}
	}
	return ""
}

// namesNone reports whether a text says that no object of the tool fits: "There is no patient with this number"
// of get_patient.
func (c *toolCall) namesNone(text string) bool {
	rest, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(text)), "there is no ")
	noun, rest, _ := strings.Cut(rest, " ")
	return ok && slices.Contains(c.words, noun) && startsWord(rest, "with", "for", "under", "called", "named")
}

// changesState reports whether a tool of a domain changes something: the first verb of the name decides.
func (c *toolCall) changesState() bool {
	for _, w := range c.words {
		if c.phrases.inList("verb looks", w) {
			return false
		}
		if c.phrases.inList("verb changes", w) {
			return true
		}
	}
	return false
}

// firstClause returns a sentence up to the reason or the consequence.
func firstClause(sentence string) string {
	for _, end := range []string{": ", "; ", ", ", " because ", " since ", " and ", " - "} {
		if before, _, ok := strings.Cut(sentence, end); ok && strings.Contains(before, " ") {
			sentence = before
		}
	}
	return sentence
}

// withoutQuotes removes the quoted parts of a text.
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

// endsInFailure returns the rule of a failure that follows a few lines of progress: "Uploading...",
// "[2/3] Building", "40%".
func (p *phrases) endsInFailure(text string) string {
	const maxLines = 12
	text = strings.TrimSpace(text)
	i := strings.LastIndexByte(text, '\n')
	if i < 0 || len(text) > 2000 || strings.Count(text, "\n") > maxLines {
		return ""
	}
	for line := range strings.SplitSeq(text[:i], "\n") {
		if t := plain(line); t != "" && !isProgress(t) {
			return ""
		}
	}
	last := text[i+1:]
	if rule, bad := p.statement(last); bad {
		return rule
	}
	return ""
}

// isProgress reports whether a line reports the progress of a task.
func isProgress(t string) bool {
	step, _, _ := strings.Cut(t, " ")
	done, total, ok := strings.Cut(strings.Trim(step, "[]()"), "/")
	return strings.HasSuffix(t, "...") || strings.HasSuffix(t, "…") || strings.HasSuffix(t, "%") ||
		ok && isNumber(done) && isNumber(total) || withoutSigns(t) != t
}
