package precept_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestArchitecturePageListsGoroutines(t *testing.T) {
	documented := regexp.MustCompile("`([a-z0-9_/]+\\.go)`").FindAllStringSubmatch(architectureSection(t, "Goroutines"), -1)
	checkDocumented(t, "starts a goroutine", goroutineFiles(t), documented)
}

func TestArchitecturePageListsLocks(t *testing.T) {
	documented := regexp.MustCompile("`([a-z0-9_/]+\\.[A-Za-z]+\\.[A-Za-z]+)`").
		FindAllStringSubmatch(architectureSection(t, "Locks"), -1)
	checkDocumented(t, "is a lock", mutexFields(t), documented)
}

func TestNamesOnArchitecturePageExist(t *testing.T) {
	page := readText(t, "docs/ARCHITECTURE.md")
	declared, packages := declarations(t)
	for _, m := range regexp.MustCompile("`([a-z0-9_]+(?:/[a-z0-9_]+)+(?:\\.[a-z]+)?)`").FindAllStringSubmatch(page, -1) {
		if _, err := os.Stat(m[1]); err != nil && !declared[m[1]] {
			t.Errorf("docs/ARCHITECTURE.md names %s, which does not exist", m[1])
		}
	}
	for _, m := range regexp.MustCompile("`([a-z0-9_/]+)(\\.[A-Z]\\w*(?:\\.[A-Z]\\w*)?)`").FindAllStringSubmatch(page, -1) {
		if packages[m[1]] && !declared[m[1]+m[2]] {
			t.Errorf("docs/ARCHITECTURE.md names %s%s, which does not exist", m[1], m[2])
		}
	}
}

// declarations returns the names of functions and types as package.Name, and the names of methods and mutexes as
// package.Type.Name.
func declarations(t *testing.T) (names, packages map[string]bool) {
	t.Helper()
	names, packages = map[string]bool{}, map[string]bool{}
	eachFile(t, func(name string, file *ast.File) {
		dir := path.Dir(name)
		packages[dir] = true
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				prefix := dir + "."
				if d.Recv != nil {
					kind := d.Recv.List[0].Type
					if pointer, ok := kind.(*ast.StarExpr); ok {
						kind = pointer.X
					}
					if id, ok := kind.(*ast.Ident); ok {
						prefix += id.Name + "."
					}
				}
				names[prefix+d.Name.Name] = true
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if spec, ok := s.(*ast.TypeSpec); ok {
						names[dir+"."+spec.Name.Name] = true
					}
				}
			}
		}
	})
	for lock := range mutexFields(t) { // the page names an embedded mutex as package.Type.Mutex
		names[lock] = true
	}
	return names, packages
}

func TestReadmeShowsFoldersByLayer(t *testing.T) {
	_, table, found := strings.Cut(readText(t, "README.md"), "<summary>Eleven folders</summary>")
	table, _, closed := strings.Cut(table, "</details>")
	if !found || !closed {
		t.Fatal("README.md has no section <summary>Eleven folders</summary>")
	}
	listed := map[string]int{} // layer by folder
	for _, m := range regexp.MustCompile(`(?m)^    (\d)  ((?:[a-z]+ )*[a-z]+)  `).FindAllStringSubmatch(table, -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		for folder := range strings.FieldsSeq(m[2]) {
			listed[folder] = n
		}
	}
	want := map[string]int{}
	for n, names := range layers() {
		for _, folder := range names {
			if folder != "docs" {
				want[folder] = n
			}
		}
	}
	if !maps.Equal(listed, want) {
		t.Errorf("folders by layer in README.md = %v, want %v", listed, want)
	}
}

func TestArchitecturePageListsLibraries(t *testing.T) {
	documented := map[string]map[string]bool{} // packages by library
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|`+"`"+`]+) \| (`+"`"+`[^|]+) \|`).FindAllStringSubmatch(architectureSection(t, "Libraries"), -1) {
		for name := range strings.SplitSeq(strings.ToLower(row[1]), ", ") {
			for library := range importers() {
				if strings.Contains(library, name) {
					documented[library] = addPackages(row[2], documented[library])
				}
			}
		}
	}
	for library, packages := range importers() {
		for _, pkg := range packages {
			if pkg != "test" && !isTestSupport(pkg) && !documented[library][pkg] {
				t.Errorf("docs/ARCHITECTURE.md does not list %[2]s as a %[1]s importer", library, pkg)
			}
		}
	}
}

func addPackages(cell string, set map[string]bool) map[string]bool {
	if set == nil {
		set = map[string]bool{}
	}
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell, -1) {
		set[m[1]] = true
	}
	return set
}

// A package that starts goroutines needs a TestMain with goleak. cmd/precept is exempt, because the tests run the
// program as a separate process.
func TestPackagesWithGoroutinesCheckForLeaks(t *testing.T) {
	checked := map[string]bool{"cmd/precept": true}
	for _, name := range walk(t, "_test.go") {
		if strings.Contains(readText(t, name), "goleak.VerifyTestMain(m") {
			checked[path.Dir(name)] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(goroutineFiles(t))) {
		if !checked[path.Dir(name)] {
			t.Errorf("%s starts a goroutine, but its package has no TestMain with goleak", name)
		}
	}
}

func architectureSection(t *testing.T, heading string) string {
	t.Helper()
	_, rest, ok := strings.Cut(readText(t, "docs/ARCHITECTURE.md"), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("docs/ARCHITECTURE.md has no section %q", heading)
	}
	text, _, _ := strings.Cut(rest, "\n## ")
	return text
}

// checkDocumented fails the test for each name that is only in the code or only on the page. The failure message
// contains property, such as "is a lock".
func checkDocumented(t *testing.T, property string, inCode map[string]bool, documented [][]string) {
	t.Helper()
	if len(inCode) < 10 {
		t.Fatalf("found %d names in the code, want at least 10", len(inCode))
	}
	onPage := map[string]bool{}
	for _, m := range documented {
		onPage[m[1]] = true
	}
	for _, name := range slices.Sorted(maps.Keys(inCode)) {
		if !onPage[name] {
			t.Errorf("%s %s, but docs/ARCHITECTURE.md does not list it", name, property)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(onPage)) {
		if !inCode[name] {
			t.Errorf("docs/ARCHITECTURE.md says that %s %s, but the code disagrees", name, property)
		}
	}
}

// goroutineFiles returns the files with a go statement or a call to a method such as sync.WaitGroup.Go.
func goroutineFiles(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	eachFile(t, func(name string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				found[name] = true
			case *ast.CallExpr:
				if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Go" && len(n.Args) == 1 {
					found[name] = true
				}
			}
			return true
		})
	})
	return found
}

func mutexFields(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	eachFile(t, func(name string, file *ast.File) {
		for _, d := range file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range g.Specs {
				spec, ok := s.(*ast.TypeSpec)
				if !ok {
					continue
				}
				for _, field := range mutexes(spec.Type) {
					found[path.Dir(name)+"."+spec.Name.Name+"."+field] = true
				}
			}
		}
	})
	return found
}

func mutexes(t ast.Expr) (fields []string) {
	s, ok := t.(*ast.StructType)
	if !ok {
		return nil
	}
	for _, f := range s.Fields.List {
		kind, ok := f.Type.(*ast.SelectorExpr)
		if !ok || kind.Sel.Name != "Mutex" && kind.Sel.Name != "RWMutex" {
			continue
		}
		if len(f.Names) == 0 {
			fields = append(fields, kind.Sel.Name)
		}
		for _, n := range f.Names {
			fields = append(fields, n.Name)
		}
	}
	return fields
}

// eachFile parses each Go file, except for tests and test support, and calls fn.
func eachFile(t *testing.T, fn func(name string, file *ast.File)) {
	t.Helper()
	for _, name := range walk(t, ".go") {
		if strings.HasSuffix(name, "_test.go") || isTestSupport(path.Dir(name)) || strings.Contains(name, "testdata/") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, readText(t, name), parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		fn(name, file)
	}
}

// If a program uses templates, which call methods by name, the linker keeps every exported method in every library.
// This made the binary 9 MB larger (decision 48).
func TestProgramDoesNotUseTemplates(t *testing.T) {
	templates := regexp.MustCompile(`"(text|html)/template"|\.Set(Usage|Help|Version)Template\(`)
	for _, name := range walk(t, ".go") {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		if found := templates.FindString(readText(t, name)); found != "" {
			t.Errorf("%s uses %s, want no templates, because they make the binary larger", name, found)
		}
	}
}

// tools/sbom is exempt, because an example would need a built binary.
func TestPackagesHaveAnExample(t *testing.T) {
	exempt := []string{"tools/sbom"}
	packages, examples := map[string]bool{}, map[string]bool{}
	for _, name := range walk(t, ".go") {
		dir := path.Dir(name)
		if !strings.HasSuffix(name, "_test.go") && !strings.Contains(name, "testdata/") {
			packages[dir] = true
		}
		if strings.HasSuffix(name, "_test.go") && regexp.MustCompile(`(?s)\nfunc Example.*// (Unordered o|O)utput:`).MatchString(readText(t, name)) {
			examples[dir] = true
		}
	}
	for dir := range packages {
		if examples[dir] == slices.Contains(exempt, dir) {
			t.Errorf("package %s has an example = %v, want an example in each package except %q", dir, examples[dir], exempt)
		}
	}
}
