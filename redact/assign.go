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
	phoneClass
	ssnClass
)

func (c keyClass) isSecret() bool { return c >= passwordClass && c <= azureClass }

func (c keyClass) kind() kind {
	switch c { //nolint:exhaustive // the rest are plain secrets
	case awsClass:
		return awsKey
	case azureClass:
		return azureKey
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

func classOfName(n string) keyClass {
	switch n[len(n)-1] {
	case 'd':
		if ends(n, "password", "passwd", "pwd") {
			return passwordClass
		}
	case 's':
		if ends(n, "pass") && n != "pass" && !ends(n, "bypass", "compass") {
			return passwordClass
		}
		if ends(n, "credentials") {
			return secretClass
		}
	case 'e':
		if ends(n, "passphrase", "passcode") {
			return passwordClass
		}
		if ends(n, "phone", "mobile") {
			return phoneClass
		}
	case 'y':
		return classOfKeyName(n)
	case 't':
		if ends(n, "secret") {
			return secretClass
		}
		if ends(n, "passwort") {
			return passwordClass
		}
	case 'n':
		return classOfTokenName(n)
	case 'l':
		if ends(n, "credential") {
			return secretClass
		}
		if n == "tel" || n == "cell" {
			return phoneClass
		}
	case 'r':
		if ends(n, "phonenumber", "mobilenumber", "contactnumber") {
			return phoneClass
		}
		if ends(n, "socialsecuritynumber") {
			return ssnClass
		}
	case 'x':
		if n == "fax" {
			return phoneClass
		}
	case 'g':
		if n == "sig" { // of a shared access signature
			return azureClass
		}
	}
	return noClass
}

func classOfKeyName(n string) keyClass {
	switch {
	case ends(n, "secretaccesskey", "awssecretkey"):
		return awsClass
	case ends(n, "accountkey", "sharedaccesskey", "subscriptionkey", "azureapikey", "azureopenaikey", "azurekey"):
		return azureClass
	case ends(n, "apikey", "accesskey", "secretkey", "privatekey", "authkey", "encryptionkey", "signingkey", "masterkey", "sessionkey"):
		return secretClass
	case ends(n, "socialsecurity"):
		return ssnClass
	}
	return noClass
}

func classOfTokenName(n string) keyClass {
	switch {
	case ends(n, "awssessiontoken"):
		return awsClass
	case ends(n, "token", "authorization"):
		return secretClass
	case n == "ssn" || ends(n, "userssn", "customerssn"):
		return ssnClass
	case n == "msisdn":
		return phoneClass
	}
	return noClass
}

func ends(n string, suffixes ...string) bool {
	for _, s := range suffixes {
		if strings.HasSuffix(n, s) {
			return true
		}
	}
	return false
}

// secretEnd reports whether the name of a secret can end in the two letters: most names of code
// fall here.
func secretEnd(a, b byte) bool {
	switch b {
	case 'd':
		return a == 'r' || a == 'w'
	case 's':
		return a == 's' || a == 'l'
	case 'e':
		return a == 's' || a == 'd'
	case 'y':
		return a == 'e'
	case 't':
		return a == 'e' || a == 'r'
	case 'n':
		return a == 'e' || a == 'o'
	case 'l':
		return a == 'a'
	case 'g':
		return a == 'i'
	}
	return false
}

// mayEndName reports whether a name of a class can end in b; most names cannot, and need not be
// read.
func mayEndName(b byte) bool {
	switch b | 0x20 {
	case 'd', 't', 'n', 'y', 'e', 's', 'r', 'l', 'x', 'g':
		return true
	}
	return isDigit(b)
}

// assignment looks at a : or = with a telling name to its left: password=..., "api_key": "...",
// secret := "...".
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
	} else if end < 2 || !secretEnd(s[end-2]|0x20, s[end-1]|0x20) {
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
	if !class.isSecret() {
		return hit{}
	}
	for p < len(s) && p-i < 6 && (s[p] == ' ' || s[p] == '\t') {
		p++
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
