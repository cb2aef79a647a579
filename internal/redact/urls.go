package redact

import (
	"bytes"
	"slices"
)

// url matches user:password in a URL, and a webhook's secret path. The text "://" is at i.
func (m *matcher) url(i int) hit {
	s := m.text
	if !startsWith(s, i, "://") {
		return hit{}
	}
	start := i + len("://")
	if h := m.webhook(start); h.kind != noKind {
		return h
	}
	colon, atSign, end := -1, -1, start
scan:
	for ; end < len(s); end++ { // the loop stops at the next URL, so no byte is read twice
		switch c := s[end]; {
		case c == ':' && colon < 0:
			colon = end
		case c == '@':
			atSign = end
		case c <= ' ', c == '/', c == '?', c == '#', c == '<', c == '>', c == '[', c == ',', isQuote(c), c == '\\', c == ')':
			break scan
		}
	}
	if colon < 0 && atSign > start && isRandom(s[start:atSign]) { // a token in place of user and password
		return hit{start, atSign, m.vendorKind(start, atSign, urlCredentials)}
	}
	if colon < 0 || atSign <= colon+1 || !isLiteral(s[colon+1:atSign]) || isDummy(s[colon+1:atSign]) && (!slices.ContainsFunc(s[colon+1:atSign], isLower) || isAddressTemplate(s[start:colon], s[atSign+1:end])) {
		return hit{}
	}
	return hit{start, atSign, urlCredentials}
}

// isAddressTemplate reports whether a user name and an address are the words for them, as in user:password@host:port.
func isAddressTemplate(user, address []byte) bool {
	host, _, _ := bytes.Cut(address, []byte(":"))
	return isAnyOf(user, "user", "username", "user_name", "usr", "login", "name", "account", "myuser", "db_user", "dbuser", "default", "root", "admin", "guest", "postgres") &&
		isAnyOf(host, "host", "hostname", "server", "servername", "address", "addr", "ip", "db_host", "dbhost", "myhost", "broker", "endpoint", "domain")
}

func isAnyOf(v []byte, words ...string) bool {
	return slices.Contains(words, string(bytes.ToLower(v)))
}

// webhooks lists how webhook URLs begin after the scheme. The rest of such a URL is a key.
//
//nolint:gochecknoglobals // read only
var webhooks = []struct {
	start string
	kind  kind
}{
	{"hooks.slack.com/services/", slackToken},
	{"hooks.slack.com/workflows/", slackToken},
	{"hooks.slack.com/triggers/", slackToken},
	{"hooks.zapier.com/hooks/catch/", secret},
	{"maker.ifttt.com/trigger/", secret},
	{".webhook.office.com/webhookb2/", secret},
	{"outlook.office.com/webhook/", secret},
	{"ptb.discord.com/api/webhooks/", secret},
	{"canary.discord.com/api/webhooks/", secret},
	{"discord.com/api/webhooks/", secret},
	{"discordapp.com/api/webhooks/", secret},
	{"api.telegram.org/bot", secret},
	{".g.alchemy.com/v2/", secret},
	{".g.alchemy.com/nft/v3/", secret},
	{".infura.io/v3/", secret},
	{".infura.io/ws/v3/", secret},
	{".quiknode.pro/", secret},
	{".blastapi.io/", secret},
}

func (m *matcher) webhook(start int) hit {
	const minKey, minZapierKey = 20, 12 // Zapier's keys are shorter
	dot := runEnd(m.text, start, maxName, tokenByte)
	for _, w := range webhooks {
		host := start
		if w.start[0] == '.' { // a subdomain
			host = dot
		}
		if byteAt(m.text, host) != w.start[0] || !startsWith(m.text, host, w.start) {
			continue
		}
		p := host + len(w.start)
		end := p
		for end < len(m.text) && (byteClass[m.text[end]]&tokenByte != 0 || m.text[end] == '/' || m.text[end] == ':' || m.text[end] == '@') {
			end++
		}
		if n := end - p; n >= minKey && hasDigit(m.text[p:end]) || n >= minZapierKey && w.start == "hooks.zapier.com/hooks/catch/" {
			return hit{p, end, w.kind}
		}
	}
	return hit{}
}

// userFlag matches the password in curl -u user:password. The dash is at i.
func (m *matcher) userFlag(i int) hit {
	p := i + len("-u")
	if byteAt(m.text, p) == ' ' {
		p++
	}
	if h := m.userPassword(p); h.kind != noKind {
		return h
	}
	if h := m.passwordAfter(p, ','); h.kind != noKind && bytes.Contains(m.command(i), []byte("lftp ")) {
		return h
	}
	return hit{}
}

// passwordAfter matches the password after a separator in the word at p: user,password or user%password.
func (m *matcher) passwordAfter(p int, separator byte) hit {
	if isQuote(byteAt(m.text, p)) {
		p++
	}
	at := bytes.IndexByte(m.text[p:runEnd(m.text, p, maxValue, wordByte)], separator)
	if at < 1 {
		return hit{}
	}
	return m.value(p+at+1, passwordClass, valueContext{literal: true, allowDots: true})
}

// userPassword matches the password in user:password at p. curl accepts an empty user, and the shell accepts quotes
// around the user or the password.
func (m *matcher) userPassword(p int) hit {
	const maxLen = 256
	curl := bytes.Contains(m.command(p), []byte("curl "))
	s, quote := m.text, byte(0)
	if p < len(s) && isQuote(s[p]) {
		quote = s[p]
		p++
	}
	end := runEnd(s, p, maxLen, wordByte)
	colon := bytes.IndexByte(s[p:end], ':')
	if colon < 1 && !(curl && colon == 0) || p < m.lastEnd {
		return hit{}
	}
	from := p + colon + 1
	if quote == 0 && curl && from < len(s) && isQuote(s[from]) {
		quote = s[from]
		from++
	}
	if quote != 0 && curl {
		if close := bytes.IndexByte(s[from:min(len(s), from+maxLen)], quote); close > 0 && bytes.IndexByte(s[from:from+close], '\n') < 0 {
			end = from + close
		}
	}
	v := s[from:max(from, end)]
	if s[p] == '<' && byteAt(s, end-1) == '>' || bytes.HasPrefix(s[p:], []byte("${")) { // <user:password>, ${USER}:${PASSWORD}
		return hit{}
	}
	if len(v) == 0 && curl && isRandom(s[p:p+colon]) { // curl -u KEY: sends a key as the user's name
		return hit{p, p + colon, urlCredentials}
	}
	if !isLiteral(v) || bytes.Contains(s[p:end], []byte(Placeholder)) || !isPassword(v, valueContext{literal: curl, allowDots: true}) && !(curl && hasDigit(v) && bytes.IndexByte(v, '$') < 0) {
		return hit{}
	}
	if end == p+maxLen {
		end = classRunEnd(s, end, wordByte)
	}
	return hit{p, end, urlCredentials}
}

// dataSource matches the credentials before the @ at i. MySQL has user:password before @tcp( or @unix(. Oracle has
// user/password in a JDBC URL or after sqlplus.
func (m *matcher) dataSource(i int) hit {
	const maxLen = 128
	start := m.runStart(i, maxLen, wordByte)
	start += bytes.LastIndexByte(m.text[start:i], '=') + 1
	separator := byte(':')
	switch oracle := bytes.LastIndex(m.text[start:i], []byte("jdbc:oracle:")); {
	case startsWith(m.text, i, "@tcp(") || startsWith(m.text, i, "@unix("):
	case oracle >= 0:
		start, separator = start+bytes.LastIndexByte(m.text[start:i], ':')+1, '/'
	case bytes.HasSuffix(m.text[m.lastEnd:start], []byte("sqlplus ")):
		separator = '/'
	default:
		return hit{}
	}
	between := bytes.IndexByte(m.text[start:i], separator)
	if between < 1 || !isLiteral(m.text[start+between+1:i]) {
		return hit{}
	}
	_, address, _ := bytes.Cut(m.text[i+1:runEnd(m.text, i+1, maxLen, wordByte)], []byte("("))
	if address, _, _ = bytes.Cut(address, []byte(")")); isDummy(m.text[start+between+1:i]) && isAddressTemplate(m.text[start:start+between], address) {
		return hit{}
	}
	return hit{start, i, urlCredentials}
}
