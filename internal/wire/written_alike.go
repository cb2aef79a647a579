package wire

import (
	"strings"

	"github.com/cespare/xxhash/v2"
)

// An agent whose form of calls and results nobody has listed gives itself away when it goes round
// in circles: it offers no tools, an answer of the model makes a call (an object of JSON, tags),
// and the same text answers the same call twice. These texts are results then, and so is what
// answers the calls between them. A block between fences is shown to people, too, who may come back
// with the same failure: there it takes three. The texts stay the user's words for everything but
// loops: what an item is must not change when the next one comes.

// answeredAlike finds the call that the text of an item answers, where the list shows that it does.
func (r *Request) answeredAlike(it *Item, text string) (Call, bool) {
	if it.Words == "" || !r.mayBeWritten(it.Index) {
		return Call{}, false
	}
	c, bare := anyCall(r.saidAt(it.Index - 1))
	if c.Name == "" {
		return Call{}, false
	}
	if r.alike == nil {
		r.pairAlike()
	}
	if bare {
		return c, r.circles || r.alike[alikeKey(&c, text)] > 1
	}
	return c, r.alike[alikeKey(&c, text)] > 2
}

func (r *Request) mayBeWritten(i int) bool {
	return i > 0 && !r.Delta && r.withoutTools() && r.list[i].role == RoleUser && r.list[i-1].role == RoleAssistant
}

// withoutTools says whether the agent has none on the wire, and had none.
func (r *Request) withoutTools() bool { return len(r.Tools) == 0 && len(r.results) == 0 }

// pairAlike counts how often each call was answered by each text.
func (r *Request) pairAlike() {
	r.alike = make(map[uint64]int)
	for i := range r.list {
		if !r.mayBeWritten(i) {
			continue
		}
		c, bare := anyCall(r.saidAt(i - 1))
		if c.Name == "" {
			continue
		}
		_, text := cutLead(r.saidAt(i))
		if text = strings.TrimSpace(text); text == "" || observed(text) {
			continue
		}
		key := alikeKey(&c, text)
		r.alike[key]++
		r.circles = r.circles || bare && r.alike[key] > 1
	}
}

// alikeKey is what a call and its answer have in common with an equal pair: all but the digits of
// the text, which count seconds and turns.
func alikeKey(c *Call, text string) uint64 {
	kept := make([]byte, 0, len(text))
	for _, b := range []byte(text) {
		if b < '0' || b > '9' {
			kept = append(kept, b)
		}
	}
	return mix(xxhash.Sum64String(EchoCall(c)), xxhash.Sum64(kept))
}

// anyCall reads the call in an answer, in whichever form. bare says that it is one that only a
// program reads: people are shown blocks of code, too.
func anyCall(text string) (c Call, bare bool) {
	text = withoutThinking(text)
	if c, ok := objectCall(text); ok {
		return c, true
	}
	c, ok := tagCall(text)
	if !ok {
		return Call{}, false
	}
	if bare = c.Name != "bash"; !bare {
		c.Name = "code" // in whichever language
	}
	return c, bare
}

// withoutThinking is an answer behind what the model thought aloud at its beginning.
func withoutThinking(text string) string {
	text = strings.TrimSpace(text)
	for _, tag := range [...]string{"think", "thinking", "thought"} {
		if rest, ok := strings.CutPrefix(text, "<"+tag+">"); ok {
			if _, answer, ok := strings.Cut(rest, "</"+tag+">"); ok {
				return strings.TrimSpace(answer)
			}
		}
	}
	return text
}

// objectCall reads the object of JSON with which an answer ends, in a fence or without one.
func objectCall(text string) (Call, bool) {
	text = strings.TrimSpace(strings.TrimSuffix(text, "```"))
	from := strings.IndexByte(text, '{')
	if from < 0 || text[len(text)-1] != '}' {
		return Call{}, false
	}
	b := []byte(text[from:])
	if !valid(b) {
		return Call{}, false
	}
	c := Call{Name: "tool"}
	args := []byte{'{'}
	for key, v := range members(b, span{0, len(b)}) {
		switch name := string(key); name {
		case "thought", "thoughts", "thinking", "reasoning", "reflection", "current_state", "observation":
			continue
		case "request", "name", "tool", "tool_name", "action", "command", "function":
			if n, in := namedCall(b, v); n != "" && c.Name == "tool" {
				c.Name, c.Args = n, in
			}
		}
		if len(args) > 1 {
			args = append(args, ',')
		}
		args = append(AppendString(args, string(key)), ':')
		args = append(args, v.of(b)...)
	}
	if c.Args == "" {
		c.Args = string(append(args, '}'))
	}
	return c, len(args) > 1
}

// namedCall reads a member of a call that may name the tool: it is the name, or holds it beside the
// arguments.
func namedCall(b []byte, v span) (name, args string) {
	if kindAt(b, v) == '{' {
		name, args = jsonCall(string(v.of(b)))
		return name, args
	}
	if name = text(b, v); !isTag(name) {
		return "", ""
	}
	return name, ""
}
