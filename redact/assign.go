package redact

import (
	"bytes"
	"strings"
)

// keyClass says what a key's name promises about its value.
type keyClass uint8

const (
	noClass       keyClass = iota
	passwordClass          // short values are believed
	secretClass            // values must look random
	awsClass
	azureClass
	basicClass  // user:password in base64
	headerClass // some of its words may be credentials
	phoneClass
	ssnClass
)

func (c keyClass) isSecret() bool { return c >= passwordClass && c <= headerClass }

func (c keyClass) kind() kind {
	switch c { //nolint:exhaustive // the rest are plain secrets
	case awsClass:
		return awsKey
	case azureClass:
		return azureKey
	case basicClass:
		return authorization
	default:
		return secret
	}
}

// classOfKey is classOfWord for a quoted key. There "pass" alone means a password; in prose it is a
// test that passed.
func classOfKey(key []byte) keyClass {
	if len(key) == 4 && startsFold(key, 0, "pass") {
		return passwordClass
	}
	return classOfWord(key)
}

// classOfWord reads a name such as DB_PASSWORD, clientSecret or x-api-key by its end.
func classOfWord(w []byte) keyClass {
	const longest = 32
	for len(w) > 2 && isDigit(w[len(w)-1]) { // PASSWORD2
		w = w[:len(w)-1]
	}
	if len(w) < 3 || !mayEndName(w[len(w)-1]) {
		return noClass
	}
	var buf [longest]byte
	i := longest
	for j := len(w) - 1; j >= 0 && i > 0; j-- {
		if c := w[j]; c != '_' && c != '-' && c != '.' && c != ' ' {
			i--
			buf[i] = lower(c)
		}
	}
	return classOfName(string(buf[i:]))
}

// ending is how the names of a class end; whole says that they are nothing else.
type ending struct {
	text  string
	class keyClass
	whole bool
}

// endings are the names that tell something of their values, by their last letter.
type endings struct {
	of     [256][]ending
	secret [256]uint32 // of those that tell of a secret: a bit for each letter before the last
}

//nolint:gochecknoglobals // written once here, read only
var telling = func() (t endings) {
	for _, row := range []struct {
		class keyClass
		names string // the first that fits counts; = stands before a whole name
	}{
		{noClass, "=pass bypass compass"},
		{passwordClass, "password passwd pwd pass passphrase passcode passwort"},
		{awsClass, "secretaccesskey awssecretkey awssessiontoken"},
		{azureClass, "accountkey sharedaccesskey subscriptionkey azureapikey azureopenaikey azurekey =sig"},
		{basicClass, "=auth basicauth"},
		{headerClass, "authorization cookie"},
		{secretClass, "credential credentials secret token apikey accesskey secretkey privatekey"},
		{secretClass, "authkey encryptionkey signingkey masterkey sessionkey secretkeybase amzsignature googsignature"},
		{ssnClass, "socialsecurity socialsecuritynumber =ssn userssn customerssn"},
		{phoneClass, "phone mobile phonenumber mobilenumber contactnumber =tel =cell =fax =msisdn"},
	} {
		for name := range strings.FieldsSeq(row.names) {
			text, whole := strings.CutPrefix(name, "=")
			last, before := text[len(text)-1], text[len(text)-2]
			t.of[last] = append(t.of[last], ending{text, row.class, whole})
			if row.class.isSecret() {
				t.secret[last] |= 1 << (before - 'a')
			}
		}
	}
	return t
}()

// classOfName is the class of a name in lower case without separators.
func classOfName(n string) keyClass {
	for _, e := range telling.of[n[len(n)-1]] {
		if strings.HasSuffix(n, e.text) && (!e.whole || len(n) == len(e.text)) {
			return e.class
		}
	}
	return noClass
}

// secretEnd reports whether the name of a secret can end in the two letters: most names of code
// fall here.
func secretEnd(a, b byte) bool { return telling.secret[b|0x20]>>((a|0x20)-'a')&1 != 0 }

// mayEndName reports whether a name of a class can end in b; most names cannot, and need not be
// read.
func mayEndName(b byte) bool { return telling.of[b|0x20] != nil || isDigit(b) }

// assignment looks at a : or = with a telling name to its left: password=..., "api_key": "...",
// secret := "..."; or at the > of <password>.
func (m *matcher) assignment(i int) hit {
	s := m.s
	p := i + 1
	switch {
	case s[i] == ':' && (at(s, p) == '=' || at(s, p) == ':'): // := is handled at its =, :: is none
		return hit{}
	case s[i] == '=' && at(s, p) == '=': // handled at the second =
		return hit{}
	case s[i] == '=' && at(s, p) == '>':
		p++
	}
	end := i
	for end > m.last && i-end < 5 && (s[end-1] == ' ' || s[end-1] == ':' || s[end-1] == '=' || s[end-1] == '!' || s[end-1] == ']' || isQuote(s[end-1])) {
		end--
	}
	if end == m.last || !mayEndName(s[end-1]) {
		return hit{}
	}
	keyed := end < i && isQuote(s[end]) && s[i] == ':'
	if isDigit(s[end-1]) {
		if !m.named(end) {
			return hit{}
		}
	} else if end < 2 || !secretEnd(s[end-2], s[end-1]) {
		return hit{}
	}
	start := end
	for start > m.last && end-start < 40 && (classOf[s[start-1]]&tokenByte != 0 || s[start-1] == '.') {
		start--
	}
	class := classOfWord(s[start:end])
	if keyed {
		class = classOfKey(s[start:end])
	}
	if !class.isSecret() || s[i] == '>' && (start == 0 || s[start-1] != '<') {
		return hit{}
	}
	for p < len(s) && p-i < 6 && (s[p] == ' ' || s[p] == '\t') {
		p++
	}
	if class == headerClass {
		return m.header(p, keyed)
	}
	return m.value(p, class, keyed)
}

// named says whether the word that ends in digits at end may be a name with a number behind it, as
// PASSWORD2 is; most are numbers, and what numbers a line or a thing: 17:, p3:, t1718000000:.
func (m *matcher) named(end int) bool {
	const shortest = 3 // see classOfWord
	n := end
	for n > m.last && end-n < 40 && isDigit(m.s[n-1]) {
		n--
	}
	if n-m.last < shortest || end-n > 40-shortest {
		return false
	}
	for _, c := range m.s[n-shortest : n] {
		if classOf[c]&tokenByte == 0 && c != '.' {
			return false
		}
	}
	return true
}

// value reads the value at p: quoted, or up to a delimiter.
func (m *matcher) value(p int, class keyClass, keyed bool) hit {
	const longest = 1024
	s := m.s
	if p >= len(s) {
		return hit{}
	}
	if q := s[p]; isQuote(q) {
		area := s[p+1 : min(len(s), p+1+longest)]
		if line := bytes.IndexByte(area, '\n'); line >= 0 {
			area = area[:line]
		}
		if end := bytes.IndexByte(area, q); end >= 0 {
			return m.judge(p+1, p+1+end, class, shape{quoted: true, keyed: keyed})
		}
		if keyed && p+1+len(area) == len(s) { // the capture was cut inside the value
			if h := m.judge(p+1, len(s), class, shape{quoted: true, keyed: true}); h.kind != none {
				return h
			}
		}
		if p++; p < len(s) && !isAlnum(s[p]) { // the quote is never closed: perhaps it closes something
			return hit{}
		}
	}
	end := p
	for end < len(s) && end-p < longest && !endsValue(s[end]) {
		end++
	}
	if c := at(s, end); c == '(' || c == '[' { // a call or an index, not a value
		return hit{}
	}
	for end > p && (s[end-1] == '.' || s[end-1] == ':') {
		end--
	}
	return m.judge(p, end, class, shape{keyed: keyed})
}

func endsValue(c byte) bool {
	switch c {
	case ',', ';', '&', '<', '>', '(', ')', '{', '}', '[', ']', '|', '\\':
		return true
	}
	return c <= ' ' || isQuote(c)
}
