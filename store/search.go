package store

import (
	"context"
	"strings"
	"unicode/utf8"

	"precept/detect"
	"precept/internal/sample"
	"precept/internal/session"
)

// around is the number of bytes that an excerpt shows before and after a hit.
const around = 80

// Found is the first hit of a search in a session.
type Found struct {
	Turn int    `json:"turn"`
	Role string `json:"role"`
	Text string `json:"text"` // excerpt with the hit
}

// search looks for words, tool and error in the exchanges of a session, and reports whether all of
// them were found. The result is the hit of the first.
func (a *Archive) search(ctx context.Context, l *session.Listed, h hits) (*Found, bool, error) {
	ex, err := a.exchanges(ctx, l.Row.Tenant, l.Row.ID)
	if err != nil {
		return nil, false, err
	}
	r, hidden := sample.NewReading(), a.optOut.Load().Hidden(ex)
	for i := range ex {
		e := &ex[i]
		if hidden[i] {
			continue
		}
		for _, message := range append(r.Request(e), r.Reply(e)...) {
			h.search(e.Turn, &message)
		}
		if e.Reply.Error != "" {
			h.failure.record(e.Turn, "upstream", e.Reply.Error)
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

// newHits returns the hits of a query, none yet.
func newHits(words, tool, failure string) hits {
	of := func(text string) target { return target{text: strings.ToLower(text)} }
	return hits{words: of(words), tool: of(tool), failure: of(failure)}
}

// target is one searched text.
type target struct {
	text  string // lower case
	found *Found
}

// record records the first hit.
func (t *target) record(turn int, role, text string) {
	if t.text == "" || t.found != nil {
		return
	}
	if at := strings.Index(strings.ToLower(text), t.text); at >= 0 {
		t.found = &Found{Turn: turn, Role: role, Text: excerpt(text, at, len(t.text))}
	}
}

// search looks at one message of an exchange.
func (h *hits) search(turn int, said *sample.Message) {
	switch said.Role {
	case sample.EventCall:
		h.tool.record(turn, said.Role, said.Call.Name)
		h.words.record(turn, said.Role, said.Call.Args)
	case sample.MessageResult:
		h.words.record(turn, said.Role, said.Text)
		if h.failure.text != "" && h.failure.found == nil &&
			detect.Classify(said.Call.Name, said.Call.Args, said.Text, said.IsError).Outcome == detect.Error {
			h.failure.record(turn, said.Role, said.Text)
		}
	default:
		h.words.record(turn, said.Role, said.Text)
	}
}

// excerpt returns the text around a hit, on one line. The cuts are between characters: at and n are
// places in the lower-case text, whose length may differ.
func excerpt(text string, at, n int) string {
	from, to := max(0, min(at, len(text))-around), min(len(text), at+n+around)
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
