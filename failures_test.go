package precept_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	formatVerb  = regexp.MustCompile(`%[-+# 0-9.*\[\]]*[a-zA-Z%]`)
	wordPattern = regexp.MustCompile(`[A-Za-z]{2,}`)
	errorValue  = regexp.MustCompile(`(?i)err(\(\))?$`)
)

// A failure message without a word, such as Errorf("%q, %d", got, 1), does not explain the failure to a reader of the
// CI output.
func TestFailureMessagesHaveWords(t *testing.T) {
	calls := 0
	for _, name := range walk(t, ".go") {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "test/") || strings.HasPrefix(name, "store/storetest/") || strings.Contains(name, "/banktest/") {
			n, faults := wordlessFailures(t, name, readText(t, name))
			calls += n
			for _, fault := range faults {
				t.Errorf(`%s: failure message has only values; write "got X, want Y"`, fault)
			}
		}
	}
	if calls < 5000 {
		t.Errorf("found %d failure messages in the module, want at least 5000", calls)
	}
}

func TestWordlessFailuresAreFound(t *testing.T) {
	const text = `package x
func f() {
	if err != nil {
		t.Fatal(err)
	}
	if err != nil || n != 1 {
		t.Fatal(err)
	}
	if got != "a" {
		t.Errorf("%q, %d", got, 1)
		t.Errorf("got %q, want a", got)
		s.t.Fatal(got)
	}
}`
	calls, faults := wordlessFailures(t, "x.go", text)
	if want := []string{"x.go:7", "x.go:10", "x.go:12"}; calls != 5 || !slices.Equal(faults, want) {
		t.Errorf("wordlessFailures = %d messages and faults %q, want 5 messages and %q", calls, faults, want)
	}
}

// wordlessFailures returns the positions where a message has no word. It accepts a lone error, as in t.Fatal(err) after
// err != nil.
func wordlessFailures(t *testing.T, name, text string) (calls int, faults []string) {
	t.Helper()
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var path []ast.Node
	ast.Inspect(f, func(n ast.Node) bool {
		if n == nil {
			path = path[:len(path)-1]
			return true
		}
		path = append(path, n)
		if call, ok := n.(*ast.CallExpr); ok && isFailure(call) {
			calls++
			if !hasWord(call) && !isLoneError(call, path) {
				faults = append(faults, name+":"+strconv.Itoa(files.Position(call.Pos()).Line))
			}
		}
		return true
	})
	return calls, faults
}

func isFailure(call *ast.CallExpr) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 || !slices.Contains([]string{"Error", "Errorf", "Fatal", "Fatalf"}, f.Sel.Name) {
		return false
	}
	switch x := f.X.(type) {
	case *ast.Ident:
		return slices.Contains([]string{"t", "b", "tb", "f", "rt"}, x.Name)
	case *ast.SelectorExpr:
		return x.Sel.Name == "t" || x.Sel.Name == "T"
	}
	return false
}

// hasWord reports whether a message has a word, apart from format verbs such as %d.
func hasWord(call *ast.CallExpr) (found bool) {
	for _, a := range call.Args {
		ast.Inspect(a, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				text, err := strconv.Unquote(l.Value)
				found = found || err == nil && wordPattern.MatchString(formatVerb.ReplaceAllString(text, ""))
			}
			return true
		})
	}
	return found
}

// isLoneError reports whether the only argument of a call is an error, and the call is in an if statement that compares
// a value with nil. It also accepts a call in an else branch or outside any if statement.
func isLoneError(call *ast.CallExpr, path []ast.Node) bool {
	args := call.Args
	if l, ok := args[0].(*ast.BasicLit); ok && l.Value == `"%v"` {
		args = args[1:]
	}
	if len(args) != 1 || !errorValue.MatchString(exprName(args[0])) {
		return false
	}
	for i := len(path) - 2; i > 0; i-- {
		if branch, ok := path[i].(*ast.IfStmt); ok {
			cond, ok := branch.Cond.(*ast.BinaryExpr)
			return ok && cond.Op == token.NEQ && exprName(cond.Y) == "nil" || path[i+1] == branch.Else
		}
	}
	return true
}

func exprName(n ast.Expr) string {
	switch n := n.(type) {
	case *ast.Ident:
		return n.Name
	case *ast.SelectorExpr:
		return n.Sel.Name
	case *ast.CallExpr:
		if len(n.Args) == 0 {
			return exprName(n.Fun) + "()"
		}
	}
	return ""
}
