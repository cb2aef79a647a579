package redact

import (
	"bytes"
	"hash/maphash"
	"strconv"
)

// maxPasses limits the passes over one string. A placeholder makes a new word boundary, where a further pass may find a
// value. Ordinary text needs at most two passes, but hostile text may need many.
const maxPasses = 16

// maxKnownSecrets is how many secrets a Redactor remembers: one for each bit in a secretTable entry.
const maxKnownSecrets = 32

// Redactor replaces secrets, and optionally personal data, with placeholders such as [REDACTED:email:1]. Values of a
// kind are numbered in order of occurrence. Equal values get equal numbers within a session (see BeginExchange) or,
// without sessions, until Reset.
//
// A secret that was found by its name, as in password=..., stays in memory until Reset or BeginExchange. Until then,
// the secret is also found without the name.
//
// A Redactor is not safe for concurrent use.
type Redactor struct {
	m              matcher
	levels         [maxLevels + 1 + maxFolds]level // results from unescape, joinLines (one) and fold
	bufs           [2][]byte
	input          []byte
	numbers        *PlaceholderNumbers
	defaultNumbers PlaceholderNumbers // used until BeginExchange sets different numbers
	counts         [kindCount]int
	knownSecrets   [][]byte // secrets since Reset or BeginExchange
	secretTable    secretTable
	clean          *CleanTexts // may be nil
}

// New returns a redactor for secrets. If personal is true, the redactor also replaces e-mail addresses, phone numbers,
// payment cards, IBANs, social security numbers and IP addresses.
func New(personal bool) *Redactor {
	r := &Redactor{m: matcher{table: standardTable, personal: personal}, defaultNumbers: PlaceholderNumbers{seed: maphash.MakeSeed(), limit: maxNumbers}}
	r.numbers = &r.defaultNumbers
	return r
}

// Reset forgets the numbers, the secrets and the counts.
func (r *Redactor) Reset() {
	r.defaultNumbers.reset()
	r.BeginExchange(&r.defaultNumbers)
}

// BeginExchange forgets the counts and secrets from the last exchange (a request and its reply), and uses a session's
// numbers.
func (r *Redactor) BeginExchange(n *PlaceholderNumbers) {
	r.numbers, r.counts = n, [kindCount]int{}
	if len(r.knownSecrets) > 0 {
		r.secretTable = secretTable{}
	}
	clear(r.knownSecrets)
	r.knownSecrets = r.knownSecrets[:0]
}

// Text returns s with a placeholder for each secret, and for personal data if the Redactor replaces them.
func (r *Redactor) Text(s string) string {
	if s == "" {
		return s
	}
	// Copying s takes little time compared to the scan.
	r.input = append(r.input[:0], s...)
	out, found := r.text(r.input, noClass)
	if !found {
		return s
	}
	return string(out)
}

// Counts returns the number of replacements by kind since New, Reset, BeginExchange or DrainCounts, or nil if there
// were none. A repeated value is counted each time.
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

// text redacts one string, escaped or plain, until a pass finds nothing. The result is valid until the next call. class
// is the class of the string's JSON key, or noClass.
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

// replace returns s with placeholders for the hits. The result is in r.bufs[buf]. The hit positions refer to unescaped,
// the result of depth calls to unescape, joinLines or fold on s.
func (r *Redactor) replace(buf int, s, unescaped []byte, hits []hit, depth int) []byte {
	out := r.bufs[buf][:0]
	copiedTo := 0
	for _, h := range hits {
		start, end := h.start, h.end
		for d := depth - 1; d >= 0; d-- {
			start, end = r.levels[d].rawStart(start), r.levels[d].rawEnd(end)
		}
		if start < copiedTo { // both hits are in one replaced escape
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

func (r *Redactor) placeholder(dst []byte, k kind, value []byte) []byte {
	r.counts[k]++
	r.remember(k, value)
	dst = append(dst, Placeholder...)
	dst = append(dst, k.String()...)
	dst = append(dst, ':')
	dst = strconv.AppendInt(dst, int64(r.numbers.number(k, value)), 10)
	return append(dst, ']')
}

// isLongBase64 reports whether s is at least 2 KiB of base64, possibly in a data URL, but not a PEM block. Such a text
// is an image or a file, and is scanned only if its JSON key is a secret's name.
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
