package sample

import (
	"encoding/json"
	"slices"

	"precept/internal/wire"
)

// items parses the new items of the exchange. previous is the previous reply of the session, nil for none.
func (e *Exchange) items(previous *Reply) []*wire.Item {
	stored := wire.StoredItems[json.RawMessage]{Dialect: wire.DialectNamed(e.Dialect), Items: e.New, From: e.FirstNew}
	if previous != nil {
		stored.ModelText = previous.Text
	}
	return stored.Read()
}

// judgementsOn returns the verdicts of the turn on the results of items, nil unless the verdicts are about the same
// number of results.
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

// calls returns the calls of the reply. A call without an id gets the id that package wire derives from the position of
// the call in the history.
func (e *Exchange) calls() []Call {
	out := slices.Clone(e.Reply.Calls)
	for n := range out {
		if out[n].ID == "" {
			out[n].ID = wire.GeneratedCallID(e.FirstNew+len(e.New), n)
		}
	}
	return out
}

// hasModelOutput reports whether the item contains words or a tool call of the model.
func hasModelOutput(it *wire.Item) bool {
	return it.Role == wire.RoleAssistant && (it.Text != "" || len(it.Calls) > 0)
}

// Some agents write calls and results as text in messages. An Event represents such a call, but a conversation contains
// the text itself, so the following functions leave such calls and results out.

// nativeCalls returns the calls of an item that the agent did not write as text.
func nativeCalls(it *wire.Item) []Call {
	var out []Call
	for i := range it.Calls {
		if !it.Calls[i].IsText() {
			out = append(out, Call(it.Calls[i]))
		}
	}
	return out
}

// nativeResults returns the results of an item that are not text of a user message.
func nativeResults(it *wire.Item) []wire.Result {
	return slices.DeleteFunc(slices.Clone(it.Results), func(r wire.Result) bool { return r.InUserText })
}

// messageText returns the text of an item. For an item with results, the result is "" unless the item also has words of
// a person, because any other text next to results is a note of the agent.
func messageText(it *wire.Item) string {
	if it.Role == wire.RoleTool || it.Role == wire.RoleUser && it.UserText == "" && len(nativeResults(it)) > 0 {
		return ""
	}
	return it.Text
}
