package redact

import "slices"

// Words before a number that identify its kind, separated by spaces; the first byte of each is
// compared first.
const (
	wordsOfPhone = "phone tel telefon telefono telefone mobile mobil handy rufnummer cell fax call sms whatsapp dial contact"
	wordsOfCard  = "card visa mastercard maestro amex pan"
	wordsOfSSN   = "ssn social"
	wordsOfIP    = "ip addr host server client peer from remote address node ping ssh"
)

// phone matches a telephone number at i: with + and country code, in North American form, or in any
// form after a telling word.
func (m *matcher) phone(i int) hit {
	s := m.s
	start := i
	plus := s[i] == '+'
	if plus || s[i] == '(' {
		i++
	}
	if start < m.last || !startsWord(s, start) || !isDigit(at(s, i)) || (s[start] == '(' && at(s, i+3) != ')') || (plus && s[i] == '0') {
		return hit{}
	}
	g := readGroups(s, i)
	for k, n := g.count, g.n; k > 0; k-- {
		if g.end[k-1]-start >= 7 && endsNumber(s, g.end[k-1]) && (plus && international(g, k, n) || m.national(start, g, k, n)) {
			return hit{start, g.end[k-1], phone}
		}
		n -= g.size[k-1]
	}
	return hit{}
}

func international(g groups, k, n int) bool {
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

func (m *matcher) national(start int, g groups, k, n int) bool {
	if n < 7 || n > 15 {
		return false
	}
	if northAmerican(g, k, n) && (g.uniform(k) != ' ' || m.isolated(start, g.end[k-1])) {
		return true
	}
	if m.class == phoneClass {
		return true
	}
	if slices.Contains(g.sep[1:k], '/') && g.digits[0] != '0' { // a date, a fraction, a path
		return false
	}
	return (n >= 9 || k > 1) && n >= 2*k && !dateShape(g, k) && !callID(m.s, start) && m.wordBefore(start, wordsOfPhone)
}

// callID reports whether the number belongs to the id of a tool call: call_1234567890.
func callID(s []byte, start int) bool {
	const prefix = "call_"
	return start >= len(prefix) && startsWith(s, start-len(prefix), prefix)
}

// northAmerican reports the form [1] NXX NXX XXXX. With dashes or an area code in brackets any
// digits match, because invented numbers such as 555-123-4567 are as common as real numbers. With
// dots or blanks N must be 2 to 9.
func northAmerican(g groups, k, n int) bool {
	size, d := g.size[:k], g.digits[:n]
	if k > 1 && size[0] == 1 && d[0] == '1' {
		size, d = size[1:], d[1:]
	}
	if len(size) != 3 || size[0] != 3 || size[1] != 3 || size[2] != 4 {
		return false
	}
	sep := g.uniform(k)
	return sep == '(' || sep == '-' || sep != '/' && (d[0] >= '2' && d[3] >= '2')
}

// isolated reports whether no other number is next to s[start:end]: 200 300 4000 in a row of numbers
// is not a phone number.
func (m *matcher) isolated(start, end int) bool {
	s := m.s
	before := start >= 2 && s[start-1] == ' ' && (isDigit(s[start-2]) || s[start-2] == ' ')
	after := at(s, end) == ' ' && (isDigit(at(s, end+1)) || at(s, end+1) == ' ')
	return !before && !after && !(start > 0 && s[start-1] == '\t') && at(s, end) != '\t'
}

// dateShape reports whether the k groups of digits have the lengths of a date such as 2026-01-31 or
// 31.01.2026.
func dateShape(g groups, k int) bool {
	return k == 3 && (g.size[0] == 4 && g.size[1] == 2 && g.size[2] == 2 || g.size[0] == 2 && g.size[1] == 2 && g.size[2] == 4)
}

// wordBefore reports whether one of the words starts in the 24 bytes before i, on the same line and at a
// word boundary. The search stops at a hit or a placeholder: [REDACTED:phone:1] must not make a
// phone of the next number.
func (m *matcher) wordBefore(i int, words string) bool {
	const window = 24
	s := m.s
	for j := i - 1; j >= max(m.last, i-window) && s[j] != '\n'; j-- {
		if !isAlnum(s[j]) || (!startsWord(s, j) && !(isUpper(s[j]) && isLower(s[j-1]))) {
			continue
		}
		for w := 0; w < len(words); {
			end := w
			for end < len(words) && words[end] != ' ' {
				end++
			}
			if startsFold(s, j, words[w:end]) && plausibleEnd(s, j+end-w) {
				return true
			}
			w = end + 1
		}
	}
	return false
}

// plausibleEnd permits a word as part of an identifier or with an s, but not as the start of
// another word: "from", not "fromage".
func plausibleEnd(s []byte, i int) bool {
	c := at(s, i)
	return !isLower(c) || c == 's' || startsWith(s, i, "ed") || startsWith(s, i, "ress") || startsWith(s, i, "ephone")
}
