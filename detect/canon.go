package detect

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// maxCanon is the longest arguments that are decoded for their canonical form: a megabyte of "{}"
// would become a hundred of maps. Longer ones are equal when they are written alike.
const maxCanon = 256 << 10

// canonicalArgs is a call's arguments in a form in which equal calls are equal: keys sorted, white
// space gone, descriptions that the model writes anew each time dropped. words are values that
// every spelling of these arguments holds literally: what does not contain them is another call.
func canonicalArgs(args string) (canon string, words []string) {
	trimmed := strings.TrimSpace(args)
	if trimmed == "" {
		return "{}", nil
	}
	if len(trimmed) > maxCanon {
		return trimmed, longest(nil, trimmed[:maxCanon])
	}
	dec := json.NewDecoder(strings.NewReader(trimmed))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil || dec.More() {
		flat := strings.Join(strings.Fields(trimmed), " ")
		return flat, longest(nil, flat)
	}
	var b bytes.Buffer
	c := canoniser{out: &b}
	c.value(v, true)
	return b.String(), append(c.numbers, c.words...)
}

type canoniser struct {
	out     *bytes.Buffer
	words   []string
	numbers []string
}

func (c *canoniser) value(v any, top bool) {
	switch x := v.(type) {
	case map[string]any:
		c.object(x, top)
	case []any:
		c.out.WriteByte('[')
		for i, e := range x {
			if i > 0 {
				c.out.WriteByte(',')
			}
			c.value(e, false)
		}
		c.out.WriteByte(']')
	case string:
		s := strings.TrimSpace(x)
		c.words = longest(c.words, s)
		c.quote(s)
	case json.Number:
		c.number(x.String())
	case bool:
		if x {
			c.out.WriteString("true")
		} else {
			c.out.WriteString("false")
		}
	default:
		c.out.WriteString("null")
	}
}

func (c *canoniser) object(x map[string]any, top bool) {
	names := make([]string, 0, len(x))
	for k := range x {
		names = append(names, k)
	}
	slices.Sort(names)
	drop := top && hasWork(x)
	c.out.WriteByte('{')
	n := 0
	for _, k := range names {
		if drop && describes(k) {
			continue
		}
		if n++; n > 1 {
			c.out.WriteByte(',')
		}
		c.quote(k)
		c.out.WriteByte(':')
		c.value(x[k], false)
	}
	c.out.WriteByte('}')
}

// number keeps a number as it is spelled: 1 and 1.0 are different calls, which only means that a
// loop is seen later.
func (c *canoniser) number(s string) {
	c.out.WriteString(s)
	if n := len(c.numbers); n < 3 && len(s) > 1 {
		c.numbers = append(c.numbers, s)
	}
}

func (c *canoniser) quote(s string) {
	b, err := json.Marshal(s)
	if err != nil { // a string always marshals
		b = []byte(`""`)
	}
	c.out.Write(b)
}

// describes: keys whose value tells people what the call is about. They are dropped only beside a
// key that does the work: the description of an issue that is to be created is the work itself.
func describes(key string) bool {
	switch strings.ToLower(key) {
	case "description", "explanation", "thought", "thoughts", "rationale", "justification", "_description", "toolsummary", "toolaction", "security_risk", "sandbox_permissions", "task_progress", "requires_approval":
		return true
	}
	return false
}

func hasWork(x map[string]any) bool {
	for k := range x {
		if doesWork(k) {
			return true
		}
	}
	return false
}

func doesWork(key string) bool {
	switch strings.ToLower(key) {
	case "command", "cmd", "commands", "script", "code", "path", "file_path", "filepath", "absolute_path", "pattern", "query", "url", "prompt", "target_file":
		return true
	}
	return false
}

// longest keeps the three longest runs of plain letters and digits: they stand in every JSON
// spelling of the text as they are, whatever a serialiser escapes.
func longest(have []string, s string) []string {
	start := -1
	for i := 0; i <= len(s); i++ {
		if i < len(s) && (isLetter(s[i]) || isDigit(s[i]) || s[i] == '_' || s[i] == '.' || s[i] == '-') {
			if start < 0 {
				start = i
			}
			continue
		}
		if start >= 0 && i-start >= 3 {
			have = keepLongest(have, s[start:i])
		}
		start = -1
	}
	return have
}

func keepLongest(have []string, w string) []string {
	if slices.Contains(have, w) {
		return have
	}
	if len(have) < 3 {
		return append(have, w)
	}
	least := 0
	for i := range have {
		if len(have[i]) < len(have[least]) {
			least = i
		}
	}
	if len(w) > len(have[least]) {
		have[least] = w
	}
	return have
}

// literals are such words without the canonical form, which costs much more and is hardly ever
// needed: few calls were made before.
func (c *toolCall) literals(args string) []string {
	if c.args.kind != laxObject {
		_, words := canonicalArgs(args)
		return words
	}
	drop, words := c.args.hasWork(), make([]string, 0, 3)
	for i, k := range c.args.keys {
		if !drop || !describes(k) {
			words = c.args.vals[i].literals(words)
		}
	}
	return words
}

func (v laxValue) literals(have []string) []string {
	switch v.kind {
	case laxString:
		return longest(have, v.text())
	case laxNumber: // a number is kept as it is spelled
		if len(v.raw) > 1 {
			return keepLongest(have, v.raw)
		}
	case laxNone, laxBool, laxObject, laxArray:
	}
	for i := range v.vals {
		have = v.vals[i].literals(have)
	}
	return have
}

func (v laxValue) hasWork() bool {
	return slices.ContainsFunc(v.keys, doesWork)
}

// callKey is the identity of a call: its tool and canonical arguments.
func callKey(tool, canon string) uint64 {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.WriteString(tool)
	_, _ = d.Write([]byte{0})
	_, _ = d.WriteString(canon)
	return d.Sum64()
}
