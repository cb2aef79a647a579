package detect

import (
	"github.com/cespare/xxhash/v2"

	"precept/wire"
)

// Results judges the tool results of one request, each at most once, for everyone who asks in the
// course of a turn: what a lesson matches, what goes round in circles and what speaks of success
// all begin with the same question. The zero value is ready; it belongs to one turn.
type Results struct {
	seen  map[uint64]*judged // by the result's hash
	asker person
}

// result is a tool result with its call.
type result struct {
	tool, args, text string
	flag             int8
}

// judged is one result, looked at as far as it was asked for.
type judged struct {
	result

	call          toolCall
	judgement     Judgement
	looked, ruled bool
}

// Classify is detect.Classify, remembered.
func (r *Results) Classify(call wire.Call, res wire.Result) Judgement {
	return r.of(call.Name, call.Args, res.Text, res.IsError).outcome()
}

// of finds the result, or takes it in.
func (r *Results) of(tool, args, text string, flag int8) *judged {
	key := result{tool, args, text, flag}
	if r == nil {
		return &judged{result: key}
	}
	sum := key.sum()
	j := r.seen[sum]
	if j != nil && j.result == key {
		return j
	}
	if r.seen == nil {
		r.seen = make(map[uint64]*judged)
	}
	j = &judged{result: key}
	r.seen[sum] = j
	return j
}

func (r *result) sum() uint64 {
	var d xxhash.Digest
	d.Reset()
	for _, s := range [...]string{r.tool, r.args, r.text} {
		_, _ = d.WriteString(s)
		_, _ = d.Write([]byte{0, byte(r.flag)})
	}
	return d.Sum64()
}

func (j *judged) look() *toolCall {
	if !j.looked {
		j.looked, j.call = true, wording().lookAt(j.tool, j.args)
	}
	return &j.call
}

func (j *judged) outcome() Judgement {
	if !j.ruled {
		j.ruled, j.judgement = true, wording().classify(j.look(), j.text, j.flag)
	}
	return j.judgement
}
