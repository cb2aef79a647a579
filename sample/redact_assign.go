package sample

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

// classOfKey is classOfWord for a JSON key in raw form.
func classOfKey(key []byte) keyClass { return classOfWord(key) }

// classOfWord reads a name such as DB_PASSWORD, clientSecret or x-api-key by its end.
func classOfWord(w []byte) keyClass {
	const longest = 32
	for len(w) > 2 && isDigit(w[len(w)-1]) { // PASSWORD2
		w = w[:len(w)-1]
	}
	if len(w) < 3 {
		return noClass
	}
	switch lower(w[len(w)-1]) {
	case 'd', 't', 'n', 'y', 'e', 's', 'r', 'l', 'x', 'h', 'k':
	default:
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
	end := func(suffixes ...string) bool {
		for _, s := range suffixes {
			if strings.HasSuffix(n, s) {
				return true
			}
		}
		return false
	}
	switch n[len(n)-1] {
	case 'd':
		if end("password", "passwd", "pwd") {
			return passwordClass
		}
	case 's':
		if end("pass") && !end("bypass", "compass") {
			return passwordClass
		}
		if end("credentials") {
			return secretClass
		}
	case 'e':
		if end("passphrase", "passcode") {
			return passwordClass
		}
		if end("phone", "mobile", "telephone") {
			return phoneClass
		}
	case 'y':
		return classOfKeyName(end)
	case 't':
		if end("secret") {
			return secretClass
		}
		if end("passwort") {
			return passwordClass
		}
	case 'n':
		return classOfTokenName(n, end)
	case 'l':
		if end("credential") {
			return secretClass
		}
		if n == "tel" || n == "cell" {
			return phoneClass
		}
	case 'r':
		if end("phonenumber", "mobilenumber", "contactnumber") {
			return phoneClass
		}
		if end("socialsecuritynumber") {
			return ssnClass
		}
	case 'x':
		if n == "fax" {
			return phoneClass
		}
	}
	return noClass
}

func classOfKeyName(end func(...string) bool) keyClass {
	switch {
	case end("secretaccesskey", "awssecretkey"):
		return awsClass
	case end("accountkey", "sharedaccesskey", "subscriptionkey", "azureapikey", "openaiapikeyazure", "azureopenaikey", "azurekey"):
		return azureClass
	case end("apikey", "accesskey", "secretkey", "privatekey", "authkey", "encryptionkey", "signingkey", "masterkey", "sessionkey"):
		return secretClass
	case end("socialsecurity"):
		return ssnClass
	}
	return noClass
}

func classOfTokenName(n string, end func(...string) bool) keyClass {
	switch {
	case end("awssessiontoken"):
		return awsClass
	case end("token", "authorization"):
		return secretClass
	case n == "ssn" || end("userssn", "customerssn"):
		return ssnClass
	case n == "msisdn":
		return phoneClass
	}
	return noClass
}

// assignment looks at a : or = with a telling name to its left: password=..., "api_key": "...", secret := "...".
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
	if end == m.last || !isAlnum(s[end-1]) {
		return hit{}
	}
	keyed := end < i && isQuote(s[end]) && s[i] == ':'
	start := end
	for start > m.last && end-start < 40 && (classOf[s[start-1]]&tokenByte != 0 || s[start-1] == '.') {
		start--
	}
	class := classOfWord(s[start:end])
	if !class.isSecret() {
		return hit{}
	}
	for p < len(s) && p-i < 6 && (s[p] == ' ' || s[p] == '\t') {
		p++
	}
	return m.value(p, class, keyed)
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
		end := bytes.IndexByte(area, q)
		if end < 0 {
			if len(area) == longest {
				return hit{}
			}
			end = len(area) // the capture was cut inside the value
		}
		if bytes.IndexByte(area[:end], '\n') >= 0 {
			return hit{}
		}
		return m.judge(p+1, p+1+end, class, shape{quoted: true, keyed: keyed})
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
