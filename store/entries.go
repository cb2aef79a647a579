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

// Entry is one message in an exchange. A list of entries has the request's messages, in the order in which the model
// read them, then the reply's messages.
type Entry struct {
	Kind       string   `json:"kind"`              // system, tools, user, assistant, call, result, other, block, withheld or error
	Text       string   `json:"text,omitempty"`    // text, or a call's arguments
	CutBytes   int      `json:"cut,omitempty"`     // text bytes left out
	Tool       string   `json:"tool,omitempty"`    // called tool
	CallID     string   `json:"call_id,omitempty"` // call id
	Outcome    string   `json:"outcome,omitempty"` // result's outcome: ok, error, pending or refusal
	Rule       string   `json:"rule,omitempty"`    // rule that found the outcome
	Slugs      []string `json:"slugs,omitempty"`   // block's lessons, or withheld lessons
	Loop       bool     `json:"loop,omitempty"`    // the block or the withheld lesson is a loop warning, for an agent that repeats a call
	Reinserted bool     `json:"again,omitempty"`   // block that was inserted again after the agent compacted its history
	Propensity float64  `json:"chance,omitempty"`  // withheld lesson's probability of injection
	Why        string   `json:"why,omitempty"`     // why a lesson was withheld: withheld (at random) or control (the session is a control session)
}

// The kinds of an Entry, in addition to the message roles.
const (
	KindBlock    = "block"
	KindWithheld = "withheld"
	KindError    = "error"
)

// maxTextBytes is the largest text in an Entry. EachPart returns longer texts.
const maxTextBytes = 32 << 10

func (e *Entry) truncate() {
	if len(e.Text) <= maxTextBytes {
		return
	}
	n := maxTextBytes
	for n > 0 && !utf8.RuneStart(e.Text[n]) {
		n--
	}
	e.CutBytes, e.Text = len(e.Text)-n, e.Text[:n]
}

func messageEntries(messages []sample.Message) []Entry {
	var out []Entry
	for i := range messages {
		out = append(out, messageEntry(&messages[i]))
	}
	return out
}

func messageEntry(x *sample.Message) Entry {
	e := Entry{Kind: x.Role, Text: x.Text, Tool: x.Call.Name, CallID: x.Call.ID}
	switch x.Role {
	case sample.EventCall:
		e.Text = x.Call.Args
	case sample.MessageResult:
		v := detect.Classify(x.Call.Name, x.Call.Args, x.Text, x.IsError)
		e.Outcome, e.Rule = string(v.Outcome), v.Rule
	}
	return e
}

// withInsertions returns a request's entries, with inserted blocks and withheld lessons where the model read them, or
// would have read them: before the user's text, before a tool result, or after the system prompt.
func withInsertions(request []sample.Message, blocks []session.Block, e *sample.Exchange, r *redact.Redactor) []Entry {
	list := messageEntries(request)
	newestUser := -1 // -1 means no user text
	for i := range list {
		if list[i].Kind == sample.EventUser {
			newestUser = i
		}
	}
	before := map[int][]Entry{}
	for i := range blocks {
		if b := &blocks[i]; b.Turn == e.Turn {
			insertAt := insertionIndex(b, list, newestUser)
			before[insertAt] = append(before[insertAt], blockEntry(b, r))
		}
	}
	for _, l := range e.Lessons {
		if l.State != "withheld" && l.State != "control" {
			continue
		}
		insertAt := newestUser
		if i := slices.IndexFunc(list, func(e Entry) bool { return e.Kind == sample.MessageResult }); insertAt < 0 || l.Slug == trial.LoopArm.Slug() && i >= 0 {
			insertAt = i
		}
		before[insertAt] = append(before[insertAt], Entry{
			Kind: KindWithheld, Slugs: []string{l.Slug}, Loop: l.Slug == trial.LoopArm.Slug(), Propensity: l.Propensity, Why: l.State,
		})
	}
	out := before[-1]
	for i := range list {
		out = append(append(out, before[i]...), list[i])
	}
	return out
}

// insertionIndex returns the index of the entry after an inserted block; -1 means before all entries.
func insertionIndex(b *session.Block, list []Entry, newestUser int) int {
	switch {
	case b.Anchor.CallID != "":
		return slices.IndexFunc(list, func(e Entry) bool { return e.Kind == sample.MessageResult && e.CallID == b.Anchor.CallID })
	case b.Anchor.Role == wire.RoleSystem:
		return slices.IndexFunc(list, func(e Entry) bool { return e.Kind != sample.MessageSystem && e.Kind != sample.MessageTools })
	default:
		return newestUser
	}
}

// blockEntry returns a block's entry. The text of a loop warning is redacted, because it quotes one of the agent's
// calls.
func blockEntry(b *session.Block, r *redact.Redactor) Entry {
	e := Entry{Kind: KindBlock, Text: b.Text, Slugs: b.Slugs, Loop: b.Loop, Reinserted: b.Supersedes}
	if b.Loop {
		r.Reset()
		e.Text = r.Text(b.Text)
		e.Slugs = []string{trial.LoopArm.Slug()}
	}
	return e
}
