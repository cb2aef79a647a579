package redact

import (
	"bytes"
	"slices"
	"strings"
)

// phone matches a telephone number at i: with + and country code, in North American form, or in any
// form after a word such as "phone".
func (m *matcher) phone(i int) hit {
	s := m.s
	start := i
	plus := s[i] == '+'
	if plus || s[i] == '(' {
		i++
	}
	if start < m.last || !startsWord(s, start) || !isDigit(at(s, i)) || (s[start] == '(' && !isAreaCodeInBrackets(s, i)) || (plus && s[i] == '0') {
		return hit{}
	}
	g := readGroups(s, i)
	return m.phoneOf(start, &g, plus)
}

// isAreaCodeInBrackets reports whether an area code and a bracket follow at i: three digits, two of Brazil, or two
// to five after a 0.
func isAreaCodeInBrackets(s []byte, i int) bool {
	end := span(s, i, digitByte)
	n := end - i
	return at(s, end) == ')' && (n == 3 || n == 2 || n <= 5 && n > 1 && s[i] == '0')
}

// phoneOf matches the longest telephone number in the groups g of digits at start, or after the + or
// the bracket at start.
func (m *matcher) phoneOf(start int, g *groups, plus bool) hit {
	const minLen = 7
	for k, n := g.count, g.n; k > 0; k-- {
		if n < minLen {
			break
		}
		end := g.end[k-1]
		identifier := at(m.s, end) == '-' && isAlnum(at(m.s, end+1))
		if !identifier && endsNumber(m.s, end) && (plus && international(g, k, n) || dialled(g, k, n) || m.national(start, g, k, n)) {
			return hit{start, end, phone}
		}
		n -= g.size[k-1]
	}
	return hit{}
}

// international reports whether the first k groups, with n digits, can be a number after a +.
func international(g *groups, k, n int) bool {
	if n < 8 || n > 15 {
		return false
	}
	if k == 1 {
		return n >= 10
	}
	single := 0
	for _, size := range g.size[1:k] {
		if size == 1 {
			single++
		}
	}
	if single > 1 { // +33 6 12 34 56 78 and +44 (0)20 ... have one; more form a list of digits
		return false
	}
	if k == 2 && (g.size[0] > 3 || g.uniform(k) == '.') { // a time zone and a year; a decimal fraction
		return false
	}
	return g.size[0] <= 4
}

// dialled reports whether the first k groups, with n digits, are 00 or 011, a country code and further
// groups.
func dialled(g *groups, k, n int) bool {
	const minLen, maxLen = 11, 15
	if k < 3 || n < minLen || n > maxLen || g.digits[0] != '0' {
		return false
	}
	size, d := g.size[0], g.digits[:n]
	return d[1] == '0' && d[2] != '0' && (size == 2 || size == 4 || size == 5) || k > 3 && size == 3 && d[1] == '1' && d[2] == '1'
}

// national reports whether the first k groups, with n digits, are a number without a country code: in
// North American form, as the value of a phone's name, or after a word such as "phone".
func (m *matcher) national(start int, g *groups, k, n int) bool {
	if n < 7 || n > 15 {
		return false
	}
	if northAmerican(g, k, n) && (g.uniform(k) != ' ' || m.isolated(start, g.end[k-1])) {
		return true
	}
	if m.class == phoneClass || brazilian(g, k) && m.s[start] == '(' || britishMobile(g, k) || trunk(g, k, n) && !m.isOrder(start) {
		return true
	}
	if slices.Contains(g.sep[1:k], '/') && g.digits[0] != '0' { // a date, a fraction, a path
		return false
	}
	if n < 9 && k == 1 || n < 2*k || dateShape(g, k) || callID(m.s, start) || k == 1 && start > 1 && m.s[start-1] == '(' && isAlnum(m.s[start-2]) {
		return false
	}
	if g.digits[0] == '0' && n >= 9 && n <= 11 && k > 1 && (m.s[start] == '(' || m.isInBrackets(start, g.end[k-1]) || m.wordBefore(start, wordsOfContact)) {
		return true
	}
	words := wordsOfPhone
	if n == 10 && k == 1 {
		words = wordsOfOwnPhone
	}
	return m.wordBefore(start, words) || m.isForeignPhoneLabel(start) || m.labelAbove(start) || m.labelAfter(g.end[k-1])
}

// labelAbove reports whether the number is alone at the start of its line, below a line that is a
// label such as "Phone:".
func (m *matcher) labelAbove(start int) bool {
	const window = 64
	if start > 0 && m.s[start-1] > ' ' {
		return false
	}
	before := m.s[max(m.last, start-window):start]
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
	return wordsOfPhone.has(word)
}

// labelAfter reports whether the text after the number at end says that the number is a phone's: "is my mobile
// number".
func (m *matcher) labelAfter(end int) bool {
	const window = 32
	if next := at(m.s, end+1); at(m.s, end) != ' ' || next != 'i' && next != 'e' {
		return false
	}
	rest, _, _ := bytes.Cut(m.s[end:min(len(m.s), end+window)], []byte("\n"))
	for _, link := range [...]string{" is my ", " is our ", " is his ", " is her ", " is the ", " ist meine ", " ist die ", " est mon ", " es mi "} {
		if words, found := bytes.CutPrefix(rest, []byte(link)); found {
			return slices.ContainsFunc(bytes.Fields(words), func(word []byte) bool { return wordsOfPhone.has(bytes.TrimRight(word, ".,;:!)")) })
		}
	}
	return false
}

// callID reports whether the number belongs to the id of a tool call: call_1234567890.
func callID(s []byte, start int) bool {
	const prefix = "call_"
	return start >= len(prefix) && startsWith(s, start-len(prefix), prefix)
}

// northAmerican reports the form [1] NXX NXX XXXX. With dashes or an area code in brackets any
// digits match, because invented numbers such as 555-123-4567 are as common as real numbers. With
// dots or blanks N must be 2 to 9.
func northAmerican(g *groups, k, n int) bool {
	size, d := g.size[:k], g.digits[:n]
	if k > 1 && size[0] == 1 && d[0] == '1' {
		size, d = size[1:], d[1:]
	}
	if len(size) != 3 || size[0] != 3 || size[1] != 3 || size[2] != 4 {
		return false
	}
	sep := g.uniform(k)
	return sep == '(' || sep == '-' || sep != '/' && d[0] >= '2' && d[3] >= '2' && isAreaCode(d)
}

// brazilian reports the form (NN) 9NNNN-NNNN or (NN) NNNN-NNNN.
func brazilian(g *groups, k int) bool {
	return k == 3 && g.size[0] == 2 && (g.size[1] == 5 && g.digits[2] == '9' || g.size[1] == 4) && g.size[2] == 4 && g.sep[2] == '-'
}

// trunk reports the forms 0NN-NNNNNNNN and 0NNN-NNNNNNN of China and India, and 0N.NN.NN.NN.NN of France.
func trunk(g *groups, k, n int) bool {
	if g.digits[0] != '0' || g.digits[1] == '0' {
		return false
	}
	if k == 2 {
		return n == 11 && g.sep[1] == '-' && (g.size[0] == 3 || g.size[0] == 4)
	}
	return k == 5 && n == 10 && g.uniform(k) == '.' && g.size[0] == 2 && g.size[1] == 2 && g.size[2] == 2 && g.size[3] == 2
}

// isInBrackets reports whether s[start:end] is alone in brackets.
func (m *matcher) isInBrackets(start, end int) bool {
	return start > 1 && m.s[start-1] == '(' && m.s[start-2] == ' ' && at(m.s, end) == ')'
}

// britishMobile reports the form 07NNN NNNNNN or 07NNN NNN NNN.
func britishMobile(g *groups, k int) bool {
	return g.digits[0] == '0' && g.digits[1] == '7' && g.size[0] == 5 && g.sep[1] == ' ' && (k == 2 && g.size[1] == 6 || k == 3 && g.size[1] == 3 && g.size[2] == 3)
}

// isAreaCode reports whether the plan of North America assigns codes such as the first three digits: no code
// with 9 in the middle, no 37X and 96X, and with 00 at the end only 500 to 900.
func isAreaCode(d []byte) bool {
	reserved := d[1] == '9' || d[0] == '3' && d[1] == '7' || d[0] == '9' && d[1] == '6'
	return !reserved && (d[1] != '0' || d[2] != '0' || d[0] >= '5')
}

// isolated reports whether no other number is next to s[start:end], also in the cells of a table and
// on the lines of a column: 200 300 4000 in a row of numbers is not a phone number.
func (m *matcher) isolated(start, end int) bool {
	const maxDistance = 24
	s := m.s
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
	if after < len(s) && after > end && isDigit(s[after]) || at(s, after) == '\t' {
		return false
	}
	return !(start >= 2 && s[start-1] == ' ' && s[start-2] == ' ') && !(at(s, end) == ' ' && at(s, end+1) == ' ')
}

// dateShape reports whether the k groups of digits have the lengths of a date such as 2026-01-31 or
// 31.01.2026, or begin with a date: 2026-01-31 23.
func dateShape(g *groups, k int) bool {
	if k == 3 && g.size[0] == 2 && g.size[1] == 2 && g.size[2] == 4 {
		return true
	}
	return g.size[0] == 4 && g.size[1] == 2 && g.size[2] == 2 && (k == 3 || k > 3 && g.sep[1] == '-' && g.sep[2] == '-')
}
