package redact

import (
	"bytes"
	"slices"
	"strings"
	"unicode"
)

// valueContext describes how a value is written, and what else could be in its place.
type valueContext struct {
	quoted             bool
	hasQuotedName      bool // the name is in quotes, as in JSON, so the text is data and not code
	literal            bool // there are no variables in this context, so a plain word is a value
	inConnectionString bool // the name is part of a connection string
	allowDots          bool // the value may contain dots, as after a flag
	afterEqualsSign    bool // = precedes the value, so a quoted word is a value, not a label
}

// checkValue returns a hit for m.text[start:end] if this text looks like a value for a name in the class.
func (m *matcher) checkValue(start, end int, class keyClass, vc valueContext) hit {
	v := m.text[start:end]
	if start < m.lastEnd || len(v) < 4 || bytes.Contains(v, []byte(Placeholder)) || !isLiteral(v) {
		return hit{}
	}
	ok := false
	switch class { //nolint:exhaustive // a value in any other class must look random
	case passwordClass:
		ok = isPassword(v, vc)
	case basicClass:
		ok = isBasicCredentials(v)
	case keyNameClass, bareKeyClass:
		v = bytes.TrimPrefix(v, []byte("base64:")) // Laravel's APP_KEY
		random := (isRandom(v) || isSequence(v) || class == keyNameClass && isLongNumber(v)) && !isCacheKey(v, class)
		ok = isUUID(v) && (m.isInQuery(start) || vc.afterEqualsSign && class == keyNameClass) || isScrambled(v) || random && !isID(v) && !startsWith(v, 0, wrappedHeader) && (class == keyNameClass || hasBothCases(v) && hasDigit(v))
	case seedClass:
		ok = isSeedPhrase(v)
	case walletClass:
		ok = isEthereumKey(v)
	case routingKeyClass:
		ok = len(v) == 32 && classRunEnd(v, 0, alnumByte) == len(v) && isRandom(v)
	case secretClass:
		ok = isRandom(v) || isShortToken(v) || isUnpronounceable(v) || isBase32(v) || isScrambled(v) || isSequence(v) || isLongNumber(v) || vc.quoted && hasManySymbols(v)
	default:
		ok = isRandom(v)
	}
	if !ok {
		return hit{}
	}
	return hit{start, end, m.vendorKind(start, end, class.kind())}
}

// maxValue is how many bytes of a value a check reads. Without the limit, a text with many names and no space would
// take quadratic time.
const maxValue = 1024

// wholeValue extends h to the end of a value that is longer than maxValue, because a check reads only maxValue bytes.
func (m *matcher) wholeValue(h hit) hit {
	if h.kind == noKind || h.end-h.start != maxValue {
		return h
	}
	s := m.text
	if h.start > 0 && isQuote(s[h.start-1]) {
		if n := bytes.IndexByte(s[h.end:], s[h.start-1]); n >= 0 && bytes.IndexByte(s[h.end:h.end+n], '\n') < 0 {
			h.end += n
			return h
		}
	}
	for h.end < len(s) && !endsValue(s[h.end]) {
		h.end++
	}
	for s[h.end-1] == '.' || s[h.end-1] == ':' { // ends the sentence
		h.end--
	}
	return h
}

// hasManySymbols reports whether v looks like a Django secret key: long, with letters, digits and certain symbols. A
// regular expression contains other symbols.
func hasManySymbols(v []byte) bool {
	const minLen, minSymbols, django = 32, 4, "!@#$%^&*(-_=+)"
	if len(v) < minLen || !isMixed(v) {
		return false
	}
	symbols := 0
	for _, c := range v {
		switch {
		case isAlnum(c) || c == '-' || c == '_':
		case strings.IndexByte(django, c) >= 0:
			symbols++
		default:
			return false
		}
	}
	return symbols >= minSymbols
}

// vendorKind returns the vendor's kind if text[start:end] begins with a vendor's key, and otherwise k.
func (m *matcher) vendorKind(start, end int, k kind) kind {
	for i := start; i < min(end, start+12); i++ {
		if h := m.vendorAt(i); h.kind != noKind && h.start == start {
			return h.kind
		}
	}
	return k
}

// isPassword reports whether v, the value for a passwordClass name, is a password. A password can be short, but not a
// plain word, because in code a plain word is more often a variable or a label.
func isPassword(v []byte, vc valueContext) bool {
	var letters, digits, symbols, hyphens, spaces, dots int
	for _, c := range v {
		switch {
		case isDigit(c):
			digits++
		case isAlnum(c) || c >= 0x80:
			letters++
		case c == '-':
			hyphens++
		case c == '.':
			dots++
		case c <= ' ':
			spaces++
		case c == '_' || c == '/' || c == ':':
		default:
			symbols++
		}
	}
	if isPath(v) || isReference(v) || bytes.Count(v, v[:1]) == len(v) || isDummy(v) {
		return false
	}
	if vc.quoted && vc.hasQuotedName {
		return isDataPassword(v, spaces)
	}
	if spaces > 0 {
		return vc.quoted && !vc.hasQuotedName && isPassphrase(v, vc.literal || vc.inConnectionString)
	}
	if vc.inConnectionString && len(v) >= 4 && letters+digits > 0 && dots < 2 && v[0] != '@' && v[0] != ':' {
		return true
	}
	if vc.quoted && (v[0] == '+' || v[0] == ',' || v[0] == ')') && !isStrong(v) { // the quote closed an earlier text: "PWD=" + dir + "x"
		return false
	}
	if vc.literal && letters >= 6 && dots == 0 {
		return true
	}
	random := letters == len(v) && letters >= 8 && hasRandomCase(v)
	if vc.quoted {
		return digits > 0 || symbols > 0 || hyphens >= 3 || random || vc.afterEqualsSign && isPlainPassword(v)
	}
	if dots > 0 && symbols == 0 && !mayHaveDots(v, vc.allowDots && digits > 0 && letters > 1) {
		return false
	}
	return len(v) >= 6 && letters > 0 && (digits > 0 || symbols > 0 || random)
}

// isDataPassword reports whether v, the value for a quoted name, is a password. After such a name, nearly every short
// value is a password.
func isDataPassword(v []byte, spaces int) bool {
	const maxLen, maxSpaces = 256, 3
	return len(v) <= maxLen && spaces <= maxSpaces && !isFormText(v, spaces) || isRandom(v)
}

// isFormText reports whether v is a text in a form, such as "Passwort vergessen?" in a file with translations.
func isFormText(v []byte, spaces int) bool {
	if endsInForeignPassword(v) && (v[0] >= 0x80 || spaces > 0) {
		return true
	}
	if spaces == 0 || bytes.ContainsFunc(v, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(" -'’.?!:…()¿¡*", r)
	}) {
		return false
	}
	low := bytes.ToLower(v)
	if hasDigit(v) {
		return hasFormWord(low, lengthWords)
	}
	last := v[len(v)-1]
	return last == '?' || last == ':' || bytes.HasSuffix(v, []byte("…")) || bytes.HasSuffix(v, []byte("...")) || hasFormWord(low, formWords)
}

func hasFormWord(low []byte, words []string) bool {
	return slices.ContainsFunc(words, func(word string) bool {
		at := bytes.Index(low, []byte(word))
		return at == 0 || at > 0 && low[at-1] == ' '
	})
}

// formWords are the beginnings of words that forms use for passwords and for the input.
//
//nolint:gochecknoglobals // read only
var formWords = []string{
	"passw", "kennwort", "mot de passe", "contrase", "senha", "wachtwoord", "parola", "lösenord", "salasana", "hasł", "hesl", "парол",
	"enter ", "type ", "confirm", "repeat", "forgot", "required", "invalid", "eingeben", "bestätigen", "wiederholen", "erforderlich", "saisi", "entrez", "confirmer", "introdu", "ingres", "inserisci", "digite", "voer ",
}

// lengthWords are the beginnings of words that forms use for a password's length.
//
//nolint:gochecknoglobals // read only
var lengthWords = []string{"character", "zeichen", "caract", "caratter", "tekens", "letters", "digits", "tecken", "tegn", "znak", "символ"}

// mayHaveDots reports whether v, a word with dots, can be a password and not an identifier such as config.password. If
// expected is true, the context makes an identifier unlikely.
func mayHaveDots(v []byte, expected bool) bool {
	return expected || hasInnerDigit(v) && !isCodeReference(v)
}

// hasInnerDigit reports whether a letter follows a digit, as is common in passwords and rare in identifiers.
func hasInnerDigit(v []byte) bool {
	for i, c := range v {
		if next := byteAt(v, i+1); isDigit(c) && isAlnum(next) && !isDigit(next) {
			return true
		}
	}
	return false
}

func isPlainPassword(v []byte) bool {
	const minLen = 6
	if len(v) < minLen || slices.ContainsFunc(v, func(b byte) bool { return !isLower(b) }) {
		return false
	}
	for _, word := range [...]string{"pass", "pwd", "hash", "user", "input", "field", "type", "name", "invalid", "require", "error"} {
		if bytes.Contains(v, []byte(word)) {
			return false
		}
	}
	return true
}

// hasRandomCase reports whether the case alternates as often as in random letters. Identifiers have one capital per
// word.
func hasRandomCase(v []byte) bool {
	changes, pairs := 0, 0
	for i := 1; i < len(v); i++ {
		switch up := isUpper(v[i]); {
		case up != isUpper(v[i-1]):
			changes++
		case up:
			pairs++
		}
	}
	return changes*3 >= len(v) && pairs >= 2 || changes*2 >= len(v)
}

func isID(v []byte) bool {
	if bytes.ContainsAny(v, ".:") || bytes.IndexByte(v, '/') >= 0 && !slices.ContainsFunc(v, isUpper) {
		return true
	}
	return isUUID(v)
}

// isCacheKey reports whether v is a cache key: words and a digest, as in Linux-node-4f2c.... After a name such as
// MAIL_KEY, there must be two words.
func isCacheKey(v []byte, class keyClass) bool {
	const md5, sha1, sha256 = 32, 40, 64
	minWords := 2
	if class == bareKeyClass {
		minWords = 1
	}
	at := bytes.LastIndexAny(v, "-_:/") + 1
	if n := len(v) - at; at == 0 || n != md5 && n != sha1 && n != sha256 || classRunEnd(v, at, hexByte) < len(v) {
		return false
	}
	words := 0
	for word := range bytes.FieldsFuncSeq(v[:at], func(r rune) bool { return r == '-' || r == '_' || r == ':' || r == '/' || r == '|' }) {
		if len(word) > len("restore-keys") || hasDigit(word) && isRandom(word) {
			return false
		}
		switch string(bytes.ToLower(word)) {
		case "key", "sk", "pk", "live", "test", "prod", "secret", "token", "api": // a vendor's prefix
			return false
		}
		words++
	}
	return words >= minWords
}

// isEthereumKey reports whether v is a private key for Ethereum: 64 hexadecimal digits after 0x.
func isEthereumKey(v []byte) bool {
	const length = 64
	return len(v) == len("0x")+length && startsWith(v, 0, "0x") && classRunEnd(v, 2, hexByte) == len(v) && isRandom(v)
}

func isUUID(v []byte) bool {
	return len(v) == 36 && v[8] == '-' && v[13] == '-' && v[18] == '-' && v[23] == '-'
}

func (m *matcher) isInQuery(start int) bool {
	name := start - len("?key=")
	return name >= 0 && (m.text[name] == '?' || m.text[name] == '&') && startsWith(m.text, name+1, "key=")
}

func hasBothCases(v []byte) bool {
	return slices.ContainsFunc(v, isUpper) && slices.ContainsFunc(v, isLower)
}

// isRandom reports whether v is long and changes between letters, digits or cases more often than words do. Only the
// first maxValue bytes are examined.
func isRandom(v []byte) bool {
	const minLen = 16
	v = v[:min(len(v), maxValue)]
	if len(v) < minLen || bytes.Contains(v, []byte("://")) {
		return false
	}
	var seen [256]bool
	distinct, changes := 0, 0
	prev := uint16(0)
	for _, c := range v {
		if c <= ' ' || c >= 0x7f || c == '(' || c == '{' || c == '<' || c == '[' {
			return false
		}
		if !seen[c] {
			seen[c] = true
			distinct++
		}
		class := byteClass[c] & (alnumByte | digitByte | upperByte)
		if class != prev && c != '_' {
			changes++
		}
		prev = class
	}
	return distinct >= 8 && isMixed(v) && (countDigitRuns(v) >= 2 || changes*20 >= len(v)*9)
}

// isShortToken reports whether v is a token that isRandom misses: 12 to 15 letters and digits, with three digit runs,
// or with two runs and both cases; or 15 to 32 digits.
func isShortToken(v []byte) bool {
	const minLen, maxLen, minDigits, maxDigits = 12, 16, 15, 32
	if classRunEnd(v, 0, digitByte) == len(v) {
		return len(v) >= minDigits && len(v) <= maxDigits && bytes.Count(v, v[:1]) < len(v)/2
	}
	return len(v) >= minLen && len(v) < maxLen && (countDigitRuns(v) >= 3 || countDigitRuns(v) == 2 && hasBothCases(v)) && classRunEnd(v, 0, alnumByte) == len(v)
}

// isUnpronounceable reports whether v is a token that isRandom misses, because all digits are in one run. Such a token
// has random case and a digit, or two digits and more successive consonants than words have.
func isUnpronounceable(v []byte) bool {
	const minLen, minMixed, minRun, minDigits = 16, 24, 5, 2
	if len(v) >= minMixed && hasDigit(v) && classRunEnd(v, 0, tokenByte) == len(v) && hasRandomCase(v) {
		return true
	}
	if len(v) < minLen || classRunEnd(v, 0, alnumByte) < len(v) {
		return false
	}
	run, longest, digitCount := 0, 0, 0
	for i, c := range v {
		if isDigit(c) {
			digitCount++
		}
		if isDigit(c) || bytes.IndexByte([]byte("aeiouy"), lower(c)) >= 0 || isUpper(c) && i > 0 && isLower(v[i-1]) {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest >= minRun && digitCount >= minDigits
}

// isSequence reports whether v is a sample key: at least 20 letters and digits in one word, with 8 in sequence such as
// abcdefgh.
func isSequence(v []byte) bool {
	const minLen, minRun = 20, 8
	if len(v) < minLen || len(v) > maxValue || !isMixed(v) || classRunEnd(v, 0, tokenByte) < len(v) {
		return false
	}
	run, longest := 1, 1
	for i := 1; i < len(v); i++ {
		if v[i] == v[i-1]+1 || v[i] == '0' && v[i-1] == '9' {
			run++
		} else {
			run = 1
		}
		longest = max(longest, run)
	}
	return longest >= minRun
}

// isLongNumber reports whether v has more digits than ids, amounts and times have.
func isLongNumber(v []byte) bool {
	const minLen, minDistinct = 24, 4
	if len(v) < minLen || classRunEnd(v, 0, digitByte) < len(v) {
		return false
	}
	var seen [256]bool
	distinct := 0
	for _, c := range v {
		if !seen[c] {
			seen[c] = true
			distinct++
		}
	}
	return distinct >= minDistinct
}

// isBase32 reports whether v may be a one-time password secret: blocks of eight capitals and digits from 2 to 7.
func isBase32(v []byte) bool {
	const minLen, block = 16, 8
	return len(v) >= minLen && len(v)%block == 0 && hasDigit(v) && !bytes.ContainsFunc(v, func(r rune) bool {
		return (r < 'A' || r > 'Z') && (r < '2' || r > '7')
	})
}

// isScrambled reports whether v is long and mixes several symbols with letters and digits, as generated passwords do.
func isScrambled(v []byte) bool {
	const minLen, minOneCase, minSymbols = 24, 32, 4
	var seen [128]bool
	symbols, changes := 0, 0
	for i, c := range v {
		if c < ' ' || c >= 0x7f {
			return false
		}
		if !isAlnum(c) && c != ' ' && c != '_' && c != '/' && c != '.' && !seen[c] {
			seen[c] = true
			symbols++
		}
		const class = alnumByte | digitByte | upperByte
		if i > 0 && byteClass[c]&class != byteClass[v[i-1]]&class {
			changes++
		}
	}
	return len(v) >= minLen && symbols >= minSymbols && changes*2 >= len(v) && hasDigit(v) && (hasBothCases(v) || isMixed(v) && len(v) >= minOneCase)
}

func isMixed(v []byte) bool {
	var up, low, digit bool
	for _, c := range v {
		up = up || isUpper(c)
		low = low || isLower(c)
		digit = digit || isDigit(c)
	}
	return (up || low) && (digit || (up && low))
}

func countDigitRuns(v []byte) (n int) {
	in := false
	for _, c := range v {
		d := isDigit(c)
		if d && !in {
			n++
		}
		in = d
	}
	return n
}
