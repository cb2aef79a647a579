package wire

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// Usage holds the numbers of tokens of a turn that the provider reports, -1 for an absent number. Input includes the
// cached tokens in every dialect, although the Messages API reports them separately.
type Usage struct{ Input, Cached, Output int }

// Reply is the content of a response.
type Reply struct {
	ID       string // chatcmpl-, resp_, msg_
	Model    string
	Text     string
	Calls    []Call
	ItemIDs  []string // responses: ids of the output items
	Finish   string   // finish_reason, stop_reason or status
	Error    string   // error message of the provider
	Usage    Usage
	Choices  int  // chat: number of choices (n>1); Text and Calls belong to the first choice
	Complete bool // a regular end was read (finish reason, message_stop, response.completed, a whole JSON body), and no error
	Cut      bool // a part of the reply was not kept, because it exceeded a limit or could not be decoded

	// HostedArgs holds the arguments of the calls of tools that the provider runs, such as those of an MCP server. The
	// agent does not answer these calls, but the text may quote their results.
	HostedArgs []string

	texts     []string // single messages of a reply that may have several
	otherKeys []string // further keys of ReplyEchoKeys, for the choices after the first and the item ids of calls
	echoKeys  []string // result of keys, computed by ReplyEchoKeys at the first use
}

// integerAt returns the integer at v, or fallback if there is none.
func integerAt(b []byte, v span, fallback int) int {
	if v.empty() {
		return fallback
	}
	n, err := strconv.Atoi(string(v.of(b)))
	if err != nil {
		return fallback
	}
	return n
}

// tokens holds the numbers of tokens as a provider reports them, -1 for an absent number.
type tokens struct{ input, cached, created, output, total int }

// maxTokens is the largest number of tokens that is read. Larger numbers of a faulty server would overflow the sums.
const maxTokens = 1e9

// read reads a usage object. A number below zero counts as zero, and a number above maxTokens as maxTokens. If a number
// is reported several times, the largest counts, because a stream reports cumulative numbers, and some servers end a
// stream with zeros.
func (t *tokens) read(b []byte, v span) {
	if firstByteAt(b, v) != '{' {
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
		{&t.total, "total_tokens"},
	} {
		if raw := usage.Get(count.path).Raw; raw != "" {
			if n, err := strconv.Atoi(raw); err == nil || errors.Is(err, strconv.ErrRange) {
				*count.to = max(*count.to, min(max(n, 0), maxTokens))
			}
		}
	}
}

// usage returns the numbers of tokens of a reply. Gemini and xAI leave the tokens of reasoning out of
// completion_tokens, although these tokens are charged as output; total_tokens includes them.
func (t *tokens) usage(d Dialect) Usage {
	u := Usage{Input: t.input, Cached: t.cached, Output: t.output}
	switch {
	case d == Messages && t.input >= 0:
		u.Input += max(t.cached, 0) + max(t.created, 0)
	case t.input >= 0 && t.output >= 0:
		u.Output = max(t.output, t.total-t.input)
	}
	return u
}

// endOfThought ends the thinking before an answer. The opening tag may be in the prompt.
const endOfThought = "</think>"

// ReplyEchoKeys returns the keys by which a later request is recognised as the continuation of this reply (see
// Request.EchoKeys), and "r:" with the id of the reply. prefill is the beginning of the answer that the client wrote
// (Request.Prefill), which the client may send back or leave out. The reply must not change afterwards, because the
// keys are computed only once.
func ReplyEchoKeys(rep *Reply, prefill string) []string {
	if rep.echoKeys == nil {
		rep.echoKeys = rep.keys()
	}
	if prefill == "" || len(rep.Calls) > 0 || rep.Cut {
		return rep.echoKeys
	}
	return appendKey(slices.Clip(rep.echoKeys), "t:", TextEchoHash(prefill+rep.messageTexts()[0]))
}

// keys returns the keys of the reply alone.
func (rep *Reply) keys() []string {
	var keys []string
	for n := range rep.Calls {
		keys = appendCallKey(keys, &rep.Calls[n])
	}
	for _, id := range rep.ItemIDs {
		keys = appendKey(keys, "i:", id)
	}
	if len(rep.Calls) == 0 && !rep.Cut {
		texts := rep.messageTexts()
		for _, t := range texts {
			keys = appendKey(keys, "t:", TextEchoHash(t))
			if at := strings.LastIndex(t, endOfThought); at >= 0 { // many clients drop the thinking
				keys = appendKey(keys, "t:", TextEchoHash(t[at+len(endOfThought):]))
			}
		}
		if len(texts) > 1 { // a request of the Messages API has all texts in one item
			keys = appendKey(keys, "t:", TextEchoHash(rep.Text))
		}
		if key, ok := replyStepKey(texts[0]); ok {
			keys = append(keys, key)
		}
	}
	keys = append(keys, rep.otherKeys...)
	return appendKey(keys, "r:", rep.ID)
}

// messageTexts returns the texts of the single messages of the reply, at least one.
func (rep *Reply) messageTexts() []string {
	if rep.texts == nil {
		return []string{rep.Text}
	}
	return rep.texts
}
