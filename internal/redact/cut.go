package redact

import "strings"

const maxFragment = 256

// TruncatedText is like Text, for a text that was cut off. It also redacts the last word if that word may be the start
// of a value, such as half an address or a card's first digits.
func (r *Redactor) TruncatedText(s string) string {
	s = r.Text(s)
	start := fragmentStart(s)
	if strings.HasSuffix(s[:start], Placeholder) || !isFragment(s[start:]) {
		return s
	}
	return s[:start] + string(r.placeholder(nil, fragment, []byte(s[start:])))
}

func fragmentStart(s string) int {
	start := numberStart(s)
	if word := wordStart(s, len(s)); word < start {
		return word
	}
	return start
}

// numberStart returns the start of the number at the end of s, or len(s). A number has at least four digits, in groups,
// and up to four successive capitals, as in an IBAN.
func numberStart(s string) int {
	start, digits, capitals := len(s), 0, 0
	for i := len(s) - 1; i >= 0 && len(s)-i < maxFragment; i-- {
		switch c := s[i]; {
		case isDigit(c):
			digits++
			capitals, start = 0, i
		case isUpper(c) && capitals < 4:
			capitals++
			start = i
		case c == '+' || c == '(':
			start = i
		case c == ' ' || c == '-' || c == '.' || c == ')':
			capitals = 0
		default:
			i = 0
		}
	}
	if digits < 4 {
		return len(s)
	}
	return start
}

func wordStart(s string, end int) int {
	start := end
	for start > 0 && end-start < maxFragment && s[start-1] > ' ' && !strings.ContainsRune("\"'`<>()[]{},;=\\|", rune(s[start-1])) {
		start--
	}
	return start
}

// isFragment reports whether a cut word may be part of a value: it contains an @, four digits, or mixed letters and
// digits, or begins like a key or a phone number.
func isFragment(w string) bool {
	digits, letters := 0, 0
	for i := range len(w) {
		switch {
		case w[i] == '@' && i > 0:
			return true
		case isDigit(w[i]):
			digits++
		case isAlnum(w[i]):
			letters++
		}
	}
	mixed := digits > 0 && letters > 0 && digits+letters >= 6
	return digits >= 4 || mixed || strings.HasPrefix(w, "sk-") || strings.HasPrefix(w, "+") && digits > 1
}
