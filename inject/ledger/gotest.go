package ledger

import (
	"cmp"
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Patterns for go test lines.
//
//nolint:gochecknoglobals // immutable
var (
	goRun         = regexp.MustCompile(`^=== (?:RUN|CONT|NAME)\s+(\S.*)$`)
	goFail        = regexp.MustCompile(`^\s*--- FAIL: (\S+)`)
	goNotFailed   = regexp.MustCompile(`^\s*--- (?:PASS|SKIP|BENCH): `)
	goMessageLine = regexp.MustCompile(`^\s+([\w.-]+\.go):\d+: ?(.*)$`)
	goEnd         = regexp.MustCompile(`^(FAIL|ok  )\t(\S+)(?:\t| |$)(.*)$`)
	goStack       = regexp.MustCompile(`^\t(/\S+\.go|[A-Za-z]:\S+\.go):\d+`)
)

// goEvent is a line from go test -json.
type goEvent struct {
	Action, Package, Output string
}

// readGoTest reads plain, verbose and JSON output. It replaces a JSON line by the printed line, so that other readers
// find compiler errors there.
func (r *failureReader) readGoTest() {
	packages := map[string]*goPackage{}
	plainRun := r.newGoPackage()
	for i, text := range r.lines {
		var e goEvent
		if !strings.HasPrefix(text, `{"`) || json.Unmarshal([]byte(text), &e) != nil || e.Action == "" {
			plainRun.readLine(i, text)
			continue
		}
		r.lines[i] = strings.TrimRight(e.Output, "\n")
		if e.Action != "output" { // for the other readers; "build-output", for example, comes from a compiler
			continue
		}
		p := packages[e.Package]
		if p == nil {
			p = r.newGoPackage()
			packages[e.Package] = p
		}
		p.readLine(i, r.lines[i])
		r.lines[i] = "" // so that other readers skip the line
	}
	plainRun.addFailures(len(r.lines), "", "")
	for name, p := range packages {
		p.addFailures(len(r.lines), name, "")
	}
}

// goPackage is the state while reading one package's output.
type goPackage struct {
	r           *failureReader
	test        string         // test that printed the current lines
	failedOrder []string       // failed tests in line order
	failed      map[string]int // line by test
	messages    map[string]goMessage
	panicText   string // text of the panic that ended the process
	panicFile   string // first project file in the panic's stack
	lastLine    string // last nonblank line
}

const noMessage = "the test failed without a message"

// goMessage is a test's message. text is empty if the text follows on a later line.
type goMessage struct{ file, text string }

func (r *failureReader) newGoPackage() *goPackage {
	return &goPackage{r: r, failed: map[string]int{}, messages: map[string]goMessage{}}
}

func (p *goPackage) readLine(at int, text string) {
	if m := goRun.FindStringSubmatch(text); m != nil {
		p.test = m[1]
		return
	}
	if m := goFail.FindStringSubmatch(text); m != nil {
		p.test = m[1]
		p.failed[m[1]] = at
		p.failedOrder = append(p.failedOrder, m[1])
		return
	}
	if m := goEnd.FindStringSubmatch(text); m != nil {
		p.addFailures(at, m[2], m[1]+m[3])
		return
	}
	switch m := goMessageLine.FindStringSubmatch(text); {
	case goNotFailed.MatchString(text):
		p.test = ""
	case strings.HasPrefix(text, "panic: ") && p.panicText == "":
		p.panicText = strings.TrimSpace(strings.TrimSuffix(strings.TrimSuffix(text, " [recovered, repanicked]"), " [recovered]"))
	case p.panicText != "" && p.panicFile == "":
		if s := goStack.FindStringSubmatch(text); s != nil && !strings.Contains(s[1], "/src/testing/") && !strings.Contains(s[1], "/src/runtime/") {
			p.panicFile = s[1]
		}
	case m != nil:
		if _, more := p.messages[p.test]; !more { // only the first message is kept
			p.messages[p.test] = goMessage{m[1], m[2]}
		}
	default:
		p.readBelow(strings.TrimSpace(text))
	}
	if t := strings.TrimSpace(text); t != "" && t != "FAIL" {
		p.lastLine = t
	}
}

// readBelow reads a line below the first line of a test's message. Assertion libraries, for example, print "Error: Not
// equal:", and then the expected and the actual value.
func (p *goPackage) readBelow(text string) {
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

// addFailures adds the package's failures, and resets the state for the next package.
func (p *goPackage) addFailures(at int, name, outcome string) {
	dir := p.r.folder(name)
	for _, test := range p.failedOrder {
		if p.hasFailedSubtest(test) {
			continue
		}
		output := p.messages[test]
		switch {
		case output.text != "":
			output.file = path.Join(dir, output.file)
		case p.panicText != "":
			output = goMessage{cmp.Or(p.panicFile, dir), p.panicText}
		default:
			output = goMessage{dir, noMessage}
		}
		p.r.add(p.failed[test], testFailure("go test", output.file, test, output.text))
	}
	if len(p.failedOrder) == 0 && strings.HasPrefix(outcome, "FAIL") && !strings.Contains(outcome, "[build failed]") {
		p.r.add(at, Failure{Tool: "go test", Type: TypeTest, File: dir, Error: withSubject("the package failed", cmp.Or(p.panicText, p.lastLine))})
	}
	*p = *p.r.newGoPackage()
}

// hasFailedSubtest reports whether a test has a failed subtest. If so, only the subtest is reported.
func (p *goPackage) hasFailedSubtest(test string) bool {
	return slices.ContainsFunc(p.failedOrder, func(other string) bool { return strings.HasPrefix(other, test+"/") })
}

// folder returns a package's folder, or the import path of a package outside the module.
func (r *failureReader) folder(pkg string) string {
	if pkg == r.out.Module {
		return ""
	}
	return strings.TrimPrefix(pkg, r.out.Module+"/")
}
