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
	for i := 0; i < len(s); {
		c := s[i]
		if classOf[c]&anchorByte == 0 {
			i++
			continue
		}
		h, next := m.anchor(i, c)
		if h.kind != none {
			m.hits = append(m.hits, h)
			m.last, next = h.end, h.end
		}
		i = max(next, i+1)
	}
	return m.hits
}

// anchor looks at one anchor byte. next is where to go on when there is no hit; 0 means at the next byte.
func (m *matcher) anchor(i int, c byte) (h hit, next int) {
	switch c {
	case '-':
		return m.dash(i), 0
	case '_':
		return m.underscore(i), 0
	case 'A', 'S':
		switch at(m.s, i+1) {
		case 'K', 'S', 'I', 'G', 'C':
			return m.capital(i), 0
		}
		return hit{}, 0
	case 'J':
		return m.jwt(i - 2), 0
	case 'B', 'b':
		if n := at(m.s, i+1) | 0x20; n != 'e' && n != 'a' {
			return hit{}, 0
		}
		return m.scheme(i), 0
	case '=':
		return m.assignment(i), 0
	case ':':
		return m.colon(i)
	case '~':
		return m.azureSecret(i), 0
	case '[':
		return hit{}, m.skipPlaceholder(i)
	}
	if !m.personal {
		return hit{}, 0
	}
	switch c {
	case '@':
		return m.email(i, 1), 0
	case '%':
		if startsWith(m.s, i, "%40") {
			return m.email(i, 3), 0
		}
		return hit{}, 0
	case '+', '(':
		if !isDigit(at(m.s, i+1)) {
			return hit{}, 0
		}
		return m.phone(i), 0
	default:
		return m.number(i)
	}
}

// skipPlaceholder keeps the matcher out of what was redacted before: a placeholder is never part of a match.
func (m *matcher) skipPlaceholder(i int) int {
	const longest = 48
	if !startsWith(m.s, i, placeholderStart) {
		return 0
	}
	for j := i; j < len(m.s) && j < i+longest; j++ {
		if m.s[j] == ']' {
			m.last = j + 1
			return j + 1
		}
	}
	return 0
}

// colon handles the colon's three roles: URL, IPv6 address, assignment.
func (m *matcher) colon(i int) (hit, int) {
	if startsWith(m.s, i, "://") {
		return m.url(i), 0
	}
	if m.personal {
		if h := m.ipv6(i); h.kind != none {
			return h, 0
		}
	}
	return m.assignment(i), 0
}
