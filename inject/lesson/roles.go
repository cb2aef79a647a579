package lesson

import (
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// roleForm is a way to imitate a conversation role or a tool, such as "system:" at the start of a line. Rendering
// rewrites all forms; the injection scan refuses some of them.
type roleForm struct {
	find         *regexp.Regexp // matches texts from foldLookalikes
	replacement  string         // $1 and $2 stand for groups in find, with the original characters
	refused      bool           // refused by the injection scan, because no lesson needs it
	needsCapital bool           // matches only if there is a capital, because "file system: ext4" is prose
}

// roleForms lists the chat templates of known models, tool call tags, and plain labels and headings that start a turn.
//
//nolint:gochecknoglobals // immutable, compiled at first use
var roleForms = sync.OnceValue(func() []roleForm {
	// Alternatives for NAMES in the patterns: in tags, at the start of lines, and in square brackets.
	const (
		strictTags = `system|assistant|developer|human|user|tool_call|tool_result|function_calls?|system-reminder|start_of_turn|end_of_turn|antml:\w+`
		tags       = strictTags + `|tools?|functions?|instructions?|prompt|invoke|parameters?|results?|thinking|think|s|sys|bos|eos|pad|unk|mask|sep|cls|bot|sop|eop|[gs]mask|` +
			`end_?of_?text|begin_of_text|start_of_image|start_header_id|end_header_id|eot_id|eom_id|im_start|im_end|im_sep|python_tag|unused\d+|extra_id_\d+|reserved_\d+|` +
			`(?:bos|eos|pad)_token|\w+_of_turn_token|\w+_token|tool_\w+|function_\w+|system[-_][a-z_-]+|environment_\w+|user_\w+|antml\w*`
		labels       = `system|assistant|developer|human`
		headings     = `instructions?|system|assistant|response|human`
		anyHeading   = labels + `|user|tool|function|instructions?|response|input|prompt|model|ai|bot`
		strictSquare = `inst|sys`
		square       = `system|user|assistant|human|developer|available_tools|tool_calls?|tool_results?|tool_content|system_prompt|control_\d+|[gs]mask`
	)
	form := func(pattern, names, with string) roleForm {
		return roleForm{find: regexp.MustCompile(strings.Replace(pattern, "NAMES", foldNames(names), 1)), replacement: with}
	}
	refused := func(f roleForm) roleForm {
		f.refused = true
		return f
	}
	capital := form(`(NAMES)[*_]*\s*:`, labels+`|user`, "$1 -")
	capital.needsCapital = true
	return []roleForm{
		refused(form(`<+\s*\|+\s*([^<>|\n]{0,80}?)\s*\|+\s*>+`, "", "($1)")), // <|im_start|>, <|begin_of_text|>, deepseek's
		form(`<\s*\|`, "", "< |"),
		form(`<+\s*(/?\s*\w{1,40})\s*\|+\s*>+`, "", "($1)"),                           // gemma's <turn|>
		refused(form(`\[\s*(/?\s*(?:NAMES)\b[^\]\n]{0,20})\]`, strictSquare, "($1)")), // [INST]
		form(`\[\s*(/?\s*(?:NAMES)\b[^\]\n]{0,40})\]`, square, "($1)"),                // Mistral's form
		form(`<+\s*(/?\s*(?:NAMES)(?:[\s=:][^<>\n]{0,200})?/?)\s*>+`, tags, "($1)"),
		refused(form(`<+\s*(/?\s*(?:NAMES)\b)`, strictTags, "($1")), // no closing bracket
		form(`\[\s*(/?\s*(?:NAMES)\b)`, strictSquare, "($1"),
		form(`<<+\s*(/?\s*(?:NAMES)\b)`, strictSquare, "($1"),
		refused(form(`(?m)#{2,}[ \t]*((?:NAMES)\b[ \t]*:?)[ \t]*$`, headings, "$1")),
		form(`(?m)^[ >]*#{2,}[ #]*`, "", ""),
		form(`#{2,}\s*((?:NAMES))`, anyHeading, "$1"),
		form(`(?m)^([\s>*_|+-]*)#+\s*((?:NAMES)\b)`, anyHeading, "$1$2"),
		refused(form(`(?m)^([\s>*_#|+-]*)\b(NAMES)[*_]*\s*:`, labels, "$1$2 -")),
		form(`(?m)^([\s>*_#|+-]*(?:\d+[.)]\s*)?)\b(NAMES)[*_]*\s*:`, anyHeading, "$1$2 -"),
		form(`([.!?]\s+)(NAMES)[*_]*\s*:`, labels, "$1$2 -"),
		capital,
	}
})

// speaksAsRole reports whether a text has a form that the injection scan refuses.
func speaksAsRole(s string) bool {
	text, _ := foldLookalikes(s)
	for _, f := range roleForms() {
		if f.refused && f.find.MatchString(text) {
			return true
		}
	}
	return false
}

// maxPasses is the maximum number of neutralize's passes. Several passes are needed because a rewritten form and the
// text around it can make a new form.
const maxPasses = 8

// neutralize rewrites every role form, so that a model cannot read the text as a turn. The words remain readable. If
// the last pass still changes the text, the affected lines are dropped.
func neutralize(s string) string {
	for range maxPasses {
		before := s
		if s = rewrite(s); s == before {
			return s
		}
	}
	var kept []string
	for line := range strings.SplitSeq(s, "\n") {
		if rewrite(line) == line {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

// rewrite replaces each role form once.
func rewrite(s string) string {
	text, offsets := foldLookalikes(s)
	for i := range roleForms() {
		if rewritten := roleForms()[i].rewrite(s, text, offsets); rewritten != s {
			s = rewritten
			text, offsets = foldLookalikes(s)
		}
	}
	return s
}

// rewrite replaces the form in s. text and offsets come from foldLookalikes(s).
func (f *roleForm) rewrite(s, text string, offsets []int) string {
	found := f.find.FindAllStringSubmatchIndex(text, -1)
	if len(found) == 0 {
		return s
	}
	var out strings.Builder
	copied := 0
	for _, m := range found {
		if f.needsCapital && !startsUpper(s[offsets[m[2]]:]) {
			continue
		}
		out.WriteString(s[copied:offsets[m[0]]])
		for i := 0; i < len(f.replacement); i++ {
			if f.replacement[i] != '$' {
				out.WriteByte(f.replacement[i])
				continue
			}
			i++
			group := int(f.replacement[i] - '0')
			out.WriteString(s[offsets[m[2*group]]:offsets[m[2*group+1]]])
		}
		copied = offsets[m[1]]
	}
	out.WriteString(s[copied:])
	return out.String()
}

func startsUpper(s string) bool {
	r, _ := utf8.DecodeRuneInString(norm.NFKD.String(s[:min(len(s), utf8.UTFMax)]))
	return unicode.IsUpper(r)
}

// foldLookalikes makes characters that look alike equal, and drops accents. offsets maps offsets in text, including the
// end, to offsets in s.
func foldLookalikes(s string) (text string, offsets []int) {
	b := make([]byte, 0, len(s))
	offsets = make([]int, 0, len(s)+1)
	for i, r := range s {
		if unicode.In(r, unicode.Mn, unicode.Me) {
			continue
		}
		for b = utf8.AppendRune(b, foldLookalikeRune(r)); len(offsets) < len(b); {
			offsets = append(offsets, i)
		}
	}
	return string(b), append(offsets, len(s))
}

// foldNames folds i to l in a pattern, as foldLookalikes does in texts.
func foldNames(names string) string { return strings.ReplaceAll(names, "i", "l") }

func foldLookalikeRune(r rune) rune {
	switch {
	case r == 'i' || r == 'I':
		return 'l' // I and l look alike in many fonts
	case r >= 'A' && r <= 'Z':
		return r + 'a' - 'A'
	case r < utf8.RuneSelf:
		return r
	}
	if p := lookalikes().signs[r]; p != 0 {
		return p
	}
	first, _ := utf8.DecodeRuneInString(norm.NFKD.String(string(r)))
	if p := lookalikes().signs[first]; p != 0 {
		return p
	}
	if first < utf8.RuneSelf && !unicode.IsLetter(first) {
		return first
	}
	if first = lookalike(first); first == 'i' {
		return 'l'
	}
	return first
}
