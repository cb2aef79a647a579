package redact

import (
	"bytes"
	"slices"
	"strings"
)

// This file finds values in .env, properties and YAML lines, in connection strings, and in tags, where a value may
// contain punctuation and spaces.

// startsLine reports whether the name at start is the first on the line. If colon is true, a colon follows the name,
// and words may precede the name.
func (m *matcher) startsLine(start int, colon bool) bool {
	const maxLen = 24
	s := m.text
	from := max(0, start-maxLen)
	line := s[from:start]
	if newline := bytes.LastIndexByte(line, '\n'); newline >= 0 {
		line = line[newline+1:]
	} else if from > 0 {
		return false
	}
	if colon && len(bytes.Trim(bytes.ToLower(line), " abcdefghijklmnopqrstuvwxyz")) == 0 { // wifi password: ...
		return true
	}
	switch string(bytes.ToLower(bytes.Trim(line, " \t"))) {
	case "", "export", "set", "env", "arg", "-", "*", "$", "$env:":
		return true
	}
	return false
}

// isInConnection reports whether the name at start is part of a connection string or query, as in "host=h user=u
// password=...", "Server=h;Password=..." and "?user=u&password=...".
func (m *matcher) isInConnection(start int) bool {
	const maxLen = 64
	if start == m.lastEnd {
		return false
	}
	switch before := m.text[start-1]; before {
	case ';', '?', '&':
		return true
	case ' ':
		word := m.text[m.runStart(start-1, maxLen, wordByte) : start-1]
		return len(word) > 2 && bytes.IndexByte(word, '=') > 0 && isAlnum(word[len(word)-1])
	}
	return false
}

// lineValue matches the password from p to the end of the line or, if mayEndAtBlank is true, to a space or tab. If
// allowDots is true, the password may contain dots.
func (m *matcher) lineValue(p int, mayEndAtBlank, allowDots bool) hit {
	s := m.text
	area := s[p:min(len(s), p+maxValue)]
	if end := bytes.IndexAny(area, "\r\n\x1b"); end >= 0 {
		area = area[:end]
	}
	v := area
	if end := bytes.IndexAny(v, " \t\"'`\x10\x11\x12\x13"); end >= 0 {
		rest := bytes.TrimLeft(v[end:], " \t")
		if v = v[:end]; !mayEndAtBlank && len(rest) > 0 && rest[0] != '#' {
			return hit{}
		}
	}
	for i, c := range v { // cut before a form's next parameter, or the next command
		if (c == '&' || c == ';') && (i > 0 || !hasDigit(v)) {
			if word := runEnd(v, i+1, maxBlanks, nameByte); byteAt(v, word) == '=' && isAlnum(v[word-1]) || byteAt(v, i+1) == c {
				v = v[:i]
				break
			}
		}
	}
	if bytes.IndexByte(v, '(') < 0 {
		v = bytes.TrimRight(v, ")")
	}
	if len(v) < maxValue {
		v = bytes.TrimRight(v, ".:")
	}
	if tag := bytes.Index(v, []byte("</")); tag >= 0 {
		v = v[:tag]
	}
	if n := len(v); n == 0 || v[n-1] == ',' || v[n-1] == ';' || v[n-1] == '\\' || bytes.Contains(v, []byte(Placeholder)) || !isSetting(v, mayEndAtBlank, allowDots) {
		return hit{}
	}
	return hit{p, p + len(v), m.vendorKind(p, p+len(v), secret)}
}

// isSetting reports whether v, the unquoted value of a password setting, is a literal password, and not a reference or
// code. mayEndAtBlank and allowDots are as in lineValue.
func isSetting(v []byte, mayEndAtBlank, allowDots bool) bool {
	const minLen = 5
	if len(v) < minLen || !isLiteral(v) || isPath(v) || isReference(v) || isDummy(v) || bytes.Count(v, v[:1]) == len(v) {
		return false
	}
	if (v[0] == '|' || v[0] == '>' || v[0] == '=') && !(mayEndAtBlank && isStrong(v)) { // a YAML block, an operator
		return false
	}
	for _, mark := range [...]string{"${", "$(", "{{", "<%"} {
		if at := bytes.Index(v, []byte(mark)); at >= 0 && bytes.ContainsAny(v[at:], "})>") {
			return false
		}
	}
	if open := bytes.IndexAny(v, "(["); open >= 0 && !bytes.ContainsAny(v[:open], strongSymbols) && (open > 2 && !hasDigit(v[:open]) || !mayEndAtBlank && classRunEnd(v, 0, nameByte) == open) { // a call or an index
		return false
	}
	letters, symbols := false, false
	for _, c := range v {
		letters = letters || isAlnum(c) && !isDigit(c)
		symbols = symbols || !isAlnum(c) && c < 0x80 && strings.IndexByte("._-/:,", c) < 0
	}
	path := bytes.IndexByte(v, '.') > 0 && !symbols && byteClass[v[len(v)-1]]&alnumByte != 0
	if path && (!allowDots && !hasInnerDigit(v) && !hasNumberedPart(v) || isCodeReference(v)) {
		return false
	}
	return letters && (symbols || hasDigit(v) || len(v) >= 8 && hasRandomCase(v))
}

// isCodeReference reports whether v is a variable that holds a password, such as config.db1.password or
// process.env.DB_PW1.
func isCodeReference(v []byte) bool {
	low := bytes.ToLower(v)
	return bytes.Contains(low, []byte("pass")) || bytes.Contains(low, []byte("env."))
}

// hasNumberedPart reports whether a part between dots begins with a digit, as no identifier does.
func hasNumberedPart(v []byte) bool {
	for i, c := range v {
		if isDigit(c) && (i == 0 || v[i-1] == '.') {
			return true
		}
	}
	return false
}

func hasDigit(v []byte) bool { return bytes.ContainsAny(v, digits) }

// isPassphrase reports whether a text with spaces is a passphrase, and not a sentence about passwords. If withoutDigits
// is false, a passphrase must contain a digit.
func isPassphrase(v []byte, withoutDigits bool) bool {
	const maxSpaces = 5
	if bytes.Count(v, []byte(" ")) > maxSpaces || bytes.ContainsAny(v, "\n\t{}") || v[0] <= ' ' || v[len(v)-1] <= ' ' {
		return false
	}
	low := bytes.ToLower(v)
	for _, word := range [...]string{"pass", "enter", "your", "must", "please", "invalid", "requir", "incorrect", "charact", "%", "wrong", "secret", "login", "user", "error", "the "} {
		if bytes.Contains(low, []byte(word)) {
			return false
		}
	}
	return withoutDigits || hasDigit(v)
}

// isPassphraseName reports whether a name, such as passphrase, means a password with several words.
func isPassphraseName(name []byte) bool {
	return startsFold(name, len(name)-len("phrase"), "phrase")
}

// The minimum number of words in a passphrase: minPhrase after the name passphrase, and minQuotedPhrase in quotes after
// a different name.
const minPhrase, minQuotedPhrase = 3, 4

// passphraseValue matches a passphrase from p to the end of the line or to a quote. It has minWords to eight words of
// lower-case letters and digits, none of which is common in sentences.
func (m *matcher) passphraseValue(p, minWords int) hit {
	const maxWords, maxLen, minWord = 8, 96, 3
	area := m.text[p:min(len(m.text), p+maxLen)]
	if end := bytes.IndexAny(area, "\r\n\"'`\x10\x11\x12\x13"); end >= 0 {
		area = area[:end]
	}
	area = bytes.TrimRight(area, " \t.")
	words := bytes.FieldsFunc(area, func(r rune) bool { return r == ' ' || r == '-' })
	if len(words) < minWords || len(words) > maxWords || len(area) == maxLen {
		return hit{}
	}
	for _, word := range words {
		if len(word) < minWord || bytes.ContainsFunc(word, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }) {
			return hit{}
		}
		switch string(word) {
		case "the", "and", "for", "not", "was", "were", "has", "have", "must", "should", "can", "cannot", "will", "with", "without", "from", "your", "this", "that", "match", "reset", "change", "when", "which", "are", "used", "required", "please", "enter", "missing":
			return hit{}
		}
	}
	return hit{p, p + len(area), secret}
}

func (m *matcher) tagValue(p int) hit {
	const maxLen = 128
	if startsWith(m.text, p, "<![CDATA[") {
		p += len("<![CDATA[")
	}
	area := m.text[p:min(len(m.text), p+maxLen)]
	end := bytes.Index(area, []byte("</"))
	if cdata := bytes.Index(area, []byte("]]>")); cdata >= 0 {
		end = cdata
	}
	if end < 0 || bytes.ContainsAny(area[:end], "\n<") {
		return hit{}
	}
	return m.checkValue(p, p+end, passwordClass, valueContext{quoted: true, hasQuotedName: true})
}

// isSeedPhrase reports whether v may be a crypto wallet's seed phrase: 12, 15, 18, 21 or 24 words with three to eight
// lower-case letters.
func isSeedPhrase(v []byte) bool {
	const step, minSteps, maxSteps, minWord, maxWord = 3, 4, 8, 3, 8
	words := bytes.FieldsFunc(v, func(r rune) bool { return r == ' ' || r == ',' })
	if len(words)%step != 0 || len(words) < minSteps*step || len(words) > maxSteps*step {
		return false
	}
	return !slices.ContainsFunc(words, func(word []byte) bool {
		return len(word) < minWord || len(word) > maxWord || slices.ContainsFunc(word, func(b byte) bool { return !isLower(b) })
	})
}

func namesSeed(before []byte) bool {
	for _, word := range [...]string{"seed ", "recovery ", "backup ", "secret ", "mnemonic "} {
		if startsFold(before, len(before)-len(word), word) {
			return true
		}
	}
	return false
}
