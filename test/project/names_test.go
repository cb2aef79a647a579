package project

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"precept/test/harness"

	"github.com/prometheus/client_golang/prometheus"

	"precept/cmd/precept/server"
	"precept/configs"
	"precept/internal/redact"
	"precept/learn"
	"precept/proxy"
	"precept/store"
)

// knownNames holds the names of settings, commands, metrics and so on that exist, so that a document may use them.
type knownNames struct {
	root     *command
	keys     map[string]bool // configuration keys and sections
	env      map[string]bool
	metrics  map[string]bool
	routes   []*regexp.Regexp
	headers  map[string]bool // lower case
	targets  map[string]bool // Makefile targets
	sections map[string]bool // first segments of the configuration keys
}

func TestDocsHaveNoUnknownNames(t *testing.T) {
	known := collectKnownNames(t)
	files := documentPaths(t)
	if len(files) < 8 {
		t.Fatalf("documentPaths = %q (%d paths), want at least 8 paths", files, len(files))
	}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(repo, file))
		if err != nil {
			t.Fatal(err)
		}
		checked := string(text)
		if file == "docs/ARCHITECTURE.md" { // lock names look like keys; house_test.go checks them
			before, rest, _ := strings.Cut(checked, "\n## Locks\n")
			_, after, _ := strings.Cut(rest, "\n## ")
			checked = before + "\n## " + after
		}
		for _, message := range known.findUnknownNames(file, checked) {
			t.Errorf("%s contains a name that does not exist: %s", file, message)
		}
	}
}

func TestFindUnknownNamesReportsEveryKind(t *testing.T) {
	known := collectKnownNames(t)
	for _, tc := range []struct{ text, want string }{
		{"Run `precept frobnicate` now.", "frobnicate"},
		{"Run `precept lessons dance x`.", "dance"},
		{"    precept lessons    list, dance", "dance"},
		{"Run `precept report --sideways`.", "--sideways"},
		{"Set `--no-such-flag`.", "--no-such-flag"},
		{"Set `bandit.nosuch`.", "bandit.nosuch"},
		{"Set `PRECEPT_NO_SUCH=1`.", "PRECEPT_NO_SUCH"},
		{"See `precept_nosuch_total{a}`.", "precept_nosuch_total"},
		{"See `precept_lessons_{matched,nosuch}_total`.", "precept_lessons_nosuch_total"},
		{"Ask `GET /api/nosuch`.", "/api/nosuch"},
		{"Send `Precept-Nosuch`.", "Precept-Nosuch"},
		{"Do `make nosuch`.", "make nosuch"},
		{"See [this](docs/NOSUCH.md).", "docs/NOSUCH.md"},
		{"See `configs/nosuch.yaml`.", "configs/nosuch.yaml"},
	} {
		got := known.findUnknownNames("README.md", tc.text)
		if len(got) != 1 || !strings.Contains(got[0], tc.want) {
			t.Errorf("findUnknownNames(%q) = %q, want 1 message with %q", tc.text, got, tc.want)
		}
	}
	existing := "`precept report --json --tenant x`, `--bandit-epsilon 0.1`, `bandit.epsilon`, `PRECEPT_LISTEN`, `precept_requests_total{code}`, " +
		"`GET /api/report?window=`, `Precept-Session`, `make test`, [a](docs/AGENTS.md), `docker run --rm x`, precept is fine\n\n    precept lessons    list, show\n"
	if got := known.findUnknownNames("README.md", existing); len(got) != 0 {
		t.Errorf("findUnknownNames on a page with existing names only = %q, want no message", got)
	}
}

const repo = "../.."

// documentPaths returns the paths of the documents to check. It omits the decision pages and the changelog, which may
// name settings that were removed.
func documentPaths(t *testing.T) []string {
	t.Helper()
	var out []string
	err := fs.WalkDir(os.DirFS(repo), ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); file != "." && (name[0] == '.' || name == "node_modules" || name == "testdata" || file == "docs/decisions") {
				return fs.SkipDir
			}
			return nil
		}
		top, _, nested := strings.Cut(file, "/")
		isDocFolder := !nested || top == "docs" || top == "examples" || top == "configs" || top == "deploy"
		if ext := filepath.Ext(file); isDocFolder && file != "CHANGELOG.md" && (ext == ".md" && d.Name() != "LESSON.md" || ext == ".yaml" && (top == "configs" || top == "deploy")) {
			out = append(out, file)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(out, func(f string) bool { return strings.HasPrefix(f, "configs/lessons/") && strings.Count(f, "/") > 2 })
}

// collectKnownNames collects the names from the program and the source code.
func collectKnownNames(t *testing.T) *knownNames {
	t.Helper()
	k := &knownNames{root: commandTree(t), keys: map[string]bool{}, env: map[string]bool{}, sections: map[string]bool{}}
	for _, n := range configs.KeyInfos() {
		k.env[n.Env] = true
		parts := strings.Split(n.Path, ".")
		for i := range parts {
			k.keys[strings.Join(parts[:i+1], ".")] = true
		}
		k.sections[parts[0]] = true
	}
	for _, extra := range []string{"PRECEPT_CONFIG", "PRECEPT_ADMIN_TOKEN", "PRECEPT_SESSION", "PRECEPT_RUN", "PRECEPT_URL", "PRECEPT_KEY"} {
		k.env[extra] = true
	}
	for _, name := range slices.Collect(maps.Keys(k.env)) {
		k.env[name+"_FILE"] = true // the variable with the path of a file that contains the value
	}
	k.env["PRECEPT_CHAOS"] = true // set by make chaos
	k.metrics = metricNames(t)
	k.routes = routePatterns(t)
	k.headers = headerNames(t)
	k.targets = makeTargets(t)
	return k
}

type metricNameRecorder struct{ names map[string]bool }

func (r metricNameRecorder) Register(c prometheus.Collector) error {
	ch := make(chan *prometheus.Desc)
	go func() { c.Describe(ch); close(ch) }()
	for desc := range ch {
		if m := regexp.MustCompile(`fqName: "([^"]+)"`).FindStringSubmatch(desc.String()); m != nil {
			r.names[m[1]] = true
		}
	}
	return nil
}

func (r metricNameRecorder) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		_ = r.Register(c)
	}
}

func (r metricNameRecorder) Unregister(prometheus.Collector) bool { return true }

func metricNames(t *testing.T) map[string]bool {
	t.Helper()
	d := metricNameRecorder{names: map[string]bool{}}
	proxy.NewMetrics(d)
	server.RegisterBuild(d)
	server.RegisterReload(d, nil)
	server.RegisterStore(d, &store.Store{})
	server.RegisterLearning(d, &learn.Metrics{})
	server.RegisterSpans(d, nil)
	server.RegisterCache(d, "any", (*redact.CleanTexts)(nil))
	for name := range maps.Clone(d.names) {
		d.names[name+"_bucket"] = true // queries use the names of histogram buckets
	}
	return d.names
}

func sourceFiles(t *testing.T, dirs ...string) []*ast.File {
	t.Helper()
	var out []*ast.File
	for _, dir := range dirs {
		paths, err := filepath.Glob(filepath.Join(repo, dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		if len(paths) == 0 {
			t.Fatalf("%s has no Go files", dir)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, f)
		}
	}
	return out
}

// routePatterns returns patterns for the paths that the two listeners answer. It takes the paths from the first
// arguments in calls of GET, POST and similar methods, and from the function endpoints in package proxy.
func routePatterns(t *testing.T) []*regexp.Regexp {
	t.Helper()
	var out []*regexp.Regexp
	add := func(e ast.Expr) {
		lit, ok := e.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING || !strings.HasPrefix(lit.Value, `"/`) {
			return
		}
		path, err := strconv.Unquote(lit.Value)
		if err != nil {
			t.Fatal(err)
		}
		pattern := regexp.MustCompile(`:[a-z]+`).ReplaceAllString(regexp.QuoteMeta(path), `[^/]+`)
		out = append(out, regexp.MustCompile("^"+pattern+"$"))
	}
	for _, f := range sourceFiles(t, "proxy", "admin") {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				sel, ok := n.Fun.(*ast.SelectorExpr)
				if ok && len(n.Args) > 1 && slices.Contains([]string{"GET", "POST", "PUT", "PATCH", "DELETE"}, sel.Sel.Name) {
					add(n.Args[0])
				}
			case *ast.FuncDecl:
				if n.Name.Name == "endpoints" {
					ast.Inspect(n, func(n ast.Node) bool {
						switch n := n.(type) {
						case *ast.KeyValueExpr:
							add(n.Key)
						case *ast.IndexExpr:
							add(n.Index)
						}
						return true
					})
				}
			}
			return true
		})
	}
	if len(out) < 10 {
		t.Fatalf("routes in the source: got %d, want at least 10", len(out))
	}
	return out
}

// headerNames returns the names of all Precept-* headers that occur in string literals in the source code, in lower
// case.
func headerNames(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	header := regexp.MustCompile(`(?i)precept-[a-z-]+`)
	for _, f := range sourceFiles(t, "proxy", "internal/session", "internal/wire", "inject", "admin") {
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				for _, name := range header.FindAllString(lit.Value, -1) {
					out[strings.ToLower(name)] = true
				}
			}
			return true
		})
	}
	return out
}

func makeTargets(t *testing.T) map[string]bool {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(repo, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z0-9-]+):`).FindAllStringSubmatch(string(b), -1) {
		out[m[1]] = true
	}
	return out
}

type command struct {
	path        string // such as precept lessons approve
	flags       map[string]bool
	subcommands map[string]*command
}

// commandTree returns the commands and flags of precept. It reads them from the output of the shell completion.
func commandTree(t *testing.T) *command {
	t.Helper()
	complete := func(words ...string) (found []string) {
		out := harness.MustRun(t, append([]string{"__complete"}, words...)...)
		for line := range strings.Lines(out) {
			name, _, described := strings.Cut(strings.TrimRight(line, "\n"), "\t")
			if described || strings.HasPrefix(name, "--") {
				found = append(found, name)
			}
		}
		return found
	}
	var read func(words []string) *command
	read = func(words []string) *command {
		c := &command{path: strings.Join(append([]string{"precept"}, words...), " "), flags: map[string]bool{}, subcommands: map[string]*command{}}
		for _, flag := range complete(append(slices.Clone(words), "--")...) {
			c.flags[strings.TrimPrefix(flag, "--")] = true
		}
		if len(words) > 0 && words[0] == "help" {
			return c // the arguments are commands
		}
		for _, name := range complete(append(slices.Clone(words), "")...) {
			c.subcommands[name] = read(append(slices.Clone(words), name))
		}
		return c
	}
	return read(nil)
}

// findCommand returns the command that the first words name, and the remaining words.
func (k *knownNames) findCommand(words []string) (c *command, rest []string) {
	c = k.root
	for i, word := range words {
		next, ok := c.subcommands[word]
		if !ok {
			return c, words[i:]
		}
		c = next
	}
	return c, nil
}

// hasFlag reports whether the command or one of its subcommands has the flag.
func (c *command) hasFlag(name string) bool {
	if name == "help" || name == "version" || c.flags[name] {
		return true
	}
	for _, sub := range c.subcommands {
		if sub.hasFlag(name) {
			return true
		}
	}
	return false
}
