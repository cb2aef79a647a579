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

// layers lists the top-level folders from the lowest layer to the highest. A package is allowed to import packages from
// lower layers and, inside the same folder, packages listed earlier in order.
func layers() [][]string {
	return [][]string{
		{"bandit", "configs", "docs", "internal"},
		{"detect"},
		{"inject"},
		{"store"},
		{"learn", "distill"},
		{"proxy", "admin"},
		{"cmd"},
	}
}

// order lists the packages in each folder that has several, from the lowest row to the highest. Packages in the same
// row must not import each other.
func order() map[string][][]string {
	return map[string][][]string{
		"bandit":   {{"bandit/trial", "bandit/feedback"}, {"bandit"}, {"bandit/report"}},
		"internal": {{"internal/file", "internal/label", "internal/price", "internal/redact", "internal/shell", "internal/spell", "internal/work"}, {"internal/wire"}, {"internal/sample"}, {"internal/session"}, {"internal/guard"}},
		"inject":   {{"inject/request"}, {"inject/lesson", "inject/rules"}, {"inject/bank", "inject/writ", "inject/ledger", "inject/backtest"}, {"inject/meaning"}, {"inject"}},
		"store":    {{"store/outbox"}, {"store/sqlite", "store/redis"}, {"store"}},
		"proxy":    {{"proxy/trace", "proxy/hooks"}, {"proxy/resolve"}, {"proxy"}},
		"cmd":      {{"cmd/precept/demo", "cmd/precept/history", "cmd/precept/lake"}, {"cmd/precept/server"}, {"cmd/precept"}},
	}
}

// sameLayerImports lists the permitted imports inside a layer. A session record contains a trial.Assignment. Package
// configs uses spell to suggest key names, and price to parse the value of the configuration key "prices".
func sameLayerImports() map[string]string {
	return map[string]string{"internal/session": "bandit/trial", "configs": "internal/spell internal/price"}
}

type place struct {
	layer, row int
	folder     string
}

// findPlace returns a package's layer and row, and whether layers and order list the package.
func findPlace(pkg string) (place, bool) {
	folder, _, _ := strings.Cut(pkg, "/")
	for n, names := range layers() {
		if !slices.Contains(names, folder) {
			continue
		}
		rows, hasOrder := order()[folder]
		if !hasOrder {
			return place{layer: n, folder: folder}, pkg == folder
		}
		for row, packages := range rows {
			if slices.Contains(packages, pkg) {
				return place{layer: n, row: row, folder: folder}, true
			}
		}
	}
	return place{}, false
}

// isTestSupport reports whether only tests are allowed to import a package.
func isTestSupport(pkg string) bool {
	return pkg == "store/storetest" || pkg == "inject/bank/banktest" || isSystemTest(pkg)
}

func isSystemTest(pkg string) bool { return strings.HasPrefix(pkg, "test/") }

// importers lists the packages that are allowed to import each third-party library; "test" means all test files.
func importers() map[string][]string {
	return map[string][]string{
		"mvdan.cc/sh/v3":                           {"internal/shell"},
		"github.com/reviewdog/errorformat":         {"inject/ledger"},
		"github.com/tidwall/gjson":                 {"internal/wire", "cmd/precept"},
		"github.com/tidwall/sjson":                 {"internal/wire", "cmd/precept"},
		"github.com/fsnotify/fsnotify":             {"inject/lesson"},
		"github.com/yuin/goldmark":                 {"admin"},
		"github.com/andybalholm/brotli":            {"internal/wire"},
		"github.com/klauspost/compress":            {"internal/wire", "store/sqlite", "cmd/precept/lake"},
		"github.com/cespare/xxhash/v2":             {"internal/wire", "detect", "internal/session"},
		"modernc.org/sqlite":                       {"store/sqlite", "test"},
		"zombiezen.com/go/sqlite":                  {"cmd/precept/history", "store/outbox", "store/sqlite"},
		"github.com/redis/go-redis/v9":             {"store/redis"},
		"github.com/labstack/echo/v4":              {"proxy", "admin"},
		"maragu.dev/gomponents":                    {"admin"},
		"github.com/goccy/go-yaml":                 {"configs", "inject/lesson", "test"},
		"github.com/bmatcuk/doublestar/v4":         {"configs", "internal/sample"},
		"golang.org/x/text":                        {"inject/lesson", "cmd/precept"},
		"github.com/google/uuid":                   {"internal/sample"},
		"github.com/prometheus/client_golang":      {"proxy", "cmd/precept/server", "test"},
		"github.com/prometheus/client_model":       {"test"},
		"github.com/spf13/cobra":                   {"cmd/precept"},
		"github.com/spf13/pflag":                   {"cmd/precept"},
		"golang.org/x/term":                        {"cmd/precept"},
		"github.com/parquet-go/parquet-go":         {"cmd/precept/lake", "test"},
		"github.com/minio/minio-go/v7":             {"cmd/precept/lake"},
		"github.com/rogpeppe/go-internal":          {"test", "cmd/precept"},
		"github.com/chromedp/chromedp":             {"test"},
		"github.com/chromedp/cdproto":              {"test"},
		"github.com/santhosh-tekuri/jsonschema/v6": {"test"},
		"go.opentelemetry.io":                      {"proxy/trace", "test"},
		"google.golang.org/protobuf":               {"proxy/trace", "test"},
		"github.com/dgraph-io/ristretto/v2":        {"inject/meaning", "internal/redact", "store"},
		"golang.org/x/sync":                        {"admin", "inject/bank", "learn", "proxy", "store/redis"},
		"go.uber.org/goleak":                       {"test"},
		"golang.org/x/net":                         {"test", "distill"},
		"pgregory.net/rapid":                       {"test", "store/storetest"},
	}
}

// separatedPackages lists packages that must not import another package, directly or indirectly. Effects and verdicts
// must not depend on the beliefs (estimates) in package bandit. Package learn reads the store through interfaces.
func separatedPackages() map[string]string {
	return map[string]string{
		"bandit/trial":  "bandit",
		"bandit/report": "bandit",
		"store":         "bandit",
		"learn":         "store",
	}
}

type source struct {
	file    string // relative to the module, with slashes
	pkg     string
	isTest  bool // a _test.go file, or a file in test/
	imports []string
}

// The test reads the source files itself, so that the go command notices a change in a file and does not reuse a cached
// result.
func TestPackagesImportOnlyLowerLayers(t *testing.T) {
	sources, err := readSources(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	if len(sources) < 50 {
		t.Fatalf("found %d source files, want at least 50", len(sources))
	}
	for _, v := range violations(sources) {
		t.Errorf("forbidden import: %s", v)
	}
	for _, v := range unusedImporters(sources) {
		t.Errorf("unused entry in importers: %s", v)
	}
	for _, v := range forbiddenChains(sources) {
		t.Errorf("forbidden import chain: %s", v)
	}
}

// forbiddenChains returns a message for each import chain between two separated packages.
func forbiddenChains(sources []source) []string {
	imports, seen := map[string][]string{}, map[string]bool{}
	for _, s := range sources {
		seen[s.pkg] = true
		for _, imported := range s.imports {
			if own, isOwn := strings.CutPrefix(imported, module+"/"); isOwn && !s.isTest {
				imports[s.pkg] = append(imports[s.pkg], own)
			}
		}
	}
	var out []string
	for from, to := range separatedPackages() {
		if !seen[from] || !seen[to] {
			out = append(out, from+" must not reach "+to+", but one of the two packages does not exist")
		}
		if chain := importChain(imports, from, to, map[string]bool{}); chain != nil {
			out = append(out, from+" must not reach "+to+": "+strings.Join(chain, " imports "))
		}
	}
	slices.Sort(out)
	return out
}

func importChain(imports map[string][]string, from, to string, visited map[string]bool) []string {
	if from == to {
		return []string{to}
	}
	visited[from] = true
	for _, next := range imports[from] {
		if !visited[next] {
			if chain := importChain(imports, next, to, visited); chain != nil {
				return append([]string{from}, chain...)
			}
		}
	}
	return nil
}

// unusedImporters returns a message for each package in importers that does not import the library.
func unusedImporters(sources []source) []string {
	used := map[string]bool{} // by library and package, or library and "test"
	for _, s := range sources {
		for _, imported := range s.imports {
			for library := range importers() {
				if imported == library || strings.HasPrefix(imported, library+"/") {
					used[library+" "+s.pkg] = true
					used[library+" test"] = used[library+" test"] || s.isTest
				}
			}
		}
	}
	var out []string
	for library, packages := range importers() {
		for _, pkg := range packages {
			if !used[library+" "+pkg] {
				out = append(out, pkg+" may import "+library+", but does not")
			}
		}
	}
	return out
}

// readSources returns the Go files under root with the imports, without nested modules, testdata and hidden folders.
func readSources(root fs.FS) ([]source, error) {
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
		s := source{file: file, pkg: path.Dir(file), isTest: strings.HasSuffix(name, "_test.go") || isSystemTest(path.Dir(file))}
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

// violations returns a message for each forbidden import.
func violations(sources []source) []string {
	var out []string
	for _, s := range sources {
		if s.pkg == "." {
			continue
		}
		if _, found := findPlace(s.pkg); !found && !isTestSupport(s.pkg) {
			out = append(out, fmt.Sprintf("%s: the package %s has no layer; add the package to layers", s.file, s.pkg))
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
		return moduleImportFault(s, own)
	case strings.Contains(first, "."):
		return forbiddenLibrary(s, imported)
	default: // the standard library
		return ""
	}
}

// moduleImportFault returns the reason why a source file must not import the package to, or "" if the import is
// permitted.
func moduleImportFault(s source, to string) string {
	if to == s.pkg && s.isTest {
		return "" // an external test package
	}
	if isTestSupport(to) {
		if isSystemTest(s.pkg) || s.isTest && !isSystemTest(to) {
			return ""
		}
		return to + " is for tests only"
	}
	target, known := findPlace(to)
	if !known {
		return to + " has no layer"
	}
	if isSystemTest(s.pkg) {
		return ""
	}
	importer, _ := findPlace(s.pkg)
	if isTestSupport(s.pkg) {
		importer, _ = findPlace("store/sqlite") // the backends' tests import storetest, so storetest must not import a backend
	}
	switch {
	case target.layer > importer.layer:
		return "imports " + to + " in a higher layer"
	case target.layer < importer.layer || slices.Contains(strings.Fields(sameLayerImports()[s.pkg]), to):
		return ""
	case target.folder != importer.folder:
		return "imports " + to + " in the same layer"
	case target.row >= importer.row:
		return "imports " + to + " not listed before it in order"
	default:
		return ""
	}
}

func forbiddenLibrary(s source, imported string) string {
	for library, permitted := range importers() {
		if imported != library && !strings.HasPrefix(imported, library+"/") {
			continue
		}
		if slices.Contains(permitted, s.pkg) || (s.isTest && slices.Contains(permitted, "test")) {
			return ""
		}
		return fmt.Sprintf("imports %s, permitted only in %s", imported, strings.Join(permitted, ", "))
	}
	return "imports " + imported + ", a library without a row in importers"
}

func TestViolationsFindEachForbiddenImport(t *testing.T) {
	file := func(imports ...string) *fstest.MapFile {
		text := "package p\n"
		for _, i := range imports {
			text += "import _ " + strconv.Quote(i) + "\n"
		}
		return &fstest.MapFile{Data: []byte(text)}
	}
	sources, err := readSources(fstest.MapFS{
		"internal/wire/up.go":            file("precept/proxy", "fmt"),
		"internal/wire/sideways.go":      file("precept/configs"),
		"internal/wire/sideways_test.go": file("precept/configs"),
		"internal/wire/fine.go":          file("github.com/tidwall/gjson", "net/http", "crypto/sha256"),
		"internal/wire/fine_test.go":     file("pgregory.net/rapid", "precept/internal/wire"),
		"internal/session/fine.go":       file("precept/bandit/trial", "precept/internal/wire"),
		"internal/sample/sideways.go":    file("precept/bandit/trial"),
		"internal/sample/row.go":         file("precept/internal/session"),
		"bandit/row.go":                  file("precept/bandit/report"),
		"inject/json.go":                 file("github.com/tidwall/gjson"),
		"inject/fine.go":                 file("precept/internal/session", "precept/internal/wire"),
		"inject/rapid.go":                file("pgregory.net/rapid"),
		"store/unknown.go":               file("example.org/lib"),
		"store/support.go":               file("precept/store/storetest"),
		"store/sqlite/fine_test.go":      file("precept/store/storetest"),
		"store/storetest/fine.go":        file("precept/internal/session"),
		"store/storetest/up.go":          file("precept/store/sqlite"),
		"store/nowhere.go":               file("precept/attic"),
		"attic/a.go":                     file(),
		"store/own.go":                   file("precept/store"),
		"tools/go.mod":                   {Data: []byte("module x\n")},
		"tools/elsewhere.go":             file("precept/proxy"),
		"internal/wire/testdata/a.go":    file("precept/proxy"),
		".cache/a.go":                    file("precept/proxy"),
		"root_test.go":                   file("precept/proxy"),
		"test/harness/fine.go":           file("precept/proxy", "precept/store/storetest", "pgregory.net/rapid"),
		"test/chaos/fine_test.go":        file("precept/test/harness"),
		"store/whole_test.go":            file("precept/test/harness"),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"attic/a.go: the package attic has no layer; add the package to layers",
		"bandit/row.go: imports bandit/report not listed before it in order",
		"inject/json.go: imports github.com/tidwall/gjson, permitted only in internal/wire, cmd/precept",
		"inject/rapid.go: imports pgregory.net/rapid, permitted only in test, store/storetest",
		"internal/sample/row.go: imports internal/session not listed before it in order",
		"internal/sample/sideways.go: imports bandit/trial in the same layer",
		"internal/wire/sideways.go: imports configs in the same layer",
		"internal/wire/sideways_test.go: imports configs in the same layer",
		"internal/wire/up.go: imports proxy in a higher layer",
		"store/nowhere.go: attic has no layer",
		"store/own.go: imports store not listed before it in order",
		"store/storetest/up.go: imports store/sqlite not listed before it in order",
		"store/support.go: store/storetest is for tests only",
		"store/unknown.go: imports example.org/lib, a library without a row in importers",
		"store/whole_test.go: test/harness is for tests only",
	}
	got := violations(sources)
	if !slices.Equal(got, want) {
		t.Fatalf("violations =\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Unlike other code, tests are allowed to import a separated package.
func TestForbiddenChainsFindIndirectImports(t *testing.T) {
	file := func(pkg, to string) source {
		return source{file: pkg + "/a.go", pkg: pkg, imports: []string{"fmt", module + "/" + to}}
	}
	base := []source{file("bandit", "bandit/trial"), file("bandit/trial", "internal/file"), file("bandit/report", "bandit/trial"), file("bandit/feedback", "bandit"), file("store", "internal/file"), file("learn", "bandit")}
	test := file("bandit/report", "bandit")
	test.isTest = true
	for name, tc := range map[string]struct {
		added []source
		want  []string
	}{
		"no import":      {nil, nil},
		"only in a test": {[]source{test}, nil},
		"directly":       {[]source{file("bandit/report", "bandit")}, []string{"bandit/report must not reach bandit: bandit/report imports bandit"}},
		"indirectly": {
			[]source{file("bandit/report", "bandit/feedback")}, []string{"bandit/report must not reach bandit: bandit/report imports bandit/feedback imports bandit"},
		},
		"between learn and store": {
			[]source{file("learn", "store"), file("store", "bandit/feedback")}, []string{
				"learn must not reach store: learn imports store",
				"store must not reach bandit: store imports bandit/feedback imports bandit",
			},
		},
		"through bandit/trial": {
			[]source{file("bandit/trial", "bandit/feedback")}, []string{
				"bandit/report must not reach bandit: bandit/report imports bandit/trial imports bandit/feedback imports bandit",
				"bandit/trial must not reach bandit: bandit/trial imports bandit/feedback imports bandit",
			},
		},
	} {
		if got := forbiddenChains(append(slices.Clone(base), tc.added...)); !slices.Equal(got, tc.want) {
			t.Errorf("forbiddenChains(%s) = %q, want %q", name, got, tc.want)
		}
	}
	if got := forbiddenChains(base[:2]); len(got) != 3 || got[0] != "bandit/report must not reach bandit, but one of the two packages does not exist" {
		t.Errorf("forbiddenChains(missing packages) = %q, want 3 messages, beginning with one about bandit/report", got)
	}
}
