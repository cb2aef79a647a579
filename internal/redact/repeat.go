package redact

import (
	"bytes"
	"math/bits"
	"slices"
)

// maxKnownBytes is how many bytes of a secret a Redactor remembers. A word that begins with these bytes counts as the
// secret.
const maxKnownBytes = 256

// remember records a secret, so that the secret is later redacted even where it occurs without the name. Short values,
// and values with only letters or only digits, are not recorded, because they may occur with a different meaning.
func (r *Redactor) remember(k kind, value []byte) {
	const minLen = 6
	if k < anthropicKey || k == privateKey || k == fragment || len(r.knownSecrets) == maxKnownSecrets || len(value) < minLen {
		return
	}
	if k == urlCredentials {
		value = value[bytes.IndexByte(value, ':')+1:]
	}
	if len(value) > maxKnownBytes {
		if len(r.knownSecrets) >= maxKnownSecrets/2 { // keep half of the entries for short secrets
			return
		}
		value = value[:maxKnownBytes]
	}
	letters, digits := false, false
	for _, b := range value {
		if b <= ' ' || b >= 0x7f || b == '\\' || isQuote(b) {
			return
		}
		digits = digits || isDigit(b)
		letters = letters || !isDigit(b)
	}
	if len(value) < minLen || !letters || !digits || slices.ContainsFunc(r.knownSecrets, func(known []byte) bool { return bytes.Equal(known, value) }) {
		return
	}
	r.secretTable.add(value, len(r.knownSecrets))
	r.knownSecrets = append(r.knownSecrets, bytes.Clone(value))
}

// secretTable finds known secrets in one pass, by the first three bytes: bit n in secretTable[i][b] is set if secret n
// has byte b at offset i.
type secretTable [3][256]uint32

func (t *secretTable) add(value []byte, number int) {
	for i := range t {
		t[i][value[i]] |= 1 << number
	}
}

// scan returns the next offset at which known secrets may start, and a bit for each such secret. found is 0 if there is
// no such offset.
func (t *secretTable) scan(s []byte, i int) (offset int, found uint32) {
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

func (r *Redactor) findKnownSecrets(s []byte) []hit {
	hits := r.m.hits[:0]
	if len(r.knownSecrets) == 0 {
		return hits
	}
	for i, found := r.secretTable.scan(s, 0); found != 0; i, found = r.secretTable.scan(s, i+1) {
		for ; found != 0; found &= found - 1 {
			h := r.knownSecretAt(s, i, r.knownSecrets[bits.TrailingZeros32(found)])
			if h.kind == noKind || len(hits) > 0 && h.start < hits[len(hits)-1].end {
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

func (r *Redactor) knownSecretAt(s []byte, start int, value []byte) hit {
	end := start + len(value)
	if !bytes.HasPrefix(s[start:], value) {
		return hit{}
	}
	for len(value) == maxKnownBytes && end < len(s) && !endsValue(s[end]) {
		end++
	}
	if len(value) < maxKnownBytes && isAlnum(byteAt(s, end)) && isAlnum(value[len(value)-1]) {
		return hit{}
	}
	if !startsWord(s, start) && !(isAlnum(value[0]) && followsEscapeLetter(s, start)) {
		return hit{}
	}
	from := max(0, start-maxBlanks)
	if open := bytes.LastIndexByte(s[from:start], '['); open >= 0 && startsWith(s, from+open, Placeholder) && bytes.IndexByte(s[from+open:start], ']') < 0 {
		return hit{} // part of a placeholder
	}
	if bytes.IndexByte([]byte("bfnrtu/"), value[0]) >= 0 && endsInOddBackslashes(s[:start]) {
		start-- // the backslash and the first byte may be a JSON escape
	}
	return hit{start, end, secret}
}

func endsInOddBackslashes(s []byte) bool {
	n := 0
	for n < len(s) && s[len(s)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

func followsEscapeLetter(s []byte, i int) bool {
	return i > 1 && s[i-2] == '\\' && bytes.IndexByte([]byte("nrtbf"), s[i-1]) >= 0
}
