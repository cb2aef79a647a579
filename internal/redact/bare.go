package redact

import "bytes"

// bareSecret matches a random value near the word token, key or secret, without = or :, as in "the api token is ..."
// and "ENV API_TOKEN ...". The k in token, the e in key or the c in secret is at i.
func (m *matcher) bareSecret(i int) hit {
	const maxLen = 24
	s := m.text
	word := secretWordEnd(s, i)
	if word == 0 {
		return hit{}
	}
	end := runEnd(s, i, maxLen, tokenByte)
	mayBeSecretName := mayEndSecretName(s, end)
	if end > word {
		if start := m.runStart(i, maxName, nameByte); !mayBeSecretName || classifyWord(s[start:end]) == noClass {
			return m.labelledName(start, end)
		}
	}
	if !mayBeSecretName {
		return hit{}
	}
	if c := byteAt(s, end); c != ' ' && !isFieldEnd(c) && !isQuote(c) {
		return hit{}
	}
	if next := byteAt(s, end+1); byteAt(s, end) == ' ' && !isAlnum(next) && next != ' ' && next != '|' && next != '-' && next != 0xe2 && !isQuote(next) { // an operator, as in token := x
		return hit{}
	}
	start := m.runStart(i, maxName, nameByte)
	class := classifyWord(s[start:end])
	if first := m.runStart(max(m.lastEnd, start-1), maxName, alnumByte); class == bareKeyClass && first < start-1 && precedesKey(s[m.lastEnd:start]) {
		m.markColumn(first, end, secretClass)
	} else {
		m.markColumn(start, end, class)
	}
	if class.isSecret() && class != bareKeyClass {
		if value := max(m.afterType(end), terraformValueStart(s, end)); value > 0 {
			return m.value(value, class, valueContext{})
		}
	}
	if class == bareKeyClass && precedesKey(s[m.lastEnd:start]) {
		class = secretClass
	}
	if h := m.secretBeforeName(start, class); h.kind != noKind {
		return h
	}
	if h := m.comparedValue(start, end, class); h.kind != noKind {
		return h
	}
	if c := byteAt(s, end); c == '\n' || c == ',' || c == '|' {
		m.openManifest(start, end)
		return m.valueAlone(start, end, class)
	}
	return m.valueAfterBlank(start, end, class)
}

// secretWordEnd returns the end of the word token, key or secret around i, or 0.
func secretWordEnd(s []byte, i int) int {
	switch middle := s[i-1 : min(len(s), i+2)]; {
	case startsFold(middle, 0, "oke"):
		return i + len("ken")
	case startsFold(middle, 0, "key"):
		return i + len("ey")
	case startsFold(middle, 0, "ecr"):
		return i + len("cret")
	}
	return 0
}

// valueAfterBlank matches the value after a name and a space: "the api token is ...".
func (m *matcher) valueAfterBlank(start, end int, class keyClass) hit {
	const maxDistance = 12
	s := m.text
	if byteAt(s, end) != ' ' || !class.isSecret() || class == headerClass || class == passwordClass {
		return hit{}
	}
	if p := afterCipherType(s, end); p > 0 {
		return m.value(p, class, valueContext{})
	}
	if p := m.afterWords(end); p > 0 && (class != bareKeyClass || !startsFold(s, start-len("public "), "public ")) {
		h := m.value(p, class, valueContext{})
		if bytes.IndexByte(bytes.TrimRight(s[h.start:h.end], "="), '=') > 0 { // the check for the anchor "name=" reads the =
			return hit{}
		}
		return h
	}
	if class == bareKeyClass {
		if !m.isVendorKey(start, end) {
			return hit{}
		}
		class = keyNameClass
	}
	p := nextCell(s, end)
	p += linkLength(s, p)
	if p-end > maxDistance || class != basicClass && isPlainWord(s, p) {
		return hit{}
	}
	return m.value(p, class, valueContext{})
}

// linkLength returns the length of the link at p, including the following space, or 0. A link is a word or sign between
// a name and a value, such as "is " or "= ".
func linkLength(s []byte, p int) int {
	switch byteAt(s, p) {
	case 'i', 't', '=', 'a', '-', 0xe2:
		for _, link := range [...]string{"is: ", "is ", "to ", "= ", "as ", "- ", "– ", "— "} {
			if startsWith(s, p, link) {
				return len(link)
			}
		}
	}
	return 0
}

// afterWords returns where the value in "token for the webhook: ..." and "token that I got was ..." begins, or 0. The
// name ends at end.
func (m *matcher) afterWords(end int) int {
	s := m.text
	p, colon := phraseEnd(s, end)
	if colon {
		return skipMarks(s, p+1)
	}
	if bytes.IndexByte(s[end:p], 's') < 0 {
		return 0
	}
	was := 0
	for i := p - 1; i > end; i-- {
		if s[i] != ' ' || s[i-1] != 's' {
			continue
		}
		if bytes.HasSuffix(s[end+1:i+1], []byte(" is ")) {
			return skipMarks(s, i+1)
		}
		if was == 0 && bytes.HasSuffix(s[end+1:i+1], []byte(" was ")) {
			was = i + 1
		}
	}
	if was > 0 {
		return skipMarks(s, was)
	}
	return 0
}

// secretBeforeName matches the word before "is my token" and "as the api key". The name begins at start.
func (m *matcher) secretBeforeName(start int, class keyClass) hit {
	const maxLink = 24 // bytes before the name that are searched for a link such as " is my "
	s := m.text
	before := s[max(m.lastEnd, start-maxLink):start]
	if class != secretClass || len(before) == 0 || before[len(before)-1] != ' ' || !hasLink(before) {
		return hit{}
	}
	for _, link := range [...]string{" is the ", " is my ", " is our ", " is your ", " as "} {
		at := bytes.LastIndex(before, []byte(link))
		if at < 0 || bytes.ContainsAny(before[at+1:], ".,\n") {
			continue
		}
		stop := start - len(before) + at
		for stop > m.lastEnd && isQuote(s[stop-1]) {
			stop--
		}
		return m.checkValue(m.runStart(stop, stop, wordByte), stop, class, valueContext{})
	}
	return hit{}
}

// hasLink reports whether text contains " is " or " as ". For most texts it saves the searches in secretBeforeName,
// which take five times as long.
func hasLink(text []byte) bool {
	for i := len(" is"); i < len(text); i++ {
		if text[i] == ' ' && text[i-1] == 's' && (text[i-2] == 'i' || text[i-2] == 'a') && text[i-3] == ' ' {
			return true
		}
	}
	return false
}

// comparedValue matches the quoted text that a test compares with the name s[start:end], as in assertEqual(token,
// "...") and expect(token).toBe("...").
func (m *matcher) comparedValue(start, end int, class keyClass) hit {
	s := m.text
	if class != secretClass {
		return hit{}
	}
	if c := byteAt(s, end); c == ',' || c == ')' {
		for _, link := range [...]string{", ", ").toBe(", ").toEqual(", ").to.equal("} {
			if p := end + len(link); startsWith(s, end, link) && isQuote(byteAt(s, p)) {
				return m.value(p, class, valueContext{})
			}
		}
	}
	stop := start - len(`", `)
	if stop <= m.lastEnd || !isQuote(s[stop]) || !startsWith(s, stop+1, ", ") {
		return hit{}
	}
	from := m.runStart(stop, stop, wordByte)
	if from == 0 || s[from-1] != s[stop] {
		return hit{}
	}
	return m.checkValue(from, stop, class, valueContext{quoted: true})
}

// valueAlone matches the value on the line below a name that is alone on its line, or the field after the name in a row
// with two fields.
func (m *matcher) valueAlone(start, end int, class keyClass) hit {
	const maxLabel = 24
	s := m.text
	if s[end] == '\n' && class == secretClass && m.isPrinted(start) {
		return m.valueOnLine(end+1, class)
	}
	from := max(m.lastEnd, start-maxLabel)
	line := bytes.TrimLeft(s[from+bytes.LastIndexByte(s[from:start], '\n')+1:start], " \t#*>|-")
	if class != secretClass || len(bytes.Trim(line, " abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")) > 0 || s[end] == ',' && len(line) > 0 {
		return hit{}
	}
	p := end + 1
	if s[end] == '\n' {
		p = skipSpace(s[:min(len(s), p+maxBlanks)], p)
	}
	h := m.wholeValue(m.value(p, class, valueContext{}))
	if c := byteAt(s, h.end); h.kind == noKind || c != 0 && c != '\n' && c != '\r' && c != '|' && !isQuote(c) {
		return hit{}
	}
	return h
}

func (m *matcher) isPrinted(start int) bool { // by cat or pass show
	const maxLen = 64
	path := m.runStart(start, maxLen, wordByte)
	before := m.text[max(m.lastEnd, path-len("pass show ")):path]
	return bytes.HasSuffix(before, []byte("cat ")) || bytes.HasSuffix(before, []byte("pass show "))
}

func (m *matcher) valueOnLine(p int, class keyClass) hit {
	h := m.wholeValue(m.value(p, class, valueContext{}))
	if c := byteAt(m.text, h.end); h.kind == noKind || h.start != p || c != 0 && c != '\n' && c != '\r' {
		return hit{}
	}
	return h
}

// labelledName matches a random value after a secret's name that ends in another word: TOKEN_STAGING=..., apiKeyV2:
// "...".
func (m *matcher) labelledName(start, end int) hit {
	s := m.text
	name := s[start:end]
	separator := end
	if isQuote(byteAt(s, separator)) {
		separator++
	}
	for byteAt(s, separator) == ' ' {
		separator++
	}
	if c := byteAt(s, separator); c != '=' && c != ':' || bytes.IndexByte([]byte("=:/"), byteAt(s, separator+1)) >= 0 {
		return hit{}
	}
	low := bytes.ToLower(name)
	stem := 0
	for _, word := range [...]string{"token", "secret", "apikey", "api_key", "api-key", "access_key", "accesskey"} {
		if at := bytes.LastIndex(low, []byte(word)); at >= 0 {
			stem = max(stem, at+len(word))
		}
	}
	if stem == 0 || stem >= len(low) {
		return hit{}
	}
	for _, word := range [...]string{"id", "name", "file", "path", "url", "uri", "endpoint", "hash", "digest", "sum", "arn", "ref", "version", "type", "key", "ize", "request", "prefix", "mint", "address"} {
		if bytes.Contains(low[stem:], []byte(word)) {
			return hit{}
		}
	}
	h := m.value(skipMarks(s, separator+1), keyNameClass, valueContext{hasQuotedName: separator > end && isQuote(s[end])})
	if h.kind == noKind || isUUID(s[h.start:h.end]) {
		return hit{}
	}
	return h
}

// isVendorKey reports whether the word before "key" shows that the key is secret, as in "Stripe key" and "my key",
// but not in "cache key" and "public key".
func (m *matcher) isVendorKey(start, end int) bool {
	if start == m.lastEnd || m.text[start-1] != ' ' {
		return false
	}
	word := m.runStart(start-1, maxName, tokenByte)
	return word < start-1 && classifyWord(m.text[word:end]) == keyNameClass
}

// phraseEnd returns the end of the words at p, and whether a colon and a space follow.
func phraseEnd(s []byte, p int) (end int, colon bool) {
	const maxLen = 40
	end = runEnd(s, p, maxLen, phraseByte)
	return end, byteAt(s, end) == ':' && byteAt(s, end+1) == ' ' && s[end-1] != ' '
}
