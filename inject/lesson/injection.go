package lesson

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// part is a text in a lesson file that is scanned for prompt injections and secrets.
type part struct {
	field, text string
	forModel    bool
}

// textParts returns a lesson's texts. forModel is true for the texts that a model can see.
func textParts(l *Lesson) []part {
	out := []part{{"title", l.Title, true}, {"body", l.Advice, true}}
	if rest := strings.Replace(l.Body, l.Advice, "", 1); strings.TrimSpace(rest) != "" {
		out = append(out, part{"body", rest, false})
	}
	out = append(out, part{"trigger.description", l.Trigger.Description, false})
	for _, p := range triggerPhrases(&l.Trigger) {
		out = append(out, part{p.field, p.text, false})
	}
	for _, e := range l.Evidence {
		out = append(out, part{"evidence", e.Note, false})
	}
	return out
}

// InjectionFindings reports text that instructs the model, imitates a conversation role, or is hidden. If no model sees
// the text and a person wrote the file, the finding is only a warning.
func InjectionFindings(l *Lesson) []Finding {
	var out []Finding
	for _, p := range textParts(l) {
		severity := Error
		if !p.forModel {
			severity = severityFor(l)
		}
		for _, message := range scanForInjection(p.text) {
			out = append(out, newFinding(l, severity, CodeInvalid, p.field, "%s", message))
		}
	}
	return out
}

func scanForInjection(s string) []string {
	var out []string
	if strings.ContainsAny(s, "\x1b\u009b\u009d") {
		out = append(out, "contains a terminal escape sequence; remove it")
	}
	if hasHidden(s) {
		out = append(out, "contains invisible or direction-changing characters; type the text again")
	}
	v := keepVisible(stripANSI(s))
	if strings.Contains(v, "<!--") {
		out = append(out, "contains an HTML comment; remove it")
	}
	if hasDelimiter(v) {
		out = append(out, "contains a line that opens or closes an inserted block; rephrase it")
	}
	patterns, plain := compiledScan(), lowerCompatible(v)
	role := slices.ContainsFunc([]string{"sys", "assistant", "developer", "human", "function_result", "invoke"}, func(w string) bool { return strings.Contains(plain, w) })
	if speaksAsRole(v) || role && patterns.labels.MatchString(v) || hasLookalikeLabel(v) {
		out = append(out, "imitates a role in the conversation (with a chat-template token, a role tag or a role label); rephrase it")
	}
	if strings.Contains(plain, "data:") && patterns.dataURL.MatchString(plain) {
		out = append(out, "contains a data: URL; remove it")
	}
	return append(out, maliciousInstructions(v)...)
}

// hasLookalikeLabel reports whether a text has a role label, such as "system:", written with look-alike letters from
// other scripts.
func hasLookalikeLabel(v string) bool {
	for line := range strings.Lines(v) {
		head, _, ok := strings.Cut(line, ":")
		head = head[strings.LastIndexAny(head, ".!?")+1:]
		if !ok || len(head) > 64 || strings.IndexFunc(head, func(r rune) bool { return r >= 0x80 }) < 0 {
			continue
		}
		switch confusableSkeleton(head) {
		case confusableSkeleton("system"), confusableSkeleton("assistant"), confusableSkeleton("developer"), confusableSkeleton("human"):
			return true
		}
	}
	return false
}

// occursUnnegated reports whether a pattern matches and there is no negation shortly before the match. A text such as
// "never upload an API key" is valid.
func occursUnnegated(p *regexp.Regexp, text string) bool {
	const reach = 32 // bytes searched for a negation
	for _, m := range p.FindAllStringIndex(text, -1) {
		before := text[max(0, m[0]-reach):m[0]]
		before = before[strings.LastIndexAny(before, ".!?;:")+1:]
		if !compiledScan().negation.MatchString(before) {
			return true
		}
	}
	return false
}

// hasHidden reports whether a text has invisible characters outside an emoji.
func hasHidden(s string) bool {
	const firstSymbol, emojiStyle, joiner = 0x2190, 0xFE0F, 0x200D
	last := rune(0)
	for _, r := range s {
		emoji := (r == emojiStyle || r == joiner) && (last >= firstSymbol || unicode.IsDigit(last))
		if isHidden(r) && !emoji && r != '\n' && r != '\r' && r != '\t' && r != '\x1b' {
			return true
		}
		last = r
	}
	return false
}

// scanPatterns holds scanForInjection's patterns that are not in roleForms or orders.txt.
type scanPatterns struct{ labels, dataURL, negation *regexp.Regexp }

//nolint:gochecknoglobals // immutable, compiled at first use
var compiledScan = sync.OnceValue(func() *scanPatterns {
	return &scanPatterns{
		labels: regexp.MustCompile(`[.!?]\s+[*>_-]*\s*(?:System|SYSTEM|Assistant|ASSISTANT|Developer|Human|HUMAN)[*_]*\s*[:：]|[.!?]\s+(?:\*\*|> |- )?system\s*:\s` +
			`|(?i:#{2,}\s*system (?:prompt|message)\b)|(?i:<+\s*/?\s*(?:sys|function_results?|invoke)\b[^<>\n]{0,80}>)`),
		dataURL:  regexp.MustCompile(`\bdata:\s*[a-z]+/[a-z0-9.+-]+\s*[;,]|data:[a-z]+/[a-z0-9.+-]+;base64,`),
		negation: regexp.MustCompile(`\b(?:never|not|don't|avoid|without|no|cannot|must not|refuse to|instead of)\b`),
	}
})
