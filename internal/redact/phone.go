package redact

import (
	"bytes"
	"slices"
	"strings"
)

// phone matches a phone number at i: with + and a country code, in a national form, or in any form after a word such as
// "phone".
func (m *matcher) phone(i int) hit {
	s := m.text
	start := i
	plus := s[i] == '+'
	if plus || s[i] == '(' {
		i++
	}
	if start < m.lastEnd || !startsWord(s, start) || !isDigit(byteAt(s, i)) || (s[start] == '(' && !isAreaCodeInBrackets(s, i)) || (plus && s[i] == '0') {
		return hit{}
	}
	g := readGroups(s, i)
	return m.phoneInGroups(start, &g, plus)
}

// isAreaCodeInBrackets reports whether an area code and a closing bracket are at i. The code has two or three digits,
// or up to five if it begins with 0.
func isAreaCodeInBrackets(s []byte, i int) bool {
	end := classRunEnd(s, i, digitByte)
	n := end - i
	return byteAt(s, end) == ')' && (n == 3 || n == 2 || n <= 5 && n > 1 && s[i] == '0')
}

func (m *matcher) phoneInGroups(start int, g *groups, plus bool) hit {
	const minLen = 7
	for k, n := g.groupCount, g.digitCount; k > 0; k-- {
		if n < minLen {
			break
		}
		end := g.ends[k-1]
		identifier := byteAt(m.text, end) == '-' && isAlnum(byteAt(m.text, end+1))
		if !identifier && endsNumber(m.text, end) && (plus && isInternational(g, k, n) || isDialled(g, k, n) || m.isNational(start, g, k, n)) {
			return hit{start, end, phone}
		}
		n -= g.sizes[k-1]
	}
	return hit{}
}

func isInternational(g *groups, k, n int) bool {
	if n < 8 || n > 15 {
		return false
	}
	if k == 1 {
		return n >= 10
	}
	single := 0
	for j, size := range g.sizes[1:k] {
		if size == 1 && !(g.separators[j+1] == '(' && j+2 < k && g.separators[j+2] == '(') {
			single++
		}
	}
	if single > 1 { // +33 6 12 34 56 78 and +33 (0)6 12 ... have one single digit outside brackets; a list of digits has more
		return false
	}
	if k == 2 && (g.sizes[0] > 3 || g.commonSeparator(k) == '.') { // a time zone and a year; a decimal fraction
		return false
	}
	return g.sizes[0] <= 4
}

// isDialled reports whether the first k groups, with n digits, are 00 or 011, a country code, and further groups.
func isDialled(g *groups, k, n int) bool {
	const minLen, maxLen = 11, 15
	if k < 3 || n < minLen || n > maxLen || g.digits[0] != '0' {
		return false
	}
	size, d := g.sizes[0], g.digits[:n]
	return d[1] == '0' && d[2] != '0' && (size == 2 || size == 4 || size == 5) || k > 3 && size == 3 && d[1] == '1' && d[2] == '1'
}

// isNational reports whether the first k groups, with n digits, are a phone number. The evidence is the national
// form, the JSON key's class, or a word nearby.
func (m *matcher) isNational(start int, g *groups, k, n int) bool {
	if n < 7 || n > 15 {
		return false
	}
	if isNorthAmerican(g, k, n) && (g.commonSeparator(k) != ' ' || m.isIsolated(start, g.ends[k-1])) {
		return true
	}
	if m.class == phoneClass || isBrazilian(g, k) && m.text[start] == '(' || isBritishMobile(g, k) || isRussianMobile(g, k) || isTrunkNumber(g, k, n) && !m.isOrder(start) {
		return true
	}
	if slices.Contains(g.separators[1:k], '/') && g.digits[0] != '0' { // a date, a fraction, a path
		return false
	}
	if n < 9 && k == 1 || n < 2*k || hasDateShape(g, k) || isCallID(m.text, start) || k == 1 && start > 1 && m.text[start-1] == '(' && isAlnum(m.text[start-2]) {
		return false
	}
	if g.digits[0] == '0' && n >= 9 && n <= 11 && k > 1 && (m.text[start] == '(' || m.isInBrackets(start, g.ends[k-1]) || m.hasWordBefore(start, contactWords)) {
		return true
	}
	words := anyPhoneWords
	if n == 10 && k == 1 {
		words = tenDigitPhoneWords
	}
	return m.hasWordBefore(start, words) || m.isForeignPhoneLabel(start) || m.hasLabelAbove(start) || m.hasLabelAfter(g.ends[k-1])
}

func (m *matcher) hasLabelAbove(start int) bool {
	const window = 64
	if start > 0 && m.text[start-1] > ' ' {
		return false
	}
	before := m.text[max(m.lastEnd, start-window):start]
	line := bytes.TrimRight(before, " \t")
	above, below := bytes.CutSuffix(bytes.TrimSuffix(line, []byte("\r")), []byte("\n"))
	if !below {
		return false
	}
	above = above[bytes.LastIndexByte(above, '\n')+1:]
	label := bytes.TrimRight(above, " \t\r:*")
	word := bytes.TrimLeft(label[bytes.LastIndexByte(label, ' ')+1:], "*#-")
	if len(word) < len(label) && len(bytes.TrimRight(above, " \t\r*")) == len(label) { // several words without a colon
		return false
	}
	return anyPhoneWords.has(word)
}

func (m *matcher) hasLabelAfter(end int) bool {
	const window = 32
	if next := byteAt(m.text, end+1); byteAt(m.text, end) != ' ' || next != 'i' && next != 'e' {
		return false
	}
	rest, _, _ := bytes.Cut(m.text[end:min(len(m.text), end+window)], []byte("\n"))
	for _, link := range [...]string{" is my ", " is our ", " is his ", " is her ", " is the ", " ist meine ", " ist die ", " est mon ", " es mi "} {
		if words, found := bytes.CutPrefix(rest, []byte(link)); found {
			return slices.ContainsFunc(bytes.Fields(words), func(word []byte) bool { return anyPhoneWords.has(bytes.TrimRight(word, ".,;:!)")) })
		}
	}
	return false
}

// isCallID reports whether the number is part of a tool call's id: call_1234567890.
func isCallID(s []byte, start int) bool {
	const prefix = "call_"
	return start >= len(prefix) && startsWith(s, start-len(prefix), prefix)
}

// isNorthAmerican reports whether the groups have the form [1] NXX NXX XXXX. With dots or spaces, N must be 2 to 9.
// With dashes or a bracketed area code, any digits match, because invented numbers such as 555-123-4567 are as common
// as real ones.
func isNorthAmerican(g *groups, k, n int) bool {
	size, d := g.sizes[:k], g.digits[:n]
	if k > 1 && size[0] == 1 && d[0] == '1' {
		size, d = size[1:], d[1:]
	}
	if len(size) != 3 || size[0] != 3 || size[1] != 3 || size[2] != 4 {
		return false
	}
	sep := g.commonSeparator(k)
	return sep == '(' || sep == '-' || sep != '/' && d[0] >= '2' && d[3] >= '2' && isAreaCode(d)
}

// isBrazilian reports whether the groups have the form (NN) 9NNNN-NNNN or (NN) NNNN-NNNN.
func isBrazilian(g *groups, k int) bool {
	return k == 3 && g.sizes[0] == 2 && (g.sizes[1] == 5 && g.digits[2] == '9' || g.sizes[1] == 4) && g.sizes[2] == 4 && g.separators[2] == '-'
}

// isTrunkNumber reports whether the groups have the form 0NN-NNNNNNNN or 0NNN-NNNNNNN (China, India), or 0N.NN.NN.NN.NN
// (France).
func isTrunkNumber(g *groups, k, n int) bool {
	if g.digits[0] != '0' || g.digits[1] == '0' {
		return false
	}
	if k == 2 {
		return n == 11 && g.separators[1] == '-' && (g.sizes[0] == 3 || g.sizes[0] == 4)
	}
	return k == 5 && n == 10 && g.commonSeparator(k) == '.' && g.sizes[0] == 2 && g.sizes[1] == 2 && g.sizes[2] == 2 && g.sizes[3] == 2
}

func (m *matcher) isInBrackets(start, end int) bool {
	return start > 1 && m.text[start-1] == '(' && m.text[start-2] == ' ' && byteAt(m.text, end) == ')'
}

// isBritishMobile reports whether the groups have the form 07NNN NNNNNN or 07NNN NNN NNN.
func isBritishMobile(g *groups, k int) bool {
	return g.digits[0] == '0' && g.digits[1] == '7' && g.sizes[0] == 5 && g.separators[1] == ' ' && (k == 2 && g.sizes[1] == 6 || k == 3 && g.sizes[1] == 3 && g.sizes[2] == 3)
}

// isRussianMobile reports whether the groups have the form 8 9NN NNN-NN-NN.
func isRussianMobile(g *groups, k int) bool {
	return k == 5 && g.digits[0] == '8' && g.digits[1] == '9' && g.sizes[0] == 1 && g.sizes[1] == 3 && g.sizes[2] == 3 && g.sizes[3] == 2 && g.sizes[4] == 2 && g.separators[3] == '-' && g.separators[4] == '-'
}

// isAreaCode reports whether the North American Numbering Plan assigns the area code d. The plan assigns no code with 9
// in the middle, no 37X, no 96X, and no X00 below 500.
func isAreaCode(d []byte) bool {
	reserved := d[1] == '9' || d[0] == '3' && d[1] == '7' || d[0] == '9' && d[1] == '6'
	return !reserved && (d[1] != '0' || d[2] != '0' || d[0] >= '5')
}

// isIsolated reports whether no number is next to m.text[start:end], even in the next table cell or line. In a row of
// numbers, 200 300 4000 is not a phone number.
func (m *matcher) isIsolated(start, end int) bool {
	const maxDistance = 24
	s := m.text
	before, after := start, end
	for before > max(0, start-maxDistance) && strings.IndexByte(" |\n\r", s[before-1]) >= 0 {
		before--
	}
	for after < min(len(s), end+maxDistance) && strings.IndexByte(" |\n\r", s[after]) >= 0 {
		after++
	}
	if before > 0 && before < start && isDigit(s[before-1]) || before > 0 && s[before-1] == '\t' {
		return false
	}
	if after < len(s) && after > end && isDigit(s[after]) || byteAt(s, after) == '\t' {
		return false
	}
	return !(start >= 2 && s[start-1] == ' ' && s[start-2] == ' ') && !(byteAt(s, end) == ' ' && byteAt(s, end+1) == ' ')
}

// hasDateShape reports whether the groups have the sizes in a date, such as 2026-01-31 or 31.01.2026. An hour may
// follow.
func hasDateShape(g *groups, k int) bool {
	if (k == 3 || k > 3 && g.separators[1] != ' ' && g.separators[1] == g.separators[2]) && g.sizes[0] == 2 && g.sizes[1] == 2 && g.sizes[2] == 4 {
		return true
	}
	return g.sizes[0] == 4 && g.sizes[1] == 2 && g.sizes[2] == 2 && (k == 3 || k > 3 && g.separators[1] == '-' && g.separators[2] == '-')
}
