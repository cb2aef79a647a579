package detect

import (
	"slices"
	"strings"
	"unicode/utf8"
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

// cutText is the first n bytes.
func cutText(s string, n int) string {
	if len(s) > n {
		return s[:n]
	}
	return s
}

func hasWord(s string, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(s, w) })
}

// startsWord: s begins with one of the phrases, and the phrase ends there.
func startsWord(s string, phrases ...string) bool {
	return slices.ContainsFunc(phrases, func(p string) bool {
		return strings.HasPrefix(s, p) && (len(s) == len(p) || !letterAt(s, len(p)))
	})
}

// phrase: one of the phrases stands in s on word boundaries.
func phrase(s string, phrases ...string) bool {
	for _, p := range phrases {
		for from := 0; ; {
			i := strings.Index(s[from:], p)
			if i < 0 {
				break
			}
			i += from
			if (i == 0 || !letterAt(s, i-1)) && (i+len(p) == len(s) || !letterAt(s, i+len(p))) {
				return true
			}
			from = i + 1
		}
	}
	return false
}

// letterAt: the byte continues a word. Bytes of other scripts count as letters, so that "да" is not
// the start of "дай".
func letterAt(s string, i int) bool {
	c := s[i]
	return c >= 'a' && c <= 'z' || isDigit(c) || c == '\'' || c == '_' || c >= 0x80
}

// fold lower-cases, folds white space and typographic apostrophes.
func fold(s string) string {
	s = strings.ToLower(s)
	if strings.Contains(s, "\xe2\x80") { // with which all four of them begin
		s = strings.NewReplacer("’", "'", "‘", "'", "“", `"`, "”", `"`).Replace(s)
	}
	return oneSpace(s)
}

// oneSpace folds white space.
func oneSpace(s string) string { return strings.Join(strings.Fields(s), " ") }

func hasAny(args []string, want ...string) bool {
	for _, a := range args {
		if slices.Contains(want, a) {
			return true
		}
	}
	return false
}

func hasPrefix(args []string, prefix string) bool {
	return slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, prefix) })
}

// cutRunes is the first n bytes, less a rune that would be cut.
func cutRunes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
