package detect

import (
	"slices"
	"strings"
)

// statement says whether a text, taken as a whole, is the message of something that went wrong: it
// begins as such messages begin, or it is one short sentence that ends as they end. The first line
// decides; what follows it may be anything.
func (p *phrases) statement(text string) (string, bool) {
	text = strings.TrimSpace(text)
	first, rest, _ := strings.Cut(text, "\n")
	first = plain(first)
	if first == "" {
		return "", false
	}
	short := len(text) <= 300 && strings.Count(rest, "\n") < 3
	low := strings.ToLower(cutText(first, 160))
	switch {
	case none(low):
		return "", false
	case p.startsError(low, short):
		return "error-first", true
	case exceptionLine(first):
		return "exception-first", true
	case mysqlError(first):
		return "error-first", true
	case p.startsUnable(low, first):
		return "unable", true
	case short && p.invalid.opens(low):
		return "invalid", true
	case short && rest == "" && p.endsUnable(firstSentence(low)):
		return "no-such", true
	case p.httpLine(low, short):
		return "http", true
	}
	return "", false
}

// startsError: words that no content begins with. Where content may ("Forbidden Planet is a film"),
// the text must be short, or the words must end there.
func (p *phrases) startsError(low string, short bool) bool {
	if p.errors.opens(low) {
		return true
	}
	for _, m := range p.errorEnds.of(low) {
		rest, ok := strings.CutPrefix(low, m.text)
		if ok && (endsThere(rest) || short && !letterAt(rest, 0)) {
			return true
		}
	}
	for _, m := range p.errorAlone.of(low) {
		if rest, ok := strings.CutPrefix(low, m.text); ok && endsThere(rest) {
			return true
		}
	}
	_, counted, _ := strings.Cut(low, " ")
	switch {
	case strings.HasPrefix(low, "near \"") && strings.Contains(low, "\": syntax error"), // SQLite
		strings.HasPrefix(low, "code: ") && strings.Contains(low, " db::exception: "), // ClickHouse
		strings.Contains(cutText(low, 60), ": net::err_"),                             // Chromium
		low[0] >= '1' && low[0] <= '9' && hasPrefixOf(counted, p.lists["counted-errors"]),
		strings.Contains(low, " tool was called with invalid arguments"), // opencode
		strings.HasPrefix(low, "404 ") && strings.Contains(low, "not found"):
		return true
	}
	return false
}

// none: a report says that there were none: "errors: 0".
func none(low string) bool {
	word, rest, ok := strings.Cut(low, ": ")
	count, _, _ := strings.Cut(rest, ",")
	return ok && !strings.Contains(word, " ") && slices.Contains([]string{"0", "none", "null", "[]"}, count)
}

// endsThere: nothing follows, or a sign that ends the words.
func endsThere(rest string) bool { return rest == "" || strings.IndexByte(":.!([", rest[0]) >= 0 }

// startsUnable: "Could not find [x]", "Failed to open y": a verb follows in lower case. Titles that
// begin alike are written with a capital ("Failed States").
func (p *phrases) startsUnable(low, first string) bool {
	for _, m := range p.unable.of(low) {
		if strings.HasPrefix(low, m.text) && len(first) > len(m.text) {
			c := first[len(m.text)]
			return c >= 'a' && c <= 'z' || c == '\'' || c == '"' || c == '`' || c == '['
		}
	}
	return false
}

func firstSentence(low string) string {
	if i := strings.Index(low, ". "); i > 0 {
		return low[:i]
	}
	return low
}

// endsUnable: one short sentence that says what is missing or forbidden.
func (p *phrases) endsUnable(low string) bool {
	if strings.HasPrefix(low, "no ") && strings.Contains(low, "found") || // an answer
		strings.HasPrefix(low, "0 ") || strings.Contains(low, "success") {
		return false
	}
	for i := range len(low) - 1 { // all of them begin with a space: looked for once, not forty times
		if low[i] == ' ' && p.missingAt(low[i+1:]) {
			return true
		}
	}
	return strings.HasSuffix(low, " failed") || strings.HasSuffix(low, " not found")
}

// missingAt: the text goes on with words that say so. A sentence may end in place of a full stop.
func (p *phrases) missingAt(text string) bool {
	return slices.ContainsFunc(p.missing.of(text), func(m meaning) bool {
		return strings.HasPrefix(text, m.text) || text+"." == m.text
	})
}

// httpLine: a status of 400 and above where clients put it.
func (p *phrases) httpLine(low string, short bool) bool {
	for _, lead := range p.lists["status-behind"] {
		if rest, ok := strings.CutPrefix(low, lead); ok && failStatus(rest) {
			return true
		}
	}
	if rest, ok := strings.CutPrefix(low, "error "); ok && failStatus(rest) && endsThere(rest[3:]) {
		return true
	}
	first := failStatus(low)
	if first && hasPrefixOf(low[3:], []string{" client error: ", " server error: "}) { // requests
		return true
	}
	if !short {
		return false
	}
	for _, lead := range p.lists["status-in"] {
		if _, rest, ok := strings.Cut(low, lead); ok && failStatus(rest) {
			return true
		}
	}
	return first && len(low) > 4 && len(low) < 60 && (low[3] == ' ' || low[3] == ':') &&
		hasWord(low, p.lists["status-word"]...)
}

// failStatus: three digits, 400 to 599, and nothing that makes them another number.
func failStatus(s string) bool {
	return len(s) >= 3 && (s[0] == '4' || s[0] == '5') && isNumber(s[1:3]) &&
		(len(s) == 3 || !isDigit(s[3]) && s[3] != '.')
}

// complaint says whether the message field of an API's answer complains. Such an answer holds
// nothing but the message, so weaker words suffice than in free text.
func (p *phrases) complains(message string) bool {
	low := strings.ToLower(cutText(strings.TrimSpace(message), 300))
	if low == "" || hasWord(low, p.lists["no-complaint"]...) {
		return false
	}
	if _, ok := p.statement(message); ok {
		return true
	}
	return hasWord(low, p.lists["complaint"]...)
}
