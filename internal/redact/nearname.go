package redact

import (
	"bytes"
	"strings"
)

// The functions of this file find the place of a password near its name: after a verb, in a table, in the arguments
// of a call, and before "is the password".

// cell returns the position of the next word, or of the next cell of a table.
func cell(s []byte, p int) int {
	p = skipMarks(s, p)
	if at(s, p) == '|' {
		p = skipMarks(s, p+1)
	}
	return p
}

// valueAfterName returns the position of a password after the name s[start:end]: quoted as in SQL, after
// "is", in a table, or directly after the name in settings. 0 if none.
func (m *matcher) valueAfterName(start, end int) int {
	const maxDistance = 40
	s := m.s
	if value := m.valueAfterType(end); value > 0 {
		return value
	}
	if value := max(defaultOf(s, end), typedValue(s, start, end)); value > 0 {
		return value
	}
	p := cell(s, end)
	if p == end || p >= len(s) {
		return 0
	}
	if typed := afterCipherType(s, end); typed > 0 {
		return typed
	}
	if isQuote(s[p]) || bytes.IndexByte(s[end:p], '|') >= 0 {
		return p
	}
	rest, _, _ := bytes.Cut(s[end:min(len(s), end+maxDistance)], []byte("\n"))
	if bytes.HasPrefix(rest, []byte(" to ")) {
		return end + len(" to ")
	}
	for _, link := range [...]string{" is: ", " is now ", " is set to ", " is ", " lautet: ", " lautet ", " ist: ", " ist "} {
		if at := bytes.Index(rest, []byte(link)); at >= 0 && !bytes.ContainsAny(rest[:at], ".,") {
			return end + at + len(link)
		}
	}
	if value := afterPurpose(s, end); value > 0 {
		return value
	}
	if at(s, end) == ' ' && isStrongWord(s, p) {
		return p
	}
	for _, link := range [...]string{" to ", " was ", " war "} { // was changed to Hunter2!
		if to := bytes.Index(rest, []byte(link)); to >= 0 && isStrongWord(s, end+to+len(link)) {
			return end + to + len(link)
		}
	}
	if to := bytes.Index(rest, []byte(" to ")); to >= 0 && bytes.HasSuffix(rest[:to], []byte("ed")) && isQuote(at(s, end+to+len(" to "))) { // was changed to "..."
		return end + to + len(" to ")
	}
	line := s[bytes.LastIndexByte(s[max(m.last, start-maxDistance):start], '\n')+1+max(m.last, start-maxDistance) : start]
	stop := p
	for stop < len(s) && s[stop] > ' ' {
		stop++
	}
	alone := len(bytes.TrimSpace(line)) == 0 && (stop == len(s) || s[stop] == '\n' || s[stop] == '\r')
	if word := bytes.ToLower(line[bytes.LastIndexByte(bytes.TrimRight(line, " "), ' ')+1:]); len(line) > 0 {
		switch string(word) {
		case "with ", "and ", "using ", "use ":
			return p
		}
	}
	if alone || bytes.ContainsAny(s[start:end], "_.") || bytes.HasSuffix(s[start:end], []byte("requirepass")) || m.isNetrc(start) {
		return p
	}
	return 0
}

// typedValue returns the position of the text that a script types into the field with the name s[start:end]:
// getByLabel('Password').fill('...'), fill('#password', '...'). 0 if none.
func typedValue(s []byte, start, end int) int {
	const maxMarks = 3 // ends of the selector: "]')
	p := end
	for p-end < maxMarks && p < len(s) && (isQuote(s[p]) || s[p] == ']' || s[p] == ')') {
		p++
	}
	if p == end {
		return 0
	}
	for _, call := range [...]string{".fill(", ".type(", ".send_keys(", ".sendKeys(", ".setValue("} {
		if value := p + len(call); startsWith(s, p, call) && isQuote(at(s, value)) {
			return value
		}
	}
	if start > 0 && s[start-1] == '#' && isQuote(s[p-1]) && startsWith(s, p, ", ") && isQuote(at(s, p+len(", "))) {
		return p + len(", ")
	}
	return 0
}

// afterShortName returns the position of the password after the name pw, pwd or pass that ends at end: "the pw is
// ...", "pw ...". The word must look like a password. 0 if none.
func afterShortName(s, name []byte, end int) int {
	const maxLen, minLen = 64, 8
	p := end + len(" is ")
	if !startsWith(s, end, " is ") {
		if p = end + 1; len(name) > len("pw") || at(s, end) != ' ' {
			return 0
		}
	}
	word := bytes.TrimRight(s[p:min(len(s), runEnd(s, p, maxLen, wordByte))], ".,;:!?)")
	if len(word) < minLen || bytes.ContainsAny(word, "/=(:<") {
		return 0
	}
	if isMixed(word) && isAlnum(word[0]) && bytes.IndexByte(word, '.') < 0 || bytes.Count(word, []byte("-")) >= 3 && !hasDigit(word) {
		return p
	}
	return 0
}

// afterCipherType returns the position after the digit of the cipher type that a router writes between a name and its
// value: password 7 .... 0 if none.
func afterCipherType(s []byte, end int) int {
	if at(s, end) != ' ' || !isDigit(at(s, end+1)) || at(s, end+2) != ' ' {
		return 0
	}
	return end + len(" 0 ")
}

// isStrongWord reports whether the word at p is a generated password, and no e-mail address, path, assignment
// or call.
func isStrongWord(s []byte, p int) bool {
	const maxLen = 40
	word := bytes.TrimRight(s[p:runEnd(s, p, maxLen, wordByte)], ".,;:!?)")
	at := bytes.IndexByte(word, '@')
	return len(word) > 5 && isStrong(word) && !(at >= 0 && bytes.IndexByte(word[at:], '.') > 0) && bytes.IndexByte(word, '=') < 0 && bytes.IndexByte(word, '/') < 0 && bytes.IndexByte(word, '(') < 0
}

// defaultOf returns the position of the default of the Terraform variable, or of the value of the Terraform
// output, whose block starts at p. 0 if none.
func defaultOf(s []byte, p int) int {
	const maxLen = 200
	if !isQuote(at(s, p)) || !startsWith(s, p+1, " {") {
		return 0
	}
	block, _, _ := bytes.Cut(s[p:min(len(s), p+maxLen)], []byte("}"))
	i, word := bytes.Index(block, []byte("default")), len("default")
	if i < 0 {
		i, word = bytes.Index(block, []byte("value ")), len("value ")
	}
	if i < 0 {
		return 0
	}
	if p = skipMarks(s, p+i+word); at(s, p) != '=' {
		return 0
	}
	return skipMarks(s, p+1)
}

// valueBeforeName matches the word before "is the password" and "as my password".
func (m *matcher) valueBeforeName(start, end int) hit {
	const maxDistance = 40
	s := m.s
	if at(s, end) == ' ' {
		next, _, _ := bytes.Cut(s[end+1:min(len(s), end+8)], []byte(" "))
		switch string(next) {
		case "for", "to", "of", "on", "in", "and", "there", "here":
		default:
			return hit{}
		}
	} else if isAlnum(at(s, end)) {
		return hit{}
	}
	before := s[max(m.last, start-maxDistance):start]
	for _, link := range [...]string{" is the ", " is my ", " is our ", " is your ", " as the ", " as my ", " as "} {
		at := bytes.LastIndex(before, []byte(link))
		if at < 0 || bytes.ContainsAny(before[at+1:], ".\n") {
			continue
		}
		stop := max(m.last, start-maxDistance) + at
		for stop > m.last && isQuote(s[stop-1]) {
			stop--
		}
		from := m.runStart(stop, maxDistance, wordByte)
		if h := m.checkValue(from, stop, passwordClass, shape{}); h.kind != none && !isTechnicalTerm(s[from:stop]) {
			return h
		}
	}
	return hit{}
}

// isTechnicalTerm reports whether a word of letters and digits next to "password" is not a password:
// algorithms, types, sizes.
func isTechnicalTerm(v []byte) bool {
	const known = " base sha md argon pbkdf utf aes rsa ed oauth oidc varchar char int uint float string text x http https tls rfc v step line section page version bcrypt scrypt "
	letters := bytes.IndexAny(v, digits)
	if letters < 0 {
		return false
	}
	if letters == 0 { // 8-character, 12chars
		rest := bytes.TrimLeft(v, digits)
		return len(bytes.Trim(rest, "-abcdefghijklmnopqrstuvwxyz")) == 0
	}
	word := bytes.ToLower(bytes.TrimRight(v[:letters], "-_("))
	return len(word) == 0 || strings.Contains(known, " "+string(word)+" ")
}
