package backtest

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode"

	"precept/inject/lesson"
)

// Limits for proposed phrases.
const (
	nearShare      = 0.7 // minimum likeness for a near miss, relative to the match threshold
	maxProposals   = 10
	maxPhraseWords = 6
	broadShare     = 0.1 // a phrase in a larger share of the sessions is too broad
	maxExcerpt     = 160 // bytes
)

// PhraseProposal is a new phrase for a lesson. It comes from captured sentences that are similar to the lesson but do
// not match it.
type PhraseProposal struct {
	Number   int             `json:"number"` // from 1, for --accept
	By       string          `json:"by"`     // "near_misses", "judge" or "person"
	Phrase   string          `json:"phrase"`
	Score    float64         `json:"score"` // highest score among sentences with the phrase
	Words    []string        `json:"words"` // words that the sentence and the lesson share
	Matched  int             `json:"fired"` // sessions with the phrase
	Sessions int             `json:"sessions"`
	Examples []PhraseExample `json:"examples"`
}

// PhraseExample is a session with a proposed phrase.
type PhraseExample struct {
	Session string `json:"session"`
	Excerpt string `json:"excerpt"`
}

// CapturedSession holds the matcher's input for one session.
type CapturedSession struct {
	Name    string
	Queries []lesson.Query
}

// NearMisses returns the sentences that are similar to a lesson, without duplicates, the most similar first. It skips
// texts that match the lesson. book contains the lesson and its threshold.
func NearMisses(book *lesson.Book, target *lesson.Lesson, sessions []CapturedSession) []lesson.Resemblance {
	exact := lesson.NewBook([]*lesson.Lesson{withoutRoles(target)})
	var out []lesson.Resemblance
	seen := map[string]bool{}
	for i := range sessions {
		for j := range sessions[i].Queries {
			q := &sessions[i].Queries[j]
			if t := target.Scope.Tenant; t != "" && q.Tenant != t || len(exact.Match(q)) > 0 {
				continue
			}
			for _, r := range book.Likeness(q, target.Slug, nearShare) {
				if !seen[r.Window] {
					seen[r.Window] = true
					out = append(out, r)
				}
			}
		}
	}
	slices.SortStableFunc(out, func(a, b lesson.Resemblance) int { return cmp.Compare(b.Score, a.Score) })
	return out
}

// ProposePhrases proposes phrases from a lesson's near misses.
func ProposePhrases(near []lesson.Resemblance, sessions []CapturedSession) []PhraseProposal {
	found := map[string]*PhraseProposal{}
	for i := range near {
		r := &near[i]
		if phrase := phraseBetween(r.Window, r.Words); phrase != "" && found[phrase] == nil {
			found[phrase] = &PhraseProposal{Phrase: phrase, By: "near_misses", Score: r.Score, Words: r.Words}
		}
	}
	var out []PhraseProposal
	for _, phrase := range slices.Sorted(maps.Keys(found)) {
		p := found[phrase]
		p.countSessions(sessions)
		if p.Matched > 0 && !p.IsBroad() {
			out = append(out, *p)
		}
	}
	slices.SortStableFunc(out, func(a, b PhraseProposal) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.Matched, a.Matched))
	})
	out = out[:min(len(out), maxProposals)]
	for i := range out {
		out[i].Number = i + 1
	}
	return out
}

// NewPhraseProposal returns a proposal for a phrase from a judge or a person, with the sessions that contain the
// phrase.
func NewPhraseProposal(phrase, by string, sessions []CapturedSession) PhraseProposal {
	p := PhraseProposal{Phrase: phrase, By: by, Words: []string{}}
	p.countSessions(sessions)
	return p
}

// IsBroad reports whether the phrase occurs in too many sessions.
func (p *PhraseProposal) IsBroad() bool {
	return float64(p.Matched) > max(1, broadShare*float64(p.Sessions))
}

func (p *PhraseProposal) countSessions(sessions []CapturedSession) {
	book := lesson.NewBook([]*lesson.Lesson{{Slug: "proposal", State: lesson.Active, Trigger: lesson.Trigger{Keywords: []string{p.Phrase}}}})
	p.Sessions, p.Examples = len(sessions), []PhraseExample{}
	for i := range sessions {
		first := slices.IndexFunc(sessions[i].Queries, func(q lesson.Query) bool { return len(book.Match(&q)) > 0 })
		if first < 0 {
			continue
		}
		p.Matched++
		if len(p.Examples) < maxExamples {
			p.Examples = append(p.Examples, PhraseExample{sessions[i].Name, excerpt(&sessions[i].Queries[first], p.Phrase)})
		}
	}
}

// phraseBetween returns the sentence's words from the first to the last word in shared, but at most maxPhraseWords. If
// only one word is shared, it adds the next word; if there is no next word, the result is empty.
func phraseBetween(sentence string, shared []string) string {
	words := strings.FieldsFunc(sentence, unicode.IsSpace)
	first, last := -1, -1
	for i, w := range words {
		words[i] = strings.TrimFunc(w, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
		if slices.ContainsFunc(shared, func(s string) bool { return strings.Contains(words[i], s) }) {
			last = i
			if first < 0 {
				first = i
			}
		}
	}
	if first < 0 {
		return ""
	}
	for last-first+1 > maxPhraseWords { // drop words from the end, because the first word is usually the verb
		last--
	}
	if first == last && last+1 < len(words) {
		last++
	}
	if first == last {
		return ""
	}
	return strings.ToLower(strings.Join(words[first:last+1], " "))
}

// excerpt returns the text around the phrase or, if no text has the phrase, the start of the first text.
func excerpt(q *lesson.Query, phrase string) string {
	texts := slices.Clone(q.Words)
	for i := range q.Errors {
		texts = append(texts, q.Errors[i].Text)
	}
	for _, text := range texts {
		for line := range strings.Lines(text) {
			if at := strings.Index(strings.ToLower(line), phrase); at >= 0 {
				from := max(0, min(at, len(line))-maxExcerpt/4)
				return firstBytes(line[from:], maxExcerpt)
			}
		}
	}
	return firstBytes(texts[0], maxExcerpt)
}

// firstBytes returns at most limit bytes of text, without an incomplete character at the end.
func firstBytes(text string, limit int) string {
	return strings.TrimSpace(strings.ToValidUTF8(text[:min(len(text), limit)], ""))
}
