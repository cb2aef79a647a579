package redact

import (
	"bytes"
	"slices"
	"strings"
)

// This file finds a password near the word "password": after a word such as "is", in a table, in a call's arguments,
// and before "is the password".

func nextCell(s []byte, p int) int {
	p = skipMarks(s, p)
	if byteAt(s, p) == '|' {
		p = skipMarks(s, p+1)
	}
	return p
}

// afterName returns where a password after a name begins, or 0. The password is in quotes as in SQL, after a word such
// as "is", in the next table cell, or next to the name in settings.
func (m *matcher) afterName(start, end int) int {
	const maxDistance = 40
	s := m.text
	if value := m.afterType(end); value > 0 {
		return value
	}
	if value := max(terraformValueStart(s, end), typedValueStart(s, start, end)); value > 0 {
		return value
	}
	p := nextCell(s, end)
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
	if value := afterLink(rest); value > 0 {
		return end + value
	}
	if value := afterPurpose(s, end); value > 0 {
		return value
	}
	if byteAt(s, end) == ' ' && isStrongWord(s, p) {
		return p
	}
	for _, link := range [...]string{" to ", " was ", " war ", " now "} { // was changed to Hunter2!
		if to := bytes.Index(rest, []byte(link)); to >= 0 && isStrongWord(s, end+to+len(link)) {
			return end + to + len(link)
		}
	}
	if to := bytes.Index(rest, []byte(" to ")); to >= 0 && bytes.HasSuffix(rest[:to], []byte("ed")) && isQuote(byteAt(s, end+to+len(" to "))) { // was changed to "..."
		return end + to + len(" to ")
	}
	line := s[bytes.LastIndexByte(s[max(m.lastEnd, start-maxDistance):start], '\n')+1+max(m.lastEnd, start-maxDistance) : start]
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
		if low := bytes.ToLower(line); isGeneratedWord(s, p) && slices.ContainsFunc(linksBeforePassword, func(link string) bool { return bytes.HasSuffix(low, []byte(link)) }) {
			return p
		}
	}
	if alone || bytes.ContainsAny(s[start:end], "_.") || bytes.HasSuffix(s[start:end], []byte("requirepass")) || m.isNetrc(start) {
		return p
	}
	return 0
}

// afterLink returns where the value after a word such as "is" begins in rest, the text after a name, or 0.
func afterLink(rest []byte) int {
	for _, link := range [...]string{" is: ", " is now ", " is set to ", " is ", " lautet: ", " lautet ", " ist: ", " ist "} {
		if at := bytes.Index(rest, []byte(link)); at >= 0 && !bytes.ContainsAny(rest[:at], ".,") {
			value := at + len(link)
			if startsWith(rest, value, ": ") {
				value += len(": ")
			}
			return value
		}
	}
	return 0
}

// linksBeforePassword lists words before "password" that make the word after "password" its value.
//
//nolint:gochecknoglobals // read only
var linksBeforePassword = []string{"with the ", "with this ", "with my ", "using the ", "use the ", "mit ", "mit dem ", "met ", "met het ", "con la ", "con "}

// isGeneratedWord reports whether the word at p mixes letters and digits, as few words in prose do.
func isGeneratedWord(s []byte, p int) bool {
	const minLen, maxLen = 8, 64
	word := bytes.TrimRight(s[p:runEnd(s, p, maxLen, wordByte)], ".,;:!?)")
	return len(word) >= minLen && isMixed(word) && hasDigit(word) && isAlnum(word[0]) && !bytes.ContainsAny(word, "/=(:<_.")
}

// typedValueStart returns where the text that a script types into a field begins, or 0:
// getByLabel('Password').fill('...'), fill('#password', '...').
func typedValueStart(s []byte, start, end int) int {
	const maxMarks = 3 // the selector's end: "]')
	p := end
	for p-end < maxMarks && p < len(s) && (isQuote(s[p]) || s[p] == ']' || s[p] == ')') {
		p++
	}
	if p == end {
		return 0
	}
	for _, call := range [...]string{".fill(", ".type(", ".send_keys(", ".sendKeys(", ".setValue("} {
		if value := p + len(call); startsWith(s, p, call) && isQuote(byteAt(s, value)) {
			return value
		}
	}
	if start > 0 && s[start-1] == '#' && isQuote(s[p-1]) && startsWith(s, p, ", ") && isQuote(byteAt(s, p+len(", "))) {
		return p + len(", ")
	}
	return 0
}

// afterShortName returns where the password after pw, pwd or pass begins, as in "the pw is ...", or 0. The word must
// look like a password.
func afterShortName(s, name []byte, end int) int {
	const maxLen, minLen = 64, 8
	p := end + len(" is ")
	if !startsWith(s, end, " is ") {
		if p = end + 1; len(name) > len("pw") || byteAt(s, end) != ' ' {
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

// afterCipherType returns where the value in a router's "password 7 ..." begins, or 0. The digit is the cipher type.
func afterCipherType(s []byte, end int) int {
	if byteAt(s, end) != ' ' || !isDigit(byteAt(s, end+1)) || byteAt(s, end+2) != ' ' {
		return 0
	}
	return end + len(" 0 ")
}

// isStrongWord reports whether the word at p looks like a generated password, and not like an address, a path, an
// assignment or a call.
func isStrongWord(s []byte, p int) bool {
	const maxLen = 40
	word := bytes.TrimRight(s[p:runEnd(s, p, maxLen, wordByte)], ".,;:!?)")
	at := bytes.IndexByte(word, '@')
	return len(word) > 5 && isStrong(word) && !(at >= 0 && bytes.IndexByte(word[at:], '.') > 0) && bytes.IndexByte(word, '=') < 0 && bytes.IndexByte(word, '/') < 0 && bytes.IndexByte(word, '(') < 0
}

// terraformValueStart returns where a Terraform variable's default or an output's value begins, or 0.
func terraformValueStart(s []byte, p int) int {
	const maxLen = 200
	if !isQuote(byteAt(s, p)) || !startsWith(s, p+1, " {") {
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
	if p = skipMarks(s, p+i+word); byteAt(s, p) != '=' {
		return 0
	}
	return skipMarks(s, p+1)
}

func (m *matcher) valueBeforeName(start, end int) hit {
	const maxDistance = 40
	s := m.text
	if byteAt(s, end) == ' ' {
		next, _, _ := bytes.Cut(s[end+1:min(len(s), end+8)], []byte(" "))
		switch string(next) {
		case "for", "to", "of", "on", "in", "and", "there", "here":
		default:
			return hit{}
		}
	} else if isAlnum(byteAt(s, end)) {
		return hit{}
	}
	before := s[max(m.lastEnd, start-maxDistance):start]
	for _, link := range [...]string{" is the ", " is my ", " is our ", " is your ", " as the ", " as my ", " as "} {
		at := bytes.LastIndex(before, []byte(link))
		if at < 0 || bytes.ContainsAny(before[at+1:], ".\n") {
			continue
		}
		stop := max(m.lastEnd, start-maxDistance) + at
		for stop > m.lastEnd && isQuote(s[stop-1]) {
			stop--
		}
		from := m.runStart(stop, stop, wordByte)
		if h := m.checkValue(from, stop, passwordClass, valueContext{}); h.kind != noKind && !isTechnicalTerm(s[from:stop]) {
			return h
		}
	}
	return hit{}
}

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
