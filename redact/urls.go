package redact

import "bytes"

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

// userFlag matches user:password behind -u.
func (m *matcher) userFlag(i int) hit {
	if !startsWith(m.s, i, "-u ") {
		return hit{}
	}
	return m.userPassword(i + len("-u "))
}

// userPassword matches user:password in the word at p.
func (m *matcher) userPassword(p int) hit {
	const longest = 256
	if p < len(m.s) && isQuote(m.s[p]) {
		p++
	}
	end := p
	for end < len(m.s) && end-p < longest && m.s[end] > ' ' && !isQuote(m.s[end]) {
		end++
	}
	colon := bytes.IndexByte(m.s[p:end], ':')
	if colon < 1 || p < m.last || bytes.Contains(m.s[p:end], []byte(Placeholder)) {
		return hit{}
	}
	if v := m.s[p+colon+1 : end]; !bareword(v) || !isPassword(v, shape{}) {
		return hit{}
	}
	return hit{p, end, urlCredentials}
}

// dataSource matches user:password before the @tcp( or @unix( at i, as drivers of MySQL have it.
func (m *matcher) dataSource(i int) hit {
	const longest = 128
	if !startsWith(m.s, i, "@tcp(") && !startsWith(m.s, i, "@unix(") {
		return hit{}
	}
	start := i
	for start > m.last && i-start < longest && m.s[start-1] > ' ' && !isQuote(m.s[start-1]) && m.s[start-1] != '=' {
		start--
	}
	colon := bytes.IndexByte(m.s[start:i], ':')
	if colon < 1 || !bareword(m.s[start+colon+1:i]) {
		return hit{}
	}
	return hit{start, i, urlCredentials}
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
