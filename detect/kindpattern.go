package detect

import (
	"slices"
	"strings"
)

// kindPattern is a pattern for a whole line in lower case. In the pattern, "*" matches any text, "%" one or more
// non-blank characters, "#" one or more digits, and "{a|b}" the literal a or b. A backslash makes the next character
// literal. A literal next to a "*" matches only at a word boundary.
type kindPattern struct {
	kind  int // index in kindTable.kinds
	parts []patternPart
	words [][]string // a matching line contains a word from each group
}

// patternPart is a wildcard, or a literal with one or more alternatives (texts).
type patternPart struct {
	texts    []string
	wildcard byte // 0 for a literal
}

func compileKind(kind int, pattern string) kindPattern {
	p := kindPattern{kind: kind}
	var literal strings.Builder
	flush := func() {
		if literal.Len() > 0 {
			p.parts = append(p.parts, patternPart{texts: []string{literal.String()}})
			literal.Reset()
		}
	}
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; c {
		case '*', '%', '#':
			flush()
			p.parts = append(p.parts, patternPart{wildcard: c})
		case '{':
			flush()
			inner, _, _ := strings.Cut(pattern[i+1:], "}")
			p.parts = append(p.parts, patternPart{texts: strings.Split(inner, "|")})
			i += len(inner) + 1
		case '\\':
			if i+1 < len(pattern) {
				i++
			}
			literal.WriteByte(pattern[i])
		default:
			literal.WriteByte(c)
		}
	}
	flush()
	for i, part := range p.parts {
		p.words = append(p.words, part.wordGroups(p.continuesWord(i-1, -1), p.continuesWord(i+1, 1))...)
	}
	return p
}

// wordGroups returns a part's groups for kindPattern.words. A literal without alternatives has one group for each whole
// word. Alternatives share one group, but have no group if one of them has no whole word. joinsBefore and joinsAfter
// say whether the neighbouring parts can continue the first and the last word.
func (part *patternPart) wordGroups(joinsBefore, joinsAfter bool) (groups [][]string) {
	if len(part.texts) == 1 {
		for _, w := range wholeWords(part.texts[0], joinsBefore, joinsAfter) {
			groups = append(groups, []string{w})
		}
		return groups
	}
	var group []string
	for _, text := range part.texts {
		words := wholeWords(text, joinsBefore, joinsAfter)
		if len(words) == 0 {
			return nil
		}
		word := slices.MaxFunc(words, func(a, b string) int { return len(a) - len(b) })
		if !slices.Contains(group, word) {
			group = append(group, word)
		}
	}
	if len(group) == 0 {
		return nil
	}
	return [][]string{group}
}

// continuesWord reports whether part i can continue a word in the previous part (step 1) or in the next part (step -1).
func (p *kindPattern) continuesWord(i, step int) bool {
	if i < 0 || i >= len(p.parts) || p.parts[i].wildcard == '*' {
		return false
	}
	return p.parts[i].wildcard != 0 || slices.ContainsFunc(p.parts[i].texts, func(text string) bool {
		return text == "" || step > 0 && isKindWordByte(text[0]) || step < 0 && isKindWordByte(text[len(text)-1])
	})
}

// wholeWords returns a literal's words, without those that a neighbouring part can continue.
func wholeWords(text string, joinsBefore, joinsAfter bool) []string {
	words := strings.FieldsFunc(text, func(r rune) bool { return r < 0x80 && !isKindWordByte(byte(r)) })
	if joinsBefore && len(words) > 0 && isKindWordByte(text[0]) {
		words = words[1:]
	}
	if joinsAfter && len(words) > 0 && isKindWordByte(text[len(text)-1]) {
		words = words[:len(words)-1]
	}
	return words
}

func isKindWordByte(c byte) bool { return isLetter(c) || isDigit(c) || c == '_' || c >= 0x80 }

// matches reports whether a line matches the pattern. Each comparison decrements steps. If no steps are left, the
// result is false.
func (p *kindPattern) matches(line string, steps *int) bool { return p.matchAt(line, 0, 0, steps) }

func (p *kindPattern) matchAt(line string, offset, partIndex int, steps *int) bool {
	if *steps--; *steps < 0 {
		return false
	}
	if partIndex == len(p.parts) {
		return offset == len(line)
	}
	switch w := p.parts[partIndex].wildcard; w {
	case 0:
		return slices.ContainsFunc(p.parts[partIndex].texts, func(text string) bool {
			return strings.HasPrefix(line[offset:], text) && p.matchAt(line, offset+len(text), partIndex+1, steps)
		})
	case '*':
		return p.matchRest(line, offset, partIndex+1, steps)
	default:
		end := offset
		for end < len(line) && (w == '#' && isDigit(line[end]) || w == '%' && line[end] != ' ') {
			end++
			if p.matchAt(line, end, partIndex+1, steps) {
				return true
			}
		}
		return false
	}
}

// matchRest reports whether the parts after a "*" match the rest of the line from some word boundary on.
func (p *kindPattern) matchRest(line string, offset, partIndex int, steps *int) bool {
	if partIndex == len(p.parts) {
		return offset == 0 || offset == len(line) || !isInsideWord(line, offset)
	}
	if offset > 0 && isInsideWord(line, offset) {
		return false
	}
	for i := offset; i <= len(line); i++ {
		next := p.parts[partIndex].index(line[i:])
		if next < 0 {
			return false
		}
		i += next
		if !isInsideWord(line, i) && p.matchAt(line, i, partIndex, steps) {
			return true
		}
		if *steps < 0 {
			return false
		}
	}
	return false
}

// index returns the first offset in line where the part can begin, or -1.
func (part *patternPart) index(line string) int {
	if part.wildcard != 0 {
		return 0
	}
	first := -1
	for _, text := range part.texts {
		if at := strings.Index(line, text); at >= 0 && (first < 0 || at < first) {
			first = at
		}
	}
	return first
}

func isInsideWord(line string, offset int) bool {
	return offset > 0 && offset < len(line) && isKindWordByte(line[offset-1]) && isKindWordByte(line[offset])
}

// normalizeLine returns a line in lower case, without colours, and without symbols, tags and labels at the start.
func normalizeLine(line string) string {
	t := strings.ToLower(strings.ReplaceAll(plainLine(cutRunes(strings.TrimSpace(line), maxKindLine)), "\t", " "))
	if strings.Contains(t, "\xe2\x80") {
		t = strings.NewReplacer("’", "'", "‘", "'", "“", `"`, "”", `"`, "…", "...").Replace(t)
	}
	for {
		rest := strings.TrimLeft(t, " \t|>│║┃▌*●•✖✗✘×❌⚠⛔🚫🔴‼❗️!=~")
		if tag, after, ok := strings.Cut(rest, ">"); ok && strings.HasPrefix(tag, "<") && !strings.Contains(tag, " ") && after != "" {
			rest = after
		}
		for _, label := range kindLabels() {
			if after, ok := strings.CutPrefix(rest, label); ok && after != "" {
				rest = after
				break
			}
		}
		if rest == t {
			break
		}
		t = rest
	}
	if i := strings.LastIndex(t, "</"); i > 0 && strings.HasSuffix(t, ">") {
		t = t[:i]
	}
	return strings.TrimSpace(t)
}

// isQuotedLine matches a search hit, a diff line, or a line with a line number.
func isQuotedLine(line string) bool {
	if strings.HasPrefix(line, "+") || strings.HasPrefix(line, "-") && len(line) > 1 && line[1] != ' ' && line[1] != '-' && !isLetter(line[1]) {
		return true
	}
	line = strings.TrimLeft(line, " ")
	rest := strings.TrimLeft(line, "0123456789")
	if len(rest) < len(line) && (strings.HasPrefix(rest, "→") || len(rest) > 1 && rest[0] == ':' && isLetter(rest[1]) || strings.HasPrefix(rest, "\t") || strings.HasPrefix(rest, ":\t") || strings.HasPrefix(rest, " | ")) {
		return true
	}
	file, rest, ok := strings.Cut(line, ":")
	number, rest, found := strings.Cut(rest, ":")
	return ok && found && file != "" && rest != "" && !strings.Contains(file, " ") && isNumber(number) && !isDigit(rest[0]) &&
		(rest[0] != ' ' || strings.HasPrefix(rest, "  ")) && !strings.HasPrefix(rest, "in ") // Ruby: a.rb:3:in 'f'
}

func kindLabels() []string {
	return []string{
		"error: ", "[error] ", "(error) ", "err: ", "fatal: ", "fatal error: ", "stderr: ", "[stderr] ", "npm err! ",
		"npm error ", "e   ", "error - ", "exception: ", "error! ",
	}
}
