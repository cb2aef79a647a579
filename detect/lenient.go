package detect

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"
)

// Tool results hold JSON, Python literals ({'status': 400, 'ok': False}), and truncated texts of both kinds.
// lenientParser reads all three. Strings are slices of the text. Values beyond the bounds are skipped.
const (
	maxDepth    = 6       // deeper values are skipped
	maxNesting  = 200     // a text with deeper nesting is not read, because the parser is recursive
	maxElements = 16      // elements of an array that are read
	maxLenient  = 1 << 20 // bytes of a text that are read
)

type valueKind uint8

const (
	noValue valueKind = iota // null, None, or a skipped value
	stringValue
	numberValue
	boolValue
	objectValue
	arrayValue
)

// lenientValue is one value. raw is the value as written, for a string without its quotes and with its escapes;
// yes is the value of a boolean, num of a number.
type lenientValue struct {
	kind valueKind
	yes  bool
	raw  string
	num  float64
	keys []string
	vals []lenientValue
}

// text returns the content of a string, with escapes resolved, and raw of other values.
func (v lenientValue) text() string {
	if v.kind != stringValue || !strings.Contains(v.raw, `\`) {
		return v.raw
	}
	return unescape(v.raw)
}

// get returns the value of the first of the names that is a key of an object, without regard to case.
func (v lenientValue) get(names ...string) (lenientValue, bool) {
	for _, name := range names {
		for i, k := range v.keys {
			if strings.EqualFold(k, name) {
				return v.vals[i], true
			}
		}
	}
	return lenientValue{}, false
}

// empty reports whether a value is null, a blank string, {}, [], false or 0.
func (v lenientValue) empty() bool {
	if v.kind == stringValue {
		return strings.TrimSpace(v.raw) == ""
	}
	return v.num == 0 && !v.yes && len(v.vals) == 0
}

// parseLenient returns the object or array that a text consists of. ok is false for other texts, such as prose
// that begins with a bracket. A truncated text is read up to its end.
func parseLenient(text string) (lenientValue, bool) {
	v, ok, _ := parseComplete(text)
	return v, ok
}

// parseComplete is parseLenient; complete reports whether the value holds everything that the text holds.
func parseComplete(text string) (v lenientValue, ok, complete bool) {
	text = strings.TrimSpace(text)
	if text == "" || (text[0] != '{' && text[0] != '[') {
		return lenientValue{}, false, false
	}
	if len(text) > maxLenient {
		text = text[:maxLenient]
	}
	p, _ := lenientParsers.Get().(*lenientParser)
	defer func() {
		*p = lenientParser{keys: p.keys[:0], vals: p.vals[:0]}
		lenientParsers.Put(p)
	}()
	p.s = text
	v = p.value(0)
	if p.bad {
		return lenientValue{}, false, false
	}
	p.skipSpace()
	ok = p.i >= len(p.s)
	return v, ok, ok && !p.lossy
}

// lenientParsers holds parsers for reuse, with their allocated lists.
//
//nolint:gochecknoglobals // safe for concurrent use
var lenientParsers = sync.Pool{New: func() any { return new(lenientParser) }}

type lenientParser struct {
	s         string
	i         int
	skipDepth int  // above 0: values are not kept
	bad       bool // the text is not JSON; truncated JSON is not bad

	lossy bool // the value lacks a part of the text

	// Keys and values of the open objects and arrays, the outermost first.
	keys []string
	vals []lenientValue
}

func (p *lenientParser) skipSpace() {
	for p.i < len(p.s) && strings.IndexByte(" \n\t\r", p.s[p.i]) >= 0 {
		p.i++
	}
}

func (p *lenientParser) value(depth int) lenientValue {
	p.skipSpace()
	if p.i >= len(p.s) {
		return lenientValue{}
	}
	if depth > maxNesting {
		p.bad = true
		return lenientValue{}
	}
	switch c := p.s[p.i]; c {
	case '{':
		return p.object(depth)
	case '[', '(':
		return p.array(depth)
	case '"', '\'':
		return lenientValue{kind: stringValue, raw: p.quoted()}
	default:
		return p.literal()
	}
}

func (p *lenientParser) object(depth int) lenientValue {
	keys, vals := len(p.keys), len(p.vals)
	p.members(depth)
	return lenientValue{kind: objectValue, keys: cutTail(&p.keys, keys), vals: cutTail(&p.vals, vals)}
}

// members appends the keys and values of the object at p.i to p.keys and p.vals.
func (p *lenientParser) members(depth int) {
	p.i++
	for !p.bad {
		p.skipSpace()
		if p.i >= len(p.s) {
			p.lossy = true
			return
		}
		switch c := p.s[p.i]; c {
		case '}':
			p.i++
			return
		case ',':
			p.i++
			continue
		case '"', '\'':
		default:
			p.bad = !p.atTruncation()
			return
		}
		key := p.quoted()
		p.skipSpace()
		if p.i < len(p.s) && p.s[p.i] != ':' {
			p.bad = !p.atTruncation()
			return
		}
		p.i++
		val := p.value(depth + 1)
		if depth < maxDepth && p.skipDepth == 0 {
			p.keys, p.vals = append(p.keys, key), append(p.vals, val)
		} else {
			p.lossy = true
		}
	}
}

func (p *lenientParser) array(depth int) lenientValue {
	vals := len(p.vals)
	p.elements(depth)
	return lenientValue{kind: arrayValue, vals: cutTail(&p.vals, vals)}
}

// elements appends the elements of the array at p.i to p.vals.
func (p *lenientParser) elements(depth int) {
	p.i++
	for first := len(p.vals); !p.bad; {
		p.skipSpace()
		if p.i >= len(p.s) {
			p.lossy = true
			return
		}
		switch p.s[p.i] {
		case ']', ')':
			p.i++
			return
		case ',':
			p.i++
			continue
		}
		if depth >= maxDepth || len(p.vals)-first >= maxElements {
			p.skipDepth, p.lossy = p.skipDepth+1, true
			p.value(depth + 1)
			p.skipDepth--
			continue
		}
		if val := p.value(depth + 1); p.skipDepth == 0 {
			p.vals = append(p.vals, val)
		}
	}
}

// cutTail removes the elements of the list from index from on, and returns a copy of these elements; nil for
// none.
func cutTail[T any](list *[]T, from int) []T {
	tail := (*list)[from:]
	if len(tail) == 0 {
		return nil
	}
	kept := slices.Clone(tail)
	clear(tail)
	*list = (*list)[:from]
	return kept
}

// quoted returns the text between the quotes of the string at p.i. A string without a closing quote ends with
// the text.
func (p *lenientParser) quoted() string {
	q := p.s[p.i]
	start := p.i + 1
	for j, end := start, -1; j < len(p.s); {
		if end < j { // search for the quote once, not after every escape
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
	p.i, p.lossy = len(p.s), true
	return p.s[start:]
}

func (p *lenientParser) literal() lenientValue {
	start := p.i
	for p.i < len(p.s) && strings.IndexByte(",]})\n\t :", p.s[p.i]) < 0 {
		p.i++
	}
	w := p.s[start:p.i]
	switch w {
	case "true", "True":
		return lenientValue{kind: boolValue, yes: true, raw: w}
	case "false", "False":
		return lenientValue{kind: boolValue, raw: w}
	case "null", "None", "nan", "NaN", "undefined":
		return lenientValue{}
	}
	if n, err := strconv.ParseFloat(w, 64); err == nil {
		return lenientValue{kind: numberValue, num: n, raw: w}
	}
	p.bad = !p.atTruncation()
	return lenientValue{}
}

// atTruncation reports whether a mark of truncation ("...", "<truncated>") is near p.i, or the text ends. The
// parser then keeps the values before p.i and skips the rest.
func (p *lenientParser) atTruncation() bool {
	from := max(p.i-8, 0)
	near := p.s[from:min(p.i+24, len(p.s))]
	if containsAny(near, "...", "…", "truncated") || p.i >= len(p.s) {
		p.i, p.lossy = len(p.s), true
		return true
	}
	return false
}

// unescape resolves the escapes of JSON and Python. An unknown escape loses only its backslash.
func unescape(s string) string {
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

// surrogates returns the character of a surrogate pair that JSON escapes at the start of s, and the number of
// bytes. A half without the other half is U+FFFD; 0 bytes mean that s does not begin with such an escape.
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
