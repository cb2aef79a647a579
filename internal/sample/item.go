package sample

import (
	"encoding/json"
	"slices"

	"precept/internal/wire"
)

// items reads what the agent sent anew in the exchange; before is the reply that the session's last
// exchange ended with, nil for none.
func (e *Exchange) items(before *Reply) []*wire.Item {
	kept := wire.Kept[json.RawMessage]{Dialect: wire.DialectNamed(e.Dialect), Items: e.New, From: e.NewFrom}
	if before != nil {
		kept.Said = before.Text
	}
	return kept.Read()
}

// calls are the reply's calls. One that has no id on the wire is named by its place, as wire names
// it when the agent gives it back.
func (e *Exchange) calls() []Call {
	out := slices.Clone(e.Reply.Calls)
	for n := range out {
		if out[n].ID == "" {
			out[n].ID = wire.UnnamedCall(e.NewFrom+len(e.New), n)
		}
	}
	return out
}

// speaks says whether the model says something in the item, or calls a tool.
func speaks(it *wire.Item) bool {
	return it.Role == wire.RoleAssistant && (it.Text != "" || len(it.Calls) > 0)
}

// The calls and results that stand in texts are what happened, but nobody said them: whoever tells
// a conversation as it was spoken tells the texts.

// spokenCalls are the calls of an item that do not stand in its text.
func spokenCalls(it *wire.Item) []Call {
	var out []Call
	for i := range it.Calls {
		if !it.Calls[i].IsWritten() {
			out = append(out, Call(it.Calls[i]))
		}
	}
	return out
}

// spokenResults are the results of an item that do not stand in its text.
func spokenResults(it *wire.Item) []wire.Result {
	return slices.DeleteFunc(slices.Clone(it.Results), func(r wire.Result) bool { return r.Written })
}

// spokenText is the text of an item; beside results it is a person's only where it holds words.
func spokenText(it *wire.Item) string {
	if it.Role == wire.RoleTool || it.Role == wire.RoleUser && it.Words == "" && len(spokenResults(it)) > 0 {
		return ""
	}
	return it.Text
}
