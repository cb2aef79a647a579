package lesson

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// deadPhraseFindings returns a finding for each phrase that can never match.
func deadPhraseFindings(l *Lesson) []Finding {
	var out []Finding
	for _, p := range phrases(&l.Trigger) {
		read := readPhrase(p.text, l.Form)
		why := ""
		switch {
		case !strings.ContainsFunc(read.key, func(r rune) bool { return kindOf(r) != signKind }):
			why = "holds no letter or digit"
		case !read.fires() && !isStopWord(read.key):
			why = "is a single letter"
		case hasBlob(p.text):
			why = "looks like encoded data, which is not searched"
		case !strings.Contains(p.text, "*") && slices.ContainsFunc(l.Trigger.NotKeywords, func(veto string) bool { return phraseMatches(veto, p.text, l.Form) }):
			why = "is vetoed by a not_keyword of the lesson"
		default:
			continue
		}
		out = append(out, newFinding(l, Warning, codeDead, p.field, "%q %s, so it never fires; rewrite or remove it", p.text, why))
	}
	return out
}

func hasBlob(s string) bool {
	runs := strings.FieldsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf || !isBlobByte(byte(r)) })
	return slices.ContainsFunc(runs, isBlob)
}

// selfMatchFindings returns a finding for each keyword that occurs in the lesson's own text. Such a keyword triggers
// the lesson whenever a text quotes the lesson.
func selfMatchFindings(l *Lesson) []Finding {
	shown := l.Text()
	own := shown.Title + "\n" + strings.Join(shown.Lines(MaxAdvice), "\n")
	var out []Finding
	for _, p := range phrases(&l.Trigger) {
		if strings.Contains(p.field, ".keywords[") && phraseMatches(p.text, own, l.Form) {
			out = append(out, newFinding(l, Warning, CodeSelfMatch, p.field,
				"the lesson's own text contains %q, so quoting the lesson fires it; take the user's words for keywords", p.text))
		}
	}
	return out
}

// phraseMatches reports whether a phrase matches a text.
func phraseMatches(phrase, text string, form Form) bool {
	return phraseMatchesAny(phrase, form, [][]byte{appendText(nil, text)})
}

// isIn reports whether a folded text contains the phrase.
func (p *phrase) isIn(text []byte) bool {
	longest, tries := p.pieces[p.longest], 0
	for from := 0; ; from++ {
		at := bytes.Index(text[from:], longest)
		if at < 0 {
			return false
		}
		from += at
		if p.endsAt(text, from+len(longest), &tries) {
			return true
		}
	}
}
