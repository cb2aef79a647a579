// Package shell reads command lines as agents write them for a shell. Parse returns the simple
// commands of a text and never runs or expands a command.
//
// mvdan.cc/sh parses the text as Bash. A text that is not Bash (PowerShell, a pasted prompt, a cut
// command) is cut at its operators, and its Line is not Parsed: a caller then assumes that the line
// may do anything.
package shell

import (
	"path"
	"slices"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

// MaxText is the maximum number of bytes of a text that Parse reads; the rest is ignored. The parser
// of the library recurses at each opening bracket, and Go cannot recover from a stack overflow: the
// bound keeps the stack below a few megabytes.
const MaxText = 4096

// Characters before which word removes a backslash. Bash also removes a backslash before a letter; here
// such a backslash stays, because it may separate the names of a Windows path.
const (
	unquotedEscapes = " \t\"'`\\$&|;<>(){}[]*?!#~=%@+,:-"
	quotedEscapes   = "\"\\$`"
)

// maxDepth is the largest depth of a text that the library parses.
const maxDepth = 64

// maxNesting is the number of texts inside of texts that Parse reads: bash -c "sh -c 'make'".
const maxNesting = 3

// Line holds the commands of a text.
type Line struct {
	Commands []Command // in the order of the text; commands of a substitution follow its command
	Writes   bool      // a redirection writes a file
	Until    bool      // a loop repeats a command until the command succeeds
	Parsed   bool      // the text is valid Bash
}

// Command is one simple command.
type Command struct {
	Assigns []string // variables with their values, as written
	Env     []string // names of the variables that are set for the command
	Words   []string // program and arguments without quotes; an expansion is kept as written
	After   string   // operator before the command: "|", "&&", "||" or ";"; "" for the first command
	Inner   bool     // the command is part of a substitution, and its status is lost
}

// Parse splits a text into its commands.
func Parse(text string) Line {
	text = text[:min(len(text), MaxText)]
	if depth(text) <= maxDepth {
		if line, ok := parse(text, maxNesting); ok {
			return line
		}
	}
	return split(text)
}

// depth returns an upper bound of the number of brackets and keywords that are open at once in a
// text. The parser needs 10 us for each open bracket of a text that closes none.
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

// parsers holds parsers for reuse: a parser has buffers of 2 KB, more than most command lines need.
//
//nolint:gochecknoglobals // a pool
var parsers = sync.Pool{New: func() any { return syntax.NewParser() }}

// parse returns the commands of a text. ok is false for a text that is not valid Bash, and after a
// panic of the library.
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
			continue // the parser ends the sequence after an error
		}
		r.read(stmt)
	}
	parsers.Put(parser) // not after a panic
	if failed {
		return Line{}, false
	}
	r.line.Parsed = true
	return r.line, true
}

// reader collects the commands of a parsed text.
type reader struct {
	text    string
	nesting int // number of texts inside of the text that may be read
	line    Line
	after   string // operator before the next command
}

// read adds the commands of a statement. The walk visits a command before its words, and the words
// before the redirections.
func (r *reader) read(stmt *syntax.Stmt) {
	var joined map[*syntax.Stmt]string // operator before a statement
	var from, to uint                  // bounds of the substitution that the walk is in
	within := func(n syntax.Node) bool {
		at := n.Pos().Offset()
		return from <= at && at < to
	}
	for node := range syntax.Preorder(stmt) {
		switch n := node.(type) {
		case *syntax.BinaryCmd:
			if joined == nil {
				joined = map[*syntax.Stmt]string{}
			}
			joined[n.Y] = n.Op.String()
			if n.Op == syntax.PipeAll {
				joined[n.Y] = "|"
			}
		case *syntax.Stmt:
			if op, ok := joined[n]; ok && !within(n) {
				r.after = op
			}
		case *syntax.CmdSubst, *syntax.ProcSubst:
			if !within(n) {
				from, to = n.Pos().Offset(), n.End().Offset()
			}
		case *syntax.WhileClause:
			r.line.Until = r.line.Until || n.Until || len(n.Cond) > 0 && n.Cond[0].Negated
		case *syntax.Redirect:
			r.line.Writes = r.line.Writes || r.writes(n)
		case *syntax.CallExpr:
			r.call(n, within(n))
		case *syntax.DeclClause:
			words := []string{n.Variant.Value}
			for _, a := range n.Args {
				words = append(words, r.source(a))
			}
			r.add(Command{Words: words, Inner: within(n)})
		case *syntax.TestClause:
			r.add(Command{Words: []string{"[["}, Inner: within(n)})
		}
	}
}

// call adds a simple command, or the commands in the text that the command gives to a shell.
func (r *reader) call(n *syntax.CallExpr, inner bool) {
	c := Command{Inner: inner}
	for _, a := range n.Assigns {
		if a.Name != nil {
			c.Env = append(c.Env, a.Name.Value)
			c.Assigns = append(c.Assigns, r.source(a))
		}
	}
	for _, w := range n.Args {
		c.Words = append(c.Words, r.word(w))
	}
	if len(c.Words) == 0 { // variables only
		return
	}
	if line, ok := r.shellText(c.Words); ok {
		r.line.Writes, r.line.Until = r.line.Writes || line.Writes, r.line.Until || line.Until
		for _, nested := range line.Commands {
			nested.Inner = nested.Inner || inner
			r.add(nested)
		}
		return
	}
	r.add(c)
}

// add appends a command after the last operator of the walk.
func (r *reader) add(c Command) {
	if c.Inner {
		c.After = ""
	} else {
		if c.After == "" {
			c.After = r.after
		}
		r.after = ";"
	}
	r.line.Commands = append(r.line.Commands, c)
}

// shellText reads the text that a command gives to a shell: bash -lc TEXT.
func (r *reader) shellText(words []string) (Line, bool) {
	if r.nesting == 0 || len(words) < 3 || !slices.Contains([]string{"bash", "sh", "zsh", "dash", "ash", "ksh"}, path.Base(words[0])) ||
		!strings.HasPrefix(words[1], "-") || !strings.HasSuffix(words[1], "c") {
		return Line{}, false
	}
	return parse(words[2], r.nesting-1)
}

// writes reports whether a redirection writes a file. Devices such as /dev/null and copies of a
// descriptor (2>&1) are not files.
func (r *reader) writes(n *syntax.Redirect) bool {
	target := ""
	if n.Word != nil {
		target = r.word(n.Word)
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

// word returns the text of a word without its quotes.
func (r *reader) word(w *syntax.Word) string {
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

// unescape writes a text without the backslashes before one of the special characters.
func unescape(b *strings.Builder, text, special string) {
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) && strings.IndexByte(special, text[i+1]) >= 0 {
			i++
		}
		b.WriteByte(text[i])
	}
}

// source returns a node as written.
func (r *reader) source(n syntax.Node) string {
	from, to := int(n.Pos().Offset()), int(n.End().Offset()) //nolint:gosec // offsets of at most 4 KB
	if from > to || to > len(r.text) {
		return ""
	}
	return r.text[from:to]
}

// split cuts a text at its operators outside of quotes, up to the first here-document: the rest
// is data.
func split(text string) Line {
	var line Line
	text, _, document := strings.Cut(text, "<<")
	line.Writes = document || strings.Contains(text, ">")
	start, after, quote := 0, "", byte(0)
	add := func(end int) {
		c := Command{After: after}
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
			after = strings.Replace(text[i:i+1], "\n", ";", 1)
			if next := text[i:min(i+2, len(text))]; next == "&&" || next == "||" {
				after = next
				i++
			}
			start = i + 1
		}
	}
	add(len(text))
	return line
}

// Quote returns the command line with the words for Bash. A word with a NUL byte is not quoted.
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
