package detect

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"
)

// Tool results contain JSON and Python literals ({'status': 400, 'ok': False}), which are often truncated. Values
// beyond these bounds are skipped.
const (
	maxDepth    = 6       // deeper values are skipped
	maxNesting  = 200     // a text with deeper nesting is invalid, because the parser is recursive
	maxElements = 16      // per array
	maxLenient  = 1 << 20 // bytes
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

type lenientValue struct {
	kind   valueKind
	isTrue bool
	raw    string // as written; for a string, without quotes and with escapes
	num    float64
	keys   []string // object keys, in the order of vals
	vals   []lenientValue
}

// text returns a string's content with escapes resolved, and raw for other values.
func (v lenientValue) text() string {
	if v.kind != stringValue || !strings.Contains(v.raw, `\`) {
		return v.raw
	}
	return unescape(v.raw)
}

// get returns the value of the first name that is a key, ignoring case.
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

// isEmpty reports whether a value is null, a blank string, {}, [], false or 0.
func (v lenientValue) isEmpty() bool {
	if v.kind == stringValue {
		return strings.TrimSpace(v.raw) == ""
	}
	return v.num == 0 && !v.isTrue && len(v.vals) == 0
}

// parseLenient parses a text that is one object or array. In a truncated text, it reads the values before the end.
func parseLenient(text string) (lenientValue, bool) {
	v, ok, _ := parseComplete(text)
	return v, ok
}

// parseComplete does the same as parseLenient, and also reports whether the value is complete, with nothing skipped or
// cut off.
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
	p.text = text
	v = p.parseValue(0)
	if p.invalid {
		return lenientValue{}, false, false
	}
	p.skipSpace()
	ok = p.offset >= len(p.text)
	return v, ok, ok && !p.incomplete
}

// lenientParsers holds parsers for reuse, because their lists are expensive to allocate.
//
//nolint:gochecknoglobals // safe for concurrent use
var lenientParsers = sync.Pool{New: func() any { return new(lenientParser) }}

// lenientParser is a recursive-descent parser. The methods read the value at offset and advance offset.
type lenientParser struct {
	text       string
	offset     int
	skipDepth  int  // while positive, values are parsed and dropped
	invalid    bool // not JSON; truncated JSON is valid
	incomplete bool

	// Members of the objects and arrays that are still open, the outermost first.
	keys []string
	vals []lenientValue
}

func (p *lenientParser) skipSpace() {
	for p.offset < len(p.text) {
		switch p.text[p.offset] {
		case ' ', '\n', '\t', '\r':
			p.offset++
		default:
			return
		}
	}
}

func (p *lenientParser) parseValue(depth int) lenientValue {
	p.skipSpace()
	if p.offset >= len(p.text) {
		return lenientValue{}
	}
	if depth > maxNesting {
		p.invalid = true
		return lenientValue{}
	}
	switch c := p.text[p.offset]; c {
	case '{':
		return p.parseObject(depth)
	case '[', '(':
		return p.parseArray(depth)
	case '"', '\'':
		return lenientValue{kind: stringValue, raw: p.parseString()}
	default:
		return p.parseLiteral()
	}
}

func (p *lenientParser) parseObject(depth int) lenientValue {
	keys, vals := len(p.keys), len(p.vals)
	p.parseMembers(depth)
	return lenientValue{kind: objectValue, keys: popFrom(&p.keys, keys), vals: popFrom(&p.vals, vals)}
}

func (p *lenientParser) parseMembers(depth int) {
	p.offset++
	for !p.invalid {
		p.skipSpace()
		if p.offset >= len(p.text) {
			p.incomplete = true
			return
		}
		switch c := p.text[p.offset]; c {
		case '}':
			p.offset++
			return
		case ',':
			p.offset++
			continue
		case '"', '\'':
		default:
			p.invalid = !p.atTruncation()
			return
		}
		key := p.parseString()
		p.skipSpace()
		if p.offset < len(p.text) && p.text[p.offset] != ':' {
			p.invalid = !p.atTruncation()
			return
		}
		p.offset++
		val := p.parseValue(depth + 1)
		if depth < maxDepth && p.skipDepth == 0 {
			p.keys, p.vals = append(p.keys, key), append(p.vals, val)
		} else {
			p.incomplete = true
		}
	}
}

func (p *lenientParser) parseArray(depth int) lenientValue {
	vals := len(p.vals)
	p.parseElements(depth)
	return lenientValue{kind: arrayValue, vals: popFrom(&p.vals, vals)}
}

func (p *lenientParser) parseElements(depth int) {
	p.offset++
	for first := len(p.vals); !p.invalid; {
		p.skipSpace()
		if p.offset >= len(p.text) {
			p.incomplete = true
			return
		}
		switch p.text[p.offset] {
		case ']', ')':
			p.offset++
			return
		case ',':
			p.offset++
			continue
		}
		if depth >= maxDepth || len(p.vals)-first >= maxElements {
			p.skipDepth, p.incomplete = p.skipDepth+1, true
			p.parseValue(depth + 1)
			p.skipDepth--
			continue
		}
		if val := p.parseValue(depth + 1); p.skipDepth == 0 {
			p.vals = append(p.vals, val)
		}
	}
}

// popFrom removes and returns (*list)[from:].
func popFrom[T any](list *[]T, from int) []T {
	tail := (*list)[from:]
	if len(tail) == 0 {
		return nil
	}
	removed := slices.Clone(tail)
	clear(tail)
	*list = (*list)[:from]
	return removed
}

// parseString returns a string literal without the quotes. A literal without a closing quote extends to the end of the
// text.
func (p *lenientParser) parseString() string {
	q := p.text[p.offset]
	start := p.offset + 1
	for j, end := start, -1; j < len(p.text); {
		if end < j { // a search for the quote after every escape would take quadratic time
			if end = strings.IndexByte(p.text[j:], q); end < 0 {
				end = len(p.text)
			} else {
				end += j
			}
		}
		if esc := strings.IndexByte(p.text[j:end], '\\'); esc >= 0 {
			j += esc + 2
			continue
		}
		if end == len(p.text) {
			break
		}
		p.offset = end + 1
		return p.text[start:end]
	}
	p.offset, p.incomplete = len(p.text), true
	return p.text[start:]
}

func (p *lenientParser) parseLiteral() lenientValue {
	start := p.offset
	for p.offset < len(p.text) && strings.IndexByte(",]})\n\t :", p.text[p.offset]) < 0 {
		p.offset++
	}
	w := p.text[start:p.offset]
	switch w {
	case "true", "True":
		return lenientValue{kind: boolValue, isTrue: true, raw: w}
	case "false", "False":
		return lenientValue{kind: boolValue, raw: w}
	case "null", "None", "nan", "NaN", "undefined":
		return lenientValue{}
	}
	if n, err := strconv.ParseFloat(w, 64); err == nil {
		return lenientValue{kind: numberValue, num: n, raw: w}
	}
	p.invalid = !p.atTruncation()
	return lenientValue{}
}

// atTruncation reports whether a truncation mark ("...", "<truncated>") or the end of the text is near the offset. If
// so, it moves the offset to the end, so that the parser stops and keeps the values before the mark.
func (p *lenientParser) atTruncation() bool {
	from := max(p.offset-8, 0)
	near := p.text[from:min(p.offset+24, len(p.text))]
	if containsAny(near, "...", "…", "truncated") || p.offset >= len(p.text) {
		p.offset, p.incomplete = len(p.text), true
		return true
	}
	return false
}

// unescape resolves JSON or Python escapes in a string. From an unknown escape, it removes the backslash.
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

// surrogates returns the character for the UTF-16 surrogate pair (\ud83d\ude00) at the start of s, and the length of
// the escapes in bytes. The length is 0 if s does not begin with a surrogate. An unpaired surrogate becomes U+FFFD.
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
