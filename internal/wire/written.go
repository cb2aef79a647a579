package wire

import (
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// maxApart is the largest number of items between an answer and its result: aider inserts notes.
const maxApart = 8

func hex16(n uint64) string { return strconv.FormatUint(n, 16) }

// writtenID returns the id of a call that is text: a hash of the call and its result.
func writtenID(c *Call, text string) string {
	return writtenMark + hex16(hashWords([]string{c.Name, c.Args, text}))
}

const writtenMark = unnamedMark + "w"

// IsWritten reports whether the call is text of an agent without tools on the wire.
func (c *Call) IsWritten() bool { return strings.HasPrefix(c.ID, writtenMark) }

// readWritten fills the results of a user's item that are text.
func (r *Request) readWritten(it *Item) {
	if !it.HasText || len(it.Results) > 0 {
		return
	}
	if p, _, steps := growing(it.Text); p != nil && (p.onWire || r.withoutTools()) {
		it.did(steps)
		return
	}
	if strings.HasPrefix(it.Text, fieldMark) { // dspy without a trajectory
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

// answers makes a user's item the holder of the result of a call in item from, -1 for none.
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

// askedBefore returns the call that a report in item i answers, and the index of the item with the
// call, -1 for none.
func (r *Request) askedBefore(i int, rep *report) (Call, int) {
	for j := i - 1; j >= max(0, i-maxApart); j-- {
		if r.scan.list[j].role == RoleAssistant {
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

// saidAt returns the text of item i of the model without decoding the item: its calls depend on
// later items.
func (r *Request) saidAt(i int) string {
	if it := r.memo.items[i]; it != nil {
		return it.Text
	}
	return joinText(r.Body, r.parts(i))
}

// readWrittenCalls fills the calls in the text of the model, where their results are known.
func (r *Request) readWrittenCalls(it *Item) {
	if len(it.Calls) > 0 {
		return
	}
	for i := it.Index + 1; i < min(it.Index+1+maxApart, len(r.scan.list)); i++ {
		if r.scan.list[i].role != RoleUser {
			if r.scan.list[i].role != RoleAssistant {
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

// An agent with an unknown form of calls and results shows the form in a loop: the agent offers no
// tools, an answer of the model makes a call (a JSON object, tags), and the same text answers the
// same call twice. These texts are results then, and so are the answers to the calls between them.
// A fenced block may be meant for a person, who may return with the same failure, so a fenced block
// needs three repetitions. Only the loop detection sees the texts as results: the kind of an item
// must not change when the next item comes.

// answeredAlike returns the call that the text of an item answers, where the list shows the call.
func (r *Request) answeredAlike(it *Item, text string) (Call, bool) {
	if it.Words == "" || !r.mayBeWritten(it.Index) {
		return Call{}, false
	}
	c, bare := anyCall(r.saidAt(it.Index - 1))
	if c.Name == "" {
		return Call{}, false
	}
	if r.memo.alike == nil {
		r.pairAlike()
	}
	if bare {
		return c, r.memo.circles || r.memo.alike[alikeKey(&c, text)] > 1
	}
	return c, r.memo.alike[alikeKey(&c, text)] > 2
}

func (r *Request) mayBeWritten(i int) bool {
	return i > 0 && !r.Delta && r.withoutTools() && r.scan.list[i].role == RoleUser && r.scan.list[i-1].role == RoleAssistant
}

// withoutTools reports whether the agent has no tools and no results on the wire.
func (r *Request) withoutTools() bool { return len(r.Tools) == 0 && len(r.scan.results) == 0 }

// pairAlike counts the pairs of call and answer.
func (r *Request) pairAlike() {
	r.memo.alike = make(map[uint64]int)
	for i := range r.scan.list {
		if !r.mayBeWritten(i) {
			continue
		}
		c, bare := anyCall(r.saidAt(i - 1))
		if c.Name == "" {
			continue
		}
		_, text := cutLead(r.saidAt(i))
		if text = strings.TrimSpace(text); text == "" || observed(text) {
			continue
		}
		key := alikeKey(&c, text)
		r.memo.alike[key]++
		r.memo.circles = r.memo.circles || bare && r.memo.alike[key] > 1
	}
}

// alikeKey returns the key of a pair of call and answer, without the digits of the answer, which
// count seconds and turns.
func alikeKey(c *Call, text string) uint64 {
	kept := make([]byte, 0, len(text))
	for _, b := range []byte(text) {
		if b < '0' || b > '9' {
			kept = append(kept, b)
		}
	}
	return mix(xxhash.Sum64String(EchoCall(c)), xxhash.Sum64(kept))
}
