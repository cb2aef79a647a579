package detect

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Tool results carry JSON, Python literals ({'status': 400, 'ok': False}) and both of them cut off
// in the middle. One tolerant reader takes all three. It keeps little: strings are slices of the
// text, arrays keep their first elements.
const (
	laxDepth    = 6       // deeper values are skipped, not kept
	laxNesting  = 200     // nested deeper, a text is not read at all: the reader is recursive
	laxElements = 16      // of an array
	laxBytes    = 1 << 20 // of a text; what lies behind is not read
)

type laxKind uint8

const (
	laxNone laxKind = iota // null, None, or a value that was skipped
	laxString
	laxNumber
	laxBool
	laxObject
	laxArray
)

// laxValue is one value. A string is kept as it stands in the text, quotes off, escapes on.
type laxValue struct {
	kind laxKind
	raw  string
	num  float64
	yes  bool
	keys []string
	vals []laxValue
}

// text is the string's content, escapes resolved.
func (v laxValue) text() string {
	if v.kind != laxString || !strings.Contains(v.raw, `\`) {
		return v.raw
	}
	return laxUnescape(v.raw)
}

// get finds a key of an object without regard to case.
func (v laxValue) get(names ...string) (laxValue, bool) {
	for _, name := range names {
		for i, k := range v.keys {
			if strings.EqualFold(k, name) {
				return v.vals[i], true
			}
		}
	}
	return laxValue{}, false
}

// empty says that a value carries nothing: null, "", {}, [], false, 0.
func (v laxValue) empty() bool {
	if v.kind == laxString {
		return strings.TrimSpace(v.raw) == ""
	}
	return v.num == 0 && !v.yes && len(v.vals) == 0
}

// parseLax reads the object or array that text begins with. ok is false when text is neither, or
// when it is not followed by the text's end (prose that merely starts with a bracket); a text cut
// off in the middle is read as far as it goes.
func parseLax(text string) (laxValue, bool) {
	text = strings.TrimSpace(text)
	if text == "" || (text[0] != '{' && text[0] != '[') {
		return laxValue{}, false
	}
	if len(text) > laxBytes {
		text = text[:laxBytes]
	}
	p := laxParser{s: text}
	v := p.value(0)
	if p.bad {
		return laxValue{}, false
	}
	p.space()
	return v, p.i >= len(p.s)
}

type laxParser struct {
	s    string
	i    int
	drop int  // above 0: what is read is not kept
	bad  bool // not such a text at all; the text's end is not bad
}

func (p *laxParser) space() {
	for p.i < len(p.s) && strings.IndexByte(" \n\t\r", p.s[p.i]) >= 0 {
		p.i++
	}
}

func (p *laxParser) value(depth int) laxValue {
	p.space()
	if p.i >= len(p.s) {
		return laxValue{}
	}
	if depth > laxNesting {
		p.bad = true
		return laxValue{}
	}
	switch c := p.s[p.i]; c {
	case '{':
		return p.object(depth)
	case '[', '(':
		return p.array(depth)
	case '"', '\'':
		return laxValue{kind: laxString, raw: p.str()}
	default:
		return p.word()
	}
}

func (p *laxParser) object(depth int) laxValue {
	v := laxValue{kind: laxObject}
	p.i++
	for !p.bad {
		p.space()
		if p.i >= len(p.s) {
			return v
		}
		switch c := p.s[p.i]; c {
		case '}':
			p.i++
			return v
		case ',':
			p.i++
			continue
		case '"', '\'':
		default:
			p.bad = !p.cut()
			return v
		}
		key := p.str()
		p.space()
		if p.i < len(p.s) && p.s[p.i] != ':' {
			p.bad = !p.cut()
			return v
		}
		p.i++
		val := p.value(depth + 1)
		if depth < laxDepth && p.drop == 0 {
			if v.keys == nil { // most arguments have no more
				v.keys, v.vals = make([]string, 0, 4), make([]laxValue, 0, 4)
			}
			v.keys, v.vals = append(v.keys, key), append(v.vals, val)
		}
	}
	return v
}

func (p *laxParser) array(depth int) laxValue {
	v := laxValue{kind: laxArray}
	p.i++
	for !p.bad {
		p.space()
		if p.i >= len(p.s) {
			return v
		}
		switch p.s[p.i] {
		case ']', ')':
			p.i++
			return v
		case ',':
			p.i++
			continue
		}
		if depth >= laxDepth || len(v.vals) >= laxElements {
			p.drop++
			p.value(depth + 1)
			p.drop--
			continue
		}
		if val := p.value(depth + 1); p.drop == 0 {
			v.vals = append(v.vals, val)
		}
	}
	return v
}

// str reads a quoted string and returns what stands between the quotes; an unclosed one runs to the
// end.
func (p *laxParser) str() string {
	q := p.s[p.i]
	start := p.i + 1
	for j, end := start, -1; j < len(p.s); {
		if end < j { // looked for once, not behind every escape
			if end = strings.IndexByte(p.s[j:], q); end < 0 {
				end = len(p.s)
			} else {
				end += j
			}
		}
		if esc := strings.IndexByte(p.s[j:end], '\\'); esc >= 0 {
			j += esc + 2
			continue
		}
		if end == len(p.s) {
			break
		}
		p.i = end + 1
		return p.s[start:end]
	}
	p.i = len(p.s)
	return p.s[start:]
}

func (p *laxParser) word() laxValue {
	start := p.i
	for p.i < len(p.s) && strings.IndexByte(",]})\n\t :", p.s[p.i]) < 0 {
		p.i++
	}
	w := p.s[start:p.i]
	switch w {
	case "true", "True":
		return laxValue{kind: laxBool, yes: true, raw: w}
	case "false", "False":
		return laxValue{kind: laxBool, raw: w}
	case "null", "None", "nan", "NaN", "undefined":
		return laxValue{}
	}
	if n, err := strconv.ParseFloat(w, 64); err == nil {
		return laxValue{kind: laxNumber, num: n, raw: w}
	}
	p.bad = !p.cut()
	return laxValue{}
}

// cut says that the reader stands where the text was shortened ("...", "[...]", "<truncated>"):
// what follows the mark is not to be read, and what was read before it is good.
func (p *laxParser) cut() bool {
	from := max(p.i-8, 0)
	near := p.s[from:min(p.i+24, len(p.s))]
	if hasWord(near, "...", "…", "truncated") || p.i >= len(p.s) {
		p.i = len(p.s)
		return true
	}
	return false
}

// laxUnescape resolves the escapes of JSON and Python; of one that it does not know only the
// backslash goes.
func laxUnescape(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for {
		at := strings.IndexByte(s, '\\')
		if at < 0 || at+1 == len(s) {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:at])
		s = s[at:]
		char, _, rest, err := strconv.UnquoteChar(s, 0)
		if err == nil {
			b.WriteRune(char)
			s = rest
			continue
		}
		if pair, n := surrogates(s); n > 0 {
			b.WriteRune(pair)
			s = s[n:]
			continue
		}
		s = s[1:]
		b.WriteByte(s[0])
		s = s[1:]
	}
}

// surrogates reads the escapes of a character beyond the first 65,536, as JSON writes it, and says
// how many bytes they are: a half without the other one is U+FFFD, and 0 bytes are none of it.
func surrogates(s string) (rune, int) {
	half := func(s string) rune {
		if len(s) < 6 || s[:2] != `\u` {
			return 0
		}
		n, _ := strconv.ParseUint(s[2:6], 16, 16)
		return rune(n)
	}
	first := half(s)
	if !utf16.IsSurrogate(first) {
		return 0, 0
	}
	if pair := utf16.DecodeRune(first, half(s[6:])); pair != utf8.RuneError {
		return pair, 12
	}
	return utf8.RuneError, 6
}
