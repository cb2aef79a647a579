package store

import (
	"context"
	"strings"
	"unicode/utf8"

	"precept/detect"
	"precept/internal/sample"
	"precept/internal/session"
)

// excerptMargin is the number of bytes that an excerpt shows before and after a hit.
const excerptMargin = 80

// Found is the first hit of a search in a session.
type Found struct {
	Turn int    `json:"turn"`
	Role string `json:"role"`
	Text string `json:"text"` // excerpt with the hit
}

// search looks for words, tool and error of a query in the exchanges of a session, and reports whether
// each non-empty text was found. The result is the hit of the first of these texts.
func (a *Archive) search(ctx context.Context, l *session.Listed, h hits) (*Found, bool, error) {
	ex, err := a.exchanges(ctx, l.Row.Tenant, l.Row.ID)
	if a.isDamaged(l.Row.Tenant, l.Row.ID, err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	r, hidden := sample.NewReader(), a.optOut.Load().Hidden(ex)
	for i := range ex {
		e := &ex[i]
		if hidden[i] {
			continue
		}
		for _, message := range append(r.Request(e), r.Reply(e)...) {
			h.search(e.Turn, &message)
		}
		if e.Reply.Error != "" {
			h.failure.recordHit(e.Turn, "upstream", e.Reply.Error)
		}
	}
	var found *Found
	for _, t := range []*target{&h.words, &h.failure, &h.tool} {
		if t.text != "" && t.found == nil {
			return nil, false, nil
		}
		if found == nil {
			found = t.found
		}
	}
	return found, true, nil
}

// hits holds the searched texts of a session, each with its first hit.
type hits struct{ words, tool, failure target }

// newHits returns the texts of a query, without a hit.
func newHits(words, tool, failure string) hits {
	targetOf := func(text string) target { return target{text: strings.ToLower(text)} }
	return hits{words: targetOf(words), tool: targetOf(tool), failure: targetOf(failure)}
}

// target is one searched text.
type target struct {
	text  string // lower case
	found *Found
}

// recordHit records a hit if text contains the searched text. Only the first hit is kept.
func (t *target) recordHit(turn int, role, text string) {
	if t.text == "" || t.found != nil {
		return
	}
	if at := strings.Index(strings.ToLower(text), t.text); at >= 0 {
		t.found = &Found{Turn: turn, Role: role, Text: excerpt(text, at, len(t.text))}
	}
}

// search looks for each text in one message of an exchange.
func (h *hits) search(turn int, message *sample.Message) {
	switch message.Role {
	case sample.EventCall:
		h.tool.recordHit(turn, message.Role, message.Call.Name)
		h.words.recordHit(turn, message.Role, message.Call.Args)
	case sample.MessageResult:
		h.words.recordHit(turn, message.Role, message.Text)
		if h.failure.text != "" && h.failure.found == nil &&
			detect.Classify(message.Call.Name, message.Call.Args, message.Text, message.IsError).Outcome == detect.Error {
			h.failure.recordHit(turn, message.Role, message.Text)
		}
	default:
		h.words.recordHit(turn, message.Role, message.Text)
	}
}

// excerpt returns the text around a hit, on one line. The cuts are between characters: at and n are
// places in the lower-case text, whose length may differ.
func excerpt(text string, at, n int) string {
	from, to := max(0, min(at, len(text))-excerptMargin), min(len(text), at+n+excerptMargin)
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
