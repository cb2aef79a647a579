package label_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"precept/internal/label"
)

// A constant that is not in a list has no series before the first event, so Prometheus's increase() misses this event.
func TestListsContainAllConstants(t *testing.T) {
	lists := map[string][]string{
		"Step":        toStrings(label.Steps()),
		"Uninspected": toStrings(label.UninspectedReasons()),
		"Excluded":    toStrings(label.ExclusionReasons()),
		"Side":        toStrings(label.SideReasons()),
		"Dropped":     toStrings(label.DropReasons()),
		"Unread":      toStrings(label.UnreadReasons()),
		"Hook":        toStrings(label.HookResults()),
		"Late":        toStrings(label.LateReasons()),
	}
	declared := map[string][]string{}
	for name, value := range constants(t, "label.go") {
		i := slices.IndexFunc(prefixes(), func(p string) bool { return strings.HasPrefix(name, p) })
		if i < 0 {
			t.Errorf("constant %s begins with none of the prefixes %q", name, prefixes())
			continue
		}
		declared[prefixes()[i]] = append(declared[prefixes()[i]], value)
	}
	for prefix, list := range lists {
		slices.Sort(list)
		slices.Sort(declared[prefix])
		if !slices.Equal(list, declared[prefix]) {
			t.Errorf("%s constants: got list %q, want %q as declared", prefix, list, declared[prefix])
		}
	}
}

func TestConstantsAreSnakeCase(t *testing.T) {
	snake := regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	for name, value := range constants(t, "label.go") {
		if !snake.MatchString(value) {
			t.Errorf("%s = %q, want snake_case", name, value)
		}
	}
}

// A step that is a string literal compiles, but is missing from Steps, the list of metric labels.
func TestStepArgumentsAreConstants(t *testing.T) {
	methods := []string{"guard", "failed", "report", "onFailure", "OnFailure", "panicked", "reportPanic", "onPanic", "OnPanic", "FailedOpen", "Before", "SetAside", "On", "Step", "Err", "allow"}
	calls := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "admin" { // here, step is an HTML attribute
			return filepath.SkipDir
		}
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !slices.Contains(methods, method.Sel.Name) {
				return true
			}
			switch first := call.Args[0].(type) {
			case *ast.BasicLit:
				t.Errorf("%s: %s is called with a literal, want a constant of package label", files.Position(first.Pos()), method.Sel.Name)
			case *ast.SelectorExpr:
				if strings.HasPrefix(first.Sel.Name, "Step") {
					calls++
				}
			}
			return true
		})
		return nil
	})
	if err != nil || calls < 50 {
		t.Errorf("got %d calls with a step constant, error %v, want at least 50 and no error", calls, err)
	}
}

func prefixes() []string {
	return []string{"Step", "Uninspected", "Excluded", "Side", "Dropped", "Unread", "Hook", "Late"}
}

func constants(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for i, name := range spec.Names {
			value, err := strconv.Unquote(spec.Values[i].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			values[name.Name] = value
		}
		return true
	})
	return values
}

func toStrings[T ~string](list []T) (out []string) {
	for _, v := range list {
		out = append(out, string(v))
	}
	return out
}
