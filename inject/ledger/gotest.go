package ledger

import (
	"cmp"
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Lines of go test.
//
//nolint:gochecknoglobals // immutable
var (
	goRun    = regexp.MustCompile(`^=== (?:RUN|CONT|NAME)\s+(\S.*)$`)
	goFail   = regexp.MustCompile(`^\s*--- FAIL: (\S+)`)
	goOther  = regexp.MustCompile(`^\s*--- (?:PASS|SKIP|BENCH): `)
	goPlaced = regexp.MustCompile(`^\s+([\w.-]+\.go):\d+: ?(.*)$`)
	goEnd    = regexp.MustCompile(`^(FAIL|ok  )\t(\S+)(?:\t| |$)(.*)$`)
	goStack  = regexp.MustCompile(`^\t(/\S+\.go|[A-Za-z]:\S+\.go):\d+`)
)

// goEvent is one line of go test -json.
type goEvent struct {
	Action, Package, Output string
}

// gotest reads the failed tests of the plain, the verbose and the JSON form. gotest replaces a line
// of JSON by the printed line, so that the other readers find the errors of compilers.
func (r *reading) gotest() {
	packages := map[string]*goPackage{}
	plainRun := r.goPackage()
	for i, text := range r.lines {
		var e goEvent
		if !strings.HasPrefix(text, `{"`) || json.Unmarshal([]byte(text), &e) != nil || e.Action == "" {
			plainRun.line(i, text)
			continue
		}
		r.lines[i] = strings.TrimRight(e.Output, "\n")
		if e.Action != "output" { // the other readers read the line: "build-output" is output of a compiler
			continue
		}
		p := packages[e.Package]
		if p == nil {
			p = r.goPackage()
			packages[e.Package] = p
		}
		p.line(i, r.lines[i])
		r.lines[i] = "" // already read
	}
	plainRun.end(len(r.lines), "", "")
	for name, p := range packages {
		p.end(len(r.lines), name, "")
	}
}

// goPackage is the state of reading the test run of a package.
type goPackage struct {
	r        *reading
	test     string // test that writes the current lines
	order    []string
	failed   map[string]int // line number by test
	messages map[string]goMessage
	panics   string // panic that ended the process
	stack    string // first file of the project in the stack of the panic
	last     string // last line with a text
}

// wordless is the error of a test that printed no message.
const wordless = "the test failed without a message"

// goMessage is a message of a test with its place. The text is empty until the reader finds the
// text on a line below the place.
type goMessage struct{ file, text string }

func (r *reading) goPackage() *goPackage {
	return &goPackage{r: r, failed: map[string]int{}, messages: map[string]goMessage{}}
}

// line reads one line of the output of go test.
func (p *goPackage) line(at int, text string) {
	if m := goRun.FindStringSubmatch(text); m != nil {
		p.test = m[1]
		return
	}
	if m := goFail.FindStringSubmatch(text); m != nil {
		p.test = m[1]
		p.failed[m[1]] = at
		p.order = append(p.order, m[1])
		return
	}
	if m := goEnd.FindStringSubmatch(text); m != nil {
		p.end(at, m[2], m[1]+m[3])
		return
	}
	switch m := goPlaced.FindStringSubmatch(text); {
	case goOther.MatchString(text):
		p.test = ""
	case strings.HasPrefix(text, "panic: ") && p.panics == "":
		p.panics = strings.TrimSpace(strings.TrimSuffix(strings.TrimSuffix(text, " [recovered, repanicked]"), " [recovered]"))
	case p.panics != "" && p.stack == "":
		if s := goStack.FindStringSubmatch(text); s != nil && !strings.Contains(s[1], "/src/testing/") && !strings.Contains(s[1], "/src/runtime/") {
			p.stack = s[1]
		}
	case m != nil:
		if _, more := p.messages[p.test]; !more { // later messages follow from the first one
			p.messages[p.test] = goMessage{m[1], m[2]}
		}
	default:
		p.below(strings.TrimSpace(text))
	}
	if t := strings.TrimSpace(text); t != "" && t != "FAIL" {
		p.last = t
	}
}

// below reads a message that begins on the line below the place, the form of assertion libraries:
// "Error: Not equal:", followed by expected and actual value.
func (p *goPackage) below(text string) {
	output, ok := p.messages[p.test]
	switch {
	case !ok || text == "" || strings.HasPrefix(text, "Error Trace:"):
		return
	case output.text == "":
		output.text = strings.TrimSpace(strings.TrimPrefix(text, "Error:"))
	case strings.HasSuffix(output.text, ":"), strings.HasPrefix(text, "actual") && strings.HasPrefix(output.text, "Not equal:"):
		output.text += " " + text
	}
	p.messages[p.test] = output
}

// end adds the failures of a package and resets the state.
func (p *goPackage) end(at int, name, outcome string) {
	dir := p.r.folder(name)
	for _, test := range p.order {
		if p.hasFailedPart(test) {
			continue
		}
		output := p.messages[test]
		switch {
		case output.text != "":
			output.file = path.Join(dir, output.file)
		case p.panics != "":
			output = goMessage{cmp.Or(p.stack, dir), p.panics}
		default:
			output = goMessage{dir, wordless}
		}
		p.r.add(p.failed[test], failedTest("go test", output.file, test, output.text))
	}
	if len(p.order) == 0 && strings.HasPrefix(outcome, "FAIL") && !strings.Contains(outcome, "[build failed]") {
		p.r.add(at, Failure{Tool: "go test", Type: TypeTest, File: dir, Error: titled("the package failed", cmp.Or(p.panics, p.last))})
	}
	*p = *p.r.goPackage()
}

// hasFailedPart reports whether a subtest of a test failed. In this case only the subtest is listed as a failure.
func (p *goPackage) hasFailedPart(test string) bool {
	return slices.ContainsFunc(p.order, func(other string) bool { return strings.HasPrefix(other, test+"/") })
}

// folder returns the folder of a package of the module, and the import path of any other package.
func (r *reading) folder(pkg string) string {
	if pkg == r.out.Module {
		return ""
	}
	return strings.TrimPrefix(pkg, r.out.Module+"/")
}
