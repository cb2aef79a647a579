package detect

import (
	"slices"
	"strings"
)

func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// hasPrefixOf: s begins with one of the list.
func hasPrefixOf(s string, list []string) bool {
	return slices.ContainsFunc(list, func(p string) bool { return strings.HasPrefix(s, p) })
}

// plain is a line without colours and surrounding white space.
func plain(line string) string {
	if strings.IndexByte(line, 0x1b) < 0 && !strings.Contains(line, "[3") {
		return unboxed(strings.TrimSpace(line))
	}
	var b strings.Builder
	b.Grow(len(line))
	for i := 0; i < len(line); i++ {
		if n := colour(line[i:]); n > 0 {
			i += n - 1
			continue
		}
		b.WriteByte(line[i])
	}
	return unboxed(strings.TrimSpace(b.String()))
}

// unboxed takes off the bar that terraform draws beside an error, which is none of a table: that
// has one on the right, too; and the frame of double lines that npm and playwright draw.
func unboxed(t string) string {
	if strings.HasPrefix(t, "╔") || strings.HasPrefix(t, "║") || strings.HasPrefix(t, "╚") {
		return strings.Trim(t, "╔═╗║╚╝ ")
	}
	if rest, ok := strings.CutPrefix(t, "│ Error: "); ok && !strings.HasSuffix(t, "│") {
		return "Error: " + rest
	}
	return t
}

// colour is the length of a terminal's colour sequence at the start of s; the escape byte itself
// may have been lost on the way ("[31merror[39m").
func colour(s string) int {
	i := 0
	if s[0] == 0x1b {
		i = 1
	}
	if i >= len(s) || s[i] != '[' {
		return 0
	}
	j := i + 1
	for j < len(s) && (isDigit(s[j]) || s[j] == ';') {
		j++
	}
	if j < len(s) && (s[j] == 'm' || i == 1 && (s[j] == 'K' || s[j] == 'G')) && (i == 1 || j > i+1) {
		return j + 1
	}
	return 0
}
