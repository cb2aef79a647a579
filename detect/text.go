package detect

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' } // ASCII letters

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func hasAnyPrefix(s string, list []string) bool {
	return slices.ContainsFunc(list, func(p string) bool { return strings.HasPrefix(s, p) })
}

// plainLine removes colours, a box frame, and surrounding white space.
func plainLine(line string) string {
	if strings.IndexByte(line, 0x1b) < 0 && !strings.Contains(line, "[3") {
		return withoutBox(strings.TrimSpace(line))
	}
	var b strings.Builder
	b.Grow(len(line))
	for i := 0; i < len(line); i++ {
		if n := colourLen(line[i:]); n > 0 {
			i += n - 1
			continue
		}
		b.WriteByte(line[i])
	}
	return withoutBox(strings.TrimSpace(b.String()))
}

// withoutBox removes the bar that terraform draws before "Error: ", and the double frame that npm and playwright draw.
// A line that also ends with a bar is a table row, so it stays unchanged.
func withoutBox(t string) string {
	if strings.HasPrefix(t, "╔") || strings.HasPrefix(t, "║") || strings.HasPrefix(t, "╚") {
		return strings.Trim(t, "╔═╗║╚╝ ")
	}
	if rest, ok := strings.CutPrefix(t, "│ Error: "); ok && !strings.HasSuffix(t, "│") {
		return "Error: " + rest
	}
	return t
}

// withoutSymbols removes symbols before the first word, as in "🔴 exit 2" or "⚠️ Failed to open x". It keeps a check
// mark or a bullet, which can precede a test name.
func withoutSymbols(t string) string {
	if t == "" || t[0] < 0x80 {
		return t
	}
	rest := strings.TrimLeftFunc(t, func(r rune) bool {
		return unicode.In(r, unicode.So, unicode.Sk) && !strings.ContainsRune("✓✔✅☑●○►▶", r) || r == '\ufe0f' || r == '\u200d'
	})
	if rest == t || rest == "" || rest[0] != ' ' {
		return t
	}
	return strings.TrimLeft(rest, " ")
}

// colourLen returns the length of the colour sequence at the start of s. The escape byte may be missing
// ("[31merror[39m").
func colourLen(s string) int {
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

func cutText(s string, n int) string {
	if len(s) > n {
		return s[:n]
	}
	return s
}

func containsAny(s string, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(s, w) })
}

// hasAnySuffix reports whether s ends with one of the suffixes, which are in lower case. It ignores the case of s.
func hasAnySuffix(s string, suffixes []string) bool {
	return slices.ContainsFunc(suffixes, func(suffix string) bool {
		from := len(s) - len(suffix)
		return from >= 0 && s[len(s)-1]|0x20 == suffix[len(suffix)-1]|0x20 && strings.EqualFold(s[from:], suffix)
	})
}

// startsWithPhrase reports whether s begins with one of the phrases, as whole words.
func startsWithPhrase(s string, phrases ...string) bool {
	return slices.ContainsFunc(phrases, func(p string) bool {
		return strings.HasPrefix(s, p) && !isLetterAt(s, len(p))
	})
}

// hasPhrase reports whether s contains one of the phrases, as whole words.
func hasPhrase(s string, phrases ...string) bool {
	for _, p := range phrases {
		for from := 0; ; {
			i := strings.Index(s[from:], p)
			if i < 0 {
				break
			}
			i += from
			if (i == 0 || !isLetterAt(s, i-1)) && !isLetterAt(s, i+len(p)) {
				return true
			}
			from = i + 1
		}
	}
	return false
}

// isLetterAt reports whether s has a letter, a digit, "'" or "_" at i. Bytes of other scripts count as letters, so
// "дай" does not begin with the word "да".
func isLetterAt(s string, i int) bool {
	if i >= len(s) {
		return false
	}
	c := s[i]
	return c >= 'a' && c <= 'z' || isDigit(c) || c == '\'' || c == '_' || c >= 0x80
}

// fold returns a text in lower case, with single spaces, ASCII apostrophes and ASCII quotes.
func fold(s string) string {
	s = strings.ToLower(s)
	if strings.Contains(s, "\xe2\x80") { // the first two bytes of all four quotes
		s = strings.NewReplacer("’", "'", "‘", "'", "“", `"`, "”", `"`).Replace(s)
	}
	return collapseSpaces(s)
}

// withApostrophes returns a folded text with an apostrophe in words such as "dont" and "doesnt".
func withApostrophes(low string) string {
	if !strings.Contains(low, "nt") {
		return low
	}
	words := strings.Split(low, " ")
	for i, w := range words {
		bare := strings.TrimRight(w, ".,;:!?")
		switch bare {
		case "dont", "doesnt", "didnt", "isnt", "arent", "wasnt", "werent", "wont", "cant", "couldnt", "shouldnt", "wouldnt", "havent", "hasnt":
			words[i] = bare[:len(bare)-1] + "'" + w[len(bare)-1:]
		}
	}
	return strings.Join(words, " ")
}

func collapseSpaces(s string) string { return strings.Join(strings.Fields(s), " ") }

func hasAny(args []string, wanted ...string) bool {
	for _, a := range args {
		if slices.Contains(wanted, a) {
			return true
		}
	}
	return false
}

func anyHasPrefix(args []string, prefix string) bool {
	return slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, prefix) })
}

// cutRunes returns at most the first n bytes, without a part of a rune.
func cutRunes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// userText is a user's folded text (fold), with the set of triples (three successive bytes) in it. The text is searched
// for several hundred phrases. Most phrases contain a triple that the text does not have, so they need no search.
type userText struct {
	text    string
	triples [1 << (tripleBits - 6)]uint64 // set of triple hashes
}

// tripleBits makes the set large enough for maxTurnText bytes.
const tripleBits = 14

func newUserText(low string) *userText {
	s := &userText{text: low}
	for i := 2; i < len(low); i++ {
		h := tripleHash(low[i-2], low[i-1], low[i])
		s.triples[h>>6] |= 1 << (h & 63)
	}
	return s
}

func tripleHash(a, b, c byte) uint32 {
	return (uint32(a) | uint32(b)<<8 | uint32(c)<<16) * 2654435761 >> (32 - tripleBits)
}

// mayContain returns false only if the text does not contain p.
func (u *userText) mayContain(p string) bool {
	for i := 2; i < len(p); i++ {
		if h := tripleHash(p[i-2], p[i-1], p[i]); u.triples[h>>6]&(1<<(h&63)) == 0 {
			return false
		}
	}
	return true
}

func (u *userText) hasPhrase(phrases ...string) bool {
	return slices.ContainsFunc(phrases, func(p string) bool { return u.mayContain(p) && hasPhrase(u.text, p) })
}

func (u *userText) containsAny(words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return u.mayContain(w) && strings.Contains(u.text, w) })
}

func firstByte(s string) byte {
	if s == "" {
		return 0
	}
	return s[0]
}
