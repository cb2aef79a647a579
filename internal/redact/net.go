package redact

import (
	"bytes"
	"net/netip"
	"strings"
)

// email matches the address around the @ at i.
func (m *matcher) email(i int) hit {
	s := m.text
	start := m.runStart(i, 64, localByte)
	for start < i && !isAlnum(s[start]) && s[start] < 0x80 && s[start] != '_' {
		start++
	}
	if start == i {
		return hit{}
	}
	from := i + 1
	end, label, dots := from, from, 0
	for ; end < len(s) && end-from < 253; end++ {
		c := s[end]
		if c == '.' {
			if end == label || end+1 >= len(s) || !(isAlnum(s[end+1]) || s[end+1] >= 0x80) {
				break
			}
			label = end + 1
			dots++
			continue
		}
		if !isAlnum(c) && c != '-' && c < 0x80 {
			break
		}
	}
	for end > label && s[end-1] == '-' {
		end--
	}
	if dots == 0 || !isTLD(s[label:end]) || isNotAddress(s[start:i], s[from:end], s[label:end]) || byteAt(s, end) == '(' {
		return hit{}
	}
	return hit{start, end, email}
}

func isTLD(label []byte) bool {
	if len(label) < 2 || len(label) > 24 {
		return false
	}
	for _, c := range label {
		if c < 0x80 && !isUpper(c) && !isLower(c) {
			return startsFold(label, 0, "xn--")
		}
	}
	return true
}

// isNotAddress reports whether a text only looks like an e-mail address: git@host, image@2x.png, module@v1.2.zip.
func isNotAddress(local, domain, tld []byte) bool {
	if string(local) == "git" {
		return true
	}
	if isDigit(domain[0]) || (domain[0] == 'v' && len(domain) > 1 && isDigit(domain[1])) {
		switch string(bytes.ToLower(tld)) {
		case "png", "jpg", "jpeg", "gif", "webp", "svg", "avif", "zip", "tgz", "tar", "gz", "js", "mjs", "ts", "css", "mod", "info", "json", "whl", "jar":
			return true
		}
	}
	return false
}

// ipv4 matches an IPv4 address at i. Loopback addresses, masks, reserved ranges and version numbers do not match.
func (m *matcher) ipv4(i int) hit {
	s := m.text
	var octets [4]int
	end := i
	for k := range octets {
		if k > 0 {
			if byteAt(s, end) != '.' {
				return hit{}
			}
			end++
		}
		stop := classRunEnd(s, end, digitByte)
		if n := stop - end; n == 0 || n > 3 || (n > 1 && s[end] == '0') {
			return hit{}
		}
		if octets[k] = number(s[end:stop]); octets[k] > 255 {
			return hit{}
		}
		end = stop
	}
	if !endsNumber(s, end) || (byteAt(s, end) == '-' && isAlnum(byteAt(s, end+1))) || byteAt(s, end) == '_' {
		return hit{}
	}
	if octets[0] == 0 || octets[0] == 127 || octets[0] == 255 || isNetwork(s, end, octets) || m.isVersion(i, end, octets) {
		return hit{}
	}
	return hit{i, end, ip}
}

// isNetwork reports whether the address that ends at end is a network, such as 10.244.0.0/16, which identifies no host.
func isNetwork(s []byte, end int, octets [4]int) bool {
	const maxBits = 30
	stop := classRunEnd(s, min(len(s), end+1), digitByte)
	if n := stop - end - 1; byteAt(s, end) != '/' || n < 1 || n > 2 || isAlnum(byteAt(s, stop)) {
		return false
	}
	address := uint32(0)
	for _, octet := range octets {
		address = address<<8 | uint32(octet) //nolint:gosec // at most 255
	}
	bits := number(s[end+1 : stop])
	return bits <= maxBits && address<<bits == 0
}

// isVersion reports whether the numbers in s[i:end], such as 120.0.6.1, are a version, a section or an object
// identifier. The text around the numbers shows which. If it does not, small numbers are a version.
func (m *matcher) isVersion(i, end int, octets [4]int) bool {
	s := m.text
	if i > 0 {
		switch s[i-1] {
		case '=', '>', '<', '~', '^':
			if i > 1 && (s[i-2] == '=' || s[i-2] == '>' || s[i-2] == '<' || s[i-2] == '~' || s[i-2] == '!') {
				return true
			}
			if s[i-1] != '=' && !(s[i-1] == '>' && byteAt(s, end) == '<' && !m.followsWord(i, versionWords)) { // ^1.2.3.4, not <td>1.2.3.4</td>
				return true
			}
		case '-', '_', '.':
			return true
		case '/':
			j := i - 1
			for j > 0 && isAlnum(s[j-1]) {
				j--
			}
			if j < i-1 && isUpper(s[j]) { // Chrome/120.0.0.0
				return true
			}
		}
	}
	if m.followsWord(i, versionWords) || m.isUpgrade(i, end) {
		return true
	}
	return octets[0] != 10 && !m.hasWordBefore(i, ipWords) && max(octets[0], octets[1], octets[2], octets[3]) < 32 && !isWholeCell(s, i, end)
}

// followsWord reports whether one of the words is before i, with at most three signs in between.
func (m *matcher) followsWord(i int, words string) bool {
	const signs, maxLen = 3, 20
	end := i
	for end > m.lastEnd && i-end < signs && !isAlnum(m.text[end-1]) && m.text[end-1] != '\n' {
		end--
	}
	start := m.runStart(end, maxLen, alnumByte)
	if start == end {
		return false
	}
	for word := range strings.FieldsSeq(words) {
		if from := end - len(word); from >= start && startsFold(m.text, from, word) && (from == start || isUpper(m.text[from])) {
			return true
		}
	}
	return false
}

// isUpgrade reports whether the numbers at m.text[i:end] are part of "1.2.3.4 -> 1.2.4.0" or "from 1.2.3.4 to 1.2.4.0".
func (m *matcher) isUpgrade(i, end int) bool {
	const maxDistance = 12
	after := m.text[end:min(len(m.text), end+maxDistance)]
	for _, arrow := range [...]string{" -> ", " => ", " → ", " to "} {
		if rest, ok := bytes.CutPrefix(after, []byte(arrow)); ok && len(rest) > 0 && isDigit(rest[0]) && (arrow != " to " || m.hasWordBefore(i, changeWords)) {
			return true
		}
	}
	before := m.text[max(m.lastEnd, i-maxDistance):i]
	for _, arrow := range [...]string{" -> ", " => ", " → "} {
		if rest, ok := bytes.CutSuffix(before, []byte(arrow)); ok && len(rest) > 0 && isDigit(rest[len(rest)-1]) {
			return true
		}
	}
	if rest, ok := bytes.CutSuffix(before, []byte(" to ")); ok && len(rest) > 0 && isDigit(rest[len(rest)-1]) {
		return m.hasWordBefore(i-len(" to "), changeWords)
	}
	return false
}

// isWholeCell reports whether s[i:end] is a whole quoted string in a list, or all text in a tag.
func isWholeCell(s []byte, i, end int) bool {
	c := byteAt(s, end)
	return i > 0 && (isQuote(s[i-1]) && c == s[i-1] && byteAt(s, end+1) == ',' || s[i-1] == '>' && c == '<')
}

func (m *matcher) ipv6(i int) hit {
	s := m.text
	double := byteAt(s, i+1) == ':'
	if !double && (i == 0 || byteClass[s[i-1]]&hexByte == 0 || byteClass[byteAt(s, i+1)]&hexByte == 0) {
		return hit{}
	}
	start := m.runStart(i, 5, hexByte)
	if i-start > 4 || !startsWord(s, start) || (start > 0 && (s[start-1] == ':' || s[start-1] == '.' || s[start-1] == '_')) {
		return hit{}
	}
	end, digits, colons, pairs := start, 0, 0, true
	for group := 0; end < len(s) && end-start < 46; end++ {
		switch c := s[end]; {
		case c == ':':
			pairs = pairs && group == 2
			colons++
			group = 0
		case byteClass[c]&hexByte != 0 || (c == '.' && colons > 0 && isDigit(byteAt(s, end+1))):
			group++
			if isDigit(c) {
				digits++
			}
		default:
			group = -1
		}
		if group < 0 {
			break
		}
	}
	for end > start && s[end-1] == ':' && !(end-start > 1 && s[end-2] == ':') {
		end--
	}
	if colons < 2 || digits == 0 || pairs || end-start < 5 || (end < len(s) && (isAlnum(s[end]) || s[end] == '_' || s[end] == ':')) {
		return hit{}
	}
	a, err := netip.ParseAddr(string(s[start:end]))
	if err != nil || a.IsLoopback() || a.IsUnspecified() || end-start < len("abcd:efgh::") && s[end-1] == ':' && byteAt(s, end) == '/' { // fe80::/10 is a range
		return hit{}
	}
	return hit{start, end, ip}
}
