package detect

import (
	"strings"
	"unicode/utf8"
)

// warningArgs is how much of the arguments a warning names, in bytes.
const warningArgs = 300

// Warning is the block that tells the model of a loop. It depends on the call and the count alone, so that it is the same
// on every replica and every day; what it quotes of the call cannot end the block or begin another one.
func Warning(l Loop) string {
	canon, _ := canonicalArgs(l.Args)
	var b strings.Builder
	b.WriteString("[LOOP DETECTED] The call ")
	b.WriteString(quotable(l.Tool, 80))
	b.WriteString(" ")
	b.WriteString(quotable(canon, warningArgs))
	if l.Rule == "failed-again" {
		b.WriteString(" has failed before in the same way, and nothing has changed since.\n")
	} else {
		b.WriteString(" has returned the same result before, and nothing has changed since.\n")
	}
	b.WriteString("Calling it again will give the same result. Do not repeat it. Read the result below for the cause, then change the approach: other arguments, another tool, ")
	b.WriteString("or a fix of the cause first. If nothing is left to try, say what blocks you.\n[END LOOP DETECTED]\n\n")
	return b.String()
}

// quotable makes a text safe to stand inside a block: one line, no brackets that could form a marker, no hidden
// characters, at most n bytes.
func quotable(s string, n int) string {
	var b strings.Builder
	for _, r := range s {
		if b.Len() >= n {
			b.WriteString("...")
			break
		}
		switch {
		case r == '[' || r == '［' || r == '⟦' || r == '【':
			b.WriteByte('(')
		case r == ']' || r == '］' || r == '⟧' || r == '】':
			b.WriteByte(')')
		case r == utf8.RuneError || r < ' ' || r == 0x7f || hidden(r):
			b.WriteByte(' ')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// hidden: characters that do not show, or that turn the direction of reading.
func hidden(r rune) bool {
	return r >= 0x80 && r < 0xa0 || r == 0xad || r >= 0x200b && r <= 0x200f || r >= 0x2028 && r <= 0x202e || r >= 0x2060 && r <= 0x206f || r == 0xfeff || r >= 0xe0000 && r <= 0xe0fff || r >= 0xfff0 && r <= 0xfffb
}
