package redact

import (
	"bytes"
	"encoding/base64"
)

// jwt matches three (signed) or five (encrypted) dotted parts that begin with {" in base64.
func (m *matcher) jwt(i int) hit {
	const least = 8
	start := i - 2
	if start < m.last || !startsWith(m.s, start, "eyJ") || !bounded(m.s, start) {
		return hit{}
	}
	end := span(m.s, start, tokenByte)
	if end-start < least || at(m.s, end) != '.' {
		return hit{}
	}
	for at(m.s, end) == '.' {
		next := span(m.s, end+1, tokenByte)
		if next == end+1 {
			break
		}
		end = next
	}
	if end-start < 4*least {
		return hit{}
	}
	return hit{start, end, jwt}
}

// dashes handles what begins with dashes: PEM private keys and flags such as --password.
func (m *matcher) dashes(i int) hit {
	if !startsWith(m.s, i, "--") {
		return hit{}
	}
	if startsWith(m.s, i, "-----BEGIN ") {
		return m.pem(i)
	}
	word := i + 2
	end := span(m.s, word, tokenByte)
	if end == word || at(m.s, end) != ' ' || m.s[word] == '-' {
		return hit{}
	}
	class := classOfWord(m.s[word:end])
	if !class.isSecret() {
		return hit{}
	}
	return m.value(end+1, class, false)
}

// pem matches a private key from its BEGIN to its END, or to the end of its base64 where the END is
// missing. A header without a body is code that speaks of keys.
func (m *matcher) pem(start int) hit {
	const farthest, shortest = 1 << 15, 32
	line := m.s[start:min(len(m.s), start+80)]
	label := bytes.Index(line, []byte("PRIVATE KEY"))
	header := bytes.Index(line[5:], []byte("-----"))
	if label < 0 || header < label {
		return hit{}
	}
	body := start + 5 + header + 5
	area := m.s[body:min(len(m.s), body+farthest)]
	// Only the next dashes count: looking for the END of each of many headers would cost their
	// square.
	if end := bytes.Index(area, []byte("-----")); end >= shortest && startsWith(area, end, "-----END ") {
		end += body + len("-----END ")
		if tail := bytes.Index(m.s[end:min(len(m.s), end+80)], []byte("-----")); tail >= 0 {
			return hit{start, end + tail + 5, privateKey}
		}
		return hit{start, end, privateKey}
	}
	end := body
	for end < len(m.s) && (classOf[m.s[end]]&base64Byte != 0 || m.s[end] == '\n' || m.s[end] == '\r' || m.s[end] == ' ') {
		end++
	}
	if end-body < shortest {
		return hit{}
	}
	return hit{start, end, privateKey}
}

// scheme matches the credentials behind Bearer and Basic.
func (m *matcher) scheme(i int) hit {
	var p int
	bearer := startsFold(m.s, i, "bearer ")
	switch {
	case !bounded(m.s, i):
		return hit{}
	case bearer:
		p = i + len("bearer ")
	case startsFold(m.s, i, "basic "):
		p = i + len("basic ")
	default:
		return hit{}
	}
	for at(m.s, p) == ' ' {
		p++
	}
	end := p
	for end < len(m.s) && (classOf[m.s[end]]&(tokenByte|base64Byte) != 0 || m.s[end] == '.' || m.s[end] == '~') {
		end++
	}
	for end > p && m.s[end-1] == '.' { // the sentence's, not the token's
		end--
	}
	v := m.s[p:end]
	if bearer && (len(v) < 8 || !(mixed(v) && (len(v) >= 16 || digitRuns(v) > 0))) {
		return hit{}
	}
	if !bearer && !basicCredentials(v) {
		return hit{}
	}
	return hit{p, end, m.vendorOf(p, end, authorization)}
}

// basicCredentials reports whether v is base64 of user:password; "basic authentication" is not.
func basicCredentials(v []byte) bool {
	const longest = 256
	if len(v) < 6 || len(v) > longest {
		return false
	}
	v = bytes.TrimRight(v, "=")
	var buf [longest]byte
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

// url matches user:password in the authority of a URL, and Slack's webhooks, whose path is the
// secret. i is at "://".
func (m *matcher) url(i int) hit {
	const longest = 512
	s := m.s
	if !startsWith(s, i, "://") {
		return hit{}
	}
	start := i + len("://")
	if startsWith(s, start, "hooks.slack.com/services/") {
		p := start + len("hooks.slack.com/services/")
		end := p
		for end < len(s) && (isAlnum(s[end]) || s[end] == '/') {
			end++
		}
		if end-p >= 20 {
			return hit{p, end, slackToken}
		}
		return hit{}
	}
	colon, sign, end := -1, -1, start
scan:
	for ; end < len(s) && end < start+longest; end++ {
		switch c := s[end]; {
		case c == ':' && colon < 0:
			colon = end
		case c == '@':
			sign = end
		case c <= ' ', c == '/', c == '?', c == '#', c == '<', c == '>', c == '[', c == ',', isQuote(c), c == '\\', c == ')':
			break scan
		}
	}
	if colon < 0 && sign > start && isRandom(s[start:sign]) { // a token without a user
		return hit{start, sign, m.vendorOf(start, sign, urlCredentials)}
	}
	if colon < 0 || sign <= colon+1 || !bareword(s[colon+1:sign]) {
		return hit{}
	}
	return hit{start, sign, urlCredentials}
}

// bareword reports whether a password is meant as one, not as a variable to be filled in.
func bareword(v []byte) bool {
	if len(v) == 0 {
		return false
	}
	switch v[0] {
	case '$', '{', '%', '<', '*':
		return v[0] == '%' && len(v) > 2 && classOf[v[1]]&hexByte != 0 && classOf[v[2]]&hexByte != 0
	}
	return true
}
