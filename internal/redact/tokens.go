package redact

import "bytes"

// token matches a vendor's key: a prefix of prefixLen bytes at start, followed by at least minBytes
// bytes of the class. If the text ends inside the key, as in a cut capture, half of the bytes suffice.
func (m *matcher) token(start, prefixLen int, class uint16, minBytes int, k kind) hit {
	if start < m.last || !startsWord(m.s, start) {
		return hit{}
	}
	end := span(m.s, start+prefixLen, class)
	for class == dottedByte && m.s[end-1] == '.' { // the dot belongs to the sentence
		end--
	}
	if end == len(m.s) {
		minBytes = max(minBytes/2, min(minBytes, 10))
	}
	if body := m.s[start+prefixLen : end]; len(body) < minBytes || isMask(body) {
		return hit{}
	}
	return hit{start, end, k}
}

// isMask reports whether v is written in place of a key: one letter or digit only, as in xxxx-xxxx.
func isMask(v []byte) bool {
	first := bytes.IndexFunc(v, func(r rune) bool { return r < 0x80 && isAlnum(byte(r)) })
	if first < 0 {
		return true
	}
	for _, c := range v[first:] {
		if isAlnum(c) && c != v[first] {
			return false
		}
	}
	return true
}

// prefixed matches the vendors' prefixes that end at i.
func (m *matcher) prefixed(i int) hit {
	const maxDistance = 64 // every key with the prefix has a digit within this many bytes
	if i < 2 {
		return hit{}
	}
	index := m.t.tails[tail(m.s, i)]
	if index == 0 {
		return hit{}
	}
	for _, p := range m.t.prefixes[index] {
		start := i + 1 - len(p.text)
		if !startsWith(m.s, start, p.text) || !startsWith(m.s, i+1, p.bodyStart) {
			continue
		}
		if p.uuid && !isUUID(m.s[i+1:span(m.s, i+1, tokenByte)]) {
			continue
		}
		if p.digit {
			near := m.s[:min(len(m.s), i+maxDistance)]
			body := near[start+len(p.text) : span(near, i+1, p.class)]
			if runs := digitRuns(body); runs == 0 || runs == 1 && p.kind == secret && p.class&tokenByte&^alnumByte != 0 {
				continue // an identifier contains at most one number
			}
		}
		if h := m.token(start, len(p.text), p.class, p.minBytes, p.kind); h.kind != none {
			return h
		}
	}
	return hit{}
}

// awsID matches the ID of an AWS access key.
func (m *matcher) awsID(i int) hit {
	const length = 20
	if i < m.last || !startsWord(m.s, i) || !startsWith(m.s, i+2, "IA") && !startsWith(m.s, i, "ACCA") && !startsWith(m.s, i, "A3T") {
		return hit{}
	}
	end := i
	for end < len(m.s) && (isUpper(m.s[end]) || isDigit(m.s[end])) {
		end++
	}
	if n := end - i; (n != length && (end != len(m.s) || n < length*2/3)) || (end < len(m.s) && isAlnum(m.s[end])) {
		return hit{}
	}
	return hit{i, end, awsKey}
}

// twilio matches the ID of a Twilio account or API key.
func (m *matcher) twilio(i int) hit {
	const hexDigits = 32
	if !startsWith(m.s, i, "AC") && !startsWith(m.s, i, "SK") {
		return hit{}
	}
	h := m.token(i, 2, hexByte, hexDigits, twilioKey)
	if h.kind == none || h.end-h.start > hexDigits+2 || (h.end < len(m.s) && isAlnum(m.s[h.end])) {
		return hit{}
	}
	return h
}

// sendgrid matches a SendGrid key: SG. and two parts, or SG. and 66 bytes with dots.
func (m *matcher) sendgrid(i int) hit {
	const minPart, bodyLen = 16, 66
	if !startsWith(m.s, i, "SG.") {
		return hit{}
	}
	if end := runEnd(m.s, i+3, bodyLen, nameByte|base64Byte); end-i-3 == bodyLen && hasDigit(m.s[i:end]) && startsWord(m.s, i) && i >= m.last {
		return hit{i, span(m.s, end, nameByte|base64Byte), sendgridKey}
	}
	h := m.token(i, 3, tokenByte, minPart, sendgridKey)
	if h.kind == none || h.end == len(m.s) {
		return h
	}
	if m.s[h.end] != '.' {
		return hit{}
	}
	end := span(m.s, h.end+1, tokenByte)
	if end-h.end-1 < minPart && end != len(m.s) {
		return hit{}
	}
	return hit{h.start, end, sendgridKey}
}

// azureSecret matches an Entra ID application secret: three bytes, a digit, Q~, then at least 31
// bytes, or 12 at the end of the text. The ~ is at i.
func (m *matcher) azureSecret(i int) hit {
	start := i - 5
	if start < m.last || m.s[i-1] != 'Q' || !isDigit(m.s[i-2]) || !startsWord(m.s, start) {
		return hit{}
	}
	end := i + 1
	for end < len(m.s) && (classOf[m.s[end]]&tokenByte != 0 || m.s[end] == '~' || m.s[end] == '.') {
		end++
	}
	if n := end - i - 1; n < 31 && (end != len(m.s) || n < 12) || isMask(m.s[i+1:end]) {
		return hit{}
	}
	return hit{start, end, azureKey}
}
