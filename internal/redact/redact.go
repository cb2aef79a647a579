package redact

import (
	"bytes"
	"hash/maphash"
	"strconv"
)

// maxPasses is the maximum number of passes over one string. A replacement makes a new word boundary, which can reveal
// another value, so a string with a replacement is scanned again. Ordinary text needs at most two passes. The limit
// bounds the cost of a text that was made to need many passes.
const maxPasses = 16

// maxKnownSecrets is the maximum number of secret values that a Redactor remembers to find them again without their
// names.
const maxKnownSecrets = 32

// Redactor replaces secrets, and optionally personal data, by placeholders such as [REDACTED:email:1]. Until Reset or
// Continue, equal values get equal numbers. Continue uses the numbers of a session, so that placeholders are stable
// within the session. The values of a kind are numbered in the order of their first occurrence, so the placeholders of
// two sessions may be equal although the values differ. A secret that was found by its name is also found without the
// name until Reset or Continue. Its value is kept in memory only until then.
//
// A Redactor is not safe for concurrent use.
type Redactor struct {
	m              matcher
	levels         [maxLevels + 1 + maxFolds]level // 1 is for joinLines
	bufs           [2][]byte
	input          []byte
	numbers        *PlaceholderNumbers
	defaultNumbers PlaceholderNumbers // numbers that are used until Continue sets others
	counts         [kindCount]int
	knownSecrets   [][]byte    // secret values since Reset or Continue
	secretTable    secretTable // index of knownSecrets
	clean          *CleanTexts // cache of texts without anything to redact; nil for none
}

// New returns a redactor of secrets. If personal is true, it also redacts e-mail addresses, phone numbers, payment
// cards, IBANs, social security numbers and IP addresses.
func New(personal bool) *Redactor {
	r := &Redactor{m: matcher{table: standardTable, personal: personal}, defaultNumbers: PlaceholderNumbers{seed: maphash.MakeSeed(), limit: maxNumbers}}
	r.numbers = &r.defaultNumbers
	return r
}

// Reset forgets the numbers, the secrets and the counts. It keeps the buffers for reuse.
func (r *Redactor) Reset() {
	r.defaultNumbers.reset()
	r.BeginExchange(&r.defaultNumbers)
}

// BeginExchange forgets the counts and the secrets of the last exchange, and uses the numbers of a session from now on.
func (r *Redactor) BeginExchange(n *PlaceholderNumbers) {
	r.numbers, r.counts = n, [kindCount]int{}
	if len(r.knownSecrets) > 0 {
		r.secretTable = secretTable{}
	}
	clear(r.knownSecrets)
	r.knownSecrets = r.knownSecrets[:0]
}

// Text returns s with a placeholder for each value to redact. If there is no such value, Text returns s unchanged.
func (r *Redactor) Text(s string) string {
	if s == "" {
		return s
	}
	// The scan needs bytes. The copy of s takes little time compared to the scan.
	r.input = append(r.input[:0], s...)
	out, found := r.text(r.input, noClass)
	if !found {
		return s
	}
	return string(out)
}

// Counts returns the number of replacements by kind since the last call of New, Reset, Continue or DrainCounts, nil for
// none. Repeated values count each time.
func (r *Redactor) Counts() map[string]int {
	var m map[string]int
	for k, n := range r.counts {
		if n == 0 {
			continue
		}
		if m == nil {
			m = make(map[string]int)
		}
		m[kind(k).String()] = n
	}
	return m
}

// DrainCounts returns Counts and resets the counts.
func (r *Redactor) DrainCounts() map[string]int {
	m := r.Counts()
	r.counts = [kindCount]int{}
	return m
}

// text redacts one string, escaped or plain, in passes until a pass finds nothing. found is true if any pass found a
// value. The result is valid until the next call. class is the class of the JSON key of the string.
func (r *Redactor) text(s []byte, class keyClass) (out []byte, found bool) {
	buf := 0
	for range maxPasses {
		unescaped, depth := s, 0
		if !class.isSecret() && isLongBase64(s) {
			return s, found
		}
		for depth < maxLevels && bytes.IndexByte(unescaped, '\\') >= 0 && r.levels[depth].unescape(unescaped, byte(depth)) {
			unescaped = r.levels[depth].buf
			depth++
		}
		var hits []hit
		if isQuotedPrintable(unescaped) {
			r.levels[depth].joinLines(unescaped)
			hits = r.m.findHits(r.levels[depth].buf, class)
		}
		if len(hits) > 0 {
			unescaped = r.levels[depth].buf
			depth++
		} else {
			hits = r.m.findHits(unescaped, class)
		}
		for folds := 0; len(hits) == 0 && r.m.hasFoldable && folds < maxFolds && r.levels[depth].fold(unescaped); folds++ {
			unescaped = r.levels[depth].buf
			depth++
			hits = r.m.findHits(unescaped, class)
		}
		changed := len(hits) > 0
		if changed {
			s = r.replace(buf, s, unescaped, hits, depth)
			buf ^= 1
		}
		if hits = r.findKnownSecrets(s); len(hits) > 0 {
			s = r.replace(buf, s, s, hits, 0)
			buf ^= 1
			changed = true
		}
		if !changed {
			return s, found
		}
		found = true
	}
	return s, found
}

// replace returns s with a placeholder instead of each hit. unescaped is s after depth calls of unescape, joinLines or
// fold, and the positions of the hits are positions in unescaped. The result is stored in r.bufs[buf].
func (r *Redactor) replace(buf int, s, unescaped []byte, hits []hit, depth int) []byte {
	out := r.bufs[buf][:0]
	copiedTo := 0
	for _, h := range hits {
		start, end := h.start, h.end
		for d := depth - 1; d >= 0; d-- {
			start, end = r.levels[d].rawStart(start), r.levels[d].rawEnd(end)
		}
		if start < copiedTo { // two hits share one escape unit, which the first hit has replaced
			start = copiedTo
		}
		out = append(out, s[copiedTo:start]...)
		out = r.placeholder(out, h.kind, unescaped[h.start:h.end])
		copiedTo = max(end, start)
	}
	out = append(out, s[copiedTo:]...)
	r.bufs[buf] = out
	return out
}

// placeholder appends the placeholder of a value to dst, counts the replacement, and remembers the
// value of a secret.
func (r *Redactor) placeholder(dst []byte, k kind, value []byte) []byte {
	r.counts[k]++
	r.remember(k, value)
	dst = append(dst, Placeholder...)
	dst = append(dst, k.String()...)
	dst = append(dst, ':')
	dst = strconv.AppendInt(dst, int64(r.numbers.number(k, value)), 10)
	return append(dst, ']')
}

// isLongBase64 reports whether s is base64 of at least 2 KiB, with or without the head of a data URL, but not a PEM
// block. Such a string is an image or another file, and is not scanned, except under the key of a secret.
func isLongBase64(s []byte) bool {
	const probe = 1024
	if len(s) < 2*probe {
		return false
	}
	if i := bytes.Index(s[:128], []byte(";base64,")); i >= 0 {
		s = s[i+len(";base64,"):]
	}
	if startsWith(s, 0, wrappedHeader) {
		return false
	}
	return classRunEnd(s, 0, base64Byte) == len(s)
}
