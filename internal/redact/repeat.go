package redact

import (
	"bytes"
	"slices"
)

// remember keeps the value of a secret, so that later repeats without context are found. Short and
// plain words are not kept: they may occur in other meanings.
func (r *Redactor) remember(k kind, value []byte) {
	const shortest, longest = 6, 256
	if k < anthropicKey || k == privateKey || k == fragment || len(r.repeats) == maxRepeats || len(value) < shortest || len(value) > longest {
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
	if len(value) < shortest || !letters || !digits || slices.ContainsFunc(r.repeats, func(known []byte) bool { return bytes.Equal(known, value) }) {
		return
	}
	r.repeats = append(r.repeats, bytes.Clone(value))
}

// findRepeats returns the places of remembered secrets in s, as whole words, in order.
func (r *Redactor) findRepeats(s []byte) []hit {
	hits := r.m.hits[:0]
	for _, value := range r.repeats {
		for from := 0; ; {
			i := bytes.Index(s[from:], value)
			if i < 0 {
				break
			}
			start := from + i
			from = start + len(value)
			if !(startsWord(s, start) || isAlnum(value[0]) && escapeBefore(s, start)) || isAlnum(at(s, from)) && isAlnum(value[len(value)-1]) {
				continue
			}
			if open := bytes.LastIndexByte(s[max(0, start-maxBlanks):start], '['); open >= 0 && startsWith(s, max(0, start-maxBlanks)+open, Placeholder) && bytes.IndexByte(s[max(0, start-maxBlanks)+open:start], ']') < 0 {
				continue // part of a placeholder
			}
			if bytes.IndexByte([]byte("bfnrtu/"), value[0]) >= 0 && oddBackslashes(s[:start]) {
				start-- // the backslash and the first byte may be one escape of JSON
			}
			hits = append(hits, hit{start, from, secret})
		}
	}
	r.m.hits = hits
	if len(r.repeats) > 1 {
		slices.SortFunc(hits, func(a, b hit) int { return a.start - b.start })
		kept := hits[:0]
		for _, h := range hits {
			if len(kept) == 0 || h.start >= kept[len(kept)-1].end {
				kept = append(kept, h)
			}
		}
		hits = kept
	}
	return hits
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
