package redact

import "bytes"

// The checks of this file find words for "password", "token" and "phone" in languages other than English.

// foreignPassword reports whether a text ends in a word for "password" in a language with letters
// beyond ASCII.
func foreignPassword(s []byte) bool {
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

// foreignToken reports whether a text ends in a word for "token", "access key" or "API key" in another
// language. The word for "key" alone is also a cache key or a column.
func foreignToken(s []byte) bool {
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

// linkWords are the words that link the word for "password" to its value.
//
//nolint:gochecknoglobals // read only
var linkWords = []struct {
	link, name string
	class      keyClass
}{
	{" est ", "passe", passwordClass},
	{" es ", "contraseña", passwordClass},
	{" es ", "clave", passwordClass},
	{" é ", "senha", passwordClass},
	{" è ", "assword", passwordClass},
	{" is ", "achtwoord", passwordClass},
	{" ist ", "ennwort", passwordClass},
	{" lautet ", "ennwort", passwordClass},
	{" ist ", "chlüssel", secretClass},
	{" lautet ", "chlüssel", secretClass},
	{" lautet ", "oken", secretClass},
	{" ist ", "oken", secretClass},
	{" est ", "oken", secretClass},
	{" es ", "oken", secretClass},
	{" est ", "accès", secretClass},
	{" est ", " API", secretClass},
	{" es ", " API", secretClass},
	{"是", "密码", passwordClass},
	{"是", "密碼", passwordClass},
	{"为", "密码", passwordClass},
	{"は", "パスワード", passwordClass},
	{"는", "비밀번호", passwordClass},
	{"是", "密钥", secretClass},
	{"为", "密钥", secretClass},
	{"是", "令牌", secretClass},
	{"为", "令牌", secretClass},
	{"是", "token", secretClass},
	{"为", "token", secretClass},
	{"は", "APIキー", secretClass},
	{"は", "トークン", secretClass},
}

// foreignLink matches the value after the word for "password" or "API key" and a verb: le mot de passe est
// ... One of the first three bytes of the verb is at i.
func (m *matcher) foreignLink(i int) hit {
	const maxLen = 64
	s := m.s
	for _, l := range linkWords {
		start := i - len(l.link) + 1
		if l.link[0] == ' ' {
			start = i - max(1, bytes.IndexByte([]byte(l.link), s[i]))
		}
		if !startsWith(s, start, l.link) || start < m.last || !bytes.HasSuffix(bytes.TrimRight(s[m.last:start], " "), []byte(l.name)) {
			continue
		}
		p := skipMarks(s, start+len(l.link))
		if isQuote(at(s, p)) {
			return m.value(p, l.class, shape{})
		}
		end := p
		for end < len(s) && end-p < maxLen && s[end] > ' ' && s[end] < 0x7f {
			end++
		}
		for end > p && (s[end-1] == '.' || s[end-1] == ',') { // belongs to the sentence
			end--
		}
		return m.checkValue(p, end, l.class, shape{dotted: true})
	}
	return hit{}
}

// foreignLabel reports whether a word for "phone" in another alphabet is before the number.
func (m *matcher) foreignLabel(start int) bool {
	const window = 32
	from, foreign := start, false
	for from > max(m.last, start-window) && m.s[from-1] != '\n' {
		from--
		foreign = foreign || m.s[from] >= 0x80
	}
	if !foreign {
		return false
	}
	before := m.s[from:start]
	for _, word := range [...]string{"电话", "電話", "手机", "手機", "携帯", "携带", "전화", "휴대폰", "핸드폰", "연락처", "連絡先", "☎", "📞", "📱", "елефон", "тел", "Тел", "обильный", "τηλ", "Τηλ", "هاتف", "טלפון", "โทร", "फ़ोन"} {
		if bytes.Contains(before, []byte(word)) {
			return true
		}
	}
	return false
}
