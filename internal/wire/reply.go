package wire

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// Usage holds a turn's reported token counts. Input, Cached and Output are -1 if absent. In every dialect, Input
// includes Cached and Written, which the Messages API reports separately.
type Usage struct {
	Input       int
	Cached      int // read from the provider's prompt cache
	Written     int // written to the prompt cache; 0 if absent
	WrittenHour int // part of Written that the cache keeps for an hour; 0 if absent
	Output      int
}

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
	Choices  int  // chat: number of choices; Text and Calls belong to the first choice
	Complete bool // the regular end was read, and no error
	Cut      bool // a part exceeded a limit or could not be decoded

	// HostedArgs holds the arguments of hosted calls: calls to tools that the provider runs, such as an MCP server's.
	// The reply's text may quote the results.
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

// tokens holds counts as a provider reports them. An absent count is -1.
type tokens struct{ input, cached, written, writtenHour, output, total int }

const maxTokens = 1e9 // the largest credible count

// read reads a usage object. It ignores a count that is not a number from 0 to maxTokens. If there are several reports,
// it keeps the largest counts, because streams report cumulative numbers, and some servers end a stream with zeros.
func (t *tokens) read(b []byte, v span) {
	if firstByteAt(b, v) != '{' {
		return
	}
	gjson.ParseBytes(v.of(b)).ForEach(t.readCount)
}

// readCount reads a member of a usage object, or of an object in the usage object.
func (t *tokens) readCount(name, n gjson.Result) bool {
	var count *int
	switch name.Str {
	case "prompt_tokens", "input_tokens":
		count = &t.input
	case "completion_tokens", "output_tokens":
		count = &t.output
	case "cached_tokens", "cache_read_input_tokens", "prompt_cache_hit_tokens", "num_cached_tokens":
		count = &t.cached
	case "cache_creation_input_tokens", "cache_write_tokens", "cache_creation_tokens": // Anthropic; OpenAI and OpenRouter; LiteLLM
		count = &t.written
	case "ephemeral_1h_input_tokens":
		count = &t.writtenHour
	case "total_tokens":
		count = &t.total
	case "prompt_tokens_details", "input_tokens_details", "cache_creation", "cache_creation_token_details":
		if n.IsObject() {
			n.ForEach(t.readCount)
		}
		return true
	default:
		return true
	}
	if n.Type == gjson.Number && n.Num >= 0 && n.Num <= maxTokens {
		*count = max(*count, int(n.Num))
	}
	return true
}

// endBytes is the number of bytes kept from the end of a reply or event that is too long, because the usage follows the
// texts and images.
const endBytes = 4096

// appendEnd appends p to end, and may drop all but the last endBytes.
func appendEnd(end, p []byte) []byte {
	if len(p) >= endBytes {
		return append(end[:0], p[len(p)-endBytes:]...)
	}
	if len(end)+len(p) > 2*endBytes {
		end = end[:copy(end, end[len(end)-endBytes:])]
	}
	return append(end, p...)
}

// readLast reads the last usage object in the tail of a JSON text that was too long to keep. A usage object inside a
// JSON string, where the quotes around the key are escaped, is ignored.
func (t *tokens) readLast(b []byte) {
	const key = `"usage"`
	for end := len(b); ; {
		i := bytes.LastIndex(b[:end], []byte(key))
		if i < 0 {
			return
		}
		value, ok := bytes.CutPrefix(bytes.TrimLeft(b[i+len(key):], " \t\r\n"), []byte(":"))
		if value = bytes.TrimLeft(value, " \t\r\n"); ok && len(value) > 0 && value[0] == '{' && (i == 0 || b[i-1] != '\\') {
			s := scanner{b: value}
			if n := s.skipValue(0, 0); n > 0 { // other members may follow the object
				value = value[:n]
			}
			t.read(value, span{0, len(value)})
			return
		}
		end = i
	}
}

// usage returns a reply's tokens. Gemini and xAI omit reasoning from completion_tokens, although reasoning is charged
// as output. Therefore the output is derived from total_tokens, which includes reasoning.
func (t *tokens) usage(d Dialect) Usage {
	u := Usage{Input: t.input, Cached: t.cached, Written: max(t.written, t.writtenHour, 0), WrittenHour: max(t.writtenHour, 0), Output: t.output}
	switch {
	case d == Messages && t.input >= 0:
		u.Input += max(t.cached, 0) + u.Written
	case t.input >= 0 && t.output >= 0:
		u.Output = max(t.output, t.total-t.input)
	}
	if u.Input < 0 {
		u.Written, u.WrittenHour = 0, 0
	} else {
		u.Cached = min(u.Cached, u.Input)
		u.Written = min(u.Written, u.Input-max(u.Cached, 0))
		u.WrittenHour = min(u.WrittenHour, u.Written)
	}
	return u
}

// thoughtEnd ends the thinking before an answer. The opening tag may be part of the prompt, and therefore missing from
// the reply.
const thoughtEnd = "</think>"

// ReplyEchoKeys returns the keys by which a later request that continues this reply is recognised (see
// Request.EchoKeys), and "r:" with the reply's id. The request is recognised with or without prefill (Request.Prefill).
// The keys are computed once, so the reply must not change afterwards.
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
		if len(texts) > 1 { // in a Messages request, all texts are in one item
			keys = appendKey(keys, "t:", TextEchoHash(rep.Text))
		}
		if key, ok := replyStepKey(texts[0]); ok {
			keys = append(keys, key)
		}
	}
	keys = append(keys, rep.otherKeys...)
	return appendKey(keys, "r:", rep.ID)
}

func (rep *Reply) messageTexts() []string {
	if rep.texts == nil {
		return []string{rep.Text}
	}
	return rep.texts
}
