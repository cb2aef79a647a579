package session

import (
	"slices"
	"strings"
	"time"
	"unicode"

	"precept/internal/wire"
)

// quotationSearch looks for quoted conversations in a request's texts.
type quotationSearch struct {
	hasNoTools   bool
	requiresJSON bool
	requiresCall bool
	toolNames    []uint32 // short hashes
	now          time.Time
	texts        []quotedText
}

type quotedText struct {
	role wire.Role
	text string
}

func (q *quotationSearch) read(req *wire.Request) {
	room := maxSearchedBytes
	for i := 0; i < req.Len() && room > 0; i++ {
		it := req.Item(i)
		text := it.Text[:min(len(it.Text), room)]
		room -= len(text)
		if text != "" {
			q.texts = append(q.texts, quotedText{it.Role, text})
		}
	}
}

// quotes reports whether a text in the request contains a question (the user's words) and an answer from the
// conversation x. If x has no tools, or the request has tools, both must also have equal speaker labels, as in a
// dialogue. In a request for JSON without tools, such as a judge's or a classifier's, a question or an answer is
// enough.
func (q *quotationSearch) quotes(x *fingerprint) bool {
	asked, answered := false, false
	for _, s := range q.texts {
		question, hasQuestion := earliestMatch(x.userWords[:], s.text, 0)
		answer, hasAnswer := latestMatch(x.answers, s.text)
		if hasQuestion && hasAnswer && areDisjoint(question, answer) {
			dialogue := speakerLabel(s.text, question.at) != "" && speakerLabel(s.text, question.at) == speakerLabel(s.text, answer.at)
			if q.hasNoTools && (x.hasTools || dialogue) || !q.hasNoTools && dialogue && (q.requiresCall || endsText(s.text, answer)) {
				return true
			}
		}
		if x.hasTools && q.requiresJSON && (containsPiece(s.text, x.userWords[:]) || containsPiece(s.text, x.answers)) {
			return true
		}
		if (q.requiresJSON || q.requiresCall) && q.now.Sub(x.sideAt) < sideRequestGap && containsPiece(s.text, x.sidePhrases) {
			return true
		}
		asked = asked || hasQuestion && s.role == wire.RoleUser
		answered = answered || hasAnswer && s.role == wire.RoleAssistant
	}
	return q.hasNoTools && x.hasTools && asked && answered
}

type match struct {
	piece textPiece
	at    int
}

// earliestMatch returns the first of parts with at least minBytes bytes that occurs in the text, and the first offset.
func earliestMatch(parts []textPiece, text string, minBytes int) (match, bool) {
	for _, p := range parts {
		if at := strings.Index(text, p.text); at >= 0 && len(p.text) > 0 && len(p.text) >= minBytes {
			return match{p, at}, true
		}
	}
	return match{}, false
}

func containsPiece(text string, parts []textPiece) bool {
	_, ok := earliestMatch(parts, text, minUniqueBytes)
	return ok
}

func latestMatch(parts []textPiece, text string) (match, bool) {
	for _, p := range slices.Backward(parts) {
		if at := strings.LastIndex(text, p.text); at >= 0 && p.text != "" {
			return match{p, at}, true
		}
	}
	return match{}, false
}

// areDisjoint reports whether two matches do not overlap. If an answer repeats the question, the same text must not
// count as both.
func areDisjoint(a, b match) bool {
	return a.at+len(a.piece.text) <= b.at || b.at+len(b.piece.text) <= a.at
}

// endsText reports whether at most a few words, too few for an instruction, follow the answer.
func endsText(text string, b match) bool {
	end := b.at + b.piece.bytesToEnd + b.piece.bytesToEnd/8 // escapes lengthen a quotation
	if b.piece.bytesToEnd == 0 || len(text) > end+maxTailBytes {
		return false
	}
	return len(text) <= end || len(strings.Fields(text[end:])) < tailWordLimit
}

// speakerLabel returns the punctuation at the end of the speaker's label before text[at], or "". Labels are `user:`,
// `<input>`, `== Human ==`, `{"role": "user", "content": "`.
func speakerLabel(text string, at int) string {
	before := text[max(0, at-64):at]
	end := strings.LastIndexFunc(before, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) })
	if end < 0 {
		return ""
	}
	form := strings.Map(func(r rune) rune {
		if strings.ContainsRune(":>]=|\"", r) {
			return r
		}
		return -1
	}, before[end:])
	var b strings.Builder
	for i := range len(form) {
		if i == 0 || form[i] != form[i-1] {
			b.WriteByte(form[i])
		}
	}
	return b.String()
}
