package precept_test

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The program is released for Linux, macOS and Windows, but the tests do not run on all three. This test finds names in
// package syscall that one of the systems lacks.
func TestSyscallNamesExistOnEverySystem(t *testing.T) {
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, system := range []string{"linux", "darwin", "windows"} {
		target := build.Default
		target.GOOS, target.GOARCH, target.CgoEnabled = system, "amd64", false
		syscallNames := map[string]bool{}
		eachBuiltFile(t, &target, filepath.Join(strings.TrimSpace(string(root)), "src", "syscall"), func(f *ast.File, _ *token.FileSet) {
			for _, d := range f.Decls {
				addNames(d, syscallNames)
			}
		})
		if !syscallNames["SIGTERM"] {
			t.Fatalf("found no SIGTERM in package syscall for %s", system)
		}
		err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return err
			}
			if n := d.Name(); path != "." && (strings.HasPrefix(n, ".") || strings.HasPrefix(n, "_") || n == "testdata" || strings.HasSuffix(n, "test")) {
				return fs.SkipDir
			}
			eachBuiltFile(t, &target, path, func(f *ast.File, set *token.FileSet) {
				ast.Inspect(f, func(n ast.Node) bool {
					s, ok := n.(*ast.SelectorExpr)
					if !ok {
						return true
					}
					if x, ok := s.X.(*ast.Ident); ok && x.Name == "syscall" && !syscallNames[s.Sel.Name] {
						t.Errorf("%s: package syscall on %s has no %s", set.Position(s.Pos()), system, s.Sel.Name)
					}
					return true
				})
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// eachBuiltFile calls fn for each parsed Go file that is built for target, except for tests.
func eachBuiltFile(t *testing.T, target *build.Context, dir string, fn func(*ast.File, *token.FileSet)) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		if ok, err := target.MatchFile(dir, e.Name()); err != nil || !ok {
			continue
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, filepath.Join(dir, e.Name()), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		fn(f, set)
	}
}

// addNames adds the package-level names that d declares to set.
func addNames(d ast.Decl, set map[string]bool) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			set[d.Name.Name] = true
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				set[s.Name.Name] = true
			case *ast.ValueSpec:
				for _, n := range s.Names {
					set[n.Name] = true
				}
			default:
			}
		}
	default:
	}
}
