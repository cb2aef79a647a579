package redact

// Byte classes, as bits in byteClass.
const (
	alnumByte uint16 = 1 << iota
	digitByte
	hexByte
	tokenByte  // [A-Za-z0-9_-]
	base64Byte // [A-Za-z0-9+/=]
	localByte  // an e-mail address's local part
	upperByte
	nameByte    // names such as app.DB_PASSWORD: tokenByte and the dot
	wordByte    // neither white space nor a quote
	cryptByte   // crypt(3) output
	typeByte    // bytes in a type between a name and the value
	phraseByte  // words made from letters, digits, - and _, with spaces between them
	foldByte    // first bytes of characters that level.fold rewrites
	paddingByte // quotes, brackets, spaces and symbols between a name and the separator
)

//nolint:gochecknoglobals // written once here, read only
var byteClass = func() (t [256]uint16) {
	set := func(s string, class uint16) {
		for i := range len(s) {
			t[s[i]] |= class
		}
	}
	const digits, lowers, uppers = "0123456789", "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	const alnum = digits + lowers + uppers
	set(alnum, alnumByte|tokenByte|base64Byte|localByte)
	set(digits, digitByte)
	set(digits+"abcdefABCDEF", hexByte)
	set(alnum+"_-.", nameByte)
	set("_-", tokenByte)
	set(alnum+" _<>[]&:*).'", typeByte)
	set(alnum+"./$=,+", cryptByte)
	set("+/=", base64Byte)
	set("._%+-'", localByte)
	set(uppers, upperByte)
	set(" :=!]*?+.", paddingByte)
	set(alnum+" -_", phraseByte)
	set("%&", foldByte)
	for b := range 0x100 {
		if b >= 0x80 {
			t[b] |= localByte | foldByte
		}
		if isLatin(byte(b)) {
			t[b] |= phraseByte
		}
		if isQuote(byte(b)) {
			t[b] |= paddingByte
		} else if b > ' ' {
			t[b] |= wordByte
		}
	}
	return t
}()

func isDigit(b byte) bool  { return b-'0' <= 9 }
func isLatin(b byte) bool  { return b >= 0x80 && b < 0xd0 } // a byte in a letter such as ü in UTF-8
func isLetter(b byte) bool { return (b|0x20)-'a' < alphabetLen }
func isAlnum(b byte) bool  { return byteClass[b]&alnumByte != 0 }
func isUpper(b byte) bool  { return b-'A' <= 'Z'-'A' }
func isLower(b byte) bool  { return b-'a' <= 'z'-'a' }

func lower(b byte) byte {
	if isUpper(b) {
		return b + 'a' - 'A'
	}
	return b
}

func upper(b byte) byte {
	if isLower(b) {
		return b + 'A' - 'a'
	}
	return b
}

func classRunEnd(s []byte, i int, class uint16) int {
	for i < len(s) && byteClass[s[i]]&class != 0 {
		i++
	}
	return i
}

// runStart returns the start of the run of class bytes that ends at end. It looks back at most maxLen bytes, and never
// into the previous match.
func (m *matcher) runStart(end, maxLen int, class uint16) int {
	start := end
	for start > m.lastEnd && end-start < maxLen && byteClass[m.text[start-1]]&class != 0 {
		start--
	}
	return start
}

func runEnd(s []byte, i, maxLen int, class uint16) int {
	return classRunEnd(s[:min(len(s), i+maxLen)], i, class)
}

func startsWith(s []byte, i int, p string) bool {
	return i >= 0 && len(s)-i >= len(p) && string(s[i:i+len(p)]) == p
}

// startsFold reports whether s has p at i, ignoring ASCII case; p is lower case.
func startsFold(s []byte, i int, p string) bool {
	if i < 0 || len(s)-i < len(p) {
		return false
	}
	for j := range len(p) {
		if lower(s[i+j]) != p[j] {
			return false
		}
	}
	return true
}

func startsWord(s []byte, i int) bool { return i == 0 || !isAlnum(s[i-1]) }
