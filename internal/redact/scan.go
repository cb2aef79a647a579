package redact

import "math/bits"

// hit is the range of a value in the unescaped text. A hit with noKind means that there is no value, and that the scan
// continues at end, or at the next byte if end is 0.
type hit struct {
	start, end int
	kind       kind
}

// matcher finds the values to redact in unescaped text. It scans the text once and stops only at anchors, such as the @
// in an address, so ordinary text costs three table look-ups per byte. Hits are in text order, and do not overlap.
type matcher struct {
	table       *anchorTable
	text        []byte
	lastEnd     int // where the last match or placeholder ends; no match starts before it
	class       keyClass
	personal    bool
	hasFoldable bool
	openTable   openTable
	typeRun     struct{ start, end int } // last typeByte run; see typeEnd
	hits        []hit
	stringList  struct {
		class keyClass
		end   int // last item's closing quote
	} // last string list under a secret's name, such as "tokens": ["...", "..."]
	checkedHeader struct{ start, end int } // part of a header in which headerValue found no credentials
}

// findHits returns the hits in s. The result is valid until the next call. class is the class of the text's JSON key.
func (m *matcher) findHits(s []byte, class keyClass) []hit {
	m.hasFoldable = false
	want := ^m.table.rows
	if !m.personal {
		want &^= m.table.personalAnchors
	}
	i, found := m.table.scan(s, 0, want)
	if i == len(s) && !class.isSecret() {
		return nil
	}
	m.text, m.lastEnd, m.class, m.hits, m.openTable = s, 0, class, m.hits[:0], openTable{}
	m.stringList.class, m.stringList.end = noClass, 0
	m.typeRun.start, m.typeRun.end, m.checkedHeader.start, m.checkedHeader.end = 0, 0, 0, 0
	if class.isSecret() {
		h := m.checkValue(0, len(s), class, valueContext{quoted: true, hasQuotedName: true})
		if class == headerClass {
			h = m.headerValue(0, true)
		}
		if h.kind != noKind {
			m.hits = append(m.hits, h)
			return m.hits
		}
	}
	for i < len(s) {
		h := m.check(i, found)
		if h.kind != noKind {
			h = m.wholeValue(h)
			m.hits = append(m.hits, h)
			m.lastEnd = h.end
		}
		i, found = m.table.scan(s, max(h.end, i+1), want|m.openTable.rowAnchor)
	}
	return m.hits
}

// scan returns the next position with wanted anchors, and a bit for each anchor found, or len(s). It reads three tables
// for every byte, because a branch would be mispredicted at every other letter.
func (t *anchorTable) scan(s []byte, i int, want uint64) (place int, found uint64) {
	if i >= len(s) {
		return len(s), 0
	}
	before, here := byte(0), s[i]
	if i > 0 {
		before = s[i-1]
	}
	open := t.prev[before] & t.atAnchor[here] & want // anchors that still depend on the byte after here
	for _, after := range s[i+1:] {
		if found = open & t.next[after]; found != 0 {
			if found = t.withoutPrefixes(found, s, i); found != 0 {
				return i, found
			}
		}
		open = t.prev[here] & t.atAnchor[after] & want
		here = after
		i++
	}
	if found = t.withoutPrefixes(open&t.next[0], s, i); found != 0 {
		return i, found
	}
	return len(s), 0
}

// withoutPrefixes returns found, without the prefix anchors if the three bytes up to i end no prefix.
func (t *anchorTable) withoutPrefixes(found uint64, s []byte, i int) uint64 {
	if found&t.prefixAnchors != 0 && (i < 2 || t.tails[hashTail(s, i)] == 0) {
		found &^= t.prefixAnchors
	}
	return found
}

func (m *matcher) check(i int, wanted uint64) (h hit) {
	for ; wanted != 0; wanted &= wanted - 1 {
		if h = m.table.checks[bits.TrailingZeros64(wanted)](m, i); h.kind != noKind {
			return h
		}
	}
	return h
}

func (m *matcher) vendorAt(i int) hit {
	before := byte(0)
	if i > 0 {
		before = m.text[i-1]
	}
	return m.check(i, m.table.atAnchor[m.text[i]]&m.table.prev[before]&m.table.vendorAnchors)
}

// skipPlaceholder returns a hit without a kind for the placeholder at i, so that no match extends over it. An
// incomplete placeholder is text.
func (m *matcher) skipPlaceholder(i int) hit {
	const maxKind, maxNumber = 24, 7
	if !startsWith(m.text, i, Placeholder) {
		return hit{}
	}
	colon := i + len(Placeholder)
	start := colon
	for isLower(byteAt(m.text, colon)) || byteAt(m.text, colon) == '_' {
		colon++
	}
	end := classRunEnd(m.text, min(colon+1, len(m.text)), digitByte)
	kind, number := colon-start, end-colon-1
	if kind == 0 || kind > maxKind || number <= 0 || number > maxNumber || byteAt(m.text, colon) != ':' || byteAt(m.text, end) != ']' {
		return hit{}
	}
	m.lastEnd = end + 1
	return hit{end: end + 1}
}
