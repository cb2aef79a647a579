// Package shell reads shell command lines from agents, and never runs or expands a command.
//
// mvdan.cc/sh parses the text as Bash. Text that is not Bash (PowerShell, a pasted prompt, a truncated command) is
// split at operators, and Line.Parsed is false. In that case callers must assume that the line may do anything.
package shell

import (
	"path"
	"slices"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

// maxText is the maximum number of bytes that Parse reads. It bounds the stack: the parser recurses at each opening
// bracket, and Go cannot recover from a stack overflow.
const maxText = 4096

// Characters before which unescape drops a backslash. Unlike Bash, unescape keeps a backslash before a letter, because
// it may separate names in a Windows path.
const (
	unquotedEscapes = " \t\"'`\\$&|;<>(){}[]*?!#~=%@+,:-"
	quotedEscapes   = "\"\\$`"
)

// maxDepth is the maximum result of depth for which the text is parsed. Deeper text is split at operators.
const maxDepth = 64

const maxNesting = 3 // nested shells; bash -c "sh -c 'make'" has two

// Line holds the commands in a command line.
type Line struct {
	Commands            []Command // in textual order; the commands in a substitution follow the surrounding command
	Writes              bool      // a redirection writes a file; if Parsed is false, a here-document counts as well
	RetriesUntilSuccess bool      // a loop repeats a command until it succeeds
	Parsed              bool      // the text is valid Bash
}

// Command is one simple command.
type Command struct {
	Assigns        []string // NAME=value before the command, as written
	EnvNames       []string // the names in Assigns
	Words          []string // program and arguments, without quotes and with unexpanded variables
	Operator       string   // operator before the command: "|", "&&", "||" or ";"; "" for the first command
	InSubstitution bool     // in a substitution such as $(...), so the exit status is lost
}

// Parse returns the commands in a command line.
func Parse(text string) Line {
	text = text[:min(len(text), maxText)]
	if depth(text) <= maxDepth {
		if line, ok := parse(text, maxNesting); ok {
			return line
		}
	}
	return splitUnparsed(text)
}

// depth returns an upper bound for the brackets and keywords that are open at the same time. The parser needs 10 µs for
// each unclosed bracket or keyword.
func depth(text string) int {
	open, deepest, word := 0, 0, 0
	for i := range len(text) {
		switch text[i] {
		case '(', '{', '[':
			open++
		case ')', '}', ']':
			if i == 0 || text[i-1] != '(' { // f() opens a function
				open = max(0, open-1)
			}
		case ' ', ';', '\n':
			switch text[word:i] {
			case "if", "while", "until", "for", "case", "select", "time", "!":
				open++
			case "fi", "done", "esac":
				open = max(0, open-1)
			}
		default:
			continue
		}
		word, deepest = i+1, max(deepest, open)
	}
	return deepest
}

// parsers holds parsers for reuse, because each allocates a 2 KB buffer, and most command lines are short.
//
//nolint:gochecknoglobals // a sync.Pool is safe for concurrent use, and holds no state between calls
var parsers = sync.Pool{New: func() any { return syntax.NewParser() }}

func parse(text string, nesting int) (line Line, ok bool) {
	defer func() {
		if recover() != nil {
			line, ok = Line{}, false
		}
	}()
	r := reader{text: text, nesting: nesting}
	parser := parsers.Get().(*syntax.Parser) //nolint:errcheck,forcetypeassert // the pool holds nothing else
	failed := false
	for stmt, err := range parser.StmtsSeq(strings.NewReader(text)) {
		if failed = failed || err != nil; failed {
			continue // the parser stops after an error
		}
		r.read(stmt)
	}
	parsers.Put(parser) // a parser that panicked is not used again
	if failed {
		return Line{}, false
	}
	r.line.Parsed = true
	return r.line, true
}

type reader struct {
	text     string
	nesting  int // nested shells still to be read
	line     Line
	operator string // before the next command
}

// read adds a statement's commands. syntax.Preorder visits a command before the words and the redirections.
func (r *reader) read(stmt *syntax.Stmt) {
	var operators map[*syntax.Stmt]string // before each statement
	var from, to uint                     // byte offsets of the current substitution
	inSubstitution := func(n syntax.Node) bool {
		at := n.Pos().Offset()
		return from <= at && at < to
	}
	for node := range syntax.Preorder(stmt) {
		switch n := node.(type) {
		case *syntax.BinaryCmd:
			if operators == nil {
				operators = map[*syntax.Stmt]string{}
			}
			operators[n.Y] = n.Op.String()
			if n.Op == syntax.PipeAll {
				operators[n.Y] = "|"
			}
		case *syntax.Stmt:
			if op, ok := operators[n]; ok && !inSubstitution(n) {
				r.operator = op
			}
		case *syntax.CmdSubst, *syntax.ProcSubst:
			if !inSubstitution(n) {
				from, to = n.Pos().Offset(), n.End().Offset()
			}
		case *syntax.WhileClause:
			r.line.RetriesUntilSuccess = r.line.RetriesUntilSuccess || n.Until || len(n.Cond) > 0 && n.Cond[0].Negated
		case *syntax.Redirect:
			r.line.Writes = r.line.Writes || r.writesFile(n)
		case *syntax.CallExpr:
			r.call(n, inSubstitution(n))
		case *syntax.DeclClause:
			words := []string{n.Variant.Value}
			for _, a := range n.Args {
				words = append(words, r.source(a))
			}
			r.add(Command{Words: words, InSubstitution: inSubstitution(n)})
		case *syntax.TestClause:
			r.add(Command{Words: []string{"[["}, InSubstitution: inSubstitution(n)})
		}
	}
}

// call adds a simple command. If the command is a shell with a command line (bash -c TEXT), call adds the commands in
// TEXT instead.
func (r *reader) call(n *syntax.CallExpr, inner bool) {
	c := Command{InSubstitution: inner}
	for _, a := range n.Assigns {
		if a.Name != nil {
			c.EnvNames = append(c.EnvNames, a.Name.Value)
			c.Assigns = append(c.Assigns, r.source(a))
		}
	}
	for _, w := range n.Args {
		c.Words = append(c.Words, r.unquote(w))
	}
	if len(c.Words) == 0 { // variables only
		return
	}
	if line, ok := r.shellText(c.Words); ok {
		r.line.Writes, r.line.RetriesUntilSuccess = r.line.Writes || line.Writes, r.line.RetriesUntilSuccess || line.RetriesUntilSuccess
		for _, nested := range line.Commands {
			nested.InSubstitution = nested.InSubstitution || inner
			r.add(nested)
		}
		return
	}
	r.add(c)
}

func (r *reader) add(c Command) {
	if c.InSubstitution {
		c.Operator = ""
	} else {
		if c.Operator == "" {
			c.Operator = r.operator
		}
		r.operator = ";"
	}
	r.line.Commands = append(r.line.Commands, c)
}

// shellText parses TEXT if words start a shell with a command line, such as bash -lc TEXT.
func (r *reader) shellText(words []string) (line Line, ok bool) {
	if r.nesting == 0 || len(words) < 3 || !slices.Contains([]string{"bash", "sh", "zsh", "dash", "ash", "ksh"}, path.Base(words[0])) ||
		!strings.HasPrefix(words[1], "-") || !strings.HasSuffix(words[1], "c") {
		return Line{}, false
	}
	return parse(words[2], r.nesting-1)
}

func (r *reader) writesFile(n *syntax.Redirect) bool {
	target := ""
	if n.Word != nil {
		target = r.unquote(n.Word)
	}
	switch n.Op {
	case syntax.RdrIn, syntax.DplIn, syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
		return false
	case syntax.DplOut:
		return strings.Trim(target, "0123456789-") != ""
	default:
		return target != "/dev/null" && !strings.HasPrefix(target, "/dev/std")
	}
}

func (r *reader) unquote(w *syntax.Word) string {
	if lit := w.Lit(); lit != "" && strings.IndexByte(lit, '\\') < 0 {
		return lit
	}
	var b strings.Builder
	for _, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			unescape(&b, p.Value, unquotedEscapes)
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, quoted := range p.Parts {
				if lit, ok := quoted.(*syntax.Lit); ok {
					unescape(&b, lit.Value, quotedEscapes)
				} else {
					b.WriteString(r.source(quoted))
				}
			}
		default:
			b.WriteString(r.source(part))
		}
	}
	return b.String()
}

func unescape(b *strings.Builder, text, special string) {
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) && strings.IndexByte(special, text[i+1]) >= 0 {
			i++
		}
		b.WriteByte(text[i])
	}
}

func (r *reader) source(n syntax.Node) string {
	from, to := int(n.Pos().Offset()), int(n.End().Offset()) //nolint:gosec // an offset is at most maxText
	if from > to || to > len(r.text) {
		return ""
	}
	return r.text[from:to]
}

// splitUnparsed splits text at unquoted operators. A here-document and the text after it are data.
func splitUnparsed(text string) Line {
	var line Line
	text, _, document := strings.Cut(text, "<<")
	line.Writes = document || strings.Contains(text, ">")
	start, operator, quote := 0, "", byte(0)
	add := func(end int) {
		c := Command{Operator: operator}
		for word := range strings.FieldsSeq(text[start:end]) {
			if word = strings.Trim(word, "\"'(){}"); word != "" {
				c.Words = append(c.Words, word)
			}
		}
		if len(c.Words) > 0 {
			line.Commands = append(line.Commands, c)
		}
	}
	for i := 0; i < len(text); i++ {
		switch ch := text[i]; {
		case quote != 0:
			if ch == quote {
				quote = 0
			}
		case ch == '"' || ch == '\'':
			quote = ch
		case strings.IndexByte(";|&\n", ch) >= 0:
			add(i)
			operator = strings.Replace(text[i:i+1], "\n", ";", 1)
			if next := text[i:min(i+2, len(text))]; next == "&&" || next == "||" {
				operator = next
				i++
			}
			start = i + 1
		}
	}
	add(len(text))
	return line
}

// Quote returns words as a Bash command line, quoted where necessary. It does not quote a word with a NUL byte.
func Quote(words ...string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		text, err := syntax.Quote(word, syntax.LangBash)
		if err != nil {
			text = word
		}
		quoted[i] = text
	}
	return strings.Join(quoted, " ")
}
