package wire

import (
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// maxResultDistance is the maximum number of items from a call to the result. aider inserts notes between the two.
const maxResultDistance = 8

func hex16(n uint64) string { return strconv.FormatUint(n, 16) }

func textCallID(c *Call, text string) string {
	return textCallMark + hex16(hashWords([]string{c.Name, c.Args, text}))
}

const textCallMark = generatedIDPrefix + "w"

// IsText reports whether the agent wrote the call as text.
func (c *Call) IsText() bool { return strings.HasPrefix(c.ID, textCallMark) }

func (r *Request) readTextResult(it *Item) {
	if !it.HasText || len(it.Results) > 0 {
		return
	}
	if p, _, steps := growingFormat(it.Text); p != nil && (p.allowsTools || r.hasNoTools()) {
		it.setSteps(steps)
		return
	}
	if strings.HasPrefix(it.Text, fieldMark) { // dspy without a trajectory
		return
	}
	lead, rest := cutLeadingBlocks(it.Text)
	rest = strings.TrimSpace(rest)
	parsed, ok := parseTextResult(rest)
	if !ok {
		if c, ok := r.repeatedCall(it, rest); ok {
			it.setTextResult(c, it.Index-1, Result{Text: rest, LeadingBlocks: lead, Block: -1, InUserText: true, Inferred: true})
		}
		return
	}
	res := Result{Text: parsed.text, LeadingBlocks: lead, Block: -1, InUserText: true}
	if parsed.failed {
		res.IsError = 1
	}
	c, callIndex := Call{}, -1
	switch {
	case parsed.call != nil:
		c, callIndex = *parsed.call, it.Index
	case parsed.findCall != nil:
		c, callIndex = r.textResultCall(it.Index, &parsed)
	}
	res.WithCall = callIndex == it.Index
	it.setTextResult(c, callIndex, res)
}

// setTextResult sets a user item's result and the call c that it answers. callIndex is the index of the call's item, or
// -1 if unknown.
func (it *Item) setTextResult(c Call, callIndex int, res Result) {
	res.CallID = textCallID(&c, res.Text)
	if callIndex >= 0 {
		c.ID = res.CallID
		it.textCall, it.textCallIndex = c, callIndex
	}
	if res.WithCall {
		it.Calls = []Call{c}
	}
	it.Results = []Result{res}
}

// textResultCall returns the call that a text result in item i answers, and the index of the call's item, or -1 if
// unknown.
func (r *Request) textResultCall(i int, result *textResult) (Call, int) {
	for j := i - 1; j >= max(0, i-maxResultDistance); j-- {
		if r.scan.list[j].role == RoleAssistant {
			if c, ok := result.findCall(r.textAt(j)); ok {
				return c, j
			}
			if !result.mayBeSeparated {
				break
			}
		} else if !result.mayBeSeparated {
			break
		}
	}
	return Call{}, -1
}

// textAt returns item i's text without decoding the item. Decoding would not end, because it needs the items around
// item i.
func (r *Request) textAt(i int) string {
	if it := *r.memo.items.at(i, len(r.scan.list)); it != nil {
		return it.Text
	}
	return joinText(r.Body, r.parts(i))
}

func (r *Request) readTextCalls(it *Item) {
	if len(it.Calls) > 0 {
		return
	}
	for i := it.Index + 1; i < min(it.Index+1+maxResultDistance, len(r.scan.list)); i++ {
		if r.scan.list[i].role != RoleUser {
			if r.scan.list[i].role != RoleAssistant {
				return
			}
			continue
		}
		if answer := r.Item(i); len(answer.Results) > 0 && answer.Results[0].InUserText {
			if answer.textCall.ID != "" && answer.textCallIndex == it.Index {
				it.Calls = []Call{answer.textCall}
			}
			return
		}
	}
}

// An unknown agent may also write calls and results as text. Such an agent is recognised when it loops: in a request
// without tools, an answer that looks like a call (a JSON object, tags) occurs twice, followed by the same user text.
// From then on, user texts after calls are read as results. A fenced block must occur three times, because it may be
// meant for a person, who may report the same failure again.
//
// Only the loop detection uses such results (Result.Inferred), because an item's canonical hash must not change when a
// later item arrives.

// repeatedCall returns the call in the answer before a user item. ok is true if call and text occur together so often
// that the text must be the call's result.
func (r *Request) repeatedCall(it *Item, text string) (Call, bool) {
	if it.UserText == "" || !r.mayHoldTextResult(it.Index) {
		return Call{}, false
	}
	c, bare := parseAnyCall(r.textAt(it.Index - 1))
	if c.Name == "" {
		return Call{}, false
	}
	if r.memo.pairCounts == nil {
		r.countPairs()
	}
	if bare {
		return c, r.memo.hasRepeatedPair || r.memo.pairCounts[pairKey(&c, text)] > 1
	}
	return c, r.memo.pairCounts[pairKey(&c, text)] > 2
}

// mayHoldTextResult reports whether item i can be an unknown agent's tool result: a user message after an answer, in a
// request without tools.
func (r *Request) mayHoldTextResult(i int) bool {
	return i > 0 && !r.Delta && r.hasNoTools() && r.scan.list[i].role == RoleUser && r.scan.list[i-1].role == RoleAssistant
}

func (r *Request) hasNoTools() bool { return len(r.Tools) == 0 && len(r.scan.results) == 0 }

func (r *Request) countPairs() {
	r.memo.pairCounts = make(map[uint64]int)
	for i := range r.scan.list {
		if !r.mayHoldTextResult(i) {
			continue
		}
		c, bare := parseAnyCall(r.textAt(i - 1))
		if c.Name == "" {
			continue
		}
		_, text := cutLeadingBlocks(r.textAt(i))
		if text = strings.TrimSpace(text); text == "" || isAgentText(text) {
			continue
		}
		key := pairKey(&c, text)
		r.memo.pairCounts[key]++
		r.memo.hasRepeatedPair = r.memo.hasRepeatedPair || bare && r.memo.pairCounts[key] > 1
	}
}

// pairKey returns the pairCounts key for a call and a user text. It ignores digits in the text, which can be a number
// of seconds or turns.
func pairKey(c *Call, text string) uint64 {
	kept := make([]byte, 0, len(text))
	for _, b := range []byte(text) {
		if b < '0' || b > '9' {
			kept = append(kept, b)
		}
	}
	return combineHashes(xxhash.Sum64String(CallEchoHash(c)), xxhash.Sum64(kept))
}
