package redact

import (
	"bytes"
	"math/bits"
	"slices"
)

// remember keeps the value of a secret, so that findRepeats finds the value without its name. Short
// and plain words are not kept, because such a word may occur with another meaning.
func (r *Redactor) remember(k kind, value []byte) {
	const minLen, maxLen = 6, 256
	if k < anthropicKey || k == privateKey || k == fragment || len(r.repeats) == maxRepeats || len(value) < minLen || len(value) > maxLen {
		return
	}
	if k == urlCredentials {
		value = value[bytes.IndexByte(value, ':')+1:]
	}
	letters, digits := false, false
	for _, b := range value {
		if b <= ' ' || b >= 0x7f || b == '\\' || isQuote(b) {
			return
		}
		digits = digits || isDigit(b)
		letters = letters || !isDigit(b)
	}
	if len(value) < minLen || !letters || !digits || slices.ContainsFunc(r.repeats, func(known []byte) bool { return bytes.Equal(known, value) }) {
		return
	}
	r.repeatTable.add(value, len(r.repeats))
	r.repeats = append(r.repeats, bytes.Clone(value))
}

// repeatTable finds the remembered secrets in one pass: a bit for each secret at each of its first
// three bytes.
type repeatTable [3][256]uint32

func (t *repeatTable) add(value []byte, number int) {
	for i := range t {
		t[i][value[i]] |= 1 << number
	}
}

// scan returns the first place from i on where a secret may start, with the bits of these secrets; 0 means
// none.
func (t *repeatTable) scan(s []byte, i int) (place int, found uint32) {
	if i+len(t) > len(s) {
		return i, 0
	}
	first, second := s[i], s[i+1]
	for _, third := range s[i+2:] {
		if found = t[0][first] & t[1][second] & t[2][third]; found != 0 {
			return i, found
		}
		first, second = second, third
		i++
	}
	return i, 0
}

// findRepeats returns the places of remembered secrets in s, as whole words, in order.
func (r *Redactor) findRepeats(s []byte) []hit {
	hits := r.m.hits[:0]
	if len(r.repeats) == 0 {
		return hits
	}
	for i, found := r.repeatTable.scan(s, 0); found != 0; i, found = r.repeatTable.scan(s, i+1) {
		for ; found != 0; found &= found - 1 {
			h := r.repeatAt(s, i, r.repeats[bits.TrailingZeros32(found)])
			if h.kind == none || len(hits) > 0 && h.start < hits[len(hits)-1].end {
				continue
			}
			hits = append(hits, h)
			i = h.end - 1
			break
		}
	}
	r.m.hits = hits
	return hits
}

// repeatAt matches value, a remembered secret, at start as a whole word.
func (r *Redactor) repeatAt(s []byte, start int, value []byte) hit {
	end := start + len(value)
	if !bytes.HasPrefix(s[start:], value) || isAlnum(at(s, end)) && isAlnum(value[len(value)-1]) {
		return hit{}
	}
	if !startsWord(s, start) && !(isAlnum(value[0]) && escapeBefore(s, start)) {
		return hit{}
	}
	from := max(0, start-maxBlanks)
	if open := bytes.LastIndexByte(s[from:start], '['); open >= 0 && startsWith(s, from+open, Placeholder) && bytes.IndexByte(s[from+open:start], ']') < 0 {
		return hit{} // part of a placeholder
	}
	if bytes.IndexByte([]byte("bfnrtu/"), value[0]) >= 0 && oddBackslashes(s[:start]) {
		start-- // the backslash and the first byte may be one escape of JSON
	}
	return hit{start, end, secret}
}

// oddBackslashes reports whether s ends with an odd number of backslashes.
func oddBackslashes(s []byte) bool {
	n := 0
	for n < len(s) && s[len(s)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// escapeBefore reports whether the letter before i belongs to an escape such as \n.
func escapeBefore(s []byte, i int) bool {
	return i > 1 && s[i-2] == '\\' && bytes.IndexByte([]byte("nrtbf"), s[i-1]) >= 0
}
