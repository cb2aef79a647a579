package detect

import (
	"slices"
	"strings"

	"precept/internal/wire"
)

// Results caches the judgements of the tool results in one request, because lessons, loops and signals need the same
// judgements. The zero value is an empty cache.
type Results struct {
	listed []*judgedCall // a list, because a short list is cheaper than a map
	mapped map[callResult]*judgedCall
	prompt promptQuotes
}

// callResult is a call with the text of its result. It is the cache key.
type callResult struct {
	tool, args, text string
	flag             int8 // see Classify
}

// judgedCall is a call with its result, which is judged at the first use.
type judgedCall struct {
	result                 callResult
	analysis               *toolCall
	judgement              Judgement
	kinds                  []Kind
	hasJudgement, hasKinds bool
}

// Classify is detect.Classify with the cache.
func (r *Results) Classify(call wire.Call, res wire.Result) Judgement {
	return r.entry(callResult{call.Name, call.Args, res.Text, res.IsError}).classify()
}

// Kinds is detect.Kinds with the cache.
func (r *Results) Kinds(call wire.Call, res wire.Result) []Kind {
	j := r.entry(callResult{call.Name, call.Args, res.Text, res.IsError})
	if !j.hasKinds {
		j.hasKinds, j.kinds = true, Kinds(res.Text, j.classify())
	}
	return j.kinds
}

// Failed returns the number of new results in the request, and the indices of the failed results in req.NewResults.
// recall returns calls in earlier requests.
func (r *Results) Failed(req *wire.Request, recall func(callID string) (wire.Call, bool)) (results int, failed []int) {
	list := req.NewResults()
	for n := range list {
		call, _ := findCall(req, list[n].Result.CallID, recall)
		if r.Classify(call, list[n].Result).Outcome == Error {
			failed = append(failed, n)
		}
	}
	return len(list), failed
}

// FailedKinds returns the distinct error kinds among the new results in the request.
func (r *Results) FailedKinds(req *wire.Request, recall func(callID string) (wire.Call, bool)) (kinds []string) {
	for _, found := range req.NewResults() {
		call, _ := findCall(req, found.Result.CallID, recall)
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

// entry returns a result's cached judgedCall. If r is nil, nothing is cached.
func (r *Results) entry(res callResult) *judgedCall {
	if r == nil {
		return &judgedCall{result: res}
	}
	for _, j := range r.listed {
		if j.result == res {
			return j
		}
	}
	j := r.mapped[res]
	if j != nil {
		return j
	}
	j = &judgedCall{result: res}
	if len(r.listed) < maxListed {
		r.listed = append(r.listed, j)
		return j
	}
	if r.mapped == nil {
		r.mapped = make(map[callResult]*judgedCall)
	}
	r.mapped[res] = j
	return j
}

const maxListed = 8 // length of Results.listed

func (j *judgedCall) toolCall() *toolCall {
	if j.analysis == nil {
		call := compiledPhrases().analyseCall(j.result.tool, j.result.args)
		j.analysis = &call
	}
	return j.analysis
}

func (j *judgedCall) classify() Judgement {
	if !j.hasJudgement {
		j.hasJudgement, j.judgement = true, compiledPhrases().classify(j.toolCall(), j.result.text, j.result.flag)
	}
	return j.judgement
}

// promptQuotes computes isPromptQuoted for one request, and reads each item once. The caller must not decrease item
// between calls.
type promptQuotes struct {
	readTo   int  // items before this index are read
	isQuoted bool // the user's newest words before readTo are in quotes
}

// isPromptQuoted reports whether the newest user message before item has the user's words in double quotes.
func (p *promptQuotes) isPromptQuoted(req *wire.Request, item int) bool {
	for i := item - 1; i >= p.readTo; i-- {
		if req.Role(i) != wire.RoleUser {
			continue
		}
		if it := req.Item(i); it.UserText != "" {
			p.isQuoted = strings.Contains(it.Text, `"`+it.UserText+`"`)
			break
		}
	}
	p.readTo = max(p.readTo, item)
	return p.isQuoted
}
