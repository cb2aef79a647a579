package store

import (
	"context"
	"strings"
	"unicode/utf8"

	"precept/detect"
	"precept/internal/sample"
	"precept/internal/session"
)

// around is how much of a text is shown before and behind a hit, in bytes.
const around = 80

// Found is where a search hit.
type Found struct {
	Turn int    `json:"turn"`
	Role string `json:"role"`
	Text string `json:"text"` // around the hit
}

// search reads a session for what is searched. Of several things that are searched, all must be in
// it; what is shown is the hit of the first.
func (a *Archive) search(ctx context.Context, l *session.Listed, h hunt) (*Found, bool, error) {
	ex, err := a.be.Exchanges(ctx, l.Tenant, l.ID)
	if err != nil {
		return nil, false, err
	}
	r := sample.NewReading()
	for i := range ex {
		e := &ex[i]
		if a.veiledNow(e) {
			continue
		}
		for _, said := range append(r.Request(e), r.Reply(e)...) {
			h.look(e.Turn, &said)
		}
		if e.Reply.Error != "" {
			h.failure.look(e.Turn, "upstream", e.Reply.Error)
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

// hunt is what is searched in a session, each with its first hit.
type hunt struct{ words, tool, failure target }

func newHunt(words, tool, failure string) hunt {
	of := func(text string) target { return target{text: strings.ToLower(text)} }
	return hunt{words: of(words), tool: of(tool), failure: of(failure)}
}

type target struct {
	text  string // lower case
	found *Found
}

func (t *target) look(turn int, role, text string) {
	if t.text == "" || t.found != nil {
		return
	}
	if at := strings.Index(strings.ToLower(text), t.text); at >= 0 {
		t.found = &Found{Turn: turn, Role: role, Text: excerpt(text, at, len(t.text))}
	}
}

func (h *hunt) look(turn int, said *sample.Said) {
	switch said.Role {
	case sample.EventCall:
		h.tool.look(turn, said.Role, said.Call.Name)
		h.words.look(turn, said.Role, said.Call.Args)
	case sample.SaidResult:
		h.words.look(turn, said.Role, said.Text)
		if h.failure.text != "" && h.failure.found == nil &&
			detect.Classify(said.Call.Name, said.Call.Args, said.Text, said.IsError).Outcome == detect.Error {
			h.failure.look(turn, said.Role, said.Text)
		}
	default:
		h.words.look(turn, said.Role, said.Text)
	}
}

// excerpt is the text around a hit, on one line. Lower case may have another length than what it
// was made of: the cut goes where a character begins.
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
