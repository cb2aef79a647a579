package sample

// matcher finds what is to be redacted in unescaped text. It goes through the text once and stops only at bytes on which
// a match can hang (the @ of an address, the _ of ghp_, the = of an assignment), so that ordinary text costs one table
// look-up a byte. What it finds does not overlap and comes in order.
type matcher struct {
	s        []byte
	last     int // matches may not reach back before it
	class    keyClass
	personal bool
	hits     []hit
}

// run returns the hits in s; class is that of the JSON key, if any, under which s stands. The result is valid until the
// next run.
func (m *matcher) run(s []byte, class keyClass) []hit {
	m.s, m.last, m.class, m.hits = s, 0, class, m.hits[:0]
	if class.isSecret() {
		if h := m.judge(0, len(s), class, shape{quoted: true, keyed: true}); h.kind != none {
			m.hits = append(m.hits, h)
			return m.hits
		}
	}
	want := ^uint32(0)
	if !m.personal {
		want = ^personalAnchors
	}
	for i := 0; i < len(s); {
		bits := anchors.self[s[i]]
		if bits == 0 {
			i++
			continue
		}
		if i > 0 {
			bits &= anchors.prev[s[i-1]]
		} else {
			bits &= anchors.prev[0]
		}
		if bits &= anchors.next[at(s, i+1)] & want; bits == 0 {
			i++
			continue
		}
		h, next := m.anchor(i, bits)
		if h.kind != none {
			m.hits = append(m.hits, h)
			m.last, next = h.end, h.end
		}
		i = max(next, i+1)
	}
	return m.hits
}

// anchor looks at an anchor byte between the right neighbours. next is where to go on when there is no hit; 0 means at the
// next byte.
func (m *matcher) anchor(i int, bits uint32) (h hit, next int) {
	switch {
	case bits&(anchorNumber|anchorIBAN) != 0:
		return m.number(i)
	case bits&anchorEqual != 0:
		return m.assignment(i), 0
	case bits&(anchorURL|anchorIPv6|anchorColon) != 0:
		return m.colon(i, bits), 0
	case bits&anchorUnderscore != 0:
		return m.underscore(i), 0
	case bits&(anchorVendorDash|anchorDashes) != 0:
		return m.dash(i), 0
	case bits&anchorPlaceholder != 0:
		return hit{}, m.skipPlaceholder(i)
	case bits&anchorScheme != 0:
		return m.scheme(i), 0
	case bits&anchorAt != 0:
		return m.email(i, 1), 0
	case bits&(anchorA|anchorS) != 0:
		return m.capital(i), 0
	case bits&anchorJWT != 0:
		return m.jwt(i - 2), 0
	case bits&anchorTilde != 0:
		return m.azureSecret(i), 0
	case bits&(anchorPlus|anchorParen) != 0:
		return m.phone(i), 0
	case startsWith(m.s, i, "%40"):
		return m.email(i, 3), 0
	}
	return hit{}, 0
}

// skipPlaceholder keeps the matcher out of what was redacted before: a placeholder is never part of a match. Text that only
// begins like one is text.
func (m *matcher) skipPlaceholder(i int) int {
	const longestKind, longestNumber = 24, 7
	if !startsWith(m.s, i, placeholderStart) {
		return 0
	}
	colon := i + len(placeholderStart)
	start := colon
	for isLower(at(m.s, colon)) || at(m.s, colon) == '_' {
		colon++
	}
	end := span(m.s, min(colon+1, len(m.s)), digitByte)
	kind, number := colon-start, end-colon-1
	if kind == 0 || kind > longestKind || number <= 0 || number > longestNumber || at(m.s, colon) != ':' || at(m.s, end) != ']' {
		return 0
	}
	m.last = end + 1
	return end + 1
}

// colon handles the colon's three roles: URL, IPv6 address, assignment.
func (m *matcher) colon(i int, bits uint32) hit {
	if bits&anchorURL != 0 {
		if startsWith(m.s, i, "://") {
			return m.url(i)
		}
		return hit{}
	}
	if bits&anchorIPv6 != 0 {
		if h := m.ipv6(i); h.kind != none {
			return h
		}
	}
	if bits&anchorColon != 0 {
		return m.assignment(i)
	}
	return hit{}
}
