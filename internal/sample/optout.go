package sample

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"

	"precept/internal/wire"
)

// OptOut reports which content must not be stored. The zero value permits all content. An OptOut is safe for concurrent
// use.
type OptOut struct {
	paths           []pathPattern
	pathHash        string // see PathHash
	agents, tenants []string
}

type pathPattern struct {
	glob    string
	literal string // every matching path contains this text, so most arguments need no parsing; can be ""
}

// NewOptOut returns the opt-outs for paths, agents and tenants. The arguments are globs in doublestar syntax that
// ignore case. The error names the first invalid glob.
func NewOptOut(paths, agents, tenants []string) (*OptOut, error) {
	o := &OptOut{}
	for _, p := range paths {
		g := strings.TrimPrefix(strings.ToLower(strings.ReplaceAll(p, `\`, "/")), "./")
		if g == "" || !doublestar.ValidatePattern(g) {
			return nil, fmt.Errorf("opt_out_patterns: %q is not a glob; write one such as *.env or secrets/**", p)
		}
		o.paths = append(o.paths, pathPattern{glob: g, literal: globLiteral(g)})
	}
	o.pathHash = hashGlobs(o.paths)
	for _, list := range []struct {
		key  string
		from []string
		to   *[]string
	}{{"opt_out_agents", agents, &o.agents}, {"opt_out_tenants", tenants, &o.tenants}} {
		for _, p := range list.from {
			g := strings.ToLower(p)
			if g == "" || !doublestar.ValidatePattern(g) {
				return nil, fmt.Errorf("%s: %q is not a glob; write one such as ci-*", list.key, p)
			}
			*list.to = append(*list.to, g)
		}
	}
	return o, nil
}

// OptsOutAgent reports whether the agent opted out.
func (o *OptOut) OptsOutAgent(name string) bool { return matchesAny(o.agents, name) }

// OptsOutTenant reports whether the tenant opted out.
func (o *OptOut) OptsOutTenant(name string) bool { return matchesAny(o.tenants, name) }

func matchesAny(globs []string, name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(globs, func(g string) bool { return doublestar.MatchUnvalidated(g, name) })
}

// UnknownArgs replaces a call's arguments if precept does not have them.
const UnknownArgs = "\x00unknown"

// PathHash returns a hash of the path patterns, or "" if there are none. An exchange that was stored under a different
// hash can name a path that is now opted out.
func (o *OptOut) PathHash() string {
	if o == nil {
		return ""
	}
	return o.pathHash
}

func hashGlobs(paths []pathPattern) string {
	if len(paths) == 0 {
		return ""
	}
	globs := make([]string, len(paths))
	for i := range paths {
		globs[i] = paths[i].glob
	}
	slices.Sort(globs)
	sum := sha256.Sum256([]byte(strings.Join(globs, "\n")))
	return hex.EncodeToString(sum[:6])
}

// NamesPath reports whether a tool's arguments name an opted-out path. It reads strings in JSON, including nested JSON,
// and the words in commands. Each word is treated as a path, because a false hit only loses an exchange, but a miss
// stores forbidden content.
func (o *OptOut) NamesPath(args string) bool {
	return o.mayNamePath([]byte(args)) && o.textNamesPath(args, 0)
}

// ExchangeNamesPath reports whether a call in the exchange's reply or items names an opted-out path.
func (o *OptOut) ExchangeNamesPath(x *Exchange) bool {
	if len(o.paths) == 0 {
		return false
	}
	return slices.ContainsFunc(x.Reply.Calls, func(c Call) bool { return o.NamesPath(c.Args) }) || slices.ContainsFunc(x.New, o.itemNamesPath)
}

// itemNamesPath checks the calls in an item. If the item cannot be parsed, itemNamesPath checks the whole text.
func (o *OptOut) itemNamesPath(item json.RawMessage) bool {
	calls, ok := wire.CallsIn(item)
	if !ok {
		return o.NamesPath(string(item))
	}
	return slices.ContainsFunc(calls, func(call []byte) bool { return o.mayNamePath(call) && o.textNamesPath(string(call), 0) })
}

// mayNamePath is a cheap test before NamesPath. It does not decode args, which can contain a whole file. The result is
// also true for an escape such as \u002e, which can hide a pattern's literal.
func (o *OptOut) mayNamePath(args []byte) bool {
	if bytes.Contains(args, []byte(`\u`)) {
		return len(o.paths) > 0
	}
	var room [1 << 10]byte
	flat := appendLower(room[:0], args)
	return slices.ContainsFunc(o.paths, func(p pathPattern) bool { return bytes.Contains(flat, []byte(p.literal)) })
}

// appendLower returns text in lower case, appended to dst if the text is ASCII. Most texts are short, so dst can be a
// buffer on the stack.
func appendLower(dst, text []byte) []byte {
	for _, c := range text {
		if c >= utf8.RuneSelf {
			return bytes.ToLower(text)
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}

// textNamesPath is NamesPath without mayNamePath. depth counts the JSON values around text.
func (o *OptOut) textNamesPath(text string, depth int) bool {
	const maxDepth = 6
	trimmed := strings.TrimSpace(text)
	if depth < maxDepth && trimmed != "" && strings.IndexByte(`{["`, trimmed[0]) >= 0 {
		var v any
		if json.Unmarshal([]byte(trimmed), &v) == nil {
			return o.valueNamesPath(v, depth+1)
		}
	}
	flat := strings.ToLower(strings.ReplaceAll(text, `\`, "/"))
	return slices.ContainsFunc(o.paths, func(p pathPattern) bool { return strings.Contains(flat, p.literal) && p.matchesInText(flat) })
}

func (o *OptOut) valueNamesPath(v any, depth int) bool {
	switch v := v.(type) {
	case string:
		return o.textNamesPath(v, depth)
	case []any:
		return slices.ContainsFunc(v, func(e any) bool { return o.valueNamesPath(e, depth) })
	case map[string]any:
		for k, e := range v {
			if o.textNamesPath(k, depth) || o.valueNamesPath(e, depth) {
				return true
			}
		}
	}
	return false
}

// matchesInText reports whether a lower-case text names a matching path. The path may be the whole text (names can
// contain spaces), a word between spaces or a shell's special characters, or a run of plain file name characters.
func (p pathPattern) matchesInText(flat string) bool {
	const maxPath = 4096
	if len(flat) <= maxPath && p.matches(flat) {
		return true
	}
	for _, isBreak := range [...]func(rune) bool{isBlank, isShellBreak, p.isNameBreak} {
		for w := range strings.FieldsFuncSeq(flat, isBreak) {
			if p.mayMatch(w) && p.matches(w) {
				return true
			}
		}
	}
	return false
}

// mayMatch is a cheap test before matches. The pattern secrets/** also matches "secrets", a frequent word in prose, so
// a pattern with a slash requires a slash in the word.
func (p pathPattern) mayMatch(w string) bool {
	return strings.Contains(w, p.literal) && (strings.IndexByte(w, '/') >= 0 || strings.IndexByte(strings.TrimPrefix(p.glob, "**/"), '/') < 0)
}

func (p pathPattern) matches(w string) bool {
	w = normalPath(w)
	if w == "" || w == "." || w == "/" {
		return false
	}
	return doublestar.MatchUnvalidated(p.glob, w) ||
		doublestar.MatchUnvalidated(p.glob, path.Base(w)) ||
		doublestar.MatchUnvalidated("**/"+strings.TrimLeft(p.glob, "/"), strings.TrimLeft(w, "/"))
}

// normalPath returns a path without ./, .., doubled slashes and quotes, and without the trailing dots and spaces that
// Windows ignores.
func normalPath(w string) string {
	w = strings.Trim(w, " \t\r\n\"'`")
	w = strings.TrimPrefix(w, "file://")
	if w == "" {
		return ""
	}
	w = path.Clean(w)
	names := strings.Split(w, "/")
	for i, n := range names {
		if n != "." && n != ".." {
			names[i] = strings.TrimRight(n, ". ")
		}
	}
	return strings.Join(names, "/")
}

func isBlank(r rune) bool { return r == ' ' || r == '\n' || r == '\t' || r == '\r' }

func isShellBreak(r rune) bool {
	switch r {
	case '"', '\'', '`', ';', '|', '&', '<', '>', '(', ')', '=', ',', ':', '$', '@', '{', '}', '[', ']', '#', '!':
		return true
	}
	return isBlank(r)
}

// isNameBreak reports whether r belongs to neither a plain file name nor the pattern. Splitting a text at such
// characters finds the path in `cat .env*`, and in languages without spaces between words.
func (p pathPattern) isNameBreak(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', '0' <= r && r <= '9', strings.ContainsRune("._-/", r):
		return false
	}
	return r < utf8.RuneSelf || !strings.ContainsRune(p.glob, r)
}

// globLiteral returns a glob's longest run without meta characters, or "" if matching paths share no text.
func globLiteral(glob string) string {
	if strings.ContainsAny(glob, "{[\"<>&") { // alternatives share no text, and JSON can escape a quote, <, > and &
		return ""
	}
	best := ""
	for part := range strings.FieldsFuncSeq(glob, func(r rune) bool { return strings.ContainsRune("*?[]{}!/", r) }) {
		if len(part) > len(best) {
			best = part
		}
	}
	return best
}
