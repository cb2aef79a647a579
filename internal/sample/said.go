package sample

import (
	"slices"

	"precept/internal/wire"
)

// said is the content of the new items of an exchange: the part of the items that Build reads.
type said struct {
	words   string // newest words of a person
	worked  bool   // an item has output of the model, or a result
	entries []entry
}

// entry is a message, a call or a result in an item.
type entry struct {
	role    string // role of an Event, or entryResult
	text    string // message or result
	call    Call   // call; of a result, only the id
	isError int8   // of a result: see Event
	verdict verdict
}

// entryResult is the role of a result.
const entryResult = "result"

// verdict is the judgement of a result.
type verdict uint8

const (
	unjudged verdict = iota
	succeeded
	failed
)

func verdictOf(isFailed bool) verdict {
	if isFailed {
		return failed
	}
	return succeeded
}

// say returns the content of the new items. first reports that no exchange is before e; the model's
// messages of a later exchange repeat replies, and are left out.
func (e *Exchange) say(items []*wire.Item, first bool) *said {
	out := &said{words: lastWords(items)}
	verdicts, place := e.verdictsOn(items), 0
	for _, it := range items {
		out.worked = out.worked || hasModelOutput(it) || len(it.Results) > 0
		if it.Role == wire.RoleAssistant && first && it.Text != "" {
			out.add(entry{role: EventAssistant, text: it.Text})
		}
		for _, c := range it.Calls {
			out.add(entry{role: EventCall, call: Call(c)})
		}
		for i := range it.Results {
			r := &it.Results[i]
			n := entry{role: entryResult, text: r.Text, call: Call{ID: r.CallID}, isError: r.IsError}
			if verdicts != nil {
				n.verdict = verdictOf(slices.Contains(verdicts.Failed, place))
			}
			out.add(n)
			place++
		}
		if it.Words != "" {
			out.add(entry{role: EventUser, text: it.Words})
		}
	}
	return out
}

func (s *said) add(n entry) { s.entries = append(s.entries, n) }
