package redact

import (
	"bytes"
	"slices"
	"strings"
	"unicode"
)

// The functions in this file find secrets whose name is not followed by = or :. Such secrets occur in lists, commands,
// tables and prose.

// listItem matches the string after a secret's name: ["X-Api-Key", "..."], setenv("DB_PASSWORD", "..."). The comma is
// at i.
func (m *matcher) listItem(i int) hit {
	s := m.text
	if i > 0 && isUpper(s[i-1]) {
		return m.constantArgument(i)
	}
	quote, end := s[i-1], i-1
	p := skipSpace(s[:min(len(s), i+maxBlanks)], i+1)
	if byteAt(s, p) != quote {
		return hit{}
	}
	if m.stringList.class != noClass && m.stringList.end == end {
		return m.nextListItem(p)
	}
	if h := m.credentialPair(i, p, quote); h.kind != noKind {
		return h
	}
	if end < 2 || !isDigit(s[end-1]) && !mayEndSecretName(s, end) {
		return hit{}
	}
	start := m.runStart(end, maxName, nameByte)
	if start < 2 || s[start-1] != quote {
		return hit{}
	}
	class := classifyKey(s[start:end])
	if !class.isSecret() {
		return hit{}
	}
	open := bytes.TrimRight(s[max(0, start-maxBlanks):start-1], " \t\r\n")
	isLaterArgument := class == secretClass && len(open) > 0 && open[len(open)-1] == ',' // ('stripe', 'api_token', '...')
	if len(open) == 0 || !isLaterArgument && !strings.ContainsRune("[({", rune(open[len(open)-1])) {
		return hit{}
	}
	h := hit{}
	if class == headerClass {
		h = m.headerValue(p, false)
	} else {
		h = m.value(p, class, valueContext{})
	}
	if h.kind != noKind && !bytes.ContainsAny(s[h.start:h.end], "0123456789!@#$%^&*+") && classifyKey(s[h.start:h.end]).isSecret() { // a name list
		return hit{}
	}
	h = m.wholeValue(h)
	if last := skipSpace(s[:min(len(s), h.end+maxBlanks)], h.end+1); h.kind == noKind || last < len(s) && !strings.ContainsRune("])}", rune(s[last])) {
		return hit{}
	}
	return h
}

// nextListItem matches the second and later strings in "tokens": ["...", "..."]. The string begins at p.
func (m *matcher) nextListItem(p int) hit {
	class := m.stringList.class
	m.stringList.class = noClass
	n := bytes.IndexByte(m.text[p+1:min(len(m.text), p+1+maxValue)], m.text[p])
	if n < 0 {
		return m.value(p, class, valueContext{})
	}
	m.stringList.class, m.stringList.end = class, p+1+n
	if !isListedSecret(class, m.text[p+1:p+1+n]) {
		return hit{}
	}
	return m.value(p, class, valueContext{})
}

// isListedSecret reports whether v, an item in a list, may be a secret. class is the class of the list's name. A list
// named "password" may also contain a web form's rules, such as min:8.
func isListedSecret(class keyClass, v []byte) bool {
	if class != passwordClass {
		return class.isSecret()
	}
	return len(v) > 0 && hasDigit(v) && isMixed(v) && !bytes.ContainsAny(v, ": ") && isPassword(v, valueContext{quoted: true}) && !isTechnicalTerm(v)
}

// constantArgument matches the string after a constant: setopt(CURLOPT_PASSWORD, "..."). The comma is at i.
func (m *matcher) constantArgument(i int) hit {
	s := m.text
	if !mayEndSecretName(s, i) {
		return hit{}
	}
	start := m.runStart(i, maxName, nameByte)
	name, p := s[start:i], skipMarks(s, i+1)
	name = name[bytes.LastIndexByte(name, '.')+1:] // Context.SECURITY_CREDENTIALS
	class := classifyWord(name)
	if class == secretClass && bytes.HasSuffix(name, []byte("_CREDENTIALS")) {
		class = passwordClass
	}
	if !isQuote(byteAt(s, p)) || slices.ContainsFunc(name, isLower) || bytes.IndexByte(name, '_') < 0 || !class.isSecret() || class == headerClass {
		return hit{}
	}
	return m.value(p, class, valueContext{})
}

// credentialPair matches the password in BasicAuth("bob", "..."), auth=("bob", "...") and login("bob", "..."). The
// comma is at i, and the second string begins at p.
func (m *matcher) credentialPair(i, p int, quote byte) hit {
	const maxDistance = 64
	s := m.text
	if bytes.IndexByte(s[max(m.lastEnd, i-maxName-maxDistance):i], '(') < 0 {
		return hit{}
	}
	closing := bytes.IndexByte(s[p+1:lineEnd(s, p+1)], quote)
	if after := skipSpace(s[:min(len(s), p+closing+2+maxBlanks)], p+closing+2); closing >= 0 && after < len(s) && s[after] != ')' {
		return hit{}
	}
	start := m.runStart(i-1, maxName, nameByte|localByte)
	for start < i-1 && isQuote(s[start]) {
		start++
	}
	if start < 2 || s[start-1] != quote || s[start-2] != '(' && s[start-2] != ' ' {
		return hit{}
	}
	from := max(m.lastEnd, start-maxDistance)
	open := from + bytes.LastIndexByte(s[from:start], '(')
	if open < from || bytes.ContainsAny(s[open+1:start-1], "()\n{}") {
		return hit{}
	}
	end := open
	for end > m.lastEnd && (s[end-1] == '=' || s[end-1] == ' ') {
		end--
	}
	name := s[m.runStart(end, maxName, nameByte):end]
	literal := startsFold(name, len(name)-len("auth"), "auth") || startsFold(name, len(name)-len("passwordcredentials"), "passwordcredentials")
	if !literal && !takesCredentials(name) {
		return hit{}
	}
	h := m.wholeValue(m.value(p, passwordClass, valueContext{literal: literal, allowDots: true}))
	if h.kind == noKind || skipSpace(s, h.end+1) < len(s) && s[skipSpace(s, h.end+1)] != ')' {
		return hit{}
	}
	return h
}

func takesCredentials(name []byte) bool {
	for _, end := range [...]string{"login", "log_in", "signin", "sign_in", "authenticate", "credential", "credentials", "getconnection", "pdo"} {
		if startsFold(name, len(name)-len(end), end) {
			return true
		}
	}
	return false
}

// sqlPassword matches the password in the SQL clause IDENTIFIED BY 'hunter22'. The Y is at i.
func (m *matcher) sqlPassword(i int) hit {
	const maxDistance = 64
	q := byteAt(m.text, i+2)
	if q == '`' || !isQuote(q) && !bytes.HasSuffix(m.text[:i-1], []byte("IDENTIFIED ")) { // without a quote, BY may be prose
		return hit{}
	}
	if !bytes.Contains(bytes.ToLower(m.text[max(m.lastEnd, i-maxDistance):i]), []byte("identified ")) {
		return hit{}
	}
	return m.value(i+2, passwordClass, valueContext{hasQuotedName: isQuote(q)})
}

// pgpassValue matches the password in a .pgpass line: host:port:database:user:password. The first colon is at i.
func (m *matcher) pgpassValue(i int) hit {
	const maxLen, shortPort = 256, 4
	s := m.text
	port := classRunEnd(s, i+1, digitByte)
	if port-i <= shortPort && byteAt(s, port) != '*' || byteAt(s, port) == ':' && isDigit(byteAt(s, port+1)) {
		return hit{}
	}
	start, end := m.runStart(i, maxLen, nameByte), runEnd(s, i, maxLen, wordByte)
	if start > 0 && s[start-1] > ' ' && !isQuote(s[start-1]) || byteAt(s, port) == '*' && port > i+1 || bytes.ContainsAny(s[i:end], ",;(") {
		return hit{}
	}
	p := i + 1
	for range 3 { // after the port, the database and the user
		colon := bytes.IndexByte(s[p:end], ':')
		if colon < 0 {
			return hit{}
		}
		p += colon + 1
	}
	h := m.checkValue(p, end, passwordClass, valueContext{allowDots: true})
	if h.kind != noKind && end == i+maxLen {
		h.end = classRunEnd(s, h.end, wordByte)
	}
	return h
}

// bareName matches the password after or before a name without = or :. The name (password, passphrase, pwd) contains ss
// or pw, and the second of these two letters is at i.
func (m *matcher) bareName(i int) hit {
	s := m.text
	if c := s[i]; (c == 's' || c == 'S') && !startsFold(s, i-len("pas"), "pass") && lower(byteAt(s, i+1)) != 'k' && byteAt(s, i+1) != '_' {
		return hit{}
	}
	start, end := m.runStart(i, maxName, nameByte), runEnd(s, i, maxName, tokenByte)
	if end >= len(s) && bytes.IndexByte(s[max(m.lastEnd, start-maxName):start], ' ') < 0 {
		return hit{}
	}
	name := s[start:end]
	class := classifyKey(name)
	m.markColumn(start, end, class)
	if !class.isSecret() {
		return hit{}
	}
	if len(name) < len("password") && !m.isCell(start, end) {
		p := max(typedValueStart(s, start, end), afterShortName(s, name, end))
		if class != passwordClass || p == 0 {
			return hit{}
		}
		return m.value(p, class, valueContext{literal: true, allowDots: true})
	}
	if class != passwordClass {
		if byteAt(s, end) != ' ' {
			return hit{}
		}
		return m.value(nextCell(s, end), class, valueContext{})
	}
	if string(name) == "htpasswd" {
		return m.htpasswd(end)
	}
	if h := m.valueBeforeName(start, end); h.kind != noKind {
		return h
	}
	p := m.afterName(start, end)
	if p == 0 {
		return hit{}
	}
	// SQL and .netrc have no variables at this place, so a plain word is a password.
	literal := (string(name) == "PASSWORD" || isPassphraseName(name)) && isQuote(byteAt(s, p)) || m.isNetrc(start)
	h := m.value(p, class, valueContext{literal: literal, allowDots: true})
	if h.kind == noKind || isTechnicalTerm(s[h.start:h.end]) || !isQuote(byteAt(s, p)) && (isQuestion(s[h.start:h.end]) || m.isInTemplate(start)) {
		return hit{}
	}
	return h
}

// isInTemplate reports whether the name at start is in a template expression such as {{ .Values.password | b64enc }}.
func (m *matcher) isInTemplate(start int) bool {
	const maxDistance = 80
	line := m.text[max(m.lastEnd, start-maxDistance):start]
	line = line[bytes.LastIndexByte(line, '\n')+1:]
	for _, mark := range [...]struct{ open, close string }{{"{{", "}}"}, {"<%", "%>"}, {"#{", "}"}, {"{%", "%}"}} {
		if open := bytes.LastIndex(line, []byte(mark.open)); open >= 0 && !bytes.Contains(line[open:], []byte(mark.close)) {
			return true
		}
	}
	return false
}

func (m *matcher) isCell(start, end int) bool {
	return start > 1 && startsWith(m.text, start-2, "| ") && startsWith(m.text, end, " | ") && !startsFold(m.text, start, "pass ")
}

// isQuestion reports whether v is a word with only letters and a question mark, as in "Passwort vergessen?".
func isQuestion(v []byte) bool {
	word, question := bytes.CutSuffix(v, []byte("?"))
	return question && bytes.IndexFunc(word, func(r rune) bool { return !unicode.IsLetter(r) }) < 0
}

// afterPurpose returns where the value in "secret for the webhook: ..." begins, or 0. The name ends at end.
func afterPurpose(s []byte, end int) int {
	if !startsWith(s, end, " for ") && !startsWith(s, end, " of ") && !startsWith(s, end, " per ") && !startsWith(s, end, " für ") && !startsWith(s, end, " pour ") && !startsWith(s, end, " para ") {
		return 0
	}
	if p, colon := phraseEnd(s, end); colon {
		return skipMarks(s, p+1)
	}
	return 0
}

// valueAfterRemark matches the value after a name with a remark: token (prod): ..., password (temporary) - ... The
// colon or dash after the remark is at i.
func (m *matcher) valueAfterRemark(i int) hit {
	const maxLen = 32
	s := m.text
	close := i - 1
	if s[close] == ' ' {
		close--
	}
	if close <= m.lastEnd || s[close] != ')' {
		return hit{}
	}
	from := max(m.lastEnd, close-maxLen)
	open := bytes.LastIndexByte(s[from:close], '(')
	if open < 1 || s[from+open-1] != ' ' {
		return hit{}
	}
	end := from + open - 1
	start := m.runStart(end, maxName, nameByte)
	if start == end {
		return hit{}
	}
	class := m.classifyAssigned(start, s[start:end], false)
	if !class.isSecret() || class == headerClass {
		return hit{}
	}
	return m.value(skipMarks(s, i+1), class, valueContext{allowDots: true})
}

// loginPair matches the password in "log in with bob / hunter2!". The slash is at i.
func (m *matcher) loginPair(i int) hit {
	const maxDistance = 48
	s := m.text
	start := m.runStart(i-1, maxName, localByte|nameByte)
	before := bytes.ToLower(s[max(m.lastEnd, start-maxDistance):start])
	before = before[bytes.LastIndexAny(before, "\n.!?")+1:]
	if start == i-1 || !slices.ContainsFunc([]string{"login", "log in", "logged in", "sign in", "credential", "creds", "access with", "zugang", "anmelde"}, func(word string) bool {
		return bytes.Contains(before, []byte(word))
	}) {
		return hit{}
	}
	h := m.value(i+2, passwordClass, valueContext{allowDots: true})
	if h.kind == noKind || !isStrong(s[h.start:h.end]) && !isMixed(s[h.start:h.end]) {
		return hit{}
	}
	return h
}

// isPlainWord reports whether the word at p has only lower-case letters, and is therefore not a secret. In prose, most
// words after a secret's name are plain.
func isPlainWord(s []byte, p int) bool {
	end := p
	for isLower(byteAt(s, end)) {
		end++
	}
	return end > p && (byteAt(s, end) == ' ' || byteAt(s, end) == '\n')
}

// htpasswd matches the password in "htpasswd -b FILE USER PASSWORD". The space before the options is at p.
func (m *matcher) htpasswd(p int) hit {
	const maxLen, maxOptions = 128, 8
	s := m.text
	option := runEnd(s, p+1, maxLen, wordByte)
	if byteAt(s, p+1) != '-' || bytes.IndexByte(s[p:option], 'b') < 0 {
		return hit{}
	}
	p = option
	for range maxOptions {
		if c := byteAt(s, p); c != ' ' && c != '\t' || byteAt(s, p+1) != '-' {
			break
		}
		p = runEnd(s, p+1, maxLen, wordByte)
	}
	for range 2 { // the file and the user
		p = runEnd(s, p+1, maxLen, wordByte)
	}
	return m.value(skipMarks(s, p), passwordClass, valueContext{allowDots: true})
}

// isNetrc reports whether the text before the name at start is "machine HOST login USER", as in a .netrc line.
func (m *matcher) isNetrc(start int) bool {
	const maxDistance = 160
	before := bytes.Fields(m.text[max(m.lastEnd, start-maxDistance):start])
	n := len(before)
	return n >= 4 && bytes.HasSuffix(before[n-4], []byte("machine")) && string(before[n-2]) == "login"
}

// redisAuth matches the password in the Redis AUTH command. The command must begin a line or a quoted text, or follow a
// prompt, and the password must end the line. The H in AUTH is at i.
func (m *matcher) redisAuth(i int) hit {
	s := m.text
	start := i - len("AUT")
	if start < m.lastEnd || !startsWith(s, start, "AUTH ") {
		return hit{}
	}
	if start > 0 && s[start-1] != '\n' && !isQuote(s[start-1]) && (start == 1 || s[start-2] != '>') {
		return hit{}
	}
	p := i + len("H ")
	end := runEnd(s, p, maxValue, wordByte)
	if byteAt(s, end) == ' ' { // after the user's name
		p, end = end+1, runEnd(s, end+1, maxValue, wordByte)
	}
	if c := byteAt(s, end); c == ' ' || c == '\t' {
		return hit{}
	}
	return m.checkValue(p, end, passwordClass, valueContext{})
}
