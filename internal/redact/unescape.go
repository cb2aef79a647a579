package redact

import (
	"bytes"
	"slices"
	"sort"
	"unicode/utf8"
)

// maxLevels is how many levels of JSON inside JSON strings are read: the body's strings, a tool's arguments, a document
// in the arguments, and one more.
const maxLevels = 4

// maxFolds is the maximum number of fold calls per text. A URL in a URL's query needs two calls, and HTML in HTML in
// HTML (&amp;amp;quot;) needs three.
const maxFolds = 3

// An escaped quote is replaced by the byte quoteMark plus the nesting depth. Quotes at different depths must differ,
// because a value ends only at a quote with the same depth: {"password":"a\"b"}.
const quoteMark = 0x10

func isQuote(b byte) bool {
	return b == '"' || b == '\'' || b == '`' || b-quoteMark < maxLevels
}

// escapeUnit is one escape: its bytes in the escaped text (raw), and the replacement in the unescaped text (decoded).
type escapeUnit struct {
	decoded, raw       int32 // offsets
	decodedLen, rawLen uint8 // byte counts
}

// level is the result of unescape, joinLines or fold. The units map offsets back to the escaped text.
type level struct {
	buf   []byte
	units []escapeUnit
}

// decodedEscapes has the decoded byte by the byte after the backslash, or 0 for \u and for invalid escapes.
//
//nolint:gochecknoglobals // read only
var decodedEscapes = [256]byte{
	'n': '\n', 't': '\t', 'r': '\r', 'b': ' ', 'f': ' ', '\\': '\\', '/': '/',
	'"': quoteMark, quoteMark: quoteMark, quoteMark + 1: quoteMark, quoteMark + 2: quoteMark, quoteMark + 3: quoteMark,
}

// unescape decodes the JSON escapes in s, and reports whether s contains an escape. Invalid escapes stay unchanged.
func (l *level) unescape(s []byte, depth byte) bool {
	const block = 32 // a copy with this fixed size is faster than a copy with the size up to the next escape
	l.units = l.units[:0]
	buf := slices.Grow(l.buf[:0], len(s)+block)[:len(s)+block]
	out := 0
	for i := 0; i < len(s); {
		n := bytes.IndexByte(s[i:], '\\')
		if n < 0 {
			n = len(s) - i
		}
		if n <= block && len(s)-i >= block {
			*(*[block]byte)(buf[out:]) = [block]byte(s[i:])
		} else {
			copy(buf[out:], s[i:i+n])
		}
		i, out = i+n, out+n
		if i == len(s) {
			break
		}
		size, width := 1, 2
		c := byteAt(s, i+1)
		switch buf[out] = decodedEscapes[c]; buf[out] {
		case quoteMark:
			buf[out] += depth
		case 0:
			r, ok := hex4(s, i+2)
			if c != 'u' || !ok {
				buf[out] = '\\'
				i, out = i+1, out+1
				continue
			}
			size, width = utf8.EncodeRune(buf[out:], r), 6 // half a surrogate pair becomes U+FFFD and matches nothing
		}
		l.units = append(l.units, escapeUnit{decoded: int32(out), raw: int32(i), decodedLen: uint8(size), rawLen: uint8(width)}) //nolint:gosec // bodies are bounded far below 2 GiB
		i, out = i+width, out+size
	}
	l.buf = buf[:out]
	return len(l.units) > 0
}

func isQuotedPrintable(s []byte) bool {
	if bytes.IndexByte(s, '=') < 0 || !bytes.Contains(s, []byte("=\n")) && !bytes.Contains(s, []byte("=\r\n")) {
		return false
	}
	return bytes.Contains(s, []byte("=3D")) || bytes.Contains(s, []byte("=20")) || bytes.Contains(s, []byte("quoted-printable"))
}

// joinLines removes quoted-printable soft line breaks. It decodes nothing else, because s may also contain text that is
// not encoded.
func (l *level) joinLines(s []byte) {
	l.buf, l.units = l.buf[:0], l.units[:0]
	from := 0
	for i := range s {
		if s[i] != '=' {
			continue
		}
		if n := softBreakLen(s, i); n > 0 {
			l.buf = append(l.buf, s[from:i]...)
			l.units = append(l.units, escapeUnit{decoded: int32(len(l.buf)), raw: int32(i), rawLen: uint8(n)}) //nolint:gosec // as in unescape
			from = i + n
		}
	}
	l.buf = append(l.buf, s[from:]...)
}

// softBreakLen returns the length of the soft line break at i, or 0. The lines around it must be valid
// quoted-printable, and the first one must have at most 76 bytes. So TOKEN=YWJj= at a line's end is not joined to the
// next line.
func softBreakLen(s []byte, i int) int {
	const maxLine = 76
	n := len("=\n")
	if byteAt(s, i+1) == '\r' {
		n++
	}
	if byteAt(s, i+n-1) != '\n' {
		return 0
	}
	start := max(0, i+1-maxLine)
	start += bytes.LastIndexByte(s[start:i], '\n') + 1
	if i-start == maxLine-1 && start > 0 && s[start-1] != '\n' {
		return 0
	}
	area := s[start:min(len(s), i+n+maxLine)]
	for p := range area {
		switch {
		case area[p] == '\n' && start+p > i+n:
			return n
		case area[p] != '=' || p+2 >= len(area) || area[p+1] == '\n' || area[p+1] == '\r':
		case byteClass[area[p+1]]&byteClass[area[p+2]]&hexByte == 0 || isLower(area[p+1]) || isLower(area[p+2]):
			return 0
		}
	}
	return n
}

// fold rewrites percent-encoded characters, HTML entities and typographic characters (dashes, curly quotes, full-width
// forms) as ASCII, and reports whether s contains any.
func (l *level) fold(s []byte) bool {
	l.buf, l.units = l.buf[:0], l.units[:0]
	for i := 0; i < len(s); {
		plain := i
		for i < len(s) && byteClass[s[i]]&foldByte == 0 {
			i++
		}
		l.buf = append(l.buf, s[plain:i]...)
		if i == len(s) {
			break
		}
		c, w := foldSymbol(s, i)
		if w > 1 {
			l.units = append(l.units, escapeUnit{decoded: int32(len(l.buf)), raw: int32(i), decodedLen: 1, rawLen: uint8(w)}) //nolint:gosec // as in unescape
		}
		l.buf = append(l.buf, c)
		i += w
	}
	return len(l.units) > 0
}

// foldSymbol returns the ASCII character for the w bytes at i, or the byte at i and 1 if there is nothing to fold.
func foldSymbol(s []byte, i int) (c byte, w int) {
	switch s[i] {
	case '%':
		return decodePercent(s, i)
	case '&':
		return decodeEntity(s, i)
	}
	return foldTypographic(s, i)
}

// decodeEntity is foldSymbol for an HTML entity.
func decodeEntity(s []byte, i int) (c byte, w int) {
	const ampersand = "&amp;"
	escaped := startsWith(s, i, ampersand) // an entity's ampersand is escaped, as in &amp;quot;
	for _, e := range [...]struct {
		text string
		c    byte
	}{
		{"&quot;", '"'},
		{"&#34;", '"'},
		{"&#x22;", '"'},
		{"&apos;", '\''},
		{"&#39;", '\''},
		{"&#x27;", '\''},
		{"&lt;", '<'},
		{"&gt;", '>'},
		{ampersand, 0},
	} {
		switch {
		case escaped && startsWith(s, i+len(ampersand), e.text[1:]):
			return '&', len(ampersand)
		case e.c != 0 && startsWith(s, i, e.text):
			return e.c, len(e.text)
		}
	}
	return s[i], 1
}

// decodePercent is foldSymbol for %XX. It decodes only printable characters and line feeds.
func decodePercent(s []byte, i int) (c byte, w int) {
	high, low := byteAt(s, i+1), byteAt(s, i+2)
	if byteClass[high]&byteClass[low]&hexByte == 0 {
		return s[i], 1
	}
	if c = hexValue(high)<<4 | hexValue(low); c < ' ' && c != '\n' || c > '~' {
		return s[i], 1
	}
	return c, 3
}

// foldTypographic is foldSymbol for a UTF-8 sequence.
func foldTypographic(s []byte, i int) (c byte, w int) {
	second, third := byteAt(s, i+1), byteAt(s, i+2)
	switch {
	case s[i] == 0xc2 && second == 0xa0: // no-break space
		return ' ', 2
	case s[i] == 0xe2 && second == 0x80 && (third <= 0x8a && third >= 0x80 || third == 0xaf), // U+2000 to U+200A, U+202F
		s[i] == 0xe3 && second == 0x80 && third == 0x80: // ideographic space
		return ' ', 3
	case s[i] == 0xe2 && second == 0x80 && third >= 0x90 && third <= 0x93: // hyphens and dashes
		return '-', 3
	case s[i] == 0xe2 && second == 0x80 && third >= 0x9c && third <= 0x9e, // “, ” and „
		s[i] == 0xe3 && second == 0x80 && third >= 0x8c && third <= 0x8f: // brackets that quote in East Asia
		return '"', 3
	case s[i] == 0xef && second == 0xbc && third > 0x80: // U+FF01 to U+FF3F
		return third - 0x60, 3
	case s[i] == 0xef && second == 0xbd && third >= 0x80 && third <= 0x9e: // U+FF40 to U+FF5E
		return third - 0x20, 3
	}
	return s[i], 1
}

func (m *matcher) noteFoldable(i int) hit {
	_, w := foldSymbol(m.text, i)
	m.hasFoldable = m.hasFoldable || w > 1
	return hit{}
}

func (l *level) findUnit(p int) (escapeUnit, bool) {
	i := sort.Search(len(l.units), func(i int) bool { return int(l.units[i].decoded) > p })
	if i == 0 {
		return escapeUnit{}, false
	}
	return l.units[i-1], true
}

// rawStart maps a range's start to the escaped text. A position inside an escape maps to the escape's start.
func (l *level) rawStart(p int) int {
	u, ok := l.findUnit(p)
	if !ok {
		return p
	}
	if p < int(u.decoded)+int(u.decodedLen) {
		return int(u.raw)
	}
	return int(u.raw) + int(u.rawLen) + p - int(u.decoded) - int(u.decodedLen)
}

// rawEnd maps a range's exclusive end to the escaped text. A position inside an escape maps to the escape's end.
func (l *level) rawEnd(p int) int {
	if p == 0 {
		return 0
	}
	u, ok := l.findUnit(p - 1)
	if ok && p-1 < int(u.decoded)+int(u.decodedLen) {
		return int(u.raw) + int(u.rawLen)
	}
	return l.rawStart(p-1) + 1
}

func byteAt(s []byte, i int) byte {
	if i < len(s) {
		return s[i]
	}
	return 0
}

func hex4(s []byte, i int) (r rune, ok bool) {
	if len(s)-i < 4 {
		return 0, false
	}
	for _, c := range s[i : i+4] {
		if byteClass[c]&hexByte == 0 {
			return 0, false
		}
		r = r<<4 | rune(hexValue(c))
	}
	return r, true
}

func hexValue(c byte) byte {
	if isDigit(c) {
		return c - '0'
	}
	return lower(c) - 'a' + 10
}
