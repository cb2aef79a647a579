package wire

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// Usage holds a turn's reported token counts, -1 for absent ones. Input includes cached tokens in every dialect,
// although the Messages API reports them separately.
type Usage struct{ Input, Cached, Output int }

// Reply is a response's content.
type Reply struct {
	ID       string
	Model    string
	Text     string
	Calls    []Call
	ItemIDs  []string
	Finish   string // finish_reason, stop_reason or status
	Error    string // provider's message
	Usage    Usage
	Choices  int  // chat: choice count; Text and Calls belong to the first choice
	Complete bool // a regular end was read, and no error
	Cut      bool // a part exceeded a limit or could not be decoded

	// HostedArgs holds the arguments in calls to tools that the provider runs, such as an MCP server's tools. The agent
	// does not answer such calls, but the text may quote the results.
	HostedArgs []string

	texts     []string // messages in a reply that may have several
	otherKeys []string // for ReplyEchoKeys: keys for choices after the first, and for the calls' items
	echoKeys  []string // memo for keys
}

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

// tokens holds counts as a provider reports them, -1 for absent ones.
type tokens struct{ input, cached, created, output, total int }

// maxTokens keeps faulty numbers from overflowing the sums.
const maxTokens = 1e9

// read reads a usage object, with counts from 0 to maxTokens. The largest of several reports is kept, because streams
// report cumulative numbers, and some servers end a stream with zeros.
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

// usage returns a reply's tokens. Gemini and xAI leave reasoning out of completion_tokens, although reasoning is
// charged as output; total_tokens includes reasoning.
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

// thoughtEnd ends the thinking before an answer. The opening tag may be in the prompt, and so missing in the reply.
const thoughtEnd = "</think>"

// ReplyEchoKeys returns the keys that identify a later request continuing this reply (see Request.EchoKeys), and "r:"
// with the reply's id. The keys fit whether or not the client sends prefill (Request.Prefill) back. The keys are
// computed once, so the reply must not change afterwards.
func ReplyEchoKeys(rep *Reply, prefill string) []string {
	if rep.echoKeys == nil {
		rep.echoKeys = rep.keys()
	}
	if prefill == "" || len(rep.Calls) > 0 || rep.Cut {
		return rep.echoKeys
	}
	return appendKey(slices.Clip(rep.echoKeys), "t:", TextEchoHash(prefill+rep.messageTexts()[0]))
}

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
			if at := strings.LastIndex(t, thoughtEnd); at >= 0 { // many clients drop the thinking
				keys = appendKey(keys, "t:", TextEchoHash(t[at+len(thoughtEnd):]))
			}
		}
		if len(texts) > 1 { // a Messages request has all texts in one item
			keys = appendKey(keys, "t:", TextEchoHash(rep.Text))
		}
		if key, ok := replyStepKey(texts[0]); ok {
			keys = append(keys, key)
		}
	}
	keys = append(keys, rep.otherKeys...)
	return appendKey(keys, "r:", rep.ID)
}

// messageTexts returns the texts in the reply's messages, at least one.
func (rep *Reply) messageTexts() []string {
	if rep.texts == nil {
		return []string{rep.Text}
	}
	return rep.texts
}
