package detect

import (
	"slices"
	"strings"

	"precept/internal/wire"
)

// Results judges the tool results of one request, each result at most once. Matching, loops and
// signals of success all ask for the same judgements. The zero value is ready and belongs to one
// turn.
type Results struct {
	first  []*judgedCall              // most turns have few results, and a short list is cheaper than a map
	calls  map[callResult]*judgedCall // the results after maxFirst
	prompt promptQuotes
}

// callResult is a call with its result.
type callResult struct {
	tool, args, text string
	flag             int8 // flag of the wire, see Classify
}

// judgedCall is a call with its result and the judgements so far.
type judgedCall struct {
	result                 callResult
	analysis               *toolCall
	judgement              Judgement
	kinds                  []Kind
	hasJudgement, hasKinds bool
}

// Classify returns the judgement of detect.Classify and caches it.
func (r *Results) Classify(call wire.Call, res wire.Result) Judgement {
	return r.of(callResult{call.Name, call.Args, res.Text, res.IsError}).outcome()
}

// Kinds returns the kinds of detect.Kinds and caches them.
func (r *Results) Kinds(call wire.Call, res wire.Result) []Kind {
	j := r.of(callResult{call.Name, call.Args, res.Text, res.IsError})
	if !j.hasKinds {
		j.hasKinds, j.kinds = true, Kinds(res.Text, j.outcome())
	}
	return j.kinds
}

// Failed returns the number of new results in the request, and the indices of the errors: 0 is the
// first new result. mem knows the calls that are not in the list.
func (r *Results) Failed(req *wire.Request, mem func(callID string) (wire.Call, bool)) (results int, failed []int) {
	list := req.NewResults()
	for n := range list {
		call, _ := callOf(req, list[n].Result.CallID, mem)
		if r.Classify(call, list[n].Result).Outcome == Error {
			failed = append(failed, n)
		}
	}
	return len(list), failed
}

// FailedKinds returns the names of the kinds of the new results in the request that are errors.
func (r *Results) FailedKinds(req *wire.Request, mem func(callID string) (wire.Call, bool)) (kinds []string) {
	for _, found := range req.NewResults() {
		call, _ := callOf(req, found.Result.CallID, mem)
		if r.Classify(call, found.Result).Outcome != Error {
			continue
		}
		for _, kind := range r.Kinds(call, found.Result) {
			if !slices.Contains(kinds, string(kind)) {
				kinds = append(kinds, string(kind))
			}
		}
	}
	return kinds
}

// of returns the entry of a result, and adds a missing entry.
func (r *Results) of(res callResult) *judgedCall {
	if r == nil {
		return &judgedCall{result: res}
	}
	for _, j := range r.first {
		if j.result == res {
			return j
		}
	}
	j := r.calls[res]
	if j != nil {
		return j
	}
	j = &judgedCall{result: res}
	if len(r.first) < maxFirst {
		r.first = append(r.first, j)
		return j
	}
	if r.calls == nil {
		r.calls = make(map[callResult]*judgedCall)
	}
	r.calls[res] = j
	return j
}

// maxFirst is the number of results that are compared one by one.
const maxFirst = 8

func (j *judgedCall) toolCall() *toolCall {
	if j.analysis == nil {
		call := wording().analyseCall(j.result.tool, j.result.args)
		j.analysis = &call
	}
	return j.analysis
}

func (j *judgedCall) outcome() Judgement {
	if !j.hasJudgement {
		j.hasJudgement, j.judgement = true, wording().classify(j.toolCall(), j.result.text, j.result.flag)
	}
	return j.judgement
}

// promptQuotes remembers the last speaker before an item. Items come in ascending order.
type promptQuotes struct {
	to     int // items before to are read
	quotes bool
}

// isQuoted reports whether the newest words of a user before the item are in quotes.
func (p *promptQuotes) isQuoted(req *wire.Request, item int) bool {
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
