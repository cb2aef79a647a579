package detect

import (
	"slices"
	"strings"
)

// errorMessageRule returns the rule by which a text as a whole is an error message. The first line of such a text
// begins with typical words, or is a short sentence that ends with typical words.
func (p *phrases) errorMessageRule(text string) (string, bool) {
	text = strings.TrimSpace(text)
	text = strings.TrimPrefix(text, "╷\n") // terraform draws a box around an error
	first, rest, _ := strings.Cut(text, "\n")
	first = plainLine(first)
	if first == "" {
		return "", false
	}
	short := len(text) <= 300 && strings.Count(rest, "\n") < 3
	if low := strings.ToLower(cutText(first, 24)); !p.message.errors.match(low) {
		first = withoutSymbols(first)
	}
	low := strings.ToLower(cutText(first, 160))
	switch {
	case reportsZeroErrors(low):
		return "", false
	case p.startsWithError(low, short):
		return "error-first", true
	case isExceptionLine(first):
		return "exception-first", true
	case isMySQLError(first):
		return "error-first", true
	case p.startsWithUnable(low, first):
		return "unable", true
	case short && p.message.invalid.match(low):
		return "invalid", true
	case short && rest == "" && (p.endsWithMissingPhrase(firstSentence(withoutCode(low))) || containsAny(low, p.lists["missing-anywhere"]...)):
		return "no-such", true
	case p.isStatusLine(low, short):
		return "http", true
	}
	return "", false
}

// startsWithError reports whether a text begins with error words. Words with which other content can also begin
// ("Forbidden Planet is a film") count only in a short text or at the end of a clause.
func (p *phrases) startsWithError(low string, short bool) bool {
	if p.message.errors.match(low) || failsDoing(low) {
		return true
	}
	for _, m := range p.message.errorEnds.byFirstByte(low) {
		rest, ok := strings.CutPrefix(low, m.text)
		if ok && (endsClause(rest) || short && !isLetterAt(rest, 0)) {
			return true
		}
	}
	for _, m := range p.message.errorAlone.byFirstByte(low) {
		if rest, ok := strings.CutPrefix(low, m.text); ok && endsClause(rest) {
			return true
		}
	}
	_, afterCount, _ := strings.Cut(low, " ")
	switch {
	case strings.HasPrefix(low, "near \"") && strings.Contains(low, "\": syntax error"), // SQLite
		strings.HasPrefix(low, "code: ") && strings.Contains(low, " db::exception: "),        // ClickHouse
		strings.HasPrefix(low, "-32") && len(low) > 6 && isNumber(low[1:6]) && low[6] == ':', // JSON-RPC
		strings.HasSuffix(low, ": sql compilation error:"),                                   // Snowflake
		strings.Contains(cutText(low, 60), ": net::err_"),                                    // Chromium
		low[0] >= '1' && low[0] <= '9' && hasAnyPrefix(afterCount, p.lists["counted-errors"]),
		strings.Contains(low, " tool was called with invalid arguments"), // opencode
		strings.HasPrefix(low, "404 ") && strings.Contains(low, "not found"):
		return true
	}
	return false
}

// failsDoing matches "error importing prices: no such module", but not "error handling works: yes".
func failsDoing(low string) bool {
	rest, ok := strings.CutPrefix(low, "error ")
	verb, object, _ := strings.Cut(rest, " ")
	return ok && len(verb) > 5 && strings.HasSuffix(verb, "ing") &&
		(strings.Contains(object, ": ") || strings.HasSuffix(object, ":")) &&
		!slices.Contains([]string{"handling", "logging", "reporting", "tracking", "checking"}, verb)
}

func reportsZeroErrors(low string) bool {
	word, rest, ok := strings.Cut(low, ": ")
	count, _, _ := strings.Cut(strings.ReplaceAll(rest, ".", ","), ",")
	return ok && strings.Count(word, " ") < 2 && slices.Contains([]string{"0", "none", "null", "[]"}, count)
}

func endsClause(rest string) bool { return rest == "" || strings.IndexByte(":.!([", rest[0]) >= 0 }

// startsWithUnable matches "Could not find [x]" and "Failed to open y". The next word must not begin with a capital, as
// in the title "Failed States".
func (p *phrases) startsWithUnable(low, first string) bool {
	for _, m := range p.message.unable.byFirstByte(low) {
		if strings.HasPrefix(low, m.text) && len(first) > len(m.text) {
			c := first[len(m.text)]
			return c >= 'a' && c <= 'z' || c == '\'' || c == '"' || c == '`' || c == '['
		}
	}
	return false
}

// withoutCode removes code in backticks, except at the start of a sentence.
func withoutCode(low string) string {
	const minLead = 24
	before, quoted, ok := strings.Cut(low, "`")
	code, after, closed := strings.Cut(quoted, "`")
	if !ok || !closed || len(before) < minLead || !strings.Contains(code, " ") {
		return low
	}
	return before + withoutCode(after)
}

func firstSentence(low string) string {
	if i := strings.Index(low, ". "); i > 0 {
		return low[:i]
	}
	return low
}

func (p *phrases) endsWithMissingPhrase(low string) bool {
	if strings.HasPrefix(low, "no ") && strings.Contains(low, "found") || // an answer, not a failure
		strings.HasPrefix(low, "0 ") || strings.Contains(low, "success") {
		return false
	}
	for i := range len(low) - 1 { // there is a space before each phrase, so one pass finds any of them
		if low[i] == ' ' && p.startsWithMissingPhrase(low[i+1:]) {
			return true
		}
	}
	return strings.HasSuffix(low, " failed") || strings.HasSuffix(low, " not found")
}

// startsWithMissingPhrase reports whether a text begins with a phrase such as "does not exist.". If the phrase is at
// the end of the text, the period may be missing.
func (p *phrases) startsWithMissingPhrase(text string) bool {
	return slices.ContainsFunc(p.message.missing.byFirstByte(text), func(m ruledPhrase) bool {
		rest, ok := strings.CutPrefix(m.text, text)
		return ok && (rest == "" || rest == ".") || strings.HasPrefix(text, m.text)
	})
}

// isStatusLine reports whether a text has an HTTP status from 400 to 599 in a place where HTTP clients print it. That
// is after a phrase in the "status-behind" list ("http/1.1 ") at the start of the text. In a short text, the status can
// also come after a phrase in the "status-in" list ("status code "), or be at the start, before a word in the
// "status-word" list ("forbidden").
func (p *phrases) isStatusLine(low string, short bool) bool {
	for _, lead := range p.lists["status-behind"] {
		if rest, ok := strings.CutPrefix(low, lead); ok && startsWithFailStatus(rest) {
			return true
		}
	}
	if rest, ok := strings.CutPrefix(low, "error "); ok && startsWithFailStatus(rest) && endsClause(rest[3:]) {
		return true
	}
	first := startsWithFailStatus(low)
	if first && hasAnyPrefix(low[3:], []string{" client error: ", " server error: "}) { // requests (Python)
		return true
	}
	if !short {
		return false
	}
	for _, lead := range p.lists["status-in"] {
		if _, rest, ok := strings.Cut(low, lead); ok && startsWithFailStatus(rest) {
			return true
		}
	}
	return first && len(low) > 4 && len(low) < 60 && (low[3] == ' ' || low[3] == ':') &&
		containsAny(low, p.lists["status-word"]...)
}

func startsWithFailStatus(s string) bool {
	return len(s) >= 3 && (s[0] == '4' || s[0] == '5') && isNumber(s[1:3]) &&
		(len(s) == 3 || !isDigit(s[3]) && s[3] != '.')
}

// isErrorMessageField reports whether a field that holds the whole answer is an error message. Even words that would be
// too vague in a longer text count here.
func (p *phrases) isErrorMessageField(message string) bool {
	low := strings.ToLower(cutText(strings.TrimSpace(message), 300))
	if low == "" || containsAny(low, p.lists["no-complaint"]...) {
		return false
	}
	if _, ok := p.errorMessageRule(message); ok {
		return true
	}
	return containsAny(low, p.lists["complaint"]...)
}

const maxPageHead = 6 << 10 // bytes that are searched for an error title

// hasErrorTitle matches "<title>404 ..." and "screenshot of [404 Not Found](...)".
func (p *phrases) hasErrorTitle(head string) bool {
	title, ok := betweenTags(head, "<title>", "</title>")
	if !ok {
		if title, ok = betweenTags(head, "screenshot of [", "]("); !ok {
			return false
		}
	}
	low := strings.ToLower(strings.TrimSpace(cutText(title, 120)))
	if len(low) >= 3 && startsWithFailStatus(low) && len(low) < 60 {
		return true
	}
	return low == "error" || hasAnyPrefix(low, []string{"error 4", "error 5"}) || containsAny(low, p.lists["page-title"]...)
}

// errorPageRule returns the rule for an error page. A line that begins with "Error: " counts only if isPage is true,
// because other texts may quote an error.
func (p *phrases) errorPageRule(text string, isPage bool) (string, bool) {
	const maxHeading = 12 // lines in which a heading can be
	head := cutText(text, maxPageHead)
	switch {
	case containsAny(head, "](chrome-error://", "(about:neterror"),
		containsAny(text, "DNS_PROBE_FINISHED", "\nERR_CONNECTION_", "\nERR_NAME_NOT_RESOLVED"):
		return "unreachable", true
	case p.hasErrorTitle(head):
		return "http", true
	}
	n := 0
	for line := range strings.SplitSeq(head, "\n") {
		t := plainLine(line)
		if t == "" {
			continue
		}
		if n++; n > maxHeading && !isPage {
			break
		}
		low := strings.ToLower(cutText(t, 80))
		switch {
		case n <= maxHeading && hasAnyPrefix(low, p.lists["page-heading"]):
			return "http", true
		case isPage && (strings.HasPrefix(low, "error. ") || strings.HasPrefix(low, "error: ")):
			if rule, bad := p.errorMessageRule(strings.TrimLeft(low[6:], " ")); bad {
				return rule, true
			}
		}
	}
	return "", false
}
