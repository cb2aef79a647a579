package redact

import (
	"bytes"
	"slices"
	"strings"
)

// assignedPassword matches a password by context: after a user name, as a passphrase, in a settings line, or as a
// generated word. The separator is at i, and the value at p. If nothing matches, assignedPassword stores in vc what it
// found out about the context.
func (m *matcher) assignedPassword(start, end, i, p int, vc *valueContext) hit {
	s := m.text
	if start > 0 && s[start-1] == '/' {
		if q := afterUser(s, start, p); q > 0 {
			return m.value(q, passwordClass, valueContext{allowDots: true})
		}
	}
	if s[i] == '(' {
		return hit{}
	}
	value := skipMarks(s, p)
	if isPassphraseName(s[start:end]) {
		if h := m.passphraseValue(value, minPhrase); h.kind != noKind {
			return h
		}
		vc.literal = vc.literal || isQuote(byteAt(s, value))
	}
	if isQuote(byteAt(s, value)) {
		if h := m.passphraseValue(value+1, minQuotedPhrase); h.kind != noKind {
			return h
		}
	}
	if h := m.settingValue(start, end, i, p, s[start:end]); h.kind != noKind {
		return h
	}
	hasNoBlanks := end == i && byteAt(s, p) > ' ' && s[i] == '='
	word := s[p:runEnd(s, p, maxName, nameByte)]
	vc.allowDots = hasNoBlanks && (vc.literal || m.isFlag(start) || hasNumberedPart(word)) && !isCodeReference(word)
	if vc.inConnectionString = hasNoBlanks && m.isInConnection(start); !hasNoBlanks || vc.inConnectionString {
		return hit{}
	}
	h := m.lineValue(p, true, true)
	if h.kind == noKind || !isStrong(s[h.start:h.end]) || bytes.IndexByte(s[h.start:h.end], '&') >= 0 {
		return hit{}
	}
	return h
}

// isFlag reports whether the name at start belongs to a flag: --password=, --set auth.password=, -o user=x,password=.
func (m *matcher) isFlag(start int) bool {
	const maxLen = 40
	from := m.runStart(start, maxLen, wordByte)
	if word := m.text[from:start]; len(word) > 0 {
		return bytes.HasPrefix(word, []byte("--")) || bytes.HasSuffix(word, []byte(",")) && startsWith(m.text, from-len("-o "), "-o ")
	}
	return bytes.HasSuffix(m.text[m.lastEnd:start], []byte("--set "))
}

// passValue matches the password after "pass" and the separator at i. The value must mix letters and digits or cases,
// because "pass" may also be a test result or a compiler pass.
func (m *matcher) passValue(start, i, p int) hit {
	s := m.text
	if !m.assigns(start, i, s[start:start+len("pass")]) || s[i] == ':' && isUpper(s[start+1]) {
		return hit{}
	}
	h := m.value(skipMarks(s, p), passwordClass, valueContext{allowDots: bytes.HasSuffix(s[:start], []byte("in ")) || bytes.HasSuffix(s[:start], []byte("out "))})
	if h.kind == noKind || bytes.ContainsAny(s[h.start:h.end], "_/ ") || !isMixed(s[h.start:h.end]) || s[i] == ':' && isPassName(s[h.start:h.end]) {
		return hit{}
	}
	return h
}

// isPassName reports whether v names a compiler pass or a passed test: mem2reg, dead-code-elim2, TestFoo2.
func isPassName(v []byte) bool {
	if startsFold(v, 0, "test") {
		return true
	}
	word := classRunEnd(v, 0, alnumByte)
	if bytes.ContainsFunc(v, func(r rune) bool { return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') }) {
		return false
	}
	digits := countDigitRuns(v)
	return digits == 1 && (word < len(v) || !isDigit(v[len(v)-1]) && !isDigit(v[0]) && bytes.IndexByte(v, '2') > 0)
}

// afterUser returns where the password in "ID/PW: bob / x1y2z3" begins, or 0. The user name is at p.
func afterUser(s []byte, start, p int) int {
	const maxLen = 32
	p = skipMarks(s, p)
	user := bytes.ToLower(s[max(0, start-len("/username")) : start-1])
	if !slices.ContainsFunc([]string{"id", "user", "username", "login", "account"}, func(name string) bool { return bytes.HasSuffix(user, []byte(name)) }) {
		return 0
	}
	end := runEnd(s, p, maxLen, nameByte)
	value := skipMarks(s, end)
	if end == p || strings.IndexByte("/:,(", byteAt(s, value)) < 0 {
		return 0
	}
	return skipMarks(s, value+1)
}

// settingValue matches a password in a settings line or a tag: DB_PASSWORD=..., password: ..., <password>...
func (m *matcher) settingValue(start, end, i, p int, name []byte) hit {
	if m.text[i] == '>' {
		return m.tagValue(p)
	}
	hasNoBlanks := end == i && byteAt(m.text, p) > ' '
	value := skipMarks(m.text, p)
	if end < i-1 || value >= len(m.text) || isQuote(m.text[value]) || hasNoBlanks && m.text[i] != '=' || !m.startsLine(start, m.text[i] == ':') {
		return hit{}
	}
	mayEndAtBlank := hasNoBlanks && !slices.ContainsFunc(name, isLower) || bytes.IndexByte(name, '.') >= 0
	// A name at the start of a line is a setting, and a name after a word and a space is in prose. Neither has
	// variables.
	literal := hasNoBlanks && (start == 0 || m.text[start-1] == '\n') || !hasNoBlanks && start > 1 && m.text[start-1] == ' ' && isAlnum(m.text[start-2])
	oneDot := bytes.Count(m.text[value:lineEnd(m.text, value)], []byte(".")) == 1
	return m.lineValue(value, mayEndAtBlank, mayEndAtBlank || literal && oneDot)
}
