package redact

import (
	"bytes"
	"slices"
)

// JSON redacts the strings and keys in the JSON text raw, including those in nested JSON. It also redacts numbers that
// are payment cards or have a key such as phone. Valid JSON stays valid. If nothing is found, the result is raw.
// Otherwise the result is appended to dst[:0], which must not overlap raw.
func (r *Redactor) JSON(dst, raw []byte) []byte {
	w := splicer{dst: dst[:0], src: raw}
	var key []byte         // next value's key
	var pairClass keyClass // class of the previous member's name
	var listClass keyClass // class of the first text in a list
	var openClass keyClass // class of the open object's name
	var itemClass keyClass // class of the open string list's name
	for i := 0; i < len(raw); {
		q := bytes.IndexByte(raw[i:], '"')
		if q < 0 {
			r.redactNumbers(&w, i, len(raw), key)
			break
		}
		r.redactNumbers(&w, i, i+q, key)
		start := i + q + 1
		gap := trimGap(raw[i : start-1])
		if len(gap) > 1 || len(gap) == 1 && gap[0] != ',' {
			pairClass = noClass
		}
		if bytes.IndexByte(gap, '}') >= 0 {
			openClass = noClass
		}
		end := stringEnd(raw, start)
		i = end + 1
		if colon := skipSpace(raw, i); byteAt(raw, colon) == ':' {
			key = raw[start:end]
			i = colon + 1
			if next := skipSpace(raw, i); byteAt(raw, next) == '{' || byteAt(raw, next) == '[' {
				openClass, key = classifyKey(key), nil // the key describes a container, not the strings in it
				itemClass = openClass
			}
			r.redactString(&w, start, end, noClass)
			continue
		}
		class := classifyKey(key)
		if named := max(pairClass, openClass); bytes.EqualFold(key, []byte("value")) && !isProse(named, raw[start:end]) {
			class = named
		}
		// In ["X-Api-Key", "..."], the first string names the second.
		if listClass.isSecret() && string(gap) == "," && byteAt(raw, skipSpace(raw, i)) == ']' && (listClass != passwordClass || isPassword(raw[start:end], valueContext{quoted: true})) {
			class = listClass
		}
		if listClass = noClass; key == nil && bytes.HasSuffix(gap, []byte("[")) {
			listClass = classifyKey(raw[start:end])
		}
		if itemClass = classInList(itemClass, gap, key); isListedSecret(itemClass, raw[start:end]) {
			class = itemClass
		}
		if pairClass = noClass; isNameKey(key) {
			pairClass = classifyKey(raw[start:end])
		}
		r.redactString(&w, start, end, class)
		key = nil
	}
	return w.result()
}

// classInList returns class if a string is an item in the open list, and noClass otherwise. gap is the text between the
// previous string and this one.
func classInList(class keyClass, gap, key []byte) keyClass {
	if key != nil || string(gap) != "[" && string(gap) != "," {
		return noClass
	}
	return class
}

func trimGap(gap []byte) []byte {
	isOuter := func(c byte) bool { return c <= ' ' || c == ':' }
	for len(gap) > 0 && isOuter(gap[0]) {
		gap = gap[1:]
	}
	for len(gap) > 0 && isOuter(gap[len(gap)-1]) {
		gap = gap[:len(gap)-1]
	}
	return gap
}

func (r *Redactor) redactString(w *splicer, start, end int, class keyClass) {
	const minLen = 6 // a@b.io has this length; a value with a key may be shorter
	s := w.src[start:end]
	if class == noClass && (len(s) < minLen || isShortWord(s)) {
		return
	}
	if out, found := r.text(s, class); found {
		w.replace(start, end, out, false)
	}
}

// maxShortWord is less than the length of a vendor's key without digits, even if the key is cut off.
const maxShortWord = 12

// isShortWord reports whether s is one word, with only letters and underscores, and at most maxShortWord bytes. Such a
// word matches no kind. Most keys in JSON are short words.
func isShortWord(s []byte) bool {
	return len(s) <= maxShortWord && !slices.ContainsFunc(s, func(c byte) bool { return !isLetter(c) && c != '_' })
}

// redactNumbers redacts integers with at least seven digits in src[from:to], the text between two strings.
func (r *Redactor) redactNumbers(w *splicer, from, to int, key []byte) {
	const minLen = 7
	for i := from; to-i >= minLen; {
		if !isDigit(w.src[i]) {
			i++
			continue
		}
		end := classRunEnd(w.src[:to], i, digitByte)
		c := byteAt(w.src, end)
		isInteger := c != '.' && c != 'e' && c != 'E'
		if isInteger && end-i >= minLen && (i == 0 || (w.src[i-1] != '-' && w.src[i-1] != '.' && w.src[i-1] != '+')) {
			class := noClass
			if key != nil {
				class = classifyKey(key)
			}
			if class == secretClass { // a number under the key token is a count or an id
				class = noClass
			}
			if out, found := r.text(w.src[i:end], class); found {
				w.replace(i, end, out, true)
			}
		}
		i = end
		for i < to && w.src[i] != ',' && w.src[i] != ']' && w.src[i] != '}' { // the rest of a float
			i++
		}
	}
}

// splicer replaces ranges of src, and builds the result in dst. If nothing is replaced, the result is src itself.
type splicer struct {
	dst, src []byte
	copiedTo int
	changed  bool
}

func (s *splicer) replace(start, end int, text []byte, quoted bool) {
	if !s.changed {
		s.dst = slices.Grow(s.dst, len(s.src)+len(s.src)/8) // placeholders are longer than most values
	}
	s.dst = append(s.dst, s.src[s.copiedTo:start]...)
	if quoted {
		s.dst = append(s.dst, '"')
	}
	s.dst = append(s.dst, text...)
	if quoted {
		s.dst = append(s.dst, '"')
	}
	s.copiedTo, s.changed = end, true
}

func (s *splicer) result() []byte {
	if !s.changed {
		return s.src
	}
	return append(s.dst, s.src[s.copiedTo:]...)
}

func stringEnd(raw []byte, i int) int {
	for {
		q := bytes.IndexByte(raw[i:], '"')
		if q < 0 {
			return len(raw)
		}
		i += q
		esc := i
		for esc > 0 && raw[esc-1] == '\\' {
			esc--
		}
		if (i-esc)&1 == 0 {
			return i
		}
		i++
	}
}

func skipSpace(s []byte, i int) int {
	for i < len(s) && (s[i] == ' ' || s[i] == '\n' || s[i] == '\t' || s[i] == '\r') {
		i++
	}
	return i
}
