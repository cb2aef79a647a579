package lesson

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

func deadPhraseFindings(l *Lesson) []Finding {
	var out []Finding
	for _, p := range triggerPhrases(&l.Trigger) {
		parsed := readPhrase(p.text, l.Form)
		reason := ""
		switch {
		case !strings.ContainsFunc(parsed.key, func(r rune) bool { return classifyRune(r) != punctuationKind }):
			reason = "contains no letter or digit"
		case !parsed.canTrigger() && !isStopWord(parsed.key):
			reason = "is a single letter"
		case hasBlob(p.text):
			reason = "looks like encoded data, which is not searched"
		case !strings.Contains(p.text, "*") && slices.ContainsFunc(l.Trigger.NotKeywords, func(veto string) bool { return phraseMatches(veto, p.text, l.Form) }):
			reason = "is vetoed by one of the lesson's not_keywords"
		case l.Form == FormAIP11 && isFilePattern(p.text):
			out = append(out, newFinding(l, Warning, codeDeadKeyword, p.field,
				"%q has a * that is not next to a letter or digit, so the * is not a wildcard; write %q", p.text, strings.Trim(p.text, "*")))
			continue
		default:
			continue
		}
		out = append(out, newFinding(l, Warning, codeDeadKeyword, p.field, "%q %s, so it never fires; rewrite or remove it", p.text, reason))
	}
	return out
}

// isFilePattern reports whether a text looks like a file pattern, such as "*.proto" or "locales/*". In a phrase, a *
// that is not next to a letter or digit is not a wildcard.
func isFilePattern(text string) bool {
	const separators = "./-_"
	name := strings.Trim(text, "*")
	if name == text || len(name) < 2 || strings.ContainsAny(name, " *") {
		return false
	}
	return strings.HasPrefix(text, "*") && strings.IndexByte(separators, name[0]) >= 0 ||
		strings.HasSuffix(text, "*") && strings.IndexByte(separators, name[len(name)-1]) >= 0
}

func hasBlob(s string) bool {
	runs := strings.FieldsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf || !isBlobByte(byte(r)) })
	return slices.ContainsFunc(runs, isBlob)
}

// selfMatchFindings reports keywords that occur in the lesson's own text. Such a keyword fires whenever somebody quotes
// the lesson.
func selfMatchFindings(l *Lesson) []Finding {
	shown := l.Text()
	ownText := shown.Title + "\n" + strings.Join(shown.Lines(MaxAdvice), "\n")
	var out []Finding
	for _, p := range triggerPhrases(&l.Trigger) {
		if strings.Contains(p.field, ".keywords[") && phraseMatches(p.text, ownText, l.Form) {
			out = append(out, newFinding(l, Warning, CodeSelfMatch, p.field,
				"the lesson's own text contains %q, so quoting the lesson fires it; use words from users' requests as keywords", p.text))
		}
	}
	return out
}

func phraseMatches(phrase, text string, form Form) bool {
	return phraseMatchesAny(phrase, form, [][]byte{appendText(nil, text)})
}

func (p *phrase) occursIn(text []byte) bool {
	longest, steps := p.pieces[p.longest], 0
	for start := 0; ; start++ {
		offset := bytes.Index(text[start:], longest)
		if offset < 0 {
			return false
		}
		start += offset
		if p.endsAt(text, start+len(longest), &steps) {
			return true
		}
	}
}
