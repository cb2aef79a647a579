package detect

import "strings"

// statement says whether a text, taken as a whole, is the message of something that went wrong: it
// begins as such messages begin, or it is one short sentence that ends as they end. The first line
// decides; what follows it may be anything.
func statement(text string) (string, bool) {
	text = strings.TrimSpace(text)
	first, rest, _ := strings.Cut(text, "\n")
	first = plain(first)
	if first == "" {
		return "", false
	}
	short := len(text) <= 300 && strings.Count(rest, "\n") < 3
	low := strings.ToLower(cutText(first, 160))
	switch {
	case startsError(low, short):
		return "error-first", true
	case exceptionLine(first):
		return "exception-first", true
	case startsUnable(low, first):
		return "unable", true
	case short && startsInvalid(low):
		return "invalid", true
	case short && rest == "" && endsUnable(firstSentence(low)):
		return "no-such", true
	case httpLine(low, short):
		return "http", true
	}
	return "", false
}

// opens is strings.HasPrefix of a p that is not empty, for long lists of them: the first byte tells
// most of them apart.
func opens(s, p string) bool {
	return len(s) >= len(p) && s[0] == p[0] && s[:len(p)] == p
}

// startsError: words that no content begins with. Where content may ("Forbidden Planet is a film"),
// the text must be short, or the words must end there.
func startsError(low string, short bool) bool {
	for _, p := range []string{
		"error:", "error -", "error!", "error. ", "error (", "error [", "errors:", "err:", "err!", "[error]", "*error*", "**error", "❌", "✖ ", "✗ ", "fatal:", "panic:", "fail:", "failed:", "failure:",
		"exception:", "exception in ", "unhandled exception", "unhandled error", "uncaught exception", "uncaught error", "an error occurred", "an unexpected error", "a error occurred", "there was an error", "an exception occurred",
		"error executing", "error running", "error calling", "error while", "error during", "error when", "error invoking", "error in tool", "error editing", "error reading", "error writing", "error searching",
		"error applying", "error parsing", "error fetching", "error loading", "error occurred", "error response", "error processing", "error creating", "error getting", "error opening", "error accessing", "http error",
		"<tool_use_error>", "<error>", "<error_details>", "mcp error", "mcp server error", "the tool execution failed", "tool execution failed", "tool call failed",
		"command failed with", "command failed:", "command timed out", "the command timed out", "request failed with", "request timed out", "request invalid", "inputvalidationerror",
		"string to replace not found", "file has not been read", "file has been modified since", "file has been unexpectedly modified", "no replacement was performed", "no changes to make", "old_string not found",
		"oldtext not found", "apply_patch verification failed", "eacces:", "enoent:", "eisdir:", "eperm:", "enotdir:", "etimedout", "econnrefused", "your proposed edit has introduced", "no such function name",
	} {
		if opens(low, p) {
			return true
		}
	}
	for _, p := range []string{
		"fatal error", "error code", "error from", "error at", "tool error", "tool failed", "execution failed", "execution error", "command failed", "request failed", "request error",
		"validation failed", "validation error", "runtime error", "syntax error", "bad request", "access denied", "permission denied", "internal server error", "service unavailable", "not found",
		"too many requests", "rate limit", "rate limited", "timed out", "connection refused", "connection error", "connection timed out", "connection failed", "network error", "authentication failed",
		"authentication required", "authorization failed", "authentication error", "missing required", "no such tool", "no such file", "unknown tool", "unknown function", "unknown command", "unknown action", "tool not found",
		"function not found", "file not found", "path not found", "host not found", "patch failed", "invalid patch", "invalid context", "invalid arguments", "invalid input", "invalid parameter", "invalid argument",
		"invalid json", "required parameter", "out of memory", "quota exceeded", "script execution failed", "no changes were made", "operation failed", "operation timed out",
	} {
		if opens(low, p) && (endsThere(low[len(p):]) || short && !letterAt(low, len(p))) {
			return true
		}
	}
	for _, p := range []string{"error", "failed", "failure", "forbidden", "unauthorized", "timeout", "invalid", "denied", "exception"} {
		if opens(low, p) && endsThere(low[len(p):]) {
			return true
		}
	}
	if strings.HasPrefix(low, "params must have required") || strings.Contains(low, " tool was called with invalid arguments") {
		return true // opencode and qwen refuse arguments in these words
	}
	return strings.HasPrefix(low, "404 ") && strings.Contains(low, "not found")
}

// endsThere: nothing follows, or a sign that ends the words.
func endsThere(rest string) bool { return rest == "" || strings.IndexByte(":.!([", rest[0]) >= 0 }

// startsUnable: "Could not find [x]", "Failed to open y": a verb follows in lower case. Titles that
// begin alike are written with a capital ("Failed States").
func startsUnable(low, first string) bool {
	for _, p := range []string{
		"could not ", "couldn't ", "cannot ", "can't ", "can not ", "failed to ", "unable to ", "was unable to ", "not able to ",
		"i could not ", "i couldn't ", "i was unable to ", "sorry, i couldn't", "the tool could not", "the file could not", "failed with ", "failure to ",
	} {
		if opens(low, p) && len(first) > len(p) {
			c := first[len(p)]
			return c >= 'a' && c <= 'z' || c == '\'' || c == '"' || c == '`' || c == '['
		}
	}
	return false
}

// startsInvalid: words that content may begin with too; only a short text of these is a message.
func startsInvalid(low string) bool {
	for _, p := range []string{
		"invalid ", "unknown ", "unrecognized ", "unrecognised ", "unexpected ", "unsupported ", "illegal ", "no such ", "missing ", "bad ", "not allowed", "not permitted", "not supported",
		"not authorized", "not authenticated", "syntaxerror", "expired ", "denied", "nonexistent", "no file named", "no module named", "no match for", "duplicate ", "refused",
	} {
		if opens(low, p) {
			return true
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
func endsUnable(low string) bool {
	if strings.HasPrefix(low, "no ") && strings.Contains(low, "found") || strings.HasPrefix(low, "0 ") || strings.Contains(low, "success") {
		return false // "No matches found" is an answer
	}
	for i := range len(low) - 1 { // all of them begin with a space: looked for once, not forty times
		if low[i] == ' ' && unableAt(low[i:]) {
			return true
		}
	}
	return strings.HasSuffix(low, " failed") || strings.HasSuffix(low, " not found")
}

// unableAt: the text goes on with words that say so.
func unableAt(text string) bool {
	for _, s := range [...]string{
		" not found", " does not exist", " doesn't exist", " doesn't exists", " do not exist", " is required", " are required", " is not allowed", " not permitted", " is not a valid", " is not valid",
		" is not an absolute path", " is not supported", " already exists", " has expired", " is invalid", " must be ", " could not be ", " cannot be ", " can't be ", " can not be ", " did not appear",
		" is not a directory", " is a directory", " is not a file", " exceeds ", " timed out", " is not defined", " is not installed", " is not recognized", " permission denied", " access denied", " no such file",
		" failed.", " failed:", " was unsuccessful", " is not accessible", " unauthorized", " is forbidden", " is denied", " beyond end of file", " beyond the end of", " is out of range",
	} {
		if s[1] == text[1] && (strings.HasPrefix(text, s) || s[len(s)-1] == '.' && text == s[:len(s)-1]) {
			return true
		}
	}
	return false
}

// httpLine: a status of 400 and above where clients put it.
func httpLine(low string, short bool) bool {
	for _, p := range []string{"http error ", "http/1.1 ", "http/2 ", "http/1.0 ", "http ", "status code: ", "status: ", "error code: "} {
		if rest, ok := strings.CutPrefix(low, p); ok && failStatus(rest) {
			return true
		}
	}
	if !short {
		return false
	}
	for _, p := range []string{"status code ", "status_code=", "status code: ", "status=", "http error ", "http status ", "(http "} {
		if _, rest, ok := strings.Cut(low, p); ok && failStatus(rest) {
			return true
		}
	}
	return failStatus(low) && len(low) > 4 && (low[3] == ' ' || low[3] == ':') && strings.ContainsAny(low[4:], "abcdefghijklmnopqrstuvwxyz") && len(low) < 60 &&
		hasWord(low, "error", "not", "unauthorized", "forbidden", "bad", "unavailable", "gateway", "timeout", "requests", "gone", "conflict")
}

// failStatus: three digits, 400 to 599, and nothing that makes them another number.
func failStatus(s string) bool {
	return len(s) >= 3 && (s[0] == '4' || s[0] == '5') && isDigit(s[1]) && isDigit(s[2]) && (len(s) == 3 || !isDigit(s[3]) && s[3] != '.')
}

func hasWord(s string, words ...string) bool {
	for _, w := range words {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}

// complaint says whether the message field of an API's answer complains. Such an answer holds
// nothing but the message, so weaker words suffice than in free text.
func complaint(message string) bool {
	low := strings.ToLower(cutText(strings.TrimSpace(message), 300))
	if low == "" || hasWord(low, "success", "created", "updated", "deleted", "accepted", "welcome", "completed", "queued", "saved", "sent ") {
		return false
	}
	if _, ok := statement(message); ok {
		return true
	}
	return hasWord(low, "not ", "n't", " must", "must ", "invalid", "unknown", "exceed", "required", "denied", "forbidden", "unauthor", "error", "fail", "missing", "expired", "limit ", "bad request",
		"unable", "cannot", "no such", "too many", "unsupported", "illegal", "unexpected", "rejected", "not found", "não ", "nicht", "inválid", "erro ", "ungültig", "unavailable", "no longer", "disabled", "suspended")
}
