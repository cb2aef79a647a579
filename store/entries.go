package store

import (
	"slices"
	"unicode/utf8"

	"precept/bandit/trial"
	"precept/detect"
	"precept/internal/redact"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/internal/wire"
)

// Entry is one thing of an exchange: in the order in which the model read it, then what it
// answered.
type Entry struct {
	Kind    string   `json:"kind"`              // system, user, assistant, call, result, other, block, withheld or error
	Text    string   `json:"text,omitempty"`    // of a call, its arguments
	Cut     int      `json:"cut,omitempty"`     // so many bytes of the text are left out
	Tool    string   `json:"tool,omitempty"`    // of a call or a result
	CallID  string   `json:"call_id,omitempty"` //
	Outcome string   `json:"outcome,omitempty"` // of a result: ok, error, pending or refusal
	Rule    string   `json:"rule,omitempty"`    // by which that was seen
	Slugs   []string `json:"slugs,omitempty"`   // of a block, or of what was withheld
	Loop    bool     `json:"loop,omitempty"`    // a loop warning
	Again   bool     `json:"again,omitempty"`   // inserted anew: the agent had compacted its history
	Chance  float64  `json:"chance,omitempty"`  // of what was withheld: the chance that it was inserted
	Why     string   `json:"why,omitempty"`     // of what was withheld: withheld (by its coin) or control (by the session's)
}

// The kinds of an Entry beside the roles of what was said.
const (
	KindBlock    = "block"
	KindWithheld = "withheld"
	KindError    = "error"
)

// maxText is how much of one text is shown, in bytes.
const maxText = 32 << 10

// cut shortens a text that is too long for a page, at the end of a character.
func (e *Entry) cut() {
	if len(e.Text) <= maxText {
		return
	}
	n := maxText
	for n > 0 && !utf8.RuneStart(e.Text[n]) {
		n--
	}
	e.Cut, e.Text = len(e.Text)-n, e.Text[:n]
}

// entriesOf makes entries of what was said.
func entriesOf(list []sample.Said) []Entry {
	var out []Entry
	for i := range list {
		out = append(out, entryOf(&list[i]))
	}
	return out
}

func entryOf(x *sample.Said) Entry {
	e := Entry{Kind: x.Role, Text: x.Text, Tool: x.Call.Name, CallID: x.Call.ID}
	switch x.Role {
	case sample.EventCall:
		e.Text = x.Call.Args
	case sample.SaidResult:
		v := detect.Classify(x.Call.Name, x.Call.Args, x.Text, x.IsError)
		e.Outcome, e.Rule = string(v.Outcome), v.Rule
	}
	return e
}

// withInsertions puts what precept inserted in the turn, and what its coins kept back, to the place
// where it stood or would have stood: before the user's words, at the top of a tool's answer, or
// behind the prompt.
func withInsertions(request []sample.Said, blocks []session.Block, e *sample.Exchange, r *redact.Redactor) []Entry {
	list := entriesOf(request)
	words := -1 // the newest of the user's words
	for i := range list {
		if list[i].Kind == sample.EventUser {
			words = i
		}
	}
	before := map[int][]Entry{}
	for i := range blocks {
		if b := &blocks[i]; b.Turn == e.Turn {
			at := placeOf(b, list, words)
			before[at] = append(before[at], blockEntry(b, r))
		}
	}
	for _, l := range e.Lessons {
		if l.State != "withheld" && l.State != "control" {
			continue
		}
		at := words
		if i := slices.IndexFunc(list, func(e Entry) bool { return e.Kind == sample.SaidResult }); at < 0 || l.Slug == trial.LoopArm.Slug() && i >= 0 {
			at = i
		}
		before[at] = append(before[at], Entry{
			Kind: KindWithheld, Slugs: []string{l.Slug}, Loop: l.Slug == trial.LoopArm.Slug(), Chance: l.Propensity, Why: l.State,
		})
	}
	out := before[-1]
	for i := range list {
		out = append(append(out, before[i]...), list[i])
	}
	return out
}

// placeOf is the entry before which a block stood, -1 for the top.
func placeOf(b *session.Block, list []Entry, words int) int {
	switch {
	case b.Anchor.CallID != "":
		return slices.IndexFunc(list, func(e Entry) bool { return e.Kind == sample.SaidResult && e.CallID == b.Anchor.CallID })
	case b.Anchor.Role == wire.RoleSystem:
		return slices.IndexFunc(list, func(e Entry) bool { return e.Kind != sample.SaidSystem })
	default:
		return words
	}
}

// blockEntry shows a block. A loop warning quotes the agent's own call, which is redacted like
// everything that it said.
func blockEntry(b *session.Block, r *redact.Redactor) Entry {
	e := Entry{Kind: KindBlock, Text: b.Text, Slugs: b.Slugs, Loop: b.Loop, Again: b.Again}
	if b.Loop {
		r.Fresh()
		e.Text = r.Text(b.Text)
		e.Slugs = []string{trial.LoopArm.Slug()}
	}
	return e
}
