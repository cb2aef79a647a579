package wire

import (
	"strconv"
	"strings"
)

// Some agents speak with their model in plain text: an answer holds the call, and the message
// behind it, in the user's place, what came of it. A text counts as a result only where it begins
// in the words of a known agent, and as a call only where such a result answers it, so that a
// person who pastes a log, and a model that shows a command, are what they are.

// maxApart is how many items may stand between an answer and its result: aider puts its own notes
// there.
const maxApart = 8

func hex16(n uint64) string { return strconv.FormatUint(n, 16) }

// writtenID names a call that stands in a text by what it asked for and what came of it.
func writtenID(c *Call, text string) string {
	return writtenMark + hex16(hashWords([]string{c.Name, c.Args, text}))
}

const writtenMark = unnamedMark + "w"

// IsWritten says whether the call stands in a text, as agents write it that have no tools on the
// wire.
func (c *Call) IsWritten() bool { return strings.HasPrefix(c.ID, writtenMark) }

// readWritten fills the results that stand in a user's item as text.
func (r *Request) readWritten(it *Item) {
	if !it.HasText || len(it.Results) > 0 {
		return
	}
	if strings.HasPrefix(it.Text, fieldMark) {
		_, steps, _ := trajectory(it.Text)
		it.did(steps)
		return
	}
	if _, steps, ok := scratchpad(it.Text); ok && r.withoutTools() {
		it.did(steps)
		return
	}
	lead, rest := cutLead(it.Text)
	rest = strings.TrimSpace(rest)
	rep, ok := readReport(rest)
	if !ok {
		if c, ok := r.answeredAlike(it, rest); ok {
			it.answers(c, it.Index-1, Result{Text: rest, Lead: lead, Block: -1, Written: true, Alike: true})
		}
		return
	}
	res := Result{Text: rep.text, Lead: lead, Block: -1, Written: true}
	if rep.failed {
		res.IsError = 1
	}
	c, from := Call{}, -1
	switch {
	case rep.call != nil:
		c, from = *rep.call, it.Index
	case rep.find != nil:
		c, from = r.askedBefore(it.Index, &rep)
	}
	res.Own = from == it.Index
	it.answers(c, from, res)
}

// answers makes the user's item the one that holds the result of a call in item from, -1 for none.
func (it *Item) answers(c Call, from int, res Result) {
	res.CallID = writtenID(&c, res.Text)
	if from >= 0 {
		c.ID = res.CallID
		it.wrote, it.wroteAt = c, from
	}
	if res.Own {
		it.Calls = []Call{c}
	}
	it.Results = []Result{res}
}

// askedBefore finds the call that a report in item i answers, and the item that holds it, -1 for
// none.
func (r *Request) askedBefore(i int, rep *report) (Call, int) {
	for j := i - 1; j >= max(0, i-maxApart); j-- {
		if r.list[j].role == RoleAssistant {
			if c, ok := rep.find(r.saidAt(j)); ok {
				return c, j
			}
			if !rep.apart {
				break
			}
		} else if !rep.apart {
			break
		}
	}
	return Call{}, -1
}

// saidAt is the text of the model's item i, read without decoding the item: its calls depend on
// what stands behind it.
func (r *Request) saidAt(i int) string {
	if it := r.items[i]; it != nil {
		return it.Text
	}
	return joinText(r.Body, r.parts(i))
}

// readWrittenCalls fills the calls that stand in the model's text, where their results are known.
func (r *Request) readWrittenCalls(it *Item) {
	if len(it.Calls) > 0 {
		return
	}
	for i := it.Index + 1; i < min(it.Index+1+maxApart, len(r.list)); i++ {
		if r.list[i].role != RoleUser {
			if r.list[i].role != RoleAssistant {
				return
			}
			continue
		}
		if answer := r.Item(i); len(answer.Results) > 0 && answer.Results[0].Written {
			if answer.wrote.ID != "" && answer.wroteAt == it.Index {
				it.Calls = []Call{answer.wrote}
			}
			return
		}
	}
}
