package store

import (
	"context"
	"strings"
	"unicode/utf8"

	"precept/detect"
	"precept/internal/sample"
	"precept/internal/session"
)

// excerptMargin is the number of bytes shown before and after a hit in an excerpt.
const excerptMargin = 80

// Found is the first search hit in a session.
type Found struct {
	Turn int    `json:"turn"`
	Role string `json:"role"`
	Text string `json:"text"` // excerpt with the hit
}

// search searches a session for the texts in s (words, tool name, failure), and reports whether all non-empty texts
// were found. The returned hit is the first one for s.words or, if s has no words, for s.failure or s.tool.
func (a *Archive) search(ctx context.Context, l *session.ListedSession, s textSearch) (*Found, bool, error) {
	exchanges, err := a.exchanges(ctx, l.Row.Tenant, l.Row.ID)
	if a.reportIfDamaged(l.Row.Tenant, l.Row.ID, err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	r, hidden := sample.NewMessageReader(), a.optOut.Load().HiddenExchanges(exchanges)
	for i := range exchanges {
		e := &exchanges[i]
		if hidden[i] {
			continue
		}
		for _, message := range append(r.Request(e), r.Reply(e)...) {
			s.search(e.Turn, &message)
		}
		if e.Reply.Error != "" {
			s.failure.recordHit(e.Turn, "upstream", e.Reply.Error)
		}
	}
	var found *Found
	for _, t := range []*searchedText{&s.words, &s.failure, &s.tool} {
		if t.lowerText != "" && t.found == nil {
			return nil, false, nil
		}
		if found == nil {
			found = t.found
		}
	}
	return found, true, nil
}

type textSearch struct{ words, tool, failure searchedText }

func newTextSearch(words, tool, failure string) textSearch {
	lowered := func(text string) searchedText { return searchedText{lowerText: strings.ToLower(text)} }
	return textSearch{words: lowered(words), tool: lowered(tool), failure: lowered(failure)}
}

type searchedText struct {
	lowerText string
	found     *Found // first hit; nil means no hit so far
}

func (t *searchedText) recordHit(turn int, role, text string) {
	if t.lowerText == "" || t.found != nil {
		return
	}
	if offset := strings.Index(strings.ToLower(text), t.lowerText); offset >= 0 {
		t.found = &Found{Turn: turn, Role: role, Text: excerpt(text, offset, len(t.lowerText))}
	}
}

func (s *textSearch) search(turn int, message *sample.Message) {
	switch message.Role {
	case sample.EventCall:
		s.tool.recordHit(turn, message.Role, message.Call.Name)
		s.words.recordHit(turn, message.Role, message.Call.Args)
	case sample.MessageResult:
		s.words.recordHit(turn, message.Role, message.Text)
		if s.failure.lowerText != "" && s.failure.found == nil &&
			detect.Classify(message.Call.Name, message.Call.Args, message.Text, message.IsError).Outcome == detect.Error {
			s.failure.recordHit(turn, message.Role, message.Text)
		}
	default:
		s.words.recordHit(turn, message.Role, message.Text)
	}
}

// excerpt returns the text around a hit, on one line. offset and length refer to the lower-case text, which can be
// longer than the text.
func excerpt(text string, offset, length int) string {
	from, to := max(0, min(offset, len(text))-excerptMargin), min(len(text), offset+length+excerptMargin)
	for from > 0 && !utf8.RuneStart(text[from]) {
		from--
	}
	for to < len(text) && !utf8.RuneStart(text[to]) {
		to++
	}
	out := strings.Join(strings.Fields(text[from:to]), " ")
	if from > 0 {
		out = "…" + out
	}
	if to < len(text) {
		out += "…"
	}
	return out
}
