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

// shortFlag is a program that takes a password behind -p or -a: as a word of its own, or attached.
type shortFlag struct {
	program  string
	letter   byte
	apart    bool
	attached bool
}

//nolint:gochecknoglobals // read only
var shortFlags = []shortFlag{
	{"mysql", 'p', false, true}, // mysqldump, mysqladmin: -p with a word behind it asks for the password
	{"mariadb", 'p', false, true},
	{"sshpass", 'p', true, true},
	{"mongo", 'p', true, false},
	{"docker login", 'p', true, false},
	{"podman login", 'p', true, false},
	{"redis-cli", 'a', true, false},
	{"valkey-cli", 'a', true, false},
}

// passwordFlag matches the password behind a flag of one letter, if its program stands before it in
// the same command.
func (m *matcher) passwordFlag(i int) hit {
	const farthest = 96
	letter, p := m.s[i+1], i+2
	attached := at(m.s, p) > ' '
	before := m.s[max(m.last, i-farthest):i]
	before = before[bytes.LastIndexAny(before, "\n;|&")+1:]
	for _, f := range shortFlags {
		if f.letter != letter || attached && !f.attached || !attached && !f.apart || !bytes.Contains(before, []byte(f.program)) {
			continue
		}
		for p < len(m.s) && p < i+6 && m.s[p] == ' ' {
			p++
		}
		return m.value(p, passwordClass, false)
	}
	return hit{}
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
