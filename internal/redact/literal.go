package redact

import (
	"bytes"
	"slices"
	"strings"
)

// This file finds string literals in source code, and distinguishes literal values from variables, templates and
// references.

const strongSymbols = "!@#%^&*?~"

func isStrong(v []byte) bool {
	return bytes.ContainsAny(v[1:], strongSymbols) && hasDigit(v) && isMixed(v)
}

// isLiteral reports whether v is not a variable, template or mask such as $X, ${X}, {{x}}, <x>, %X%, [x], #{x}, @x@,
// __x__ or ****.
func isLiteral(v []byte) bool {
	const opening, closing = "$%*{<([", "$%*}>)]"
	if len(v) == 0 {
		return false
	}
	if bytes.HasPrefix(v, []byte("#{")) || bytes.HasPrefix(v, []byte("@")) && v[len(v)-1] == '@' || bytes.HasPrefix(v, []byte("__")) && bytes.HasSuffix(v, []byte("__")) {
		return false
	}
	kind := strings.IndexByte(opening, v[0])
	if kind < 0 {
		return true
	}
	if len(v) == 1 || v[len(v)-1] == closing[kind] || v[0] == v[1] || strings.IndexByte("{(%", v[1]) >= 0 {
		return false
	}
	if v[0] == '%' && len(v) > 2 && byteClass[v[1]]&byteClass[v[2]]&hexByte != 0 {
		return true
	}
	return bytes.ContainsAny(v[1:], strongSymbols) && isMixed(v) // $ecret99! is not a variable
}

func isPath(v []byte) bool {
	if v[0] == '/' || v[0] == '~' {
		parts := bytes.IndexByte(v[1:], '/') >= 0 && !bytes.ContainsAny(v[1:], "!@#%^*?=;|")
		return parts || !hasBothCases(v) || !hasDigit(v)
	}
	return bytes.Contains(v, []byte("://"))
}

// isReference reports whether v refers to a secret store, such as vault:secret/db#password, arn:aws:secretsmanager:...
// or the YAML tag !vault.
func isReference(v []byte) bool {
	const minLen = 3
	if v[0] == '!' && classRunEnd(v, 1, alnumByte) == len(v) && !hasDigit(v) {
		return true
	}
	colon := bytes.IndexByte(v, ':')
	if colon < minLen || slices.ContainsFunc(v[:colon], func(b byte) bool { return !isLower(b) }) {
		return false
	}
	return bytes.ContainsAny(v[colon+1:], ":/")
}

// isDummy reports whether v is text in place of a password, as in schemas, forms, masks and examples.
func isDummy(v []byte) bool {
	const maxLen = 40
	if len(v) > maxLen {
		return false
	}
	low := bytes.ToLower(v)
	first, _, _ := bytes.Cut(low, []byte("|")) // required|min:8
	switch string(first) {
	case "password", "passwd", "pass", "pwd", "string", "required", "optional", "secret", "hidden", "none", "null", "true", "false", "text", "passwort",
		"passord", "contraseña", "mot de passe", "senha", "wachtwoord", "adgangskode", "lösenord", "nullable", "sometimes", "confirmed", "changeme", "change_me", "change-me", "replaceme", "placeholder", "redacted", "undefined":
		return true
	}
	return bytes.HasPrefix(low, []byte("replace_")) || bytes.HasPrefix(low, []byte("your")) && !isOwnPassword(low) || bytes.HasSuffix(low, []byte("_here")) || bytes.HasSuffix(low, []byte("-here"))
}

// isOwnPassword reports whether a text that begins with "your" is a password such as yourMom1987!, and not a dummy such
// as yourStrong(!)Password1.
func isOwnPassword(low []byte) bool {
	if !hasDigit(low) || !bytes.ContainsAny(low, "!@#%&*?+,;^~") {
		return false
	}
	for _, word := range [...]string{"pass", "pwd", "secret", "token", "key", "credential", "here"} {
		if bytes.Contains(low, []byte(word)) {
			return false
		}
	}
	return true
}

// quoteAt returns the position of the opening quote of a literal at p, such as N'...', b'...' or String::from("..."),
// or p if there is none.
func quoteAt(s []byte, p int) int {
	if p+1 < len(s) && isQuote(s[p+1]) && strings.IndexByte("NfFbBrRuUL@$", s[p]) >= 0 {
		return p + 1
	}
	if p >= len(s) || strings.IndexByte("Ssn[(", s[p]) < 0 {
		return p
	}
	for _, constructor := range [...]string{"String::from(", "new String(", "Some(", "SecretStr(", "SecureString(", "std::string(", "[]byte(", "(", "["} {
		if startsWith(s, p, constructor) && isQuote(byteAt(s, p+len(constructor))) {
			return p + len(constructor)
		}
	}
	return p
}

// afterType returns where a quoted value begins after a type, an index or a fallback operator, or 0:
// password: string = "x", password[32] = "x", env['PASSWORD'] || 'x'.
func (m *matcher) afterType(p int) int {
	const maxLen = 40
	s := m.text
	index := p
	for index < len(s) && index-p < 4 && strings.IndexByte("'\"`)]", s[index]) >= 0 {
		index++
	}
	operator := min(m.typeEnd(index), p+maxLen)
	if index > p && len(bytes.TrimSpace(s[index:operator])) > 0 {
		return 0
	}
	length := 0
	switch byteAt(s, operator) {
	case '=':
		length = 1
	case '|', '?':
		if next := byteAt(s, operator+1); next == s[operator] || next == ':' {
			length = 2
		}
	case ' ':
		length = len(" or ")
	}
	if length == 0 {
		return 0
	}
	if value := quoteAt(s, skipMarks(s, operator+length)); isQuote(byteAt(s, value)) {
		return value
	}
	return 0
}

// typeEnd returns the end of the run of bytes at p that may form a type (typeByte), or the position of " or " in the
// run. The result is cached, so that a sentence with many secret names is read only once.
func (m *matcher) typeEnd(p int) int {
	if p >= m.typeRun.start && p < m.typeRun.end {
		return m.typeRun.end
	}
	s, end := m.text, p
	for end < len(s) && byteClass[s[end]]&typeByte != 0 && !(s[end] == ' ' && byteAt(s, end+1) == 'o' && startsWith(s, end, " or ")) {
		end++
	}
	m.typeRun.start, m.typeRun.end = p, end
	return end
}
