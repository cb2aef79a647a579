package wire

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// Usage is the cost of the turn in tokens, as the provider reports the cost; -1 for none. Input
// includes the cached tokens in every dialect: the Messages API reports the two separately.
type Usage struct{ Input, Cached, Output int }

// Reply is the content of a response.
type Reply struct {
	ID       string // chatcmpl-, resp_, msg_
	Model    string
	Text     string
	Calls    []Call
	ItemIDs  []string // responses: ids of the output items
	Finish   string   // finish_reason, stop_reason, status
	Error    string   // error message of the provider
	Usage    Usage
	Choices  int  // chat: number of choices (n>1); Text and Calls belong to the first choice
	Complete bool // a regular end was read (finish reason, message_stop, response.completed, a whole JSON body), and no error
	Cut      bool // a part of the reply was not kept: it exceeded a limit, or could not be decoded

	texts  []string // messages one by one, where a reply may have several
	others []string // further keys (see EchoReply): of the choices after the first, and of the item ids of calls
	echoes []string // see EchoReply
}

// number returns the integer at v, or other.
func number(b []byte, v span, other int) int {
	if v.empty() {
		return other
	}
	n, err := strconv.Atoi(string(v.of(b)))
	if err != nil {
		return other
	}
	return n
}

// tokens is the usage in the spellings of the providers, -1 for an absent number.
type tokens struct{ input, cached, created, output int }

// read reads a usage object. The larger of two counts is used: a stream reports cumulative counts,
// and some servers end a stream with zeros.
func (t *tokens) read(b []byte, v span) {
	if kindAt(b, v) != '{' {
		return
	}
	usage := gjson.ParseBytes(v.of(b))
	for _, count := range [...]struct {
		to   *int
		path string
	}{
		{&t.input, "prompt_tokens"},
		{&t.input, "input_tokens"},
		{&t.output, "completion_tokens"},
		{&t.output, "output_tokens"},
		{&t.cached, "prompt_tokens_details.cached_tokens"},
		{&t.cached, "input_tokens_details.cached_tokens"},
		{&t.cached, "cache_read_input_tokens"},
		{&t.cached, "prompt_cache_hit_tokens"},
		{&t.cached, "cached_tokens"},
		{&t.cached, "num_cached_tokens"},
		{&t.created, "cache_creation_input_tokens"},
	} {
		if raw := usage.Get(count.path).Raw; raw != "" {
			if n, err := strconv.Atoi(raw); err == nil {
				*count.to = max(*count.to, n)
			}
		}
	}
}

func (t *tokens) usage(d Dialect) Usage {
	u := Usage{Input: t.input, Cached: t.cached, Output: t.output}
	if d == Messages && t.input >= 0 {
		u.Input += max(t.cached, 0) + max(t.created, 0)
	}
	return u
}

// endOfThought ends the thoughts before an answer. The opening tag may be in the prompt.
const endOfThought = "</think>"

// EchoReply returns the keys by which a later request is recognised as an answer to this reply (see
// Request.Echo), plus "r:"+reply id. begun is the beginning of the answer by the client
// (Request.Prefilled), which the client may send back or leave out. The reply must not change
// afterwards: its texts are hashed once.
func EchoReply(rep *Reply, begun string) []string {
	if rep.echoes == nil {
		rep.echoes = rep.keys()
	}
	if begun == "" || len(rep.Calls) > 0 || rep.Cut {
		return rep.echoes
	}
	return appendKey(slices.Clip(rep.echoes), "t:", EchoText(begun+rep.messageTexts()[0]))
}

// keys returns the keys of the reply alone.
func (rep *Reply) keys() []string {
	var keys []string
	for n := range rep.Calls {
		keys = appendCall(keys, &rep.Calls[n])
	}
	for _, id := range rep.ItemIDs {
		keys = appendKey(keys, "i:", id)
	}
	if len(rep.Calls) == 0 && !rep.Cut {
		texts := rep.messageTexts()
		for _, t := range texts {
			keys = appendKey(keys, "t:", EchoText(t))
			if at := strings.LastIndex(t, endOfThought); at >= 0 { // many clients drop the thoughts
				keys = appendKey(keys, "t:", EchoText(t[at+len(endOfThought):]))
			}
		}
		if len(texts) > 1 { // the Messages API has the texts in one item
			keys = appendKey(keys, "t:", EchoText(rep.Text))
		}
		if key, ok := replyStep(texts[0]); ok {
			keys = append(keys, key)
		}
	}
	keys = append(keys, rep.others...)
	return appendKey(keys, "r:", rep.ID)
}

// messageTexts returns the messages one by one, at least one.
func (rep *Reply) messageTexts() []string {
	if rep.texts == nil {
		return []string{rep.Text}
	}
	return rep.texts
}
