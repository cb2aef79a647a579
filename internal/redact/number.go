package redact

import "strings"

// digits matches an IP address, a social security or national identity number, a card or a phone
// number that starts with the run of digits at i.
func (m *matcher) digits(i int) hit {
	s := m.s
	end := span(s, i, digitByte)
	run := end - i
	c := at(s, end)
	if run == 17 || run == 18 || run == 12 || run == 6 || run == 4 {
		if h := m.nationalID(i, end); h.kind != none {
			return h
		}
	}
	if isAlnum(c) || (run < 7 && (c != '.' && c != '-' && c != '/' && c != ' ' || at(s, end+1) > '9' || at(s, end+1) < '(')) {
		return hit{end: end} // most numbers end here
	}
	if i > 0 && (s[i-1] == '.' || s[i-1] == '-') && i > 1 && isDigit(s[i-2]) {
		return hit{end: end} // a later group of a number without a match
	}
	if c == '.' && run <= 3 {
		if h := m.ipv4(i); h.kind != none {
			return h
		}
	}
	if c == '.' && (run == 1 || run == 2 && at(s, end+3) != '.') {
		return hit{end: end} // a fraction
	}
	if (c == '-' || c == ' ' || c == '.' || run == 9) && (run == 3 || run == 9) {
		if h := m.ssn(i, end); h.kind != none {
			return h
		}
	}
	g := readGroups(s, i)
	if g.n < 7 {
		return hit{end: end}
	}
	if h := m.card(i, end, &g); h.kind != none {
		return h
	}
	if h := m.phoneOf(i, &g, false); h.kind != none {
		return h
	}
	return hit{end: end}
}

// endsNumber reports whether no word or number extends beyond end.
func endsNumber(s []byte, end int) bool {
	c := at(s, end)
	if isAlnum(c) {
		return false
	}
	return (c != '.' && c != '-') || !isDigit(at(s, end+1))
}

// groups is a number as written: digits in groups, with the end and the separator of each group.
type groups struct {
	digits [20]byte
	n      int // number of digits
	size   [8]int
	end    [8]int
	sep    [8]byte // ( where a bracket was opened or closed
	count  int     // number of groups
}

// uniform returns the common separator of the first k groups, ( for a bracket, or 0.
func (g *groups) uniform(k int) byte {
	same := true
	for j := 1; j < k; j++ {
		if g.sep[j] == '(' {
			return '('
		}
		same = same && g.sep[j] == g.sep[1]
	}
	if !same || k < 2 {
		return 0
	}
	return g.sep[1]
}

// readGroups reads digits and single separators (also ") " after an area code) from i.
func readGroups(s []byte, i int) (g groups) {
	sep := byte(0)
	for g.count < len(g.size) {
		end := span(s, i, digitByte)
		if end == i || g.n+end-i > len(g.digits) {
			break
		}
		g.n += copy(g.digits[g.n:], s[i:end])
		g.size[g.count], g.end[g.count], g.sep[g.count] = end-i, end, sep
		g.count++
		sep = at(s, end)
		i = end + 1
		switch {
		case sep == ')':
			sep = '('
			if at(s, i) == ' ' || at(s, i) == '-' {
				i++
			}
		case sep == ' ' && at(s, i) == '(':
			sep = '('
			i++
		case sep == ' ' && (at(s, i) == '/' || at(s, i) == '-') && at(s, i+1) == ' ' && g.digits[0] == '0' && span(s, i+2, digitByte) > i+4: // 030 / 901820
			sep = s[i]
			i += 2
		case sep != ' ' && sep != '-' && sep != '.' && sep != '/':
			return g
		}
	}
	return g
}

// card matches a payment card: a known range of numbers, a known length and grouping, Luhn's check
// digit.
func (m *matcher) card(i, end int, g *groups) hit {
	s := m.s
	run := end - i
	if run >= 13 && run <= 19 {
		negative := i > 0 && s[i-1] == '-' && (i == 1 || !isAlnum(s[i-2]))
		if negative || !endsNumber(s, end) || !isCard(s[i:end]) || m.isOrder(i) || (run > 16 && !m.wordBefore(i, wordsOfCard)) {
			return hit{} // 64-bit integers have 19 digits
		}
		return hit{i, end, card}
	}
	if c := at(s, end); run != 4 || c != ' ' && c != '-' && c != '.' || i > 4 && s[i-1] == c && span(s[:i-1], i-5, hexByte) == i-1 { // a dump in groups of four
		return hit{}
	}
	n := g.n
	for k := g.count; k >= 3; k-- {
		if cardShape(g.size[:k]) && endsNumber(s, g.end[k-1]) && isCard(g.digits[:n]) && !m.isOrder(i) {
			return hit{i, g.end[k-1], card}
		}
		n -= g.size[k-1]
	}
	return hit{}
}

// isOrder reports whether the key or the text before i names the number of an order, an invoice or a
// ticket.
func (m *matcher) isOrder(i int) bool {
	return m.class == orderClass || m.wordBefore(i, wordsOfOrder) && !m.wordBefore(i, wordsOfCard)
}

// cardShape reports whether groups of the sizes can be a card: 4-6-5, 4-6-4, or groups of four. The
// caller has checked the first group.
func cardShape(size []int) bool {
	switch len(size) {
	case 3:
		return size[1] == 6 && (size[2] == 5 || size[2] == 4)
	case 4, 5:
		for _, n := range size[1 : len(size)-1] {
			if n != 4 {
				return false
			}
		}
		return size[len(size)-1] <= 4
	}
	return false
}

// isCard reports whether the digits are in the range of an issuer, with its length and a valid check
// digit.
func isCard(d []byte) bool {
	n := len(d)
	two, three, four := number(d[:2]), number(d[:3]), number(d[:4])
	ok := false
	switch {
	case d[0] == '4':
		ok = n == 13 || n == 16 || n == 19
	case two >= 51 && two <= 55, four >= 2221 && four <= 2720:
		ok = n == 16
	case two == 34 || two == 37:
		ok = n == 15
	case three >= 300 && three <= 305, two == 36, two == 38, two == 39:
		ok = n == 14 || n == 16
	case four == 6011, two == 65, three >= 644 && three <= 649, two == 62, four >= 3528 && four <= 3589:
		ok = n >= 16
	case two == 50, two >= 56 && two <= 58, two == 63, two == 67, two == 60, two == 81:
		ok = n >= 16
	}
	return ok && luhn(d)
}

func number(d []byte) (n int) {
	for _, c := range d {
		n = n*10 + int(c-'0')
	}
	return n
}

// luhn reports whether the check digit of Luhn's formula is valid.
func luhn(d []byte) bool {
	sum := 0
	for i, c := range d {
		v := int(c - '0')
		if (len(d)-i)%2 == 0 {
			if v *= 2; v > 9 {
				v -= 9
			}
		}
		sum += v
	}
	return sum%10 == 0
}

// ssn matches groups of 3, 2 and 4 digits that the Social Security Administration assigns. A number
// without dashes matches only after words such as "SSN".
func (m *matcher) ssn(i, end int) hit {
	var d []byte
	var digits [9]byte
	s := m.s
	if end-i == 9 {
		if m.class != ssnClass && !m.wordBefore(i, wordsOfSSN) {
			return hit{}
		}
		d = s[i:end]
	} else {
		sep := s[end]
		if len(s)-i < 11 || s[i+6] != sep || span(s[:i+6], i+4, digitByte) != i+6 || span(s, i+7, digitByte) != i+11 {
			return hit{}
		}
		if sep != '-' && m.class != ssnClass && !m.wordBefore(i, wordsOfSSN) {
			return hit{}
		}
		if sep == '-' && m.class != ssnClass && m.wordBefore(i, wordsOfPart) && !m.wordBefore(i, wordsOfSSN) {
			return hit{}
		}
		copy(digits[:], s[i:i+3])
		copy(digits[3:], s[i+4:i+6])
		copy(digits[5:], s[i+7:i+11])
		d, end = digits[:], i+11
	}
	area := number(d[:3])
	if area == 0 || area == 666 || area >= 900 || number(d[3:5]) == 0 || number(d[5:]) == 0 || !endsNumber(s, end) || at(s, end) == '-' {
		return hit{}
	}
	if i > 0 && (s[i-1] == '-' || s[i-1] == '.') {
		return hit{}
	}
	return hit{i, end, ssn}
}

// iban matches a country, two check digits (the first at i) and the country's number of characters,
// in blocks of four or in one piece.
func (m *matcher) iban(i int) hit {
	s := m.s
	after := hit{end: span(s, i, digitByte)} // digits after a letter match no other kind
	if i -= 2; i < 0 || isUpper(s[i]) != isUpper(s[i+1]) {
		return after
	}
	if i < m.last || !startsWord(s, i) || !isDigit(at(s, i+3)) {
		return after
	}
	small := !isUpper(s[i]) // lower case throughout
	want := 0
	if isAlnum(s[i]) && isAlnum(s[i+1]) {
		want = ibanLength(strings.ToUpper(string(s[i : i+2])))
	}
	if want == 0 {
		return after
	}
	var d [34]byte
	n, end := 0, i
	for end < len(s) && n < want {
		c := s[end]
		if (c == ' ' || c == '-' || c == '.') && n > 0 && n%4 == 0 && end+1 < len(s) {
			end++
			c = s[end]
		}
		if isLower(c) && small {
			c = upper(c)
		} else if !isDigit(c) && (small || !isUpper(c)) {
			return after
		}
		d[n] = c
		n++
		end++
	}
	if n < want || (end < len(s) && isAlnum(s[end])) || !mod97(d[:n]) {
		return after
	}
	return hit{i, end, iban}
}

// mod97 reports whether the check digits of an IBAN are valid.
func mod97(d []byte) bool {
	rest := 0
	add := func(part []byte) {
		for _, c := range part {
			if isDigit(c) {
				rest = (rest*10 + int(c-'0')) % 97
			} else {
				rest = (rest*100 + int(c-'A') + 10) % 97
			}
		}
	}
	add(d[4:])
	add(d[:4])
	return rest == 1
}

// ibanLengths is the number of characters of an IBAN by country (SWIFT IBAN registry).
const ibanLengths = "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 " +
	"DE22 DJ27 DK18 DO28 EE20 EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 " +
	"GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 " +
	"LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 " +
	"PS29 PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 " +
	"TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30"

// ibanLength returns the length of a country's IBANs, 0 for none.
func ibanLength(country string) int {
	_, rest, ok := strings.Cut(ibanLengths, country)
	if !ok {
		return 0
	}
	return int(rest[0]-'0')*10 + int(rest[1]-'0')
}
