package precept_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

const module = "precept"

// floor says on which floor a package lives; a package that is not here must be given a place
// first.
func floor(pkg string) (int, bool) {
	switch pkg {
	case "file", "lesson", "wire", "redact", "trial", "configs", "docs":
		return 0, true
	case "bandit", "sample", "trace", "writ", "store/spool":
		return 1, true
	case "bank", "detect", "session", "feedback", "ledger":
		return 2, true
	case "backtest", "inject", "report", "store/guard", "store/sqlite", "store/redis":
		return 3, true
	case "store":
		return 4, true
	case "learn", "distill", "demo":
		return 5, true
	case "proxy", "admin":
		return 6, true
	case "app":
		return 7, true
	case "cmd/precept":
		return 8, true
	default:
		return 0, false
	}
}

// isTestSupport names the packages that only tests may import. They stand beside the floors, and
// import nothing above 2.
func isTestSupport(pkg string) bool { return pkg == "store/storetest" || pkg == "bank/banktest" }

// rooms says where a third-party library may be imported: the packages, and "test" for test files
// anywhere. A library that is not here must be given a room first.
func rooms() map[string][]string {
	return map[string][]string{
		"github.com/tidwall/gjson":                 {"wire", "cmd/precept"},
		"github.com/tidwall/sjson":                 {"wire", "cmd/precept"},
		"github.com/yuin/goldmark":                 {"admin"},
		"github.com/andybalholm/brotli":            {"wire"},
		"github.com/klauspost/compress":            {"wire", "store/sqlite", "app"},
		"github.com/cespare/xxhash/v2":             {"wire", "detect", "session"},
		"modernc.org/sqlite":                       {"store/sqlite", "test"},
		"github.com/redis/go-redis/v9":             {"store/redis"},
		"github.com/labstack/echo/v4":              {"proxy", "admin"},
		"maragu.dev/gomponents":                    {"admin"},
		"github.com/goccy/go-yaml":                 {"configs", "lesson", "test"},
		"github.com/bmatcuk/doublestar/v4":         {"configs", "sample"},
		"golang.org/x/text":                        {"lesson", "cmd/precept"},
		"github.com/google/uuid":                   {"sample"},
		"github.com/prometheus/client_golang":      {"proxy", "app", "test"},
		"github.com/prometheus/common":             {"cmd/precept"},
		"github.com/prometheus/client_model":       {"cmd/precept", "test"},
		"github.com/spf13/cobra":                   {"cmd/precept"},
		"github.com/spf13/pflag":                   {"cmd/precept"},
		"golang.org/x/term":                        {"cmd/precept"},
		"github.com/parquet-go/parquet-go":         {"app", "test"},
		"github.com/rogpeppe/go-internal":          {"test", "cmd/precept"},
		"github.com/chromedp/chromedp":             {"test"},
		"github.com/chromedp/cdproto":              {"test"},
		"github.com/santhosh-tekuri/jsonschema/v6": {"test"},
		"go.opentelemetry.io":                      {"trace", "test"},
		"google.golang.org/protobuf":               {"trace", "test"},
		"go.uber.org/goleak":                       {"test"},
		"golang.org/x/net":                         {"test"},
		"pgregory.net/rapid":                       {"test", "store/storetest"},
	}
}

// apart lists what must not reach what, by whatever way, and why: no effect, interval or proof
// holds anything that the chooser believes, because the code that computes them cannot ask it; and
// what is recorded does not depend on what is learned from it.
func apart() map[string]string {
	return map[string]string{
		"trial":  "bandit", // the coins and what they show, and the chooser
		"report": "bandit", // what may be said, and the chooser; its beliefs come in as numbers, by name
		"store":  "bandit", // what is kept, and what is believed of it
		"learn":  "store",  // what follows a turn, and what records it: one is given the other
	}
}

// source is one Go file's imports.
type source struct {
	file    string // slashes, relative to the module
	pkg     string // its folder
	test    bool
	imports []string
}

// The imports are parsed here and now: a test that asked the go command would be answered from the
// test cache after a violation.
func TestFloors(t *testing.T) {
	sources, err := read(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	if len(sources) < 50 {
		t.Fatalf("only %d files were found", len(sources))
	}
	for _, v := range violations(sources) {
		t.Error(v)
	}
	for _, v := range empty(sources) {
		t.Error(v)
	}
	for _, v := range reaching(sources) {
		t.Error(v)
	}
}

// reaching lists the ways by which a package reaches one that it must not, through whatever lies
// between. A test may put both together: it is no part of the package.
func reaching(sources []source) []string {
	arrows, seen := map[string][]string{}, map[string]bool{}
	for _, s := range sources {
		seen[s.pkg] = true
		for _, imported := range s.imports {
			if own, isOwn := strings.CutPrefix(imported, module+"/"); isOwn && !s.test {
				arrows[s.pkg] = append(arrows[s.pkg], own)
			}
		}
	}
	var out []string
	for from, to := range apart() {
		if !seen[from] || !seen[to] {
			out = append(out, from+" must not reach "+to+", and one of them is no package")
		}
		if way := route(arrows, from, to, map[string]bool{}); way != nil {
			out = append(out, from+" must not reach "+to+": "+strings.Join(way, " imports "))
		}
	}
	slices.Sort(out)
	return out
}

// route is a way along the arrows, nil when there is none.
func route(arrows map[string][]string, from, to string, been map[string]bool) []string {
	if from == to {
		return []string{to}
	}
	been[from] = true
	for _, next := range arrows[from] {
		if !been[next] {
			if way := route(arrows, next, to, been); way != nil {
				return append([]string{from}, way...)
			}
		}
	}
	return nil
}

// empty lists the rooms that nobody uses.
func empty(sources []source) []string {
	used := map[string]bool{} // library and package, or library and "test"
	for _, s := range sources {
		for _, imported := range s.imports {
			for library := range rooms() {
				if imported == library || strings.HasPrefix(imported, library+"/") {
					used[library+" "+s.pkg] = true
					used[library+" test"] = used[library+" test"] || s.test
				}
			}
		}
	}
	var out []string
	for library, where := range rooms() {
		for _, pkg := range where {
			if !used[library+" "+pkg] {
				out = append(out, pkg+" has a room for "+library+", which nothing there imports")
			}
		}
	}
	return out
}

// read parses every Go file of the module: other modules, hidden folders and test data are not the
// house.
func read(root fs.FS) ([]source, error) {
	var out []source
	err := fs.WalkDir(root, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			_, nested := fs.Stat(root, path.Join(file, "go.mod"))
			if file != "." && (nested == nil || name == "testdata" || name[0] == '.' || name[0] == '_') {
				return filepath.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		text, err := fs.ReadFile(root, file)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ImportsOnly)
		if err != nil {
			return err
		}
		s := source{file: file, pkg: path.Dir(file), test: strings.HasSuffix(name, "_test.go")}
		for _, i := range parsed.Imports {
			p, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			s.imports = append(s.imports, p)
		}
		out = append(out, s)
		return nil
	})
	return out, err
}

// violations lists every import that goes up, sideways or out of its room.
func violations(sources []source) []string {
	var out []string
	for _, s := range sources {
		if s.pkg == "." {
			continue
		}
		if _, known := floor(s.pkg); !known && !isTestSupport(s.pkg) {
			out = append(out, fmt.Sprintf("%s: the package %s has no floor; give it one", s.file, s.pkg))
			continue
		}
		for _, imported := range s.imports {
			if v := violation(s, imported); v != "" {
				out = append(out, s.file+": "+v)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func violation(s source, imported string) string {
	own, isOwn := strings.CutPrefix(imported, module+"/")
	switch first, _, _ := strings.Cut(imported, "/"); {
	case isOwn:
		return arrow(s, own)
	case strings.Contains(first, "."):
		return outsideRoom(s, imported)
	default: // the standard library
		return ""
	}
}

// arrow judges an import of our own.
func arrow(s source, to string) string {
	if to == s.pkg && s.test {
		return "" // an external test of its own package
	}
	if isTestSupport(to) {
		if s.test {
			return ""
		}
		return to + " is for tests only"
	}
	target, known := floor(to)
	if !known {
		return to + " has no floor"
	}
	here, _ := floor(s.pkg)
	if isTestSupport(s.pkg) {
		here = 3
	}
	switch {
	case target == here:
		return "imports " + to + ", which is on the same floor"
	case target > here:
		return "imports " + to + ", which is on a higher floor"
	default:
		return ""
	}
}

// outsideRoom judges an import of a third party's.
func outsideRoom(s source, imported string) string {
	for library, where := range rooms() {
		if imported != library && !strings.HasPrefix(imported, library+"/") {
			continue
		}
		if slices.Contains(where, s.pkg) || (s.test && slices.Contains(where, "test")) {
			return ""
		}
		return fmt.Sprintf("imports %s, whose room is %s", imported, strings.Join(where, ", "))
	}
	return "imports " + imported + ", which has no room"
}

// A test that cannot fail is a defect: each kind of violation is planted and must be found.
func TestViolationsAreFound(t *testing.T) {
	file := func(imports ...string) *fstest.MapFile {
		text := "package p\n"
		for _, i := range imports {
			text += "import _ " + strconv.Quote(i) + "\n"
		}
		return &fstest.MapFile{Data: []byte(text)}
	}
	sources, err := read(fstest.MapFS{
		"wire/up.go":                file("precept/proxy", "fmt"),
		"wire/sideways.go":          file("precept/configs"),
		"wire/sideways_test.go":     file("precept/configs"),
		"wire/fine.go":              file("github.com/tidwall/gjson", "net/http", "crypto/sha256"),
		"wire/fine_test.go":         file("pgregory.net/rapid", "precept/wire"),
		"inject/room.go":            file("github.com/tidwall/gjson"),
		"inject/fine.go":            file("precept/session", "precept/wire"),
		"inject/rapid.go":           file("pgregory.net/rapid"),
		"store/unknown.go":          file("example.org/lib"),
		"store/support.go":          file("precept/store/storetest"),
		"store/sqlite/fine_test.go": file("precept/store/storetest"),
		"store/storetest/fine.go":   file("precept/session"),
		"store/storetest/up.go":     file("precept/store/sqlite"),
		"store/nowhere.go":          file("precept/attic"),
		"attic/a.go":                file(),
		"store/own.go":              file("precept/store"),
		"tools/go.mod":              {Data: []byte("module x\n")},
		"tools/elsewhere.go":        file("precept/proxy"),
		"wire/testdata/a.go":        file("precept/proxy"),
		".cache/a.go":               file("precept/proxy"),
		"root_test.go":              file("precept/proxy"),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"attic/a.go: the package attic has no floor; give it one",
		"inject/rapid.go: imports pgregory.net/rapid, whose room is test, store/storetest",
		"inject/room.go: imports github.com/tidwall/gjson, whose room is wire, cmd/precept",
		"store/nowhere.go: attic has no floor",
		"store/own.go: imports store, which is on the same floor",
		"store/storetest/up.go: imports store/sqlite, which is on the same floor",
		"store/support.go: store/storetest is for tests only",
		"store/unknown.go: imports example.org/lib, which has no room",
		"wire/sideways.go: imports configs, which is on the same floor",
		"wire/sideways_test.go: imports configs, which is on the same floor",
		"wire/up.go: imports proxy, which is on a higher floor",
	}
	got := violations(sources)
	if !slices.Equal(got, want) {
		t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The promise that no effect holds what the chooser believes is an arrow that is missing: drawn
// directly, or through a package between, it must be found; a test may draw it.
func TestReachingIsFound(t *testing.T) {
	file := func(pkg, to string) source {
		return source{file: pkg + "/a.go", pkg: pkg, imports: []string{"fmt", module + "/" + to}}
	}
	base := []source{file("bandit", "trial"), file("trial", "file"), file("report", "trial"), file("feedback", "bandit"), file("store", "file"), file("learn", "bandit")}
	test := file("report", "bandit")
	test.test = true
	for name, c := range map[string]struct {
		more []source
		want []string
	}{
		"apart":     {nil, nil},
		"in a test": {[]source{test}, nil},
		"directly":  {[]source{file("report", "bandit")}, []string{"report must not reach bandit: report imports bandit"}},
		"through another": {
			[]source{file("report", "feedback")}, []string{"report must not reach bandit: report imports feedback imports bandit"},
		},
		"what is recorded and what is learned": {
			[]source{file("learn", "store"), file("store", "feedback")}, []string{
				"learn must not reach store: learn imports store",
				"store must not reach bandit: store imports feedback imports bandit",
			},
		},
		"through the trial": {
			[]source{file("trial", "feedback")}, []string{
				"report must not reach bandit: report imports trial imports feedback imports bandit",
				"trial must not reach bandit: trial imports feedback imports bandit",
			},
		},
	} {
		if got := reaching(append(slices.Clone(base), c.more...)); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	if got := reaching(base[:2]); len(got) != 3 || got[1] != "report must not reach bandit, and one of them is no package" {
		t.Errorf("a rule about nothing: %q", got)
	}
}
