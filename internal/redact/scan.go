package redact

import "math/bits"

// hit is a match in the unescaped text. Of kind none it says where the scan goes on: at end, or at
// the next byte where end is 0.
type hit struct {
	start, end int
	kind       kind
}

// matcher finds what is to be redacted in unescaped text. It goes through the text once and stops
// only at bytes on which a match can hang (the @ of an address, the _ of ghp_, the = of an
// assignment), so that ordinary text costs three look-ups in tables a byte. What it finds does not
// overlap and comes in order.
type matcher struct {
	t        *table
	s        []byte
	last     int // matches may not reach back before it
	class    keyClass
	personal bool
	disguise bool // a sign was seen that is spelled in another way; see level.fold
	hits     []hit
}

// run returns the hits in s; class is that of the JSON key, if any, under which s stands. The
// result is valid until the next run.
func (m *matcher) run(s []byte, class keyClass) []hit {
	m.s, m.last, m.class, m.disguise, m.hits = s, 0, class, false, m.hits[:0]
	if class.isSecret() {
		h := m.judge(0, len(s), class, shape{quoted: true, keyed: true})
		if class == headerClass {
			h = m.header(0, true)
		}
		if h.kind != none {
			m.hits = append(m.hits, h)
			return m.hits
		}
	}
	want := ^uint64(0)
	if !m.personal {
		want = ^m.t.personal
	}
	for i, found := m.t.scan(s, 0, want); i < len(s); {
		h := m.look(i, found)
		if h.kind != none {
			m.hits = append(m.hits, h)
			m.last = h.end
		}
		i, found = m.t.scan(s, max(h.end, i+1), want)
	}
	return m.hits
}

// scan returns the first place from i on where one of the wanted anchors may hang, and which. It
// asks all three tables for every byte: a branch between them would be mispredicted at every other
// letter.
func (t *table) scan(s []byte, i int, want uint64) (place int, found uint64) {
	if i >= len(s) {
		return len(s), 0
	}
	before, here := byte(0), s[i]
	if i > 0 {
		before = s[i-1]
	}
	for _, after := range s[i+1:] {
		if found = t.self[here] & t.prev[before] & t.next[after] & want; found != 0 {
			return i, found
		}
		before, here = here, after
		i++
	}
	return i, t.self[here] & t.prev[before] & t.next[0] & want
}

// look asks the checks of the anchors at i, one after the other.
func (m *matcher) look(i int, wanted uint64) (h hit) {
	for ; wanted != 0; wanted &= wanted - 1 {
		if h = m.t.checks[bits.TrailingZeros64(wanted)](m, i); h.kind != none {
			return h
		}
	}
	return h
}

// within asks the checks that know a vendor's key wherever it stands, at i.
func (m *matcher) within(i int) hit {
	before := byte(0)
	if i > 0 {
		before = m.s[i-1]
	}
	return m.look(i, m.t.self[m.s[i]]&m.t.prev[before]&m.t.vendors)
}

// skipPlaceholder keeps the matcher out of what was redacted before: a placeholder is never part of
// a match. Text that only begins like one is text.
func (m *matcher) skipPlaceholder(i int) hit {
	const longestKind, longestNumber = 24, 7
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
	if kind == 0 || kind > longestKind || number <= 0 || number > longestNumber || at(m.s, colon) != ':' || at(m.s, end) != ']' {
		return hit{}
	}
	m.last = end + 1
	return hit{end: end + 1}
}
