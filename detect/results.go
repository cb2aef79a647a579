package detect

import (
	"strings"

	"precept/internal/wire"
)

// Results judges the tool results of one request, each at most once, for everyone who asks in the
// course of a turn: what a lesson matches, what goes round in circles and what speaks of success
// all begin with the same question. The zero value is ready; it belongs to one turn.
type Results struct {
	seen  map[callResult]*judgedCall
	asker person
}

// callResult is a call with its result.
type callResult struct {
	tool, args, text string
	flag             int8 // the wire's, see Classify
}

// judgedCall is a call with its result, judged as far as it was asked for.
type judgedCall struct {
	callResult

	call          toolCall
	judgement     Judgement
	looked, ruled bool
}

// Classify is detect.Classify, remembered.
func (r *Results) Classify(call wire.Call, res wire.Result) Judgement {
	return r.of(callResult{call.Name, call.Args, res.Text, res.IsError}).outcome()
}

// of finds what is known of a result, or takes it in.
func (r *Results) of(res callResult) *judgedCall {
	if r == nil {
		return &judgedCall{callResult: res}
	}
	j := r.seen[res]
	if j == nil {
		if r.seen == nil {
			r.seen = make(map[callResult]*judgedCall)
		}
		j = &judgedCall{callResult: res}
		r.seen[res] = j
	}
	return j
}

func (j *judgedCall) look() *toolCall {
	if !j.looked {
		j.looked, j.call = true, wording().lookAt(j.tool, j.args)
	}
	return &j.call
}

func (j *judgedCall) outcome() Judgement {
	if !j.ruled {
		j.ruled, j.judgement = true, wording().classify(j.look(), j.text, j.flag)
	}
	return j.judgement
}

// person remembers who spoke last before an item; items are asked for in their order.
type person struct {
	to     int // items before it were looked at
	quotes bool
}

// quoted says whether the newest words of a user before the item stand in quotes.
func (p *person) quoted(req *wire.Request, item int) bool {
	for i := item - 1; i >= p.to; i-- {
		if req.Role(i) != wire.RoleUser {
			continue
		}
		if it := req.Item(i); it.Words != "" {
			p.quotes = strings.Contains(it.Text, `"`+it.Words+`"`)
			break
		}
	}
	p.to = max(p.to, item)
	return p.quotes
}
