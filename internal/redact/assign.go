package redact

import (
	"bytes"
	"slices"
	"strings"
)

// keyClass is the kind of value that a key's name implies.
type keyClass uint8

const (
	noClass       keyClass = iota
	passwordClass          // short values count as secrets too
	secretClass            // values must look random
	keyNameClass           // a name that ends in "key": values must look random, and be no id
	bareKeyClass           // the name "key": values must have letters of both cases and digits
	awsClass
	azureClass
	basicClass  // user:password in base64
	headerClass // some of the value's words may be credentials
	phoneClass
	ssnClass
	orderClass // a number that is no card
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

// classOfKey is like classOfWord, for a quoted key, where "pass" alone means a password. In prose
// "pass" is a test result.
func classOfKey(key []byte) keyClass {
	if len(key) == 4 && startsFold(key, 0, "pass") {
		return passwordClass
	}
	return classOfWord(key)
}

// classOfWord classifies a name such as DB_PASSWORD, clientSecret or x-api-key by its end.
func classOfWord(w []byte) keyClass {
	const longest = 32
	for len(w) > 2 && isDigit(w[len(w)-1]) { // PASSWORD2
		w = w[:len(w)-1]
	}
	if len(w) < 2 || !mayEndName(w[len(w)-1]) {
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

// ending is the end of the names of a class; whole requires the entire name.
type ending struct {
	text  string
	class keyClass
	whole bool
}

// endings holds the endings of telling names, by their last letter.
type endings struct {
	of     [256][]ending
	secret [256]uint32 // of secrets: a bit for each letter before the last
}

//nolint:gochecknoglobals // written once here, read only
var nameEndings = func() (t endings) {
	for _, row := range []struct {
		class keyClass
		names string // the first match counts; = precedes a whole name
	}{
		{noClass, "=pass bypass compass"},
		{noClass, "publickey pubkey primarykey foreignkey partitionkey cachekey sortkey rowkey objectkey s3key storagekey idempotencykey translationkey"},
		{noClass, "hotkey monkey turkey donkey whiskey jockey hockey i18nkey messagekey msgkey publishablekey sitekey hostkey hashkey rangekey routingkey"},
		{noClass, "dedupkey uniquekey indexkey fieldkey propkey mapkey groupkey columnkey eventkey statekey querykey lookupkey filekey pathkey datakey shortcutkey"},
		{passwordClass, "password passwd pwd pass passphrase passcode passwort senha contrasena wachtwoord motdepasse =passe psk requirepass masterauth =pw rootpw adminpw dbpw userpw"},
		{awsClass, "secretaccesskey awssecretkey awssessiontoken"},
		{azureClass, "accountkey sharedaccesskey subscriptionkey azureapikey azureopenaikey azurekey =sig"},
		{basicClass, "=auth basicauth"},
		{headerClass, "authorization cookie"},
		{secretClass, "credential credentials secret token apikey accesskey secretkey privatekey"},
		{secretClass, "authkey encryptionkey signingkey masterkey sessionkey secretkeybase signature"},
		{secretClass, "tokenstring tokenvalue secretvalue secretstring creds"},
		{bareKeyClass, "=key"},
		{keyNameClass, "key"},
		{ssnClass, "socialsecurity socialsecuritynumber =ssn userssn customerssn"},
		{orderClass, "orderid ordernumber orderno invoiceid invoicenumber transactionid trackingid trackingnumber ticketid customerid shipmentid =order"},
		{phoneClass, "phone mobile phonenumber mobilenumber contactnumber =tel =cell =fax =msisdn contactphone phoneno mobileno telephone"},
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

// classOfName returns the class of a name in lower case without separators.
func classOfName(n string) keyClass {
	for _, e := range nameEndings.of[n[len(n)-1]] {
		if strings.HasSuffix(n, e.text) && (!e.whole || len(n) == len(e.text)) {
			return e.class
		}
	}
	return noClass
}

// secretEnd reports whether the name of a secret can end in the two letters: most names of code
// fall here.
func secretEnd(a, b byte) bool { return nameEndings.secret[b|0x20]>>((a|0x20)-'a')&1 != 0 }

// mayEndName reports whether a name of a class can end in b; most names cannot, and need not be
// read.
func mayEndName(b byte) bool { return nameEndings.of[b|0x20] != nil || isDigit(b) }

// assignment checks a : or = after a telling name: password=..., "api_key": "...", secret := "...";
// or the > of <password>, or the ( of setPassword("...").
func (m *matcher) assignment(i int) hit {
	s := m.s
	p := i + 1
	switch {
	case s[i] == ':' && (at(s, p) == '=' || at(s, p) == ':'): // := is handled at its =, and :: is not an assignment
		return hit{}
	case s[i] == '=' && at(s, p) == '=': // handled at the second =
		return hit{}
	case s[i] == '=' && at(s, p) == '>':
		p++
	}
	end := m.runStart(i, maxBlanks, signByte)
	if end == m.last {
		return hit{}
	}
	if (s[end-1] >= 0x80 || end-1 > m.last && s[end-2] >= 0x80) && foreignPassword(s[m.last:end]) {
		return m.assignedValue(i, p, passwordClass, shape{keyed: end < i && isQuote(s[end])})
	}
	// PASSWORD2 is a name with a number; most digits are numbers, or number a line.
	stem := m.runStart(end, longestName, digitByte)
	if stem < 2 || !secretEnd(s[stem-2], s[stem-1]) {
		return hit{}
	}
	keyed := end < i && isQuote(s[end]) && s[i] == ':'
	start := m.runStart(end, longestName, nameByte)
	name := s[start:end]
	class := classOfWord(name)
	if keyed {
		class = classOfKey(name)
	}
	if len(name) == len("key") && class == bareKeyClass && keyOf(s[m.last:start]) { // api key: ...
		class = secretClass
	}
	if string(name) == "key" && start > 0 && strings.IndexByte("?&", s[start-1]) >= 0 { // "key" is a secret only as a parameter of a URL
		class = secretClass
	}
	if !class.isSecret() || !m.assigns(start, i, name) {
		return hit{}
	}
	// A shell script and XML have no variables at this position, so a plain word is a password.
	literal := s[i] == '>' || end == i && !slices.ContainsFunc(name, isLower) &&
		(s[i] == '=' && (at(s, p) > ' ' || isQuote(at(s, p))) || s[i] == ':' && bytes.IndexByte(name, '_') >= 0)
	sh := shape{keyed: keyed, literal: literal}
	if class == passwordClass && !keyed && s[i] != '(' {
		if h := m.setting(start, end, i, p, name); h.kind != none {
			return h
		}
		sh.connection = end == i && at(s, p) > ' ' && s[i] == '=' && m.inConnection(start)
	}
	return m.assignedValue(i, p, class, sh)
}

// setting matches the password in a tag or a line of settings: name is s[start:end], the sign is at i,
// and the value follows at p.
func (m *matcher) setting(start, end, i, p int, name []byte) hit {
	if m.s[i] == '>' {
		return m.tagValue(p)
	}
	tight := end == i && at(m.s, p) > ' '
	value := skipMarks(m.s, p)
	if end < i-1 || value >= len(m.s) || isQuote(m.s[value]) || tight && m.s[i] != '=' || !m.startsLine(start, m.s[i] == ':') {
		return hit{}
	}
	return m.lineValue(value, tight && !slices.ContainsFunc(name, isLower) || bytes.IndexByte(name, '.') >= 0)
}

// assigns reports whether the sign at i assigns a value to the name: not the > of another place than a
// tag, nor the bracket of a function without a secret.
func (m *matcher) assigns(start, i int, name []byte) bool {
	switch m.s[i] {
	case '>':
		return start > 0 && m.s[start-1] == '<'
	case '(':
		return takesSecret(name)
	}
	return true
}

// keyOf reports whether the word before "key" says that the key is a secret.
func keyOf(before []byte) bool {
	before, blank := bytes.CutSuffix(before[max(0, len(before)-maxBlanks):], []byte(" "))
	if !blank {
		return false
	}
	word := before[bytes.LastIndexFunc(before, func(r rune) bool { return r >= 0x80 || !isAlnum(byte(r)) })+1:]
	switch string(bytes.ToLower(word)) {
	case "api", "access", "secret", "private", "auth", "signing", "encryption", "master", "license", "licence", "app", "account", "subscription", "session", "service", "admin", "shared":
		return true
	}
	return false
}

// assignedValue reads the value of a name at p, after the sign at i, or on the next line.
func (m *matcher) assignedValue(i, p int, class keyClass, sh shape) hit {
	s := m.s
	p = skipMarks(s, p)
	if class == headerClass {
		return m.header(p, sh.keyed)
	}
	if s[i] != ':' {
		return m.value(p, class, sh)
	}
	if block := p; at(s, block) == '|' || at(s, block) == '>' { // a text block of YAML
		if block++; at(s, block) == '-' || at(s, block) == '+' {
			block++
		}
		p = max(p, skipSpace(s[:min(len(s), block+1)], block))
	}
	if c := at(s, p-1); c != '\n' && at(s, p) != '\n' && at(s, p) != '\r' {
		return m.value(p, class, sh)
	}
	p = skipSpace(s[:min(len(s), p+maxBlanks)], p)
	h := m.value(p, class, sh)
	if c := at(s, h.end); h.kind == none || !isQuote(c) && (c > ' ' || c == ' ') || bytes.ContainsAny(s[h.start:h.end], "=:") {
		return hit{} // the line contains more than a value
	}
	return h
}

// longestName is the maximum length of a name.
const longestName = 40

// widest is the maximum number of blanks between a name and its value, as in aligned tables.
const maxBlanks = 48

// skipMarks skips blanks and marks of bold or coloured text.
func skipMarks(s []byte, p int) int {
	from := p
	for p < len(s) && p-from < maxBlanks {
		switch {
		case s[p] == ' ' || s[p] == '\t':
			p++
		case startsWith(s, p, "**") && at(s, p+2) != '*':
			p += 2
		case startsWith(s, p, "\x1b["):
			for p += 2; at(s, p) == ';' || isDigit(at(s, p)); p++ {
			}
			p++
		default:
			return p
		}
	}
	return p
}

// takesSecret reports whether a function of the name receives a secret, like setPassword; getPassword
// receives another argument.
func takesSecret(name []byte) bool {
	call := name[bytes.LastIndexByte(name, '.')+1:]
	return startsFold(call, 0, "set") || startsFold(call, 0, "with") || len(call) < len(name) && startsFold(call, 0, "pass")
}

// foreignPassword reports whether a text ends in a word for "password" in a language with letters
// beyond ASCII.
func foreignPassword(s []byte) bool {
	for _, word := range [...]string{"пароль", "Пароль", "密码", "密碼", "口令", "パスワード", "비밀번호", "contraseña", "Contraseña"} {
		if bytes.HasSuffix(s, []byte(word)) {
			return true
		}
	}
	return false
}

// value reads the value at p: quoted, or up to a delimiter.
func (m *matcher) value(p int, class keyClass, sh shape) hit {
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
			sh.quoted = true
			return m.checkValue(p+1, p+1+end, class, sh)
		}
		if sh.keyed && p+1+len(area) == len(s) { // the capture was cut inside the value
			if h := m.checkValue(p+1, len(s), class, shape{quoted: true, keyed: true}); h.kind != none {
				return h
			}
		}
		if p++; p < len(s) && !isAlnum(s[p]) { // an unclosed quote may close an earlier text
			return hit{}
		}
		if p == len(s) {
			return hit{}
		}
	}
	if close := runEnd(s, p+1, longest, wordByte); sh.connection && s[p] == '{' { // Pwd={p;w} of ODBC
		if end := bytes.IndexByte(s[p:close], '}'); end > 1 && bytes.IndexByte(s[p+1:p+end], '{') < 0 && s[p+1] != '{' && hasDigit(s[p:p+end]) {
			return hit{p, p + end + 1, secret}
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
	return m.checkValue(p, end, class, sh)
}

func endsValue(c byte) bool {
	switch c {
	case ',', ';', '&', '<', '>', '(', ')', '{', '}', '[', ']', '|', '\\':
		return true
	}
	return c <= ' ' || isQuote(c)
}
