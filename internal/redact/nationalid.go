package redact

import "bytes"

// This file finds Chinese, Japanese and Korean national identity numbers.

//nolint:gochecknoglobals // read only
var nationalIDWords = []string{
	"身份证", "身分證", "公民身份号码", "マイナンバー", "個人番号", "個人番號", "주민등록번호", "주민번호", "외국인등록번호",
}

// nationalID matches a national identity number that begins with the digits m.text[i:end]. A Chinese number has 18
// characters with a birth date and a check digit. A Japanese number (12 digits) and a Korean number (6 digits, a dash,
// 7 digits) must follow a word for such a number.
func (m *matcher) nationalID(i, end int) hit {
	const japan, korea, china = 12, 6, 18
	s := m.text
	if i < m.lastEnd || !startsWord(s, i) {
		return hit{}
	}
	stop := end
	if c := byteAt(s, end); end-i == china-1 && (c == 'X' || c == 'x') {
		stop++
	}
	if isAlnum(byteAt(s, stop)) {
		return hit{}
	}
	switch end - i {
	case china - 1, china:
		if stop-i == china && isChineseID(s[i:stop]) {
			return hit{i, stop, ssn}
		}
	case korea:
		stop = classRunEnd(s, end+1, digitByte)
		if byteAt(s, end) == '-' && stop-end-1 == 7 && m.namesNationalID(i) {
			return hit{i, stop, ssn}
		}
	case japan, japan / 3:
		for groups := 1; groups < 3 && end-i < japan && (byteAt(s, stop) == ' ' || byteAt(s, stop) == '-') && classRunEnd(s, stop+1, digitByte) == stop+5; groups++ {
			stop += 5
		}
		if (end-i == japan || stop-i == japan+2) && !isAlnum(byteAt(s, stop)) && m.namesNationalID(i) {
			return hit{i, stop, ssn}
		}
	}
	return hit{}
}

func (m *matcher) namesNationalID(i int) bool {
	const window = 40
	before := m.text[max(m.lastEnd, i-window):i]
	before = before[bytes.LastIndexByte(before, '\n')+1:]
	for _, word := range nationalIDWords {
		if bytes.Contains(before, []byte(word)) {
			return true
		}
	}
	return false
}

// isChineseID reports whether v has a birth date since 1900 and the ISO 7064 check digit, modulus 11-2.
func isChineseID(v []byte) bool {
	const checks = "10X98765432"
	century, month, day := number(v[6:8]), number(v[10:12]), number(v[12:14])
	if century != 19 && century != 20 || month < 1 || month > 12 || day < 1 || day > 31 {
		return false
	}
	sum, weight := 0, 1
	for k := len(v) - 2; k >= 0; k-- {
		weight = weight * 2 % 11
		sum += int(v[k]-'0') * weight
	}
	return checks[sum%11] == upper(v[len(v)-1])
}
