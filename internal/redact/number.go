package redact

import "strings"

// digitValue matches a value that starts with digits at i: an IP address, a social security or national identity
// number, a payment card or a phone number.
func (m *matcher) digitValue(i int) hit {
	s := m.text
	end := classRunEnd(s, i, digitByte)
	runLength := end - i
	c := byteAt(s, end)
	if m.isDate(i, end) {
		return hit{end: i + len("2026-01-31")}
	}
	if runLength == 17 || runLength == 18 || runLength == 12 || runLength == 6 || runLength == 4 {
		if h := m.nationalID(i, end); h.kind != noKind {
			return h
		}
	}
	if isAlnum(c) || (runLength < 7 && (c != '.' && c != '-' && c != '/' && c != ' ' || byteAt(s, end+1) > '9' || byteAt(s, end+1) < '(')) {
		return hit{end: end} // most numbers are excluded here
	}
	if i > 0 && (s[i-1] == '.' || s[i-1] == '-') && i > 1 && isDigit(s[i-2]) {
		return hit{end: end} // i is inside a number that did not match
	}
	if c == '.' && runLength <= 3 {
		if h := m.ipv4(i); h.kind != noKind {
			return h
		}
	}
	if c == '.' && (runLength == 1 || runLength == 2 && byteAt(s, end+3) != '.') {
		return hit{end: end} // a fraction
	}
	if (c == '-' || c == ' ' || c == '.' || runLength == 9) && (runLength == 3 || runLength == 9) {
		if h := m.ssn(i, end); h.kind != noKind {
			return h
		}
	}
	g := readGroups(s, i)
	if g.digitCount < 7 {
		return hit{end: end}
	}
	if h := m.card(i, end, &g); h.kind != noKind {
		return h
	}
	if h := m.phoneInGroups(i, &g, false); h.kind != noKind {
		return h
	}
	return hit{end: end}
}

// isDate reports whether the digits m.text[i:end] begin a date such as 2026-01-31. Dates are common, and match no kind,
// except that a phone number's key accepts any digits.
func (m *matcher) isDate(i, end int) bool {
	s := m.text
	if end-i != 4 || len(s)-i < len("2026-01-31") || s[end] != '-' || s[i+7] != '-' || s[i] == '0' || m.class == phoneClass {
		return false
	}
	return isDigit(s[i+5]) && isDigit(s[i+6]) && isDigit(s[i+8]) && isDigit(s[i+9]) && !isDigit(byteAt(s, i+10))
}

func endsNumber(s []byte, end int) bool {
	c := byteAt(s, end)
	if isAlnum(c) {
		return false
	}
	return (c != '.' && c != '-') || !isDigit(byteAt(s, end+1))
}

// groups is a number in groups of digits, such as 415-555-0100.
type groups struct {
	digits     [20]byte
	digitCount int
	sizes      [8]int
	ends       [8]int
	separators [8]byte // separator before each group; '(' stands for either bracket
	groupCount int
}

// commonSeparator returns the separator between the first k groups, '(' if a group is in brackets, or 0 if the
// separators differ.
func (g *groups) commonSeparator(k int) byte {
	same := true
	for j := 1; j < k; j++ {
		if g.separators[j] == '(' {
			return '('
		}
		same = same && g.separators[j] == g.separators[1]
	}
	if !same || k < 2 {
		return 0
	}
	return g.separators[1]
}

// readGroups reads digit groups with single separators. The characters ") " after an area code are one separator.
func readGroups(s []byte, i int) (g groups) {
	sep := byte(0)
	for g.groupCount < len(g.sizes) {
		end := classRunEnd(s, i, digitByte)
		if end == i || g.digitCount+end-i > len(g.digits) {
			break
		}
		g.digitCount += copy(g.digits[g.digitCount:], s[i:end])
		g.sizes[g.groupCount], g.ends[g.groupCount], g.separators[g.groupCount] = end-i, end, sep
		g.groupCount++
		sep = byteAt(s, end)
		i = end + 1
		switch {
		case sep == ')':
			sep = '('
			if byteAt(s, i) == ' ' || byteAt(s, i) == '-' {
				i++
			}
		case sep == ' ' && byteAt(s, i) == '(':
			sep = '('
			i++
		case sep == ' ' && (byteAt(s, i) == '/' || byteAt(s, i) == '-') && byteAt(s, i+1) == ' ' && g.digits[0] == '0' && classRunEnd(s, i+2, digitByte) > i+4: // 030 / 901820
			sep = s[i]
			i += 2
		case sep != ' ' && sep != '-' && sep != '.' && sep != '/':
			return g
		}
	}
	return g
}

func (m *matcher) card(i, end int, g *groups) hit {
	s := m.text
	runLength := end - i
	if runLength >= 13 && runLength <= 19 {
		negative := i > 0 && s[i-1] == '-' && (i == 1 || !isAlnum(s[i-2]))
		if negative || !endsNumber(s, end) || !isCard(s[i:end]) || m.isOrder(i) || (runLength > 16 && !m.hasWordBefore(i, cardWords)) {
			return hit{} // 64-bit integers have 19 digits
		}
		return hit{i, end, card}
	}
	if c := byteAt(s, end); runLength != 4 || c != ' ' && c != '-' && c != '.' || i > 4 && s[i-1] == c && classRunEnd(s[:i-1], i-5, hexByte) == i-1 { // a dump in groups of four
		return hit{}
	}
	n := g.digitCount
	for k := g.groupCount; k >= 3; k-- {
		if hasCardShape(g.sizes[:k]) && endsNumber(s, g.ends[k-1]) && isCard(g.digits[:n]) && !m.isOrder(i) {
			return hit{i, g.ends[k-1], card}
		}
		n -= g.sizes[k-1]
	}
	return hit{}
}

func (m *matcher) isOrder(i int) bool {
	return m.class == orderClass || m.hasWordBefore(i, orderWords) && !m.hasWordBefore(i, cardWords)
}

// hasCardShape reports whether the groups have the sizes on a card: 4-6-5, 4-6-4, or groups of four. The caller has
// checked the first group.
func hasCardShape(size []int) bool {
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

func isCard(d []byte) bool {
	n := len(d)
	firstTwo, firstThree, firstFour := number(d[:2]), number(d[:3]), number(d[:4])
	ok := false
	switch {
	case d[0] == '4':
		ok = n == 13 || n == 16 || n == 19
	case firstTwo >= 51 && firstTwo <= 55, firstFour >= 2221 && firstFour <= 2720:
		ok = n == 16
	case firstTwo == 34 || firstTwo == 37:
		ok = n == 15
	case firstThree >= 300 && firstThree <= 305, firstTwo == 36, firstTwo == 38, firstTwo == 39:
		ok = n == 14 || n == 16
	case firstFour == 6011, firstTwo == 65, firstThree >= 644 && firstThree <= 649, firstTwo == 62, firstFour >= 3528 && firstFour <= 3589:
		ok = n >= 16
	case firstTwo == 50, firstTwo >= 56 && firstTwo <= 58, firstTwo == 63, firstTwo == 67, firstTwo == 60, firstTwo == 81:
		ok = n >= 16
	}
	return ok && hasLuhnDigit(d)
}

func number(d []byte) (n int) {
	for _, c := range d {
		n = n*10 + int(c-'0')
	}
	return n
}

func hasLuhnDigit(d []byte) bool {
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

// ssn matches a US social security number: 3, 2 and 4 digits in assigned ranges. A number without dashes must follow a
// word such as "SSN".
func (m *matcher) ssn(i, end int) hit {
	var d []byte
	var digits [9]byte
	s := m.text
	if end-i == 9 {
		if m.class != ssnClass && !m.hasWordBefore(i, ssnWords) {
			return hit{}
		}
		d = s[i:end]
	} else {
		sep := s[end]
		if len(s)-i < 11 || s[i+6] != sep || classRunEnd(s[:i+6], i+4, digitByte) != i+6 || classRunEnd(s, i+7, digitByte) != i+11 {
			return hit{}
		}
		if sep != '-' && m.class != ssnClass && !m.hasWordBefore(i, ssnWords) {
			return hit{}
		}
		if sep == '-' && m.class != ssnClass && m.hasWordBefore(i, partWords) && !m.hasWordBefore(i, ssnWords) {
			return hit{}
		}
		copy(digits[:], s[i:i+3])
		copy(digits[3:], s[i+4:i+6])
		copy(digits[5:], s[i+7:i+11])
		d, end = digits[:], i+11
	}
	area := number(d[:3])
	if area == 0 || area == 666 || area >= 900 || number(d[3:5]) == 0 || number(d[5:]) == 0 || !endsNumber(s, end) || byteAt(s, end) == '-' {
		return hit{}
	}
	if i > 0 && (s[i-1] == '-' || s[i-1] == '.') {
		return hit{}
	}
	return hit{i, end, ssn}
}

// iban matches an IBAN, in blocks of four or without spaces. An IBAN has a country code, two check digits, and the
// length that the country prescribes. The first check digit is at i.
func (m *matcher) iban(i int) hit {
	s := m.text
	noHit := hit{end: classRunEnd(s, i, digitByte)} // digits after a letter match no other kind
	if i -= 2; i < 0 || isUpper(s[i]) != isUpper(s[i+1]) {
		return noHit
	}
	if i < m.lastEnd || !startsWord(s, i) || !isDigit(byteAt(s, i+3)) {
		return noHit
	}
	isLowerCase := !isUpper(s[i])
	wantLength := 0
	if isAlnum(s[i]) && isAlnum(s[i+1]) {
		wantLength = ibanLength(strings.ToUpper(string(s[i : i+2])))
	}
	if wantLength == 0 {
		return noHit
	}
	var d [34]byte
	n, end := 0, i
	for end < len(s) && n < wantLength {
		c := s[end]
		if (c == ' ' || c == '-' || c == '.') && n > 0 && n%4 == 0 && end+1 < len(s) {
			end++
			c = s[end]
		}
		if isLower(c) && isLowerCase {
			c = upper(c)
		} else if !isDigit(c) && (isLowerCase || !isUpper(c)) {
			return noHit
		}
		d[n] = c
		n++
		end++
	}
	if n < wantLength || (end < len(s) && isAlnum(s[end])) || !hasIBANCheckDigits(d[:n]) {
		return noHit
	}
	return hit{i, end, iban}
}

func hasIBANCheckDigits(d []byte) bool {
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

// ibanLengths lists the IBAN length by country (SWIFT IBAN registry).
const ibanLengths = "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 " +
	"DE22 DJ27 DK18 DO28 EE20 EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 " +
	"GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 " +
	"LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 " +
	"PS29 PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 " +
	"TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30"

func ibanLength(country string) int {
	_, rest, ok := strings.Cut(ibanLengths, country)
	if !ok {
		return 0
	}
	return int(rest[0]-'0')*10 + int(rest[1]-'0')
}
