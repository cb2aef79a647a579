package detect

import (
	"encoding/binary"
	"encoding/json"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
)

// maxDecodedArgs is the maximum size of arguments that are decoded. A megabyte of "{}" would become a hundred megabytes
// of maps. Longer arguments are compared byte by byte.
const maxDecodedArgs = 256 << 10

// CanonicalArgs returns call arguments with sorted keys, and without white space and descriptions. The model words a
// description differently each time.
func CanonicalArgs(args string) string { return compiledPhrases().canonicalArgs(args, false) }

// canonicalArgs returns the form that equal calls share. Numbers are not converted, so 1 and 1.0 differ. If
// forComparison is true, each command line is replaced by the result of canonicalLine, which is not a valid command
// line.
func (p *phrases) canonicalArgs(args string, forComparison bool) string {
	trimmed := strings.TrimSpace(args)
	if trimmed == "" {
		return "{}"
	}
	if len(trimmed) > maxDecodedArgs {
		return trimmed
	}
	dec := json.NewDecoder(strings.NewReader(trimmed))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil || dec.More() {
		return collapseSpaces(trimmed)
	}
	if top, ok := v.(map[string]any); ok && p.hasInputKey(maps.Keys(top)) {
		maps.DeleteFunc(top, func(k string, _ any) bool { return p.isDescriptionKey(k) })
	}
	out, err := json.Marshal(p.canonical(v, forComparison))
	if err != nil { // cannot happen, because a decoded value can be encoded
		return trimmed
	}
	return string(out)
}

// canonical returns a decoded value's canonical form. It changes maps and slices in place.
func (p *phrases) canonical(v any, forComparison bool) any {
	switch x := v.(type) {
	case map[string]any:
		for k, e := range x {
			if p.isKey("command", k) {
				e = p.canonicalCommand(e, forComparison && isShellKey(k))
			}
			x[k] = p.canonical(e, forComparison)
		}
	case []any:
		for i := range x {
			x[i] = p.canonical(x[i], forComparison)
		}
	case string:
		return strings.TrimSpace(x)
	}
	return v
}

func isShellKey(key string) bool {
	return slices.Contains([]string{"command", "cmd", "commands", "shell_command", "command_line", "script"}, strings.ToLower(key))
}

// canonicalCommand returns the canonical form of a command argument. If forComparison is true, ["bash","-lc",LINE]
// becomes LINE's canonical form.
func (p *phrases) canonicalCommand(v any, forComparison bool) any {
	switch x := v.(type) {
	case string:
		if cmd, _ := p.canonicalLine(x); forComparison && cmd != x {
			return cmd
		}
		if !strings.ContainsAny(x, "'\"`\\\n") {
			return collapseSpaces(x)
		}
	case []any:
		if len(x) != 3 || !forComparison {
			return v
		}
		prog, _ := x[0].(string)
		option, _ := x[1].(string)
		if line, ok := x[2].(string); ok && p.inList("program shell", path.Base(prog)) && strings.HasPrefix(option, "-") && strings.HasSuffix(option, "c") {
			return p.canonicalCommand(line, forComparison)
		}
	}
	return v
}

// isDescriptionKey reports whether a key describes the call for the user. Callers drop a description only if there is
// another input, such as a command. In a call that makes an issue, the description is the input.
func (p *phrases) isDescriptionKey(key string) bool { return p.isKey("describes", key) }

func (p *phrases) hasInputKey(keys iter.Seq[string]) bool {
	for k := range keys {
		if p.isKey("works", k) {
			return true
		}
	}
	return false
}

// addLongestWords returns the three longest words in longest and s. The words have only bytes that JSON never escapes.
func addLongestWords(longest []string, s string) []string {
	isPlain := func(r rune) bool {
		return r < utf8.RuneSelf && (isWordByte(byte(r)) || r == '_' || r == '.' || r == '-')
	}
	for word := range strings.FieldsFuncSeq(s, func(r rune) bool { return !isPlain(r) }) {
		if len(word) < 3 || len(longest) == 3 && len(word) <= len(longest[2]) || slices.Contains(longest, word) {
			continue
		}
		longest = append(longest, word)
		slices.SortStableFunc(longest, func(a, b string) int { return len(b) - len(a) })
		longest = longest[:min(3, len(longest))]
	}
	return longest
}

// literals returns words that are in the arguments of every equal call and of every attempt (attempts.go). A search for
// these words rejects most calls, and is much cheaper than computing the canonical form.
func (c *toolCall) literals(args string) []string {
	switch c.args.kind {
	case objectValue:
	case arrayValue:
		return c.args.literals(nil)
	default: // unreadable arguments
		return addLongestWords(nil, cutText(args, maxDecodedArgs))
	}
	drop, words := c.phrases.hasInputKey(slices.Values(c.args.keys)), make([]string, 0, 3)
	for i, k := range c.args.keys {
		switch {
		case drop && c.phrases.isDescriptionKey(k), c.phrases.isKey("budget", k), c.phrases.isKey("cursor", k), c.args.isOnlyID(k):
		case isShellKey(k):
			if found, names := c.splitSearchCommand(); names != "" {
				_, folders, _ := strings.Cut(found, " ") // without the program, because the agent may repeat a grep search with rg
				words = addLongestWords(words, folders)
				continue
			}
			cmd, _ := c.withoutBudgets(c.commandText())
			cmd, _ = c.phrases.canonicalLine(cmd)
			words = addLongestWords(words, cmd)
		case c.args.vals[i].kind == stringValue && isSQL(k, c.args.vals[i].text()):
			words = addLongestWords(words, sqlNames(c.args.vals[i].text()))
		case c.args.vals[i].kind == stringValue && c.searches() && isQueryKey(k):
		default:
			words = c.args.vals[i].literals(words)
		}
	}
	return words
}

// literals returns the three longest words in longest and in v's strings and numbers.
func (v lenientValue) literals(longest []string) []string {
	switch v.kind {
	case stringValue:
		return addLongestWords(longest, v.text())
	case numberValue: // use numbers as written, because 1 and 1.0 are different arguments
		return addLongestWords(longest, v.raw)
	case noValue, boolValue, objectValue, arrayValue:
	}
	for i := range v.vals {
		longest = v.vals[i].literals(longest)
	}
	return longest
}

// callIdentity returns a hash of the tool and the canonical arguments.
func callIdentity(tool, args string) uint64 {
	call := compiledPhrases().analyseCall(tool, args)
	return call.identity(tool, args)
}

func (c *toolCall) identity(tool, args string) uint64 {
	if !c.isComplete(args) {
		return xxhash.Sum64String(tool + "\x00" + c.phrases.canonicalArgs(args, true))
	}
	return combineHashes(xxhash.Sum64String(tool), c.hashArgs(c.args))
}

// isComplete reports whether the arguments were read in full. Arguments that are too long or too deep are compared by
// their canonical text instead.
func (c *toolCall) isComplete(args string) bool {
	return c.argsComplete && c.args.kind == objectValue && len(args) <= maxDecodedArgs
}

// hashArgs returns a hash over the arguments without descriptions. The key order does not matter.
func (c *toolCall) hashArgs(args lenientValue) uint64 {
	dropDescription, sum := c.phrases.hasInputKey(slices.Values(args.keys)), uint64(len(args.keys))
	for i, k := range args.keys {
		if dropDescription && c.phrases.isDescriptionKey(k) || args.isOnlyID(k) {
			sum-- // so that a call without the argument is equal
			continue
		}
		sum += combineHashes(xxhash.Sum64String(k), c.hashValue(k, args.vals[i]))
	}
	return sum
}

// isOnlyID reports whether an argument is an id that may differ in equal calls. For example, a browser tool's "ref" is
// an element's number in the newest snapshot, and "element" describes the element.
func (v lenientValue) isOnlyID(key string) bool {
	switch strings.ToLower(key) {
	case "ref":
		element, _ := v.get("element")
		return element.raw != ""
	case "idempotency_key", "idempotencykey", "client_token", "clienttoken", "client_request_id", "correlation_id", "nonce":
		return len(v.keys) > 1
	}
	return false
}

func (c *toolCall) hashValue(key string, v lenientValue) uint64 {
	switch v.kind {
	case stringValue:
		text := v.text()
		if c.phrases.isKey("command", key) {
			text = c.canonicalCommand(text, isShellKey(key))
		} else if sql, ok := canonicalSQL(key, text); ok {
			text = sql
		}
		return xxhash.Sum64String(strings.TrimSpace(text))
	case objectValue:
		sum := uint64(1)
		for i, k := range v.keys {
			sum += combineHashes(xxhash.Sum64String(k), c.hashValue(k, v.vals[i]))
		}
		return sum
	case arrayValue:
		if len(v.vals) == 3 && isShellKey(key) && c.phrases.inList("program shell", path.Base(v.vals[0].text())) &&
			strings.HasPrefix(v.vals[1].text(), "-") && strings.HasSuffix(v.vals[1].text(), "c") {
			return c.hashValue(key, v.vals[2])
		}
		sum := uint64(2)
		for _, e := range v.vals {
			sum = combineHashes(sum, c.hashValue("", e))
		}
		return sum
	case noValue, numberValue, boolValue: // the text is hashed, so 1 and 1.0 differ
	}
	return combineHashes(uint64(v.kind), xxhash.Sum64String(v.raw))
}

// canonicalCommand returns the form that all equivalent spellings of a command share. If shellLine is false, the text
// is source code, and only white space changes.
func (c *toolCall) canonicalCommand(text string, shellLine bool) string {
	if shellLine {
		var line string
		if c.shell.line.Parsed && text == c.command {
			line, _ = c.canonicalLine()
		} else {
			line, _ = c.phrases.canonicalLine(text)
		}
		if line != text {
			return line
		}
	}
	if !strings.ContainsAny(text, "'\"`\\\n") {
		return collapseSpaces(text)
	}
	return text
}

// canonicalLine is phrases.canonicalLine for c.command, without a second parse.
func (c *toolCall) canonicalLine() (command, settings string) {
	if !c.shell.line.Parsed || !isPlainLine(c.command) {
		return c.phrases.canonicalLine(c.command)
	}
	return c.phrases.canonicalParsedLine(c.command, &c.shell.line)
}

// combineHashes returns a hash for the ordered pair a, b.
func combineHashes(a, b uint64) uint64 {
	var pair [16]byte
	binary.LittleEndian.PutUint64(pair[:8], a)
	binary.LittleEndian.PutUint64(pair[8:], b)
	return xxhash.Sum64(pair[:])
}
