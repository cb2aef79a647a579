package redact

import "bytes"

// token matches a vendor's key: a prefix and at least minBytes bytes in the class. At the end of the text, half of
// minBytes is enough, because the text may have been cut off inside the key.
func (m *matcher) token(start, prefixLen int, class uint16, minBytes int, k kind) hit {
	if start < m.lastEnd || !startsWord(m.text, start) {
		return hit{}
	}
	end := classRunEnd(m.text, start+prefixLen, class)
	for class == dottedByte && end > start+prefixLen && m.text[end-1] == '.' { // ends the sentence
		end--
	}
	if end == len(m.text) {
		minBytes = max(minBytes/2, min(minBytes, 10))
	}
	if body := m.text[start+prefixLen : end]; len(body) < minBytes || isMask(body) || isLowerHex(m.text[start:end]) {
		return hit{}
	}
	return hit{start, end, k}
}

// isLowerHex reports whether v is a hexadecimal number in lower case. A commit or a session name can begin with the
// prefix 4b1d, but a key also has other letters.
func isLowerHex(v []byte) bool {
	return !bytes.ContainsFunc(v, func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') })
}

// isMask reports whether v repeats one letter or digit, as in sk-xxxx.
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

// prefixedKey matches a vendor's key with one of the table's prefixes. The prefix's last byte is at i.
func (m *matcher) prefixedKey(i int) hit {
	const maxDistance = 64 // every key with a prefix has a digit by then
	if i < 2 {
		return hit{}
	}
	index := m.table.tails[hashTail(m.text, i)]
	if index == 0 {
		return hit{}
	}
	for _, p := range m.table.prefixes[index] {
		start := i + 1 - len(p.text)
		if !startsWith(m.text, start, p.text) || !startsWith(m.text, i+1, p.bodyStart) {
			continue
		}
		if p.isUUID && !isUUID(m.text[i+1:classRunEnd(m.text, i+1, tokenByte)]) {
			continue
		}
		if p.needsDigit {
			near := m.text[:min(len(m.text), i+maxDistance)]
			body := near[start+len(p.text) : classRunEnd(near, i+1, p.class)]
			if runs := countDigitRuns(body); runs == 0 || runs == 1 && p.kind == secret && p.class&tokenByte&^alnumByte != 0 {
				continue // an identifier contains at most one number
			}
		}
		if h := m.token(start, len(p.text), p.class, p.minBytes, p.kind); h.kind != noKind {
			return h
		}
	}
	return hit{}
}

func (m *matcher) awsID(i int) hit {
	const length = 20
	if i < m.lastEnd || !startsWord(m.text, i) || !startsWith(m.text, i+2, "IA") && !startsWith(m.text, i, "ACCA") && !startsWith(m.text, i, "A3T") {
		return hit{}
	}
	end := i
	for end < len(m.text) && (isUpper(m.text[end]) || isDigit(m.text[end])) {
		end++
	}
	if n := end - i; (n != length && (end != len(m.text) || n < length*2/3)) || (end < len(m.text) && isAlnum(m.text[end])) {
		return hit{}
	}
	return hit{i, end, awsKey}
}

func (m *matcher) twilio(i int) hit {
	const hexDigits = 32
	if !startsWith(m.text, i, "AC") && !startsWith(m.text, i, "SK") {
		return hit{}
	}
	h := m.token(i, 2, hexByte, hexDigits, twilioKey)
	if h.kind == noKind || h.end-h.start > hexDigits+2 || (h.end < len(m.text) && isAlnum(m.text[h.end])) {
		return hit{}
	}
	return h
}

// sendgrid matches a SendGrid key at i: SG. and two parts, or SG. and 66 bytes with dots.
func (m *matcher) sendgrid(i int) hit {
	const minPart, bodyLen = 16, 66
	if !startsWith(m.text, i, "SG.") {
		return hit{}
	}
	if end := runEnd(m.text, i+3, bodyLen, nameByte|base64Byte); end-i-3 == bodyLen && hasDigit(m.text[i:end]) && startsWord(m.text, i) && i >= m.lastEnd {
		return hit{i, classRunEnd(m.text, end, nameByte|base64Byte), sendgridKey}
	}
	h := m.token(i, 3, tokenByte, minPart, sendgridKey)
	if h.kind == noKind || h.end == len(m.text) {
		return h
	}
	if m.text[h.end] != '.' {
		return hit{}
	}
	end := classRunEnd(m.text, h.end+1, tokenByte)
	if end-h.end-1 < minPart && end != len(m.text) {
		return hit{}
	}
	return hit{h.start, end, sendgridKey}
}

// azureSecret matches an Entra ID application secret: three bytes, a digit, Q~, and at least 31 bytes, or 12 at the end
// of the text. The ~ is at i.
func (m *matcher) azureSecret(i int) hit {
	start := i - 5
	if start < m.lastEnd || m.text[i-1] != 'Q' || !isDigit(m.text[i-2]) || !startsWord(m.text, start) {
		return hit{}
	}
	end := i + 1
	for end < len(m.text) && (byteClass[m.text[end]]&tokenByte != 0 || m.text[end] == '~' || m.text[end] == '.') {
		end++
	}
	if n := end - i - 1; n < 31 && (end != len(m.text) || n < 12) || isMask(m.text[i+1:end]) {
		return hit{}
	}
	return hit{start, end, azureKey}
}

// azureServiceKey matches an Azure service key: 84 letters and digits, with JQQJ99 after the first 52. The last J is
// at i.
func (m *matcher) azureServiceKey(i int) hit {
	const mark, before, length = "JQQJ99", 52, 84
	at := i - len("JQQ")
	start := at - before
	if start < m.lastEnd || !startsWith(m.text, at, mark) || !startsWord(m.text, start) || classRunEnd(m.text, start, alnumByte) != start+length {
		return hit{}
	}
	return hit{start, start + length, azureKey}
}
