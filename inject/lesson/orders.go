package lesson

import (
	_ "embed"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// The patterns in orders.txt find malicious instructions, such as "ignore your instructions". English patterns are
// precise, because most lessons are English. Patterns for other languages need only a verb and a noun in one sentence.

//go:embed orders.txt
var instructionRulesText string

// instructionRule is a section in orders.txt. The fields are described there.
type instructionRule struct {
	name            string   // "ignore", "steal", "pipe" or "hide"
	forms           []string // text forms to search: "plain", "bare" (without accents) or "squeezed" (skeleton)
	skipsNegated    bool     // a match after a negation does not count
	bySentence      bool     // matched against each sentence
	words           []string // a text that contains none of them does not match; see matchesNonASCII
	matchesNonASCII bool     // a text with a character beyond ASCII can also match
	pattern         *regexp.Regexp
}

type instructionRules struct {
	rules              []instructionRule
	sendVerb, sendNoun *regexp.Regexp // for languages other than English
}

//nolint:gochecknoglobals // immutable, compiled at first use
var injectionRules = sync.OnceValue(func() *instructionRules {
	parts := map[string][]string{}
	var rules instructionRules
	for _, section := range strings.Split(instructionRulesText, "\n[")[1:] { // the first part is a comment
		head, lines, _ := strings.Cut(section, "]\n")
		if head == "parts" {
			for line := range strings.Lines(lines) {
				if name, words, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " = "); ok {
					parts[name] = append(parts[name], words)
				}
			}
		} else if ruleName, options, ok := strings.Cut(head, ": "); ok {
			rules.rules = append(rules.rules, readInstructionRule(ruleName, strings.Split(options, ", "), lines, parts))
		}
	}
	rules.sendVerb = regexp.MustCompile(norm.NFD.String(strings.Join(parts["send foreign"], "|")))
	rules.sendNoun = regexp.MustCompile(norm.NFD.String(strings.Join(parts["secret foreign"], "|")))
	return &rules
})

// readInstructionRule parses a section, and replaces <name> in a pattern by that part's alternatives.
func readInstructionRule(ruleName string, options []string, lines string, parts map[string][]string) instructionRule {
	rule := instructionRule{name: ruleName, forms: options, skipsNegated: slices.Contains(options, "avoided"), bySentence: slices.Contains(options, "by sentence")}
	transform := norm.NFD.String // as in texts without accents; does not change English patterns
	if options[0] == "squeezed" {
		transform = confusableSkeletons
	}
	var names []string
	for name, words := range parts {
		names = append(names, "<"+name+">", transform(strings.Join(words, "|")))
	}
	var patterns []string
	for line := range strings.Lines(lines) {
		line = strings.TrimSuffix(line, "\n")
		if words, ok := strings.CutPrefix(line, "words: "); ok {
			for w := range strings.SplitSeq(words, ", ") {
				rule.matchesNonASCII = rule.matchesNonASCII || w == "beyond ASCII"
				rule.words = append(rule.words, transform(w))
			}
		} else if line != "" && !strings.HasPrefix(line, "// ") {
			patterns = append(patterns, strings.NewReplacer(names...).Replace(norm.NFD.String(line)))
		}
	}
	rule.pattern = regexp.MustCompile(strings.Join(patterns, "|"))
	return rule
}

func confusableSkeletons(words string) string {
	list := strings.Split(words, "|")
	for i := range list {
		list[i] = regexp.QuoteMeta(confusableSkeleton(list[i]))
	}
	return strings.Join(list, "|")
}

// mayContain reports whether a text can match. This cheap test avoids most regular-expression matches.
func (o *instructionRule) mayContain(text string) bool {
	return o.matchesNonASCII && strings.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) ||
		slices.ContainsFunc(o.words, func(w string) bool { return strings.Contains(text, w) })
}

func (o *instructionRule) occursIn(text string) bool {
	if !o.mayContain(text) {
		return false
	}
	texts := []string{text}
	if o.bySentence {
		texts = strings.FieldsFunc(text, func(r rune) bool { return r == ';' || r == '!' || r == '?' })
	}
	return slices.ContainsFunc(texts, func(s string) bool {
		switch {
		case o.bySentence && strings.Contains(s, "header") && !strings.Contains(s, "://"):
			return false // it is normal to send an API key in a request header
		case o.skipsNegated:
			return occursUnnegated(o.pattern, s)
		}
		return o.pattern.MatchString(s)
	})
}

func maliciousInstructions(text string) []string {
	plain := lowerCompatible(text)
	bare := unaccented(plain)
	forms := map[string]string{"plain": plain, "bare": bare, "squeezed": confusableSkeleton(text)}
	found := map[string]bool{"steal": injectionRules().sendsInOtherLanguage(bare)}
	for i := range injectionRules().rules {
		o := &injectionRules().rules[i]
		found[o.name] = found[o.name] || slices.ContainsFunc(o.forms, func(form string) bool { return o.occursIn(forms[form]) })
	}
	var out []string
	for _, w := range [...]struct{ name, message string }{
		{"ignore", "instructs the model to ignore instructions or to take another role; describe what to do in a task instead"},
		{"steal", "instructs the model to send secrets elsewhere; remove it"},
		{"pipe", "instructs the model to run code fetched from the network; remove it"},
		{"hide", "instructs the model to hide something from the user; remove it"},
	} {
		if found[w.name] {
			out = append(out, w.message)
		}
	}
	return out
}

// lowerCompatible returns lower case in compatibility form, with single spaces.
func lowerCompatible(s string) string {
	return strings.Join(strings.Fields(strings.ToLower(norm.NFKC.String(s))), " ")
}

// unaccented removes accents, and replaces underscores with spaces.
func unaccented(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '_':
			return ' '
		case unicode.Is(unicode.Mn, r) && r < 0x0900: // marks above U+0900 are letters
			return -1
		}
		return r
	}, norm.NFD.String(s))
}

// sendsInOtherLanguage reports whether bare, a text without accents in a language other than English, has an address
// near a verb for sending and a word for a secret.
func (b *instructionRules) sendsInOtherLanguage(bare string) bool {
	const reach = 160 // bytes before and after the address
	if !strings.Contains(bare, "http") && !strings.Contains(bare, "@") {
		return false
	}
	return slices.ContainsFunc(addresses().FindAllStringIndex(bare, -1), func(m []int) bool {
		near := strings.ToValidUTF8(bare[max(0, m[0]-reach):min(len(bare), m[1]+reach)], "")
		return b.sendVerb.MatchString(near) && b.sendNoun.MatchString(near)
	})
}

//nolint:gochecknoglobals // immutable, compiled at first use
var addresses = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`https?://|\b[\w.]+@[\w-]+\.\w+`) })
