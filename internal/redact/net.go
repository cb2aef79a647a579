package redact

import (
	"bytes"
	"net/netip"
)

// email matches an address around the @ at i.
func (m *matcher) email(i int) hit {
	s := m.s
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
	if dots == 0 || !isTLD(s[label:end]) || notAddress(s[start:i], s[from:end], s[label:end]) || at(s, end) == '(' {
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

// notAddress reports whether a text only has the form of an address: git@host remotes,
// image@2x.png, module@v1.2.zip.
func notAddress(local, domain, tld []byte) bool {
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

// ipv4 matches four decimal octets, except loopback, masks, reserved addresses and versions.
func (m *matcher) ipv4(i int) hit {
	s := m.s
	var octets [4]int
	end := i
	for k := range octets {
		if k > 0 {
			if at(s, end) != '.' {
				return hit{}
			}
			end++
		}
		stop := span(s, end, digitByte)
		if n := stop - end; n == 0 || n > 3 || (n > 1 && s[end] == '0') {
			return hit{}
		}
		if octets[k] = number(s[end:stop]); octets[k] > 255 {
			return hit{}
		}
		end = stop
	}
	if !endsNumber(s, end) || (at(s, end) == '-' && isAlnum(at(s, end+1))) || at(s, end) == '_' {
		return hit{}
	}
	if octets[0] == 0 || octets[0] == 127 || octets[0] == 255 || m.isVersion(i, octets) {
		return hit{}
	}
	return hit{i, end, ip}
}

// isVersion reports whether 120.0.6.1 is a version instead of an address, by the preceding text and
// the size: sections and object identifiers count from 1.
func (m *matcher) isVersion(i int, octets [4]int) bool {
	s := m.s
	if i > 0 {
		switch s[i-1] {
		case '=', '>', '<', '~', '^':
			if i > 1 && (s[i-2] == '=' || s[i-2] == '>' || s[i-2] == '<' || s[i-2] == '~' || s[i-2] == '!') || s[i-1] != '=' {
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
	if m.wordBefore(i, "version ver v release upgrade section chapter rfc oid build") {
		return true
	}
	return max(octets[0], octets[1], octets[2], octets[3]) < 32 && octets[0] != 10 && !m.wordBefore(i, wordsOfIP)
}

// ipv6 matches an address with its first colon at i.
func (m *matcher) ipv6(i int) hit {
	s := m.s
	double := at(s, i+1) == ':'
	if !double && (i == 0 || classOf[s[i-1]]&hexByte == 0 || classOf[at(s, i+1)]&hexByte == 0) {
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
		case classOf[c]&hexByte != 0 || (c == '.' && colons > 0 && isDigit(at(s, end+1))):
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
	if err != nil || a.IsLoopback() || a.IsUnspecified() {
		return hit{}
	}
	return hit{start, end, ip}
}
