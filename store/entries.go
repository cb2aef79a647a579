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

// Entry is one message of an exchange. The messages of the request come in the order in which the model read them, then
// those of the reply.
type Entry struct {
	Kind       string   `json:"kind"`              // system, tools, user, assistant, call, result, other, block, withheld or error
	Text       string   `json:"text,omitempty"`    // text, or arguments of a call
	CutBytes   int      `json:"cut,omitempty"`     // bytes of the text that are left out
	Tool       string   `json:"tool,omitempty"`    // tool of a call or a result
	CallID     string   `json:"call_id,omitempty"` // id of a call or a result
	Outcome    string   `json:"outcome,omitempty"` // outcome of a result: ok, error, pending or refusal
	Rule       string   `json:"rule,omitempty"`    // rule that found the outcome
	Slugs      []string `json:"slugs,omitempty"`   // lessons of a block, or withheld lessons
	Loop       bool     `json:"loop,omitempty"`    // the block or the withheld lesson is a loop warning
	Reinserted bool     `json:"again,omitempty"`   // block that was inserted again after the agent compacted its history
	Propensity float64  `json:"chance,omitempty"`  // propensity of a withheld lesson, its probability of injection
	Why        string   `json:"why,omitempty"`     // why a lesson was withheld: withheld (at random) or control (the session is a control session)
}

// The kinds of an Entry, in addition to the roles of messages.
const (
	KindBlock    = "block"
	KindWithheld = "withheld"
	KindError    = "error"
)

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

func entriesOf(messages []sample.Message) []Entry {
	var out []Entry
	for i := range messages {
		out = append(out, entryOf(&messages[i]))
	}
	return out
}

func entryOf(x *sample.Message) Entry {
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

// withInsertions returns the entries of a request, with inserted blocks and withheld lessons. A block or a withheld
// lesson stands where the model read it, or would have read it: before the user's text, before a tool's result, or
// after the system prompt.
func withInsertions(request []sample.Message, blocks []session.Block, e *sample.Exchange, r *redact.Redactor) []Entry {
	list := entriesOf(request)
	newestUser := -1 // -1 means no text of the user
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

// insertionIndex returns the index of the entry before which a block was inserted; -1 means before all entries.
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

// blockEntry returns the entry of a block. A loop warning quotes a call of the agent, and is redacted.
func blockEntry(b *session.Block, r *redact.Redactor) Entry {
	e := Entry{Kind: KindBlock, Text: b.Text, Slugs: b.Slugs, Loop: b.Loop, Reinserted: b.Supersedes}
	if b.Loop {
		r.Reset()
		e.Text = r.Text(b.Text)
		e.Slugs = []string{trial.LoopArm.Slug()}
	}
	return e
}
