package redact

import "math/bits"

// hit is a match in the unescaped text. With kind none, the scan continues at end, or at the next
// byte if end is 0.
type hit struct {
	start, end int
	kind       kind
}

// matcher finds the values to redact in unescaped text. The matcher scans the text once and stops
// only at anchors (the @ of an address, the _ of ghp_, the = of an assignment), so that ordinary
// text costs three table look-ups per byte. Hits do not overlap and are in order.
type matcher struct {
	t        *table
	s        []byte
	last     int // end of the last match or placeholder; the next match starts at or after last
	class    keyClass
	personal bool
	encoded  bool // the text contains a character that level.fold rewrites
	heading  heading
	types    struct{ start, end int } // the last run of type bytes; see typeEnd
	hits     []hit
}

// run returns the hits in s. class is the class of the JSON key of s, if any. The result is valid
// until the next run.
func (m *matcher) run(s []byte, class keyClass) []hit {
	m.s, m.last, m.class, m.encoded, m.hits, m.heading = s, 0, class, false, m.hits[:0], heading{}
	m.types.start, m.types.end = 0, 0
	if class.isSecret() {
		h := m.checkValue(0, len(s), class, shape{quoted: true, keyed: true})
		if class == headerClass {
			h = m.header(0, true)
		}
		if h.kind != none {
			m.hits = append(m.hits, h)
			return m.hits
		}
	}
	want := ^m.t.rows
	if !m.personal {
		want &^= m.t.personal
	}
	for i, found := m.t.scan(s, 0, want); i < len(s); {
		h := m.check(i, found)
		if h.kind != none {
			m.hits = append(m.hits, h)
			m.last = h.end
		}
		i, found = m.t.scan(s, max(h.end, i+1), want|m.heading.wanted)
	}
	return m.hits
}

// scan returns the first place from i on with one of the wanted anchors, and the anchors. All three
// tables are read for every byte, because a branch would be mispredicted at every other letter.
func (t *table) scan(s []byte, i int, want uint64) (place int, found uint64) {
	if i >= len(s) {
		return len(s), 0
	}
	before, here := byte(0), s[i]
	if i > 0 {
		before = s[i-1]
	}
	open := t.prev[before] & t.self[here] & want // anchors at here, if the byte after here agrees
	for _, after := range s[i+1:] {
		if found = open & t.next[after]; found != 0 {
			return i, found
		}
		open = t.prev[here] & t.self[after] & want
		here = after
		i++
	}
	return i, open & t.next[0]
}

// check runs the checks of the wanted anchors at i, and returns the first hit. wanted is a set of
// anchors, one bit for each.
func (m *matcher) check(i int, wanted uint64) (h hit) {
	for ; wanted != 0; wanted &= wanted - 1 {
		if h = m.t.checks[bits.TrailingZeros64(wanted)](m, i); h.kind != none {
			return h
		}
	}
	return h
}

// vendorAt runs only the checks at i for vendors' keys, which are recognised without a name before
// the key.
func (m *matcher) vendorAt(i int) hit {
	before := byte(0)
	if i > 0 {
		before = m.s[i-1]
	}
	return m.check(i, m.t.self[m.s[i]]&m.t.prev[before]&m.t.vendors)
}

// skipPlaceholder returns a hit without a kind for the whole placeholder at i, so that the scan
// continues after the placeholder and no match extends over it. An incomplete placeholder is text.
func (m *matcher) skipPlaceholder(i int) hit {
	const maxKind, maxNumber = 24, 7
	if !startsWith(m.s, i, Placeholder) {
		return hit{}
	}
	colon := i + len(Placeholder)
	start := colon
	for isLower(at(m.s, colon)) || at(m.s, colon) == '_' {
		colon++
	}
	end := span(m.s, min(colon+1, len(m.s)), digitByte)
	kind, number := colon-start, end-colon-1
	if kind == 0 || kind > maxKind || number <= 0 || number > maxNumber || at(m.s, colon) != ':' || at(m.s, end) != ']' {
		return hit{}
	}
	m.last = end + 1
	return hit{end: end + 1}
}
