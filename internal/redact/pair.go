package redact

import "bytes"

// Environments, headers and forms may be lists of name-value pairs: {"name": "DB_PASSWORD", "value": "..."},
// <add key="DbPassword" value="..."/>.

// pairValue matches the value in a pair with a secret's name. The word "value" is at i.
func (m *matcher) pairValue(i int) hit {
	s := m.text
	p := i + len("value")
	if !startsFold(s, i, "value") {
		return hit{}
	}
	hasQuotedName := isQuote(byteAt(s, p))
	if hasQuotedName {
		p++
	}
	p = skipSpace(s, p)
	if c := byteAt(s, p); c == '>' && i > 1 && s[i-1] == '<' {
		return m.elementValue(p+1, m.classBefore(i-1))
	} else if c != ':' && c != '=' {
		return hit{}
	}
	class := m.classBefore(i)
	p = skipSpace(s, p+1)
	h := hit{}
	switch {
	case !class.isSecret():
	case class == headerClass:
		h = m.headerValue(p, hasQuotedName)
	default:
		h = m.value(p, class, valueContext{hasQuotedName: hasQuotedName, allowDots: !hasQuotedName})
	}
	if h.kind != noKind && isProse(class, s[h.start:h.end]) {
		return hit{}
	}
	return h
}

// propertyValue matches the <string> text after <key>Password</key> in a property list. The > in <string> is at i.
func (m *matcher) propertyValue(i int) hit {
	const maxDistance = 96
	before, found := bytes.CutSuffix(m.text[max(m.lastEnd, i-maxDistance):i], []byte("<string"))
	before, follows := bytes.CutSuffix(bytes.TrimRight(before, " \t\r\n"), []byte("</key>"))
	if !found || !follows {
		return hit{}
	}
	class := classifyKey(before[bytes.LastIndexByte(before, '>')+1:])
	return m.elementValue(i+1, class)
}

// entryValue matches the text after <entry key="password">, and the text after <string> in a property list. The > is at
// i.
func (m *matcher) entryValue(i int) hit {
	const maxDistance = 96
	if m.text[i-1] == 'g' {
		return m.propertyValue(i)
	}
	before := m.text[max(m.lastEnd, i-maxDistance) : i-1]
	name := lastName(before)
	before, quoted := bytes.CutSuffix(before[:len(before)-len(name)], m.text[i-1:i])
	before, assigned := bytes.CutSuffix(before, []byte("="))
	if class := classifyKey(name); quoted && assigned && isNameKey(before) {
		return m.elementValue(i+1, class)
	}
	return hit{}
}

func (m *matcher) elementValue(p int, class keyClass) hit {
	switch {
	case !class.isSecret():
		return hit{}
	case class == passwordClass:
		return m.tagValue(p)
	}
	return m.value(p, class, valueContext{literal: true})
}

// quotesAndBlanks are characters that may be around a name. The last four replace escaped quotes (see quoteMark).
const quotesAndBlanks = "\t \"'`\x10\x11\x12\x13"

// classBefore returns the class of the name that belongs to the "value" member at i. The name is the text in a name
// member or key member before i, or else the open object's name.
func (m *matcher) classBefore(i int) keyClass {
	const maxDistance = 160
	s := m.text[max(m.lastEnd, i-maxDistance):i]
	s = bytes.TrimRight(s, quotesAndBlanks+",;\r\n<>")
	name := lastName(s)
	before := bytes.TrimRight(s[:len(s)-len(name)], quotesAndBlanks)
	if n := len(before) - 1; n >= 0 && (before[n] == ':' || before[n] == '=') && isNameKey(bytes.TrimRight(before[:n], quotesAndBlanks)) {
		return classifyKey(name)
	}
	// A password is not accepted here, because it can be any word, and the pair is less certain.
	if class := siblingClass(s); class.isSecret() && class != passwordClass {
		return class
	}
	return objectClass(s)
}

// siblingClass returns the class of the "name" member in the open element at the end of s, even if other members
// follow: name="api.sharedSecret" type="string" value="...".
func siblingClass(s []byte) keyClass {
	s = s[bytes.LastIndexAny(s, "<>{}")+1:]
	at := bytes.LastIndex(s, []byte("name"))
	if at < 0 || at > 0 && isAlnum(s[at-1]) {
		return noClass
	}
	rest := bytes.TrimLeft(s[at+len("name"):], quotesAndBlanks)
	if len(rest) == 0 || rest[0] != '=' && rest[0] != ':' {
		return noClass
	}
	rest = bytes.TrimLeft(rest[1:], quotesAndBlanks)
	return classifyKey(lastName(rest[:classRunEnd(rest, 0, wordByte)]))
}

// objectClass returns the class of the open object's name at the end of s, as in Terraform's
// {"password":{"type":"string","value":"..."}}.
func objectClass(s []byte) keyClass {
	open := bytes.LastIndexByte(s, '{')
	if open < 0 || bytes.IndexByte(s[open:], '}') >= 0 {
		return noClass
	}
	s = bytes.TrimRight(s[:open], quotesAndBlanks+"\r\n")
	if len(s) == 0 || s[len(s)-1] != ':' {
		return noClass
	}
	return classifyKey(lastName(bytes.TrimRight(s[:len(s)-1], quotesAndBlanks)))
}

func lastName(s []byte) []byte {
	return s[bytes.LastIndexFunc(s, func(r rune) bool { return r >= 0x80 || byteClass[byte(r)]&nameByte == 0 })+1:]
}

// isNameKey reports whether key may be the key of the member that holds a pair's name, such as name, key or headerName.
func isNameKey(key []byte) bool {
	n := len(key)
	return startsFold(key, n-len("name"), "name") || startsFold(key, n-len("header"), "header") || startsFold(key, n-len("key"), "key")
}

func isProse(class keyClass, value []byte) bool {
	return class == passwordClass && bytes.IndexByte(value, ' ') >= 0 && !isPassphrase(value, false)
}
