package lesson

import (
	"regexp"
	"strings"
	"sync"
	"unicode"
)

// clean makes lines out of a text that somebody else wrote, so that nothing in them is hidden and nothing reads as a role,
// a chat template or one of our own delimiters. The caller's fixed line prefix does the rest.
func clean(s string) []string {
	s = visible(stripANSI(s))
	s = neutralize(stripComments(s))
	lines := strings.Split(s, "\n")
	kept := lines[:0]
	for _, line := range lines {
		if !hasDelimiter(line) {
			kept = append(kept, line)
		}
	}
	return kept
}

// stripANSI removes terminal escape sequences whole, so that no "[31m" stays behind.
func stripANSI(s string) string {
	if !strings.ContainsAny(s, "\x1b\u009b\u009d") {
		return s
	}
	return patterns().ansi.ReplaceAllString(s, "")
}

// visible keeps what a reader of the file could see: line separators become line feeds, other white space a space; control,
// format, tag, private-use and unassigned-looking characters go; full-width brackets and letters become plain ones.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\v' || r == '\f' || r == 0x85 || r == 0x2028 || r == 0x2029:
			return '\n'
		case r == '\r':
			return -1
		case unicode.IsSpace(r):
			return ' '
		case hidden(r), r == unicode.ReplacementChar:
			return -1
		case r >= 'Ａ' && r <= 'Ｚ', r >= 'ａ' && r <= 'ｚ', r >= '０' && r <= '９',
			r == '＜', r == '＞', r == '｜', r == '［', r == '］', r == '＃', r == '／':
			return r - 0xFEE0
		default:
			return r
		}
	}, s)
}

// hidden says whether a rune is not drawn, or drawn as nobody can foresee.
func hidden(r rune) bool {
	return invisible(r) || unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Co, unicode.Cs, unicode.Noncharacter_Code_Point)
}

// stripComments removes HTML comments, again and again: cutting one may join two halves of another.
func stripComments(s string) string {
	for {
		start := strings.Index(s, "<!--")
		if start < 0 {
			return s
		}
		end := strings.Index(s[start:], "-->")
		if end < 0 {
			s = s[:start] + s[start+len("<!--"):]
			continue
		}
		s = s[:start] + s[start+end+len("-->"):]
	}
}

// neutralize rewrites what a model could take for a turn of the conversation: chat-template tokens, role tags, role labels
// and instruction headings. The words stay readable; only their form is broken.
func neutralize(s string) string {
	p := patterns()
	for range maxPasses { // a rewrite may join what stood around it
		before := s
		s = p.template.ReplaceAllString(s, "($1)")
		s = strings.NewReplacer("<|", "( ", "|>", " )").Replace(s)
		s = p.inst.ReplaceAllString(s, "($1)")
		s = p.tag.ReplaceAllString(s, "($1)")
		s = p.openTag.ReplaceAllString(s, "($1")
		s = p.hashes.ReplaceAllString(s, "")
		s = p.heading.ReplaceAllString(s, "$1")
		s = p.roleLine.ReplaceAllString(s, "$1$2 -")
		s = p.role.ReplaceAllString(s, "$1 -")
		if s == before {
			break
		}
	}
	return s
}

const maxPasses = 8

// rolePatterns are the shapes in which roles are spoken.
type rolePatterns struct {
	ansi, template, inst, tag, openTag, hashes, heading, roleLine, role *regexp.Regexp
}

//nolint:gochecknoglobals // immutable, compiled at first use
var patterns = sync.OnceValue(func() *rolePatterns {
	const (
		names = `system|user|assistant|human|developer|tools?|functions?|instructions?|prompt|invoke|parameters?|results?|` +
			`think|thinking|s|sys|bos|eos|pad|unk|end_of_text|start_of_turn|end_of_turn|start_header_id|end_header_id|eot_id|` +
			`im_start|im_end|tool_[a-z_]+|function_[a-z_]+|system[-_][a-z_-]+|environment_[a-z_]+|user_[a-z_]+|antml:[a-z_]+`
		labels = `system|assistant|user|human|developer|tool|function|instructions?|response|input|prompt`
	)
	return &rolePatterns{
		ansi:     regexp.MustCompile("(?:\x1b\\[|\u009b)[0-?]*[ -/]*[@-~]|(?:\x1b\\]|\u009d)[^\x07\x1b]*(?:\x07|\x1b\\\\)?|\x1b[ -/]*[0-~]?"),
		template: regexp.MustCompile(`<\s*\|\s*([^<>|\n]{0,80}?)\s*\|\s*>`),
		inst:     regexp.MustCompile(`(?i)\[\s*(/?\s*(?:inst|sys|system|user|assistant|human|developer)\b[^\]\n]{0,40})\]`),
		tag:      regexp.MustCompile(`(?i)<+\s*(/?\s*(?:` + names + `)(?:\s[^<>\n]{0,200})?/?)>+`),
		openTag:  regexp.MustCompile(`(?i)<+\s*(/?\s*(?:system|user|assistant|human|developer|` + `antml:)\b)`),
		hashes:   regexp.MustCompile(`(?m)^[ >]*#{2,}[ #]*`),
		heading:  regexp.MustCompile(`(?i)#+\s*((?:` + labels + `)\b)`),
		roleLine: regexp.MustCompile(`(?im)^([\s>*_#|+-]*)\b(` + labels + `)[*_]*\s*[:：]`),
		role:     regexp.MustCompile(`\b(System|Assistant|User|Human|Developer|SYSTEM|ASSISTANT|USER|HUMAN|DEVELOPER)[*_]*\s*[:：]`),
	}
})
