package lesson

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// The YAML parser is recursive, and Go cannot recover from a stack overflow. Without limits, it would need 35 seconds
// for 60 KB of open brackets.
const (
	maxFrontmatter = 32 << 10 // bytes
	maxDepth       = 32       // nested values
	maxBrackets    = 64       // brackets that are open at the same time
	maxIndicators  = 100      // YAML indicators, such as - and ?, in one line
)

type nodeKind uint8

const (
	kindNull nodeKind = iota
	kindBool
	kindNumber
	kindString
	kindList
	kindMap
)

func (k nodeKind) String() string {
	return [...]string{
		kindNull: "empty", kindBool: "true or false", kindNumber: "a number", kindString: "text", kindList: "a list", kindMap: "a mapping",
	}[k]
}

// node is a YAML value. Only JSON's values are accepted: without anchors, aliases and merge keys, a small file cannot
// expand to a large value.
type node struct {
	kind   nodeKind
	text   string  // a string, or a number as written
	number float64 // 1 for true
	list   []node
	keys   []pair
	line   int  // in the frontmatter, from 1
	isFlow bool // written in brackets or braces
}

type pair struct {
	key  string
	line int
	val  node
}

func (n *node) get(key string) (*node, bool) {
	if i := indexKey(n, key); i >= 0 {
		return &n.keys[i].val, true
	}
	return nil, false
}

func indexKey(n *node, key string) int {
	return slices.IndexFunc(n.keys, func(p pair) bool { return p.key == key })
}

func readYAML(src string) (root node, faults ValidationErrors) {
	defer func() {
		// A malicious file can make the library panic.
		if r := recover(); r != nil {
			faults = ValidationErrors{{Code: CodeInvalid, Message: fmt.Sprintf("the frontmatter cannot be read as YAML (%v); simplify it", r)}}
		}
	}()
	if exceedsYAMLLimits(src) {
		return node{}, ValidationErrors{{Code: CodeInvalid, Message: "the frontmatter is nested too deeply; flatten it"}}
	}
	file, err := parser.ParseBytes([]byte(src), 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return node{}, ValidationErrors{yamlError(src, err)}
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return node{kind: kindNull}, nil
	}
	if len(file.Docs) > 1 {
		return node{}, ValidationErrors{{Code: CodeInvalid, Message: "the frontmatter contains more than one YAML document; keep one"}}
	}
	c := converter{}
	root = c.node(file.Docs[0].Body, 0)
	return root, c.errs
}

// exceedsYAMLLimits reports whether the frontmatter in src exceeds the limits. Characters in quotes count as well,
// because no lesson comes close to the limits.
func exceedsYAMLLimits(src string) bool {
	openBrackets := 0
	for line := range strings.Lines(src) {
		indicators := 0
		for i := range len(line) {
			switch c := line[i]; {
			case c == '[' || c == '{':
				if openBrackets++; openBrackets > maxBrackets {
					return true
				}
			case (c == ']' || c == '}') && openBrackets > 0:
				openBrackets--
			case strings.IndexByte("-?!&*:", c) >= 0 && (i+1 == len(line) || line[i+1] == ' ' || i > 0 && line[i-1] == ' '):
				indicators++
			}
		}
		if indicators > maxIndicators {
			return true
		}
	}
	return false
}

func yamlError(src string, err error) ValidationError {
	f := ValidationError{Code: CodeInvalid, Message: err.Error()}
	if ye, ok := errors.AsType[yaml.Error](err); ok {
		f.Message = ye.GetMessage()
		if t := ye.GetToken(); t != nil && t.Position != nil {
			f.Line = t.Position.Line + 1 // the opening --- is line 1
		}
	}
	if isIndentedByTab(src, f.Line-1) {
		f.Message = "the frontmatter is not valid YAML: a tab indents the line; indent with spaces"
		return f
	}
	f.Message = "the frontmatter is not valid YAML: " + f.Message + "; correct it, and put text with punctuation into quotes"
	return f
}

// isIndentedByTab reports whether a line is indented by a tab. Line numbers start at 1.
func isIndentedByTab(src string, line int) bool {
	n := 0
	for text := range strings.Lines(src) {
		if n++; n == line {
			return strings.Contains(text[:len(text)-len(strings.TrimLeft(text, " \t"))], "\t")
		}
	}
	return false
}

type converter struct{ errs ValidationErrors }

func (c *converter) refuse(n ast.Node, message string) {
	c.errs = append(c.errs, ValidationError{Code: CodeInvalid, Line: nodeLine(n) + 1, Message: message})
}

func nodeLine(n ast.Node) int {
	if n == nil {
		return 0
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line
	}
	return 0
}

// node converts a value, and records a fault for kinds of values that lessons do not use.
func (c *converter) node(n ast.Node, depth int) node {
	out := node{line: nodeLine(n)}
	if depth > maxDepth {
		c.refuse(n, fmt.Sprintf("values are nested more than %d deep; flatten them", maxDepth))
		return out
	}
	switch v := n.(type) {
	case nil, *ast.NullNode:
		out.kind = kindNull
	case *ast.BoolNode:
		out.kind = kindBool
		if v.Value {
			out.number = 1
		}
	case *ast.IntegerNode:
		out.kind, out.number = kindNumber, toFloat(v.Value)
		out.text = v.Token.Value
	case *ast.FloatNode:
		out.kind, out.number = kindNumber, v.Value
		out.text = v.Token.Value
	case *ast.InfinityNode:
		out.kind, out.number, out.text = kindNumber, v.Value, v.Token.Value
	case *ast.NanNode:
		out.kind, out.number, out.text = kindNumber, math.NaN(), v.Token.Value
	case *ast.StringNode:
		out.kind, out.text = kindString, v.Value
	case *ast.LiteralNode:
		out.kind, out.text = kindString, v.Value.Value
	case *ast.SequenceNode:
		out.kind, out.isFlow = kindList, v.IsFlowStyle
		for _, item := range v.Values {
			out.list = append(out.list, c.node(item, depth+1))
		}
	case *ast.MappingNode:
		out.kind, out.isFlow = kindMap, v.IsFlowStyle
		out.keys = c.pairs(v.Values, depth)
	case *ast.MappingValueNode:
		out.kind = kindMap
		out.keys = c.pairs([]*ast.MappingValueNode{v}, depth)
	default:
		c.refuse(n, "anchors, aliases, merge keys and explicit tags are not supported; write the value itself")
	}
	return out
}

// pairs converts a mapping's pairs, and records a fault for a repeated key.
func (c *converter) pairs(values []*ast.MappingValueNode, depth int) []pair {
	pairs := make([]pair, 0, len(values))
	seen := make(map[string]bool, len(values))
	for _, mv := range values {
		var key string
		switch k := mv.Key.(type) {
		case *ast.StringNode:
			key = k.Value
		case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
			key = strings.TrimSpace(k.String())
		default:
			c.refuse(mv.Key, "the key is not a plain word; write one")
			continue
		}
		if seen[key] {
			c.refuse(mv.Key, fmt.Sprintf("the key %q occurs twice; keep one", key))
			continue
		}
		seen[key] = true
		pairs = append(pairs, pair{key: key, line: nodeLine(mv.Key), val: c.node(mv.Value, depth+1)})
	}
	return pairs
}

func toFloat(v any) float64 {
	switch n := v.(type) {
	case int64:
		return float64(n)
	case uint64:
		return float64(n)
	default:
		return math.NaN()
	}
}
