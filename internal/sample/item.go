package sample

import (
	"encoding/json"
	"slices"

	"precept/internal/wire"
)

// items parses the new items of the exchange. before is the last reply of the session, nil for
// none.
func (e *Exchange) items(before *Reply) []*wire.Item {
	kept := wire.Kept[json.RawMessage]{Dialect: wire.DialectNamed(e.Dialect), Items: e.New, From: e.NewFrom}
	if before != nil {
		kept.ModelText = before.Text
	}
	return kept.Read()
}

// verdictsOn returns the verdicts of the turn on the results of items, nil where the turn has not
// judged exactly these results.
func (e *Exchange) verdictsOn(items []*wire.Item) *Verdicts {
	results := 0
	for _, it := range items {
		results += len(it.Results)
	}
	if e.Verdicts == nil || e.Verdicts.Results != results {
		return nil
	}
	return e.Verdicts
}

// calls returns the calls of the reply. A call without an id is named by its position, as wire
// names the call in the history.
func (e *Exchange) calls() []Call {
	out := slices.Clone(e.Reply.Calls)
	for n := range out {
		if out[n].ID == "" {
			out[n].ID = wire.UnnamedCall(e.NewFrom+len(e.New), n)
		}
	}
	return out
}

// hasModelOutput reports whether the item contains words or a tool call of the model.
func hasModelOutput(it *wire.Item) bool {
	return it.Role == wire.RoleAssistant && (it.Text != "" || len(it.Calls) > 0)
}

// Calls and results inside texts are part of the events, and the texts contain them already: a
// conversation lists the texts.

// spokenCalls returns the calls of an item outside of its text.
func spokenCalls(it *wire.Item) []Call {
	var out []Call
	for i := range it.Calls {
		if !it.Calls[i].IsText() {
			out = append(out, Call(it.Calls[i]))
		}
	}
	return out
}

// spokenResults returns the results of an item outside of its text.
func spokenResults(it *wire.Item) []wire.Result {
	return slices.DeleteFunc(slices.Clone(it.Results), func(r wire.Result) bool { return r.InUserText })
}

// spokenText returns the text of an item; a text next to results belongs to a person only if the
// text contains words.
func spokenText(it *wire.Item) string {
	if it.Role == wire.RoleTool || it.Role == wire.RoleUser && it.Words == "" && len(spokenResults(it)) > 0 {
		return ""
	}
	return it.Text
}
