package sample

import (
	"encoding/json"
	"slices"

	"precept/internal/wire"
)

func (e *Exchange) items(previous *Reply) []*wire.Item {
	stored := wire.StoredItems[json.RawMessage]{Dialect: wire.DialectNamed(e.Dialect), Items: e.New, From: e.FirstNew}
	if previous != nil {
		stored.ModelText = previous.Text
	}
	return stored.Read()
}

// judgementsOn returns the turn's judgements on the results in items, or nil if the number of results differs.
func (e *Exchange) judgementsOn(items []*wire.Item) *ResultJudgements {
	results := 0
	for _, it := range items {
		results += len(it.Results)
	}
	if e.ResultJudgements == nil || e.ResultJudgements.Results != results {
		return nil
	}
	return e.ResultJudgements
}

// calls returns the reply's calls. A call without an id gets the id that package wire generates for the call's position
// in the history.
func (e *Exchange) calls() []Call {
	out := slices.Clone(e.Reply.Calls)
	for n := range out {
		if out[n].ID == "" {
			out[n].ID = wire.GeneratedCallID(e.FirstNew+len(e.New), n)
		}
	}
	return out
}

func hasModelOutput(it *wire.Item) bool {
	return it.Role == wire.RoleAssistant && (it.Text != "" || len(it.Calls) > 0)
}

// Some agents write calls and results as text. An Event represents such a call, but a conversation contains the text
// itself. The following functions therefore leave out calls and results that were written as text.

func nativeCalls(it *wire.Item) []Call {
	var out []Call
	for i := range it.Calls {
		if !it.Calls[i].IsText() {
			out = append(out, Call(it.Calls[i]))
		}
	}
	return out
}

func nativeResults(it *wire.Item) []wire.Result {
	return slices.DeleteFunc(slices.Clone(it.Results), func(r wire.Result) bool { return r.InUserText })
}

// messageText returns an item's text. If an item has results, text other than the user's words is an agent's note,
// and is left out.
func messageText(it *wire.Item) string {
	if it.Role == wire.RoleTool || it.Role == wire.RoleUser && it.UserText == "" && len(nativeResults(it)) > 0 {
		return ""
	}
	return it.Text
}
