package redact

import (
	"bytes"
	"slices"
)

// The functions in this file match keys that have several parts. Each function starts from a separator and looks at the
// parts on both sides. The constants in each function are the lengths of a key's parts, in bytes.

// dottedKey matches Discord, Terraform Cloud, Authress, Airtable and Vault keys, and PASETO tokens. The first dot is at
// i.
func (m *matcher) dottedKey(i int) hit {
	const discord, discordTime, discordMAC, terraform, terraformKey, airtable, vault, authress = 23, 6, 27, 14, 60, 17, 24, 40
	s := m.text
	switch {
	case i > 1 && (s[i-2] == 'v' || s[i-2] == 'k') && s[i-1]-'1' < 4:
		return m.paseto(i)
	case byteAt(s, i+discordTime+1) == '.':
		start := m.runStart(i, discord+3, tokenByte)
		end := classRunEnd(s, i+discordTime+2, tokenByte)
		if i-start >= discord && startsWord(s, start) && classRunEnd(s, i+1, tokenByte) == i+1+discordTime && end-i-discordTime-2 >= discordMAC && isMixed(s[start:i]) {
			return hit{start, end, secret}
		}
	case byteAt(s, i+1) == 'a' && startsWith(s, i+1, "atlasv1."):
		start, end := i-terraform, classRunEnd(s, i+len(".atlasv1."), urlBase64Byte)
		if start >= m.lastEnd && m.runStart(i, terraform+1, alnumByte) == start && end-i >= terraformKey {
			return hit{start, end, secret}
		}
	case byteAt(s, i+1) == 'a' && (startsWith(s, i+1, "acc_") || startsWith(s, i+1, "acc-")): // Authress
		start := m.runStart(i, authress, nameByte)
		keyType, _, _ := bytes.Cut(s[start:i], []byte("_"))
		if end := runEnd(s, i+1, authress, nameByte|base64Byte); end-i > authress && slices.Contains([]string{"sc", "ext", "scauth", "authress"}, string(keyType)) {
			return hit{start, classRunEnd(s, end, nameByte|base64Byte), secret}
		}
	case startsWith(s, i-airtable, "pat"):
		if end := classRunEnd(s, i+1, hexByte); end-i-1 == 64 && i-airtable >= m.lastEnd && startsWord(s, i-airtable) {
			return hit{i - airtable, end, secret}
		}
	case s[i-1] == 's' && startsWord(s, i-1) && i > m.lastEnd:
		if end := runEnd(s, i+1, vault+1, alnumByte); end-i-1 == vault && isRandom(s[i+1:end]) && byteAt(s, end) != '(' && byteAt(s, end) != '.' {
			return hit{i - 1, end, secret}
		}
	}
	return hit{}
}

// paseto matches a PASETO token (v4.local.…) or a key for such tokens (k4.secret.…). The first dot is at i.
func (m *matcher) paseto(i int) hit {
	const minLen = 32
	s, start := m.text, i-len("v4")
	for _, purpose := range [...]string{".local.", ".public.", ".secret."} {
		if !startsWith(s, i, purpose) || s[start] == 'k' && purpose == ".public." {
			continue
		}
		return m.token(start, len("v4")+len(purpose), dottedByte, minLen, secret)
	}
	return hit{}
}

// botToken matches a Telegram bot token: a number, a colon and a key. The colon is at i.
func (m *matcher) botToken(i int) hit {
	const minLen, maxLen, key = 6, 16, 32
	start, end := m.runStart(i, maxLen+1, digitByte), runEnd(m.text, i+1, 2*key, tokenByte)
	if n := i - start; n < minLen || n > maxLen || !startsWord(m.text, start) && !(startsWith(m.text, start-3, "bot") && startsWord(m.text, start-3)) || end-i-1 < key || !isMixed(m.text[i+1:end]) {
		return hit{}
	}
	return hit{start, end, secret}
}

// appToken matches a Facebook app token: an app ID, a vertical bar and a secret. The bar is at i.
func (m *matcher) appToken(i int) hit {
	const minLen, maxLen, minKey, maxKey = 15, 16, 27, 40
	start, end := m.runStart(i, maxLen+1, digitByte), runEnd(m.text, i+1, maxKey+1, tokenByte)
	if n := i - start; n < minLen || n > maxLen || !startsWord(m.text, start) || end-i-1 < minKey || end-i-1 > maxKey || !isMixed(m.text[i+1:end]) {
		return hit{}
	}
	return hit{start, end, secret}
}

// suffixedKey matches keys with a suffix: -us12 (Mailchimp), _mmk (MaxMind), NRAL (New Relic). The s in -us, the k in
// _mmk or the L in NRAL is at i.
func (m *matcher) suffixedKey(i int) hit {
	const mailchimp, maxmind, newRelic = 32, 36, 36
	s := m.text
	switch {
	case startsWith(s, i-2, "-us"):
		start, end := m.runStart(i-2, mailchimp+1, hexByte), classRunEnd(s, i+1, digitByte)
		if i-2-start == mailchimp && startsWord(s, start) && end-i <= 3 && !isAlnum(byteAt(s, end)) {
			return hit{start, end, secret}
		}
	case startsWith(s, i-3, "_mmk"):
		start := m.runStart(i-3, maxmind+1, tokenByte)
		if i-3-start == maxmind && startsWord(s, start) && !isAlnum(byteAt(s, i+1)) {
			return hit{start, i + 1, secret}
		}
	case startsWith(s, i-3, "NRAL"):
		start := m.runStart(i-3, newRelic+1, alnumByte)
		if i-3-start == newRelic && startsWord(s, start) && !isAlnum(byteAt(s, i+1)) {
			return hit{start, i + 1, secret}
		}
	}
	return hit{}
}
