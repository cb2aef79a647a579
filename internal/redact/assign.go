package redact

import (
	"bytes"
	"slices"
	"strings"
)

// assignment matches a value after the separator (such as = or :) at i: password=..., "api_key": "...",
// secret := "...", <password>..., setPassword("...").
func (m *matcher) assignment(i int) hit {
	s := m.text
	p := afterSeparator(s, i)
	if p == 0 {
		return hit{}
	}
	if p < len(s) && s[p] == '\n' {
		if h := m.valueBelow(i); h.kind != noKind {
			return h
		}
	}
	end := m.runStart(i, maxBlanks, paddingByte)
	if end == m.lastEnd || end-1 > m.lastEnd && s[end-2] < 0x80 && isLetter(s[end-1]) && !mayEndSecretName(s, end) {
		return hit{}
	}
	if class := m.classifyForeignLabel(end); class != noClass {
		return m.assignedValue(i, p, class, valueContext{hasQuotedName: end < i && isQuote(s[end]), allowDots: true})
	}
	// A secret's name may end in digits, as in PASSWORD2. Most other digits before a separator are values or line
	// numbers.
	stem := m.runStart(end, maxName, digitByte)
	if !mayEndSecretName(s, stem) {
		return hit{}
	}
	hasQuotedName := end < i && isQuote(s[end]) && s[i] == ':'
	start := m.runStart(end, maxName, nameByte)
	name := s[start:end]
	class := m.classifyAssigned(start, name, hasQuotedName)
	if class == noClass && len(name) == len("pass") && startsFold(name, 0, "pass") {
		return m.passValue(start, i, p)
	}
	if !class.isSecret() || !m.assigns(start, i, name) || isPluralName(name) && !startsList(s, p) {
		return hit{}
	}
	if class == passwordClass && !hasQuotedName && s[i] == ':' && bytes.HasSuffix(name, []byte("Pass")) && isPassName(s[skipMarks(s, p):runEnd(s, skipMarks(s, p), maxName, nameByte)]) {
		return hit{}
	}
	// Shell scripts and XML have no variables at this place, so a plain word is a password.
	literal := s[i] == '>' || end == i && !slices.ContainsFunc(name, isLower) &&
		(s[i] == '=' && (byteAt(s, p) > ' ' || isQuote(byteAt(s, p))) || s[i] == ':' && bytes.IndexByte(name, '_') >= 0)
	vc := valueContext{hasQuotedName: hasQuotedName, literal: literal, afterEqualsSign: s[i] == '='}
	if class == passwordClass && !hasQuotedName {
		if h := m.assignedPassword(start, end, i, p, &vc); h.kind != noKind {
			return h
		}
	}
	h := m.assignedValue(i, p, class, vc)
	if h.kind == noKind && class == basicClass && name[0] == '_' { // npm's _auth=...
		return m.assignedValue(i, p, secretClass, vc)
	}
	return m.rejectNameAsValue(h, name)
}

// rejectNameAsValue returns h, or no hit if the value equals the name: DB_PASSWORD=DB_PASSWORD.
func (m *matcher) rejectNameAsValue(h hit, name []byte) hit {
	if h.kind != noKind && bytes.Equal(m.text[h.start:h.end], name) && !slices.ContainsFunc(name, isLower) {
		return hit{}
	}
	return h
}

// afterSeparator returns the position after the separator that begins at i, or 0 if the text is not a separator, such
// as ::.
func afterSeparator(s []byte, i int) int {
	p := i + 1
	switch next := byteAt(s, p); {
	case s[i] == ':' && (next == '=' || next == ':'), s[i] == '=' && next == '=':
		return 0
	case s[i] == '=' && next == '>':
		return p + 1
	case s[i] == '=' && next == '3' && startsWith(s, p, "3D") && isQuote(byteAt(s, p+len("3D"))): // = in quoted-printable
		return p + len("3D")
	}
	return p
}

// valueBelow matches a password on the line below "Please use the following password to proceed:". An empty line may be
// in between. The colon is at i.
func (m *matcher) valueBelow(i int) hit {
	const maxLine, maxLen = 120, 128
	s := m.text
	p := i + 1
	for p < len(s) && p-i <= 3 && s[p] == '\n' {
		p++
	}
	end := runEnd(s, p, maxLen, wordByte)
	if s[i] != ':' || end == p || end < len(s) && s[end] != '\n' && s[end] != '\r' || !isRandom(s[p:end]) && !isStrong(s[p:end]) {
		return hit{}
	}
	line := s[max(m.lastEnd, i-maxLine):i]
	line = bytes.ToLower(line[bytes.LastIndexByte(line, '\n')+1:])
	if !bytes.Contains(line, []byte("password")) || !bytes.Contains(line, []byte(" ")) {
		return hit{}
	}
	return m.checkValue(p, end, passwordClass, valueContext{})
}

func startsList(s []byte, p int) bool {
	list := skipSpace(s[:min(len(s), p+maxBlanks)], p)
	return byteAt(s, list) == '[' || startsWith(s, list, "- ")
}

func isPluralName(name []byte) bool {
	for _, end := range [...]string{"tokens", "secrets", "keys"} {
		if startsFold(name, len(name)-len(end), end) {
			return true
		}
	}
	return false
}

// classifyForeignLabel returns the class of a label in another language. The label ends at end. The switch avoids the
// slow comparison for most labels.
func (m *matcher) classifyForeignLabel(end int) keyClass {
	s := m.text
	foreign := false
	switch s[end-1] {
	case 'l':
		foreign = startsWith(s, end-len("ssel"), "ssel")
	case 'I':
		foreign = startsWith(s, end-len("API"), "API")
	case 'e':
		foreign = startsWith(s, end-len("ifre"), "ifre")
	}
	if !foreign && s[end-1] < 0x80 && (end-1 <= m.lastEnd || s[end-2] < 0x80) {
		return noClass
	}
	return classifyForeign(s[m.lastEnd:end])
}

func classifyForeign(text []byte) keyClass {
	switch {
	case endsInForeignPassword(text):
		return passwordClass
	case endsInForeignToken(text):
		return secretClass
	}
	return noClass
}

func (m *matcher) classifyAssigned(start int, name []byte, hasQuotedName bool) keyClass {
	if hasQuotedName {
		return classifyKey(name)
	}
	s := m.text
	class := classifyWord(name)
	switch {
	case len(name) == len("phrase") && startsFold(name, 0, "phrase") && namesSeed(s[m.lastEnd:start]):
		return seedClass
	case len(name) == len("key") && class == bareKeyClass && precedesKey(s[m.lastEnd:start]): // api key: ...
		return secretClass
	case class == bareKeyClass && m.isVendorKey(start, start+len(name)): // Stripe key = ...
		return keyNameClass
	case string(name) == "key" && start > 0 && strings.IndexByte("?&", s[start-1]) >= 0: // "key" is a secret only as a URL parameter
		return keyNameClass
	}
	return class
}

// assigns reports whether the separator at i assigns a value. A ">" must end a tag, and a "(" must follow the name of a
// function that takes a secret.
func (m *matcher) assigns(start, i int, name []byte) bool {
	switch m.text[i] {
	case '>':
		if start > 0 && m.text[start-1] == ':' { // an XML namespace
			start = m.runStart(start-1, maxName, nameByte)
		}
		return start > 0 && m.text[start-1] == '<'
	case '(':
		return isSecretSetter(name) || isWalletConstructor(name)
	}
	return !startsFold(name, len(name)-len("wallet"), "wallet") // an address
}

func precedesKey(before []byte) bool {
	before, blank := bytes.CutSuffix(before[max(0, len(before)-maxBlanks):], []byte(" "))
	if !blank {
		return false
	}
	word := before[bytes.LastIndexFunc(before, func(r rune) bool { return r >= 0x80 || !isAlnum(byte(r)) })+1:]
	switch string(bytes.ToLower(word)) {
	case "api", "access", "secret", "private", "auth", "signing", "encryption", "master", "license", "licence", "app", "account", "subscription", "session", "service", "admin", "shared", "product", "activation", "serial":
		return true
	}
	return false
}

func (m *matcher) assignedValue(i, p int, class keyClass, vc valueContext) hit {
	s := m.text
	p = skipMarks(s, p)
	if class == headerClass {
		return m.headerValue(p, vc.hasQuotedName)
	}
	if class != passwordClass && s[i] != '>' && byteAt(s, p) == '<' { // Token: <...>
		p++
	}
	if s[i] == '>' && byteAt(s, p) == '\n' { // <token>, then the token on its own line
		p = skipSpace(s[:min(len(s), p+maxBlanks)], p)
	}
	if startsWith(s, p, "<![CDATA[") {
		p += len("<![CDATA[")
	}
	if s[i] != ':' {
		return m.value(p, class, vc)
	}
	if c := byteAt(s, p); !vc.hasQuotedName && (isAlnum(c) || c == '&' || c == '[' || c == '*') {
		if typed := m.afterType(p); typed > 0 { // password: string = "..."
			return m.value(typed, class, vc)
		}
	}
	if startsWith(s, p, "!!binary ") { // a YAML tag
		p += len("!!binary ")
	}
	if block := p; byteAt(s, block) == '|' || byteAt(s, block) == '>' { // a YAML text block
		if block++; byteAt(s, block) == '-' || byteAt(s, block) == '+' {
			block++
		}
		p = max(p, skipSpace(s[:min(len(s), block+1)], block))
	}
	if c := byteAt(s, p-1); c != '\n' && byteAt(s, p) != '\n' && byteAt(s, p) != '\r' {
		return m.value(p, class, vc)
	}
	p = skipSpace(s[:min(len(s), p+maxBlanks)], p)
	if class == secretClass && startsWith(s, p, "- ") {
		p += len("- ")
	}
	h := m.wholeValue(m.value(p, class, vc))
	if c := byteAt(s, h.end); h.kind == noKind || !isQuote(c) && (c > ' ' || c == ' ') || bytes.ContainsAny(bytes.TrimRight(s[h.start:h.end], "="), "=:") {
		return hit{} // the line contains more than a value
	}
	return h
}

const maxName = 40 // bytes

const maxBlanks = 48 // before a value; aligned tables have many

func skipMarks(s []byte, p int) int {
	from := p
	for p < len(s) && p-from < maxBlanks {
		switch {
		case s[p] == ' ' || s[p] == '\t':
			p++
		case startsWith(s, p, "**") && byteAt(s, p+2) != '*':
			p += 2
		case startsWith(s, p, "\x1b["):
			for p += 2; byteAt(s, p) == ';' || isDigit(byteAt(s, p)); p++ {
			}
			p++
		default:
			return p
		}
	}
	return p
}

// isWalletConstructor reports whether name is a function that takes an Ethereum private key, such as ethers.Wallet.
func isWalletConstructor(name []byte) bool {
	return bytes.HasSuffix(name, []byte("Wallet")) || string(name) == "privateKeyToAccount"
}

func isSecretSetter(name []byte) bool {
	call := name[bytes.LastIndexByte(name, '.')+1:]
	return string(name) == "PASSWORD" || startsFold(call, 0, "set") || startsFold(call, 0, "with") || len(call) < len(name) && startsFold(call, 0, "pass")
}

func (m *matcher) value(p int, class keyClass, vc valueContext) hit {
	s := m.text
	if p >= len(s) {
		return hit{}
	}
	p = quoteAt(s, p)
	inList := p > 0 && s[p-1] == '['
	if class == seedClass && !isQuote(s[p]) {
		return m.seedPhrase(p, vc)
	}
	if q := s[p]; isQuote(q) {
		area := s[p+1 : min(len(s), p+1+maxValue)]
		if line := bytes.IndexByte(area, '\n'); line >= 0 {
			area = area[:line]
		}
		if end := bytes.IndexByte(area, q); end >= 0 {
			vc.quoted = true
			if inList {
				m.stringList.class, m.stringList.end = class, p+1+end
			}
			return m.checkValue(p+1, p+1+end, class, vc)
		}
		if vc.hasQuotedName && p+1+len(area) == len(s) { // the text was cut off inside the value
			if h := m.checkValue(p+1, len(s), class, valueContext{quoted: true, hasQuotedName: true}); h.kind != noKind {
				return h
			}
		}
		p++
		if word := runEnd(s, p, maxValue, wordByte); word < p+maxValue && p < len(s) && !isAlnum(s[p]) { // the quote at p may close an earlier text
			return hit{}
		}
		if p == len(s) {
			return hit{}
		}
	}
	if vc.inConnectionString {
		if h := m.connectionValue(p, class); h.kind != noKind {
			return h
		}
	}
	return m.bareValue(p, class, vc)
}

func (m *matcher) seedPhrase(p int, vc valueContext) hit {
	line, _, _ := bytes.Cut(m.text[p:lineEnd(m.text, p)], []byte(" #"))
	return m.checkValue(p, p+len(bytes.TrimRight(line, " \t\r.")), seedClass, vc)
}

func (m *matcher) bareValue(p int, class keyClass, vc valueContext) hit {
	s := m.text
	end := p
	for end < len(s) && end-p < maxValue && !endsValue(s[end]) {
		end++
	}
	if word := m.passwordWord(p, end); class == passwordClass && word > end {
		return m.checkValue(p, word, class, vc)
	}
	if class == secretClass || class == keyNameClass {
		if word := runEnd(s, p, maxValue, wordByte); word > end && isScrambled(s[p:word]) {
			return m.checkValue(p, word, class, vc)
		}
	}
	if c := byteAt(s, end); c == '(' || c == '[' { // a call or an index, not a value
		if word := bracketWordEnd(s, p, end); class == passwordClass && word > 0 {
			return m.checkValue(p, word, class, vc)
		}
		return hit{}
	}
	for end > p && end-p < maxValue && (s[end-1] == '.' || s[end-1] == ':') {
		end--
	}
	return m.checkValue(p, end, class, vc)
}

// passwordWord returns the end of a password with punctuation inside, such as Kx9vq&Lm42, or 0. The password begins at
// p, and the punctuation is at end. If no digit precedes the punctuation, or an = follows, the punctuation separates
// items instead. In prose, a digit may also follow an &.
func (m *matcher) passwordWord(p, end int) int {
	const minBase, maxLen = 4, 64
	s := m.text
	if bytes.IndexByte(s[m.runStart(p, maxLen, wordByte):p], '?') >= 0 { // a URL query
		return 0
	}
	inProse := p > 0 && s[p-1] == ' '
	if end-p < minBase || strings.IndexByte("&),;|[]{}", byteAt(s, end)) < 0 || !isMixed(s[p:end]) || !hasDigit(s[p:end]) && !(inProse && s[end] == '&') {
		return 0
	}
	word := end + 1
	for word < len(s) && word-p < maxLen && (isAlnum(s[word]) || strings.IndexByte(strongSymbols, s[word]) >= 0) {
		word++
	}
	if word == end+1 || !isAlnum(s[end+1]) || !hasDigit(s[p:word]) || word < len(s) && s[word] > ' ' && strings.IndexByte(".,;:!?)", s[word]) < 0 {
		return 0
	}
	if after := byteAt(s, word+1); word < len(s) && s[word] > ' ' && after > ' ' { // further punctuation inside the word
		return 0
	}
	return word
}

// bracketWordEnd returns the end of a password with a word in brackets, such as p1neapple(Radio), or 0. The password
// begins at p, and the bracket is at open. In a call, the name before the bracket has its digits at the end, or the
// argument begins with a small letter.
func bracketWordEnd(s []byte, p, open int) int {
	const minBase = 4
	base, end := s[p:open], classRunEnd(s, open+1, alnumByte)
	if s[open] != '(' || p == 0 || s[p-1] != ' ' || len(base) < minBase || !hasInnerDigit(base) || classRunEnd(base, 0, alnumByte) < len(base) || isTechnicalTerm(base) {
		return 0
	}
	if end == open+1 || isLower(s[open+1]) || byteAt(s, end) != ')' || strings.IndexByte(" .,;!?\r\n\x00", byteAt(s, end+1)) < 0 || byteAt(s, end+1) == ' ' && !isAlnum(byteAt(s, end+2)) {
		return 0
	}
	return end + 1
}

// connectionValue matches a password with a space, comma or braces in a connection string, as in "Password=two
// words;Encrypt=yes" or "Pwd={p;w}".
func (m *matcher) connectionValue(p int, class keyClass) hit {
	const maxLen = 128
	area := m.text[p:min(len(m.text), p+maxLen)]
	if area[0] == '{' {
		if end := bytes.IndexByte(area, '}'); end > 1 && area[1] != '{' && bytes.IndexByte(area[1:end], '{') < 0 && hasDigit(area[:end]) && classRunEnd(area, 0, wordByte) > end {
			return hit{p, p + end + 1, secret}
		}
	}
	end := bytes.IndexAny(area, ";\n\"'`\x10\x11\x12\x13")
	if end < 0 {
		end = len(area)
	}
	inside := bytes.IndexAny(area[:end], " ,")
	if inside < 0 || area[inside] == ' ' && byteAt(area, end) != ';' || area[inside] == ',' && bytes.IndexByte(area[:end], ' ') >= 0 {
		return hit{}
	}
	return m.checkValue(p, p+end, class, valueContext{quoted: true, inConnectionString: true})
}

func endsValue(c byte) bool {
	switch c {
	case ',', ';', '&', '<', '>', '(', ')', '{', '}', '[', ']', '|', '\\':
		return true
	}
	return c <= ' ' || isQuote(c)
}
