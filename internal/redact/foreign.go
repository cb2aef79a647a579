package redact

import (
	"bytes"
	"slices"
	"strings"
)

// This file finds words for "password", "token" and "phone" in languages other than English.

// endsInForeignPassword reports whether s ends in a word for "password" that has letters beyond ASCII.
func endsInForeignPassword(s []byte) bool {
	for _, word := range [...]string{
		"пароль", "Пароль", "密码", "密碼", "口令", "パスワード", "비밀번호", "비번", "암호", "패스워드", "contraseña", "Contraseña", "hasło", "Hasło", "şifre", "Şifre", "mật khẩu", "Mật khẩu", "รหัสผ่าน", "كلمة المرور", "كلمة السر", "סיסמה", "סיסמא", "jelszó", "Jelszó", "κωδικός", "Κωδικός", "पासवर्ड",
		"WLAN-Schlüssel", "WPA-Schlüssel", "Netzwerkschlüssel",
	} {
		if bytes.HasSuffix(s, []byte(word)) {
			return true
		}
	}
	return false
}

// endsInForeignToken reports whether s ends in a word for "token", "access key" or "API key". A word for "key" alone
// does not count, because it may mean a cache key or a column.
func endsInForeignToken(s []byte) bool {
	for _, word := range [...]string{
		"令牌", "密钥", "密鑰", "秘钥", "金鑰", "トークン", "APIキー", "API キー", "シークレット", "アクセスキー", "秘密鍵", "토큰", "API 키", "API키", "비밀키", "токен", "Токен", "API-ключ", "API ключ", "ключ API", "секретный ключ", "ключ доступа",
		"私钥", "私鑰", "シークレットキー", "jeton d'accès",
		"API-Schlüssel", "Zugangsschlüssel", "Zugriffsschlüssel", "clé API", "clé d'API", "Clé API", "clave API", "clave de API", "Clave de API", "chave API", "chave de API", "chiave API",
	} {
		if bytes.HasSuffix(s, []byte(word)) {
			return true
		}
	}
	return false
}

// linkWords lists words such as "is" that link a word for "password" or "API key" to the value.
//
//nolint:gochecknoglobals // read only
var linkWords = []linkWord{
	{" est ", 1, []linkedName{{"passe", passwordClass}, {"oken", secretClass}, {"accès", secretClass}, {" API", secretClass}}},
	{" es ", 1, []linkedName{{"contraseña", passwordClass}, {"clave", passwordClass}, {"oken", secretClass}, {" API", secretClass}}},
	{" é ", 1, []linkedName{{"senha", passwordClass}}},
	{" è ", 1, []linkedName{{"assword", passwordClass}}},
	{" is ", 1, []linkedName{{"achtwoord", passwordClass}}},
	{" ist ", 1, []linkedName{{"ennwort", passwordClass}, {"chlüssel", secretClass}, {"oken", secretClass}}},
	{" lautet ", 3, []linkedName{{"ennwort", passwordClass}, {"chlüssel", secretClass}, {"oken", secretClass}}},
	{"是", 2, []linkedName{{"密码", passwordClass}, {"密碼", passwordClass}, {"密钥", secretClass}, {"令牌", secretClass}, {"token", secretClass}}},
	{"为", 2, []linkedName{{"密码", passwordClass}, {"密钥", secretClass}, {"令牌", secretClass}, {"token", secretClass}}},
	{"は", 2, []linkedName{{"パスワード", passwordClass}, {"APIキー", secretClass}, {"トークン", secretClass}}},
	{"는", 2, []linkedName{{"비밀번호", passwordClass}}},
}

type linkWord struct {
	link   string
	anchor int          // index in link of the byte at which the scan stops
	names  []linkedName // secret names before the link
}

// linkWordsAt holds linkWords by anchor byte.
//
//nolint:gochecknoglobals // written once here, read only
var linkWordsAt = func() (t [256][]linkWord) {
	for _, l := range linkWords {
		anchor := l.link[l.anchor]
		t[anchor] = append(t[anchor], l)
	}
	return t
}()

type linkedName struct {
	end   string
	class keyClass
}

// foreignLink matches a value after a word such as "is" in another language, as in "das Kennwort ist hunter22".
func (m *matcher) foreignLink(i int) hit {
	s := m.text
	for _, l := range linkWordsAt[s[i]] {
		start := i - l.anchor
		word := strings.TrimRight(l.link, " ")
		p := start + len(word)
		if start < m.lastEnd || !startsWith(s, start, word) || len(word) < len(l.link) && byteAt(s, p) != ' ' && byteAt(s, p) != ':' {
			continue
		}
		if p = skipMarks(s, p); len(word) < len(l.link) && byteAt(s, p) == ':' { // le mot de passe est : ...
			p = skipMarks(s, p+1)
		}
		before := bytes.TrimRight(s[m.lastEnd:start], " ")
		for _, name := range l.names {
			if bytes.HasSuffix(before, []byte(name.end)) || hasPurpose(before, name.end) {
				return m.valueAfterLink(p, name.class)
			}
		}
	}
	return hit{}
}

// prepositions lists words that may follow the word for a secret, as in "le mot de passe de la base est".
//
//nolint:gochecknoglobals // read only
var prepositions = []string{
	"de", "del", "della", "dello", "di", "do", "da", "dos", "du", "des", "der", "für", "von", "vom", "zum", "zur", "pour", "para", "per", "al", "au", "van", "voor",
}

func hasPurpose(text []byte, name string) bool {
	const maxDistance = 40
	text = text[max(0, len(text)-maxDistance-len(name)):]
	if !bytes.Contains(text, []byte(name)) { // faster than LastIndex
		return false
	}
	at := bytes.LastIndex(text, []byte(name))
	words, blank := bytes.CutPrefix(text[at+len(name):], []byte(" "))
	first, _, more := bytes.Cut(words, []byte(" "))
	return blank && more && slices.Contains(prepositions, string(first)) && !bytes.ContainsAny(words, ".,:;!?=\n\"'`")
}

// valueAfterLink matches the value at p for a name in the class. The value is in quotes, or ends at a space.
func (m *matcher) valueAfterLink(p int, class keyClass) hit {
	const maxLen = 64
	s := m.text
	if isQuote(byteAt(s, p)) {
		return m.value(p, class, valueContext{})
	}
	end := p
	for end < len(s) && end-p < maxLen && s[end] > ' ' && s[end] < 0x7f {
		end++
	}
	for end > p && (s[end-1] == '.' || s[end-1] == ',') { // belongs to the sentence
		end--
	}
	return m.checkValue(p, end, class, valueContext{allowDots: true})
}

// isForeignPhoneLabel reports whether a word for "phone" in another alphabet, or a phone symbol, is before the number
// at start.
func (m *matcher) isForeignPhoneLabel(start int) bool {
	const window = 32
	from, foreign := start, false
	for from > max(m.lastEnd, start-window) && m.text[from-1] != '\n' {
		from--
		foreign = foreign || m.text[from] >= 0x80
	}
	if !foreign {
		return false
	}
	before := m.text[from:start]
	for _, word := range [...]string{"电话", "電話", "拨打", "致电", "手机", "手機", "携帯", "携带", "전화", "휴대폰", "핸드폰", "연락처", "連絡先", "☎", "📞", "📱", "елефон", "звон", "тел", "Тел", "обильный", "τηλ", "Τηλ", "هاتف", "טלפון", "โทร", "फ़ोन"} {
		if bytes.Contains(before, []byte(word)) {
			return true
		}
	}
	return false
}
