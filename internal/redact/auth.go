package redact

import (
	"bytes"
	"encoding/base64"
)

// jwt matches a JSON web token: eyJ, which is {" in base64, and three parts (signed) or five parts (encrypted) between
// dots. A token that is cut off may have fewer. The J in eyJ is at i.
func (m *matcher) jwt(i int) hit {
	const minLen = 8
	start := i - 2
	if start < m.lastEnd || !startsWith(m.text, start, "eyJ") || !startsWord(m.text, start) {
		return hit{}
	}
	end := classRunEnd(m.text, start, tokenByte)
	if end-start < minLen || byteAt(m.text, afterLineBreak(m.text, end)) != '.' {
		return hit{}
	}
	for dots, wrapped := 0, false; ; {
		next := afterLineBreak(m.text, end)
		broken, dot := next > end, byteAt(m.text, next) == '.'
		if dot {
			dots++
			after := afterLineBreak(m.text, next+1)
			broken, next = broken || after > next+1, after
		}
		stop := classRunEnd(m.text, next, tokenByte)
		if stop == next || broken && stop-next < minLen {
			break
		}
		// A signature that ends before a line break is complete, so the next line is other text.
		if broken && !dot && dots >= 2 && !(wrapped && isMixed(m.text[next:stop]) && byteAt(m.text, stop) != ' ') {
			break
		}
		wrapped = wrapped || broken
		end = stop
	}
	if end-start < 4*minLen {
		return hit{}
	}
	return hit{start, end, jwt}
}

// afterLineBreak returns the position after a line break and indentation at i. Terminals and mail programs wrap long
// tokens.
func afterLineBreak(s []byte, i int) int {
	j := i
	if byteAt(s, j) == '\r' {
		j++
	}
	if byteAt(s, j) != '\n' {
		return i
	}
	for j < len(s) && s[j] <= ' ' && j-i < 24 {
		j++
	}
	return j
}

// pemOrFlag matches a PEM block, or the value after a flag such as --password. The first dash is at i.
func (m *matcher) pemOrFlag(i int) hit {
	if !startsWith(m.text, i, "--") {
		return hit{}
	}
	if startsWith(m.text, i, "-----BEGIN ") {
		return m.pem(i)
	}
	word := i + 2
	end := classRunEnd(m.text, word, tokenByte)
	if separator := byteAt(m.text, end); end == word || separator != ' ' && separator != '=' || m.text[word] == '-' {
		return hit{}
	}
	if name := m.text[word:end]; string(name) == "user" || string(name) == "proxy-user" {
		return m.userPassword(skipMarks(m.text, end+1))
	}
	class := classifyWord(m.text[word:end])
	if !class.isSecret() || m.text[end] == '=' { // the check for the anchor "name=" handles an =
		return hit{}
	}
	return m.value(end+1, class, valueContext{allowDots: true})
}

// pem matches a private key from BEGIN to END. If END is missing, the key ends with the base64 text. A header without a
// body does not match, because code about keys contains such headers.
func (m *matcher) pem(start int) hit {
	const maxDistance, minLen = 1 << 15, 32
	line := m.text[start:min(len(m.text), start+80)]
	label := bytes.Index(line, []byte("PRIVATE KEY"))
	header := bytes.Index(line[5:], []byte("-----"))
	if label < 0 || header < label {
		return hit{}
	}
	body := start + 5 + header + 5
	area := m.text[body:min(len(m.text), body+maxDistance)]
	// The search stops at the next dashes. Searching for END after each of many headers would take quadratic time.
	if end := bytes.Index(area, []byte("-----")); end >= minLen && startsWith(area, end, "-----END ") {
		end += body + len("-----END ")
		if tail := bytes.Index(m.text[end:min(len(m.text), end+80)], []byte("-----")); tail >= 0 {
			return hit{start, end + tail + 5, privateKey}
		}
		return hit{start, end, privateKey}
	}
	end := base64Lines(m.text, body)
	if end-body < minLen {
		return hit{}
	}
	return hit{start, end, privateKey}
}

func base64Lines(s []byte, p int) int {
	for p < len(s) && (byteClass[s[p]]&base64Byte != 0 || s[p] <= ' ') {
		p++
	}
	return p
}

// putty matches the private lines in a PuTTY key file. The L in Private-Lines is at i.
func (m *matcher) putty(i int) hit {
	const header, minLen = "Private-Lines: ", 32
	if !startsWith(m.text, i-len("Private-"), header) {
		return hit{}
	}
	start := skipSpace(m.text, classRunEnd(m.text, i-len("Private-")+len(header), digitByte))
	end := base64Lines(m.text, start)
	if rest := m.text[start:end]; end < len(m.text) { // without the name at the beginning of the next line
		end = start + max(0, bytes.LastIndexByte(rest, '\n'))
	}
	if end-start < minLen {
		return hit{}
	}
	return hit{start, end, privateKey}
}

// wrappedHeader is "-----BEGIN" in base64.
const wrappedHeader = "LS0tLS1CRUdJTi"

func (m *matcher) wrappedPEM(i int) hit {
	const header = 48 // base64 bytes that identify the content
	if !startsWith(m.text, i, wrappedHeader) {
		return hit{}
	}
	end := classRunEnd(m.text, i, base64Byte)
	if end-i < header {
		return hit{}
	}
	text, err := base64.StdEncoding.DecodeString(string(m.text[i : i+header]))
	if err != nil || !bytes.Contains(text, []byte("PRIVATE KEY")) {
		return hit{}
	}
	return hit{i, end, privateKey}
}

// authScheme matches the credentials after the word Bearer or Basic at i.
func (m *matcher) authScheme(i int) hit {
	var p int
	bearer := startsFold(m.text, i, "bearer ")
	switch {
	case !startsWord(m.text, i):
		return hit{}
	case bearer:
		p = i + len("bearer ")
	case startsFold(m.text, i, "basic "):
		p = i + len("basic ")
	default:
		return hit{}
	}
	for byteAt(m.text, p) == ' ' {
		p++
	}
	end := p
	for end < len(m.text) && (byteClass[m.text[end]]&(tokenByte|base64Byte) != 0 || m.text[end] == '.' || m.text[end] == '~' || bearer && m.text[end] == ':' && isAlnum(byteAt(m.text, end+1))) {
		end++
	}
	for end > p && m.text[end-1] == '.' { // the dot ends the sentence
		end--
	}
	v := m.text[p:end]
	if bearer && (len(v) < 8 || !(isMixed(v) && (len(v) >= 16 || countDigitRuns(v) > 0))) {
		return hit{}
	}
	if !bearer && !isBasicCredentials(v) {
		return hit{}
	}
	return hit{p, end, m.vendorKind(p, end, authorization)}
}

// maxHeader is how many bytes of a header are searched for credentials other than cookies.
const maxHeader = 512

// headerValue matches the first word that looks random in the header value at p. If the word is a cookie's value
// (NAME=VALUE), the hit extends to the end of the header, so that it covers all later cookies.
func (m *matcher) headerValue(p int, hasQuotedName bool) hit {
	s := m.text
	if p < len(s) && isQuote(s[p]) {
		p++
	}
	from := p
	known := from >= m.checkedHeader.start && from < m.checkedHeader.end
	for p < len(s) && !endsHeader(s[p]) {
		valueStart, valueEnd := cookieValue(s, p)
		if p-from > maxHeader && valueStart == p && valueEnd > p {
			break
		}
		if h := m.checkValue(valueStart, valueEnd, secretClass, valueContext{hasQuotedName: hasQuotedName}); h.kind != noKind {
			if valueStart > p {
				h.end = headerWordEnd(s, h.end, 0)
			}
			if h.kind == secret && valueStart > from {
				h.kind = authorization
			}
			return h
		}
		if known && p == from { // an earlier call has read the other words
			valueEnd = max(valueEnd, m.checkedHeader.end-1)
		}
		if p = headerWordEnd(s, valueEnd, ';'); p < len(s) && !endsHeader(s[p]) {
			p++
		}
	}
	if !known {
		m.checkedHeader.start = from
	}
	m.checkedHeader.end = max(p, m.checkedHeader.end)
	return hit{}
}

// cookieValue returns the bounds of VALUE, at most maxValue bytes, in the cookie NAME=VALUE at p. Without NAME=, the
// value is the whole word.
func cookieValue(s []byte, p int) (value, end int) {
	const maxName = 64
	value, end = p, p
	for end < len(s) && end-value < maxValue && s[end] != ' ' && s[end] != ';' && !endsHeader(s[end]) {
		if end++; s[end-1] == '=' && end-value < maxName && end-p < maxHeader && isAlnum(byteAt(s, end)) {
			value = end
		}
	}
	if end > value && end-value < maxValue && (s[end-1] == '.' || s[end-1] == ',') { // ends the sentence
		end--
	}
	return value, end
}

// headerWordEnd returns the end of the header word at p, or the end of the header if separator is 0.
func headerWordEnd(s []byte, p int, separator byte) int {
	for p < len(s) && !endsHeader(s[p]) && (separator == 0 || s[p] != separator && s[p] != ' ') {
		p++
	}
	return p
}

func endsHeader(c byte) bool { return c < ' ' || isQuote(c) }

// isBasicCredentials reports whether v is the base64 encoding of user:password.
func isBasicCredentials(v []byte) bool {
	const maxLen = 256
	if len(v) < 6 {
		return false
	}
	v = bytes.TrimRight(v[:min(len(v), maxLen)], "=")
	var buf [maxLen]byte
	n, err := base64.RawStdEncoding.Decode(buf[:], v)
	if err != nil {
		return false
	}
	colon := bytes.IndexByte(buf[:n], ':')
	for _, c := range buf[:n] {
		if c < ' ' {
			return false
		}
	}
	return colon >= 0
}
