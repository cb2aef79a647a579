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

// secretTable finds known secrets by three successive bytes: bit n in secretTable[i][b] is set if b may be byte i of
// the three in secret n. The three bytes begin at one of the secret's first four, so that findKnownSecrets reads only
// every fourth position in a text.
type secretTable [3][256]uint32

const secretStride = 4 // bytes; see secretTable

func (t *secretTable) add(value []byte, number int) {
	for i := range t {
		for _, b := range value[i : i+secretStride] {
			t[i][b] |= 1 << number
		}
	}
}

func (r *Redactor) findKnownSecrets(s []byte) []hit {
	hits := r.m.hits[:0]
	if len(r.knownSecrets) == 0 {
		return hits
	}
	t := &r.secretTable
	end := 0 // of the last hit
	for p := 0; p < len(s)-2; p += secretStride {
		found := t[0][s[p]] & t[1][s[p+1]] & t[2][s[p+2]]
		for start := max(p-secretStride+1, end); found != 0 && start <= p; start++ {
			for numbers := found; numbers != 0; numbers &= numbers - 1 {
				h := r.knownSecretAt(s, start, r.knownSecrets[bits.TrailingZeros32(numbers)])
				if h.kind != noKind && h.start >= end {
					hits = append(hits, h)
					end = h.end
					start = end - 1
					break
				}
			}
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
