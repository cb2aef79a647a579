package detect

import (
	"encoding/json"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
)

// maxCanon is the number of bytes of the longest arguments that are decoded: a megabyte of "{}"
// would become a hundred megabytes of maps. Longer arguments are equal if their bytes are equal.
const maxCanon = 256 << 10

// CanonicalArgs returns the arguments of a call in canonical form: sorted keys, no white space, and
// no descriptions that the model words differently each time.
func CanonicalArgs(args string) string { return wording().canonicalArgs(args, false) }

// canonicalArgs returns arguments in a form in which equal calls are equal. Numbers keep their
// spelling: 1 and 1.0 are different calls. With spell, the result is for comparisons only, and the
// spelling of a command line does not count.
func (p *phrases) canonicalArgs(args string, spell bool) string {
	trimmed := strings.TrimSpace(args)
	if trimmed == "" {
		return "{}"
	}
	if len(trimmed) > maxCanon {
		return trimmed
	}
	dec := json.NewDecoder(strings.NewReader(trimmed))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil || dec.More() {
		return oneSpace(trimmed)
	}
	if top, ok := v.(map[string]any); ok && p.hasWork(maps.Keys(top)) {
		maps.DeleteFunc(top, func(k string, _ any) bool { return p.describes(k) })
	}
	out, err := json.Marshal(p.canonical(v, spell))
	if err != nil { // a decoded value always encodes
		return trimmed
	}
	return string(out)
}

// canonical changes a value to its canonical form.
func (p *phrases) canonical(v any, spell bool) any {
	switch x := v.(type) {
	case map[string]any:
		for k, e := range x {
			if p.isKey("command", k) {
				e = p.canonicalCommand(e, spell && isShellKey(k))
			}
			x[k] = p.canonical(e, spell)
		}
	case []any:
		for i := range x {
			x[i] = p.canonical(x[i], spell)
		}
	case string:
		return strings.TrimSpace(x)
	}
	return v
}

// isShellKey reports whether an argument holds a command line, and not the text of a program.
func isShellKey(key string) bool {
	return slices.Contains([]string{"command", "cmd", "commands", "shell_command", "command_line", "script"}, strings.ToLower(key))
}

// canonicalCommand returns a command line in its canonical form, also the line in
// ["bash","-lc",LINE].
func (p *phrases) canonicalCommand(v any, spell bool) any {
	switch x := v.(type) {
	case string:
		if cmd, _ := p.spelling(x); spell && cmd != x {
			return cmd
		}
		if !strings.ContainsAny(x, "'\"`\\\n") {
			return oneSpace(x)
		}
	case []any:
		if len(x) != 3 || !spell {
			return v
		}
		prog, _ := x[0].(string)
		option, _ := x[1].(string)
		if line, ok := x[2].(string); ok && p.is("program shell", path.Base(prog)) && strings.HasPrefix(option, "-") && strings.HasSuffix(option, "c") {
			return p.canonicalCommand(line, spell)
		}
	}
	return v
}

// describes reports whether a key holds a description for people. Descriptions are dropped only
// next to a key that does the work: the description of a new issue is the work.
func (p *phrases) describes(key string) bool { return p.isKey("describes", key) }

func (p *phrases) hasWork(keys iter.Seq[string]) bool {
	for k := range keys {
		if p.isKey("works", k) {
			return true
		}
	}
	return false
}

// longest returns the three longest runs of plain letters and digits. Every JSON spelling of a text
// holds these runs unchanged.
func longest(have []string, s string) []string {
	plain := func(r rune) bool {
		return r < utf8.RuneSelf && (isWordByte(byte(r)) || r == '_' || r == '.' || r == '-')
	}
	for word := range strings.FieldsFuncSeq(s, func(r rune) bool { return !plain(r) }) {
		if len(word) < 3 || len(have) == 3 && len(word) <= len(have[2]) || slices.Contains(have, word) {
			continue
		}
		have = append(have, word)
		slices.SortStableFunc(have, func(a, b string) int { return len(b) - len(a) })
		have = have[:min(3, len(have))]
	}
	return have
}

// literals returns values that every spelling of the arguments holds literally, with any budget. A text without the
// values is another call. The search for literals is much cheaper than the canonical form, which
// few calls need.
func (c *toolCall) literals(args string) []string {
	switch c.args.kind {
	case objectValue:
	case arrayValue:
		return c.args.literals(nil)
	default: // unreadable arguments
		return longest(nil, cutText(args, maxCanon))
	}
	drop, words := c.phrases.hasWork(slices.Values(c.args.keys)), make([]string, 0, 3)
	for i, k := range c.args.keys {
		switch {
		case drop && c.phrases.describes(k), c.phrases.isKey("budget", k), c.phrases.isKey("cursor", k):
		case isShellKey(k):
			cmd, _ := c.phrases.looseCommand(c.commandText())
			cmd, _ = c.phrases.spelling(cmd)
			words = longest(words, cmd)
		default:
			words = c.args.vals[i].literals(words)
		}
	}
	return words
}

func (v lenientValue) literals(have []string) []string {
	switch v.kind {
	case stringValue:
		return longest(have, v.text())
	case numberValue: // a number keeps its spelling
		return longest(have, v.raw)
	case noValue, boolValue, objectValue, arrayValue:
	}
	for i := range v.vals {
		have = v.vals[i].literals(have)
	}
	return have
}

// callKey returns the identity of a call: a hash of tool and canonical arguments.
func callKey(tool, args string) uint64 {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.WriteString(tool)
	_, _ = d.Write([]byte{0})
	_, _ = d.WriteString(wording().canonicalArgs(args, true))
	return d.Sum64()
}
