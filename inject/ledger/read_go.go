package ledger

import (
	"cmp"
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"
)

// The lines of go test.
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

// gotest reads the tests that failed, out of the plain form, the verbose one, and JSON. The lines
// of -json are put back as they would have been printed, so that compilers' complaints in them are
// read as well.
func (r *reading) gotest() {
	packages := map[string]*goPackage{}
	plainOne := r.goPackage()
	for i, text := range r.lines {
		var e goEvent
		if !strings.HasPrefix(text, `{"`) || json.Unmarshal([]byte(text), &e) != nil || e.Action == "" {
			plainOne.line(i, text)
			continue
		}
		r.lines[i] = strings.TrimRight(e.Output, "\n")
		if e.Action != "output" { // it may be a compiler's
			continue
		}
		p := packages[e.Package]
		if p == nil {
			p = r.goPackage()
			packages[e.Package] = p
		}
		p.line(i, r.lines[i])
		r.lines[i] = "" // read already
	}
	plainOne.end(len(r.lines), "", "")
	for name, p := range packages {
		p.end(len(r.lines), name, "")
	}
}

// goPackage is a package's test run being read.
type goPackage struct {
	r      *reading
	test   string // whose output comes
	order  []string
	failed map[string]int // by test: the line
	said   map[string]goSaid
	panics string // what the process died of
	stack  string // the first file of ours below it
	last   string // the last line that says anything
}

// wordless is what a test said that said nothing.
const wordless = "the test failed without a message"

// goSaid is where a test complained and of what; text is "" while the lines below its place are
// awaited.
type goSaid struct{ file, text string }

func (r *reading) goPackage() *goPackage {
	return &goPackage{r: r, failed: map[string]int{}, said: map[string]goSaid{}}
}

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
		if _, more := p.said[p.test]; !more { // the first complaint is what the others follow from
			p.said[p.test] = goSaid{m[1], m[2]}
		}
	default:
		p.below(strings.TrimSpace(text))
	}
	if t := strings.TrimSpace(text); t != "" && t != "FAIL" {
		p.last = t
	}
}

// below reads a complaint that begins on the line below its place, as assertion libraries write it:
// "Error: Not equal:", and then what was expected and what came.
func (p *goPackage) below(text string) {
	said, ok := p.said[p.test]
	switch {
	case !ok || text == "" || strings.HasPrefix(text, "Error Trace:"):
		return
	case said.text == "":
		said.text = strings.TrimSpace(strings.TrimPrefix(text, "Error:"))
	case strings.HasSuffix(said.text, ":"), strings.HasPrefix(text, "actual") && strings.HasPrefix(said.text, "Not equal:"):
		said.text += " " + text
	}
	p.said[p.test] = said
}

// end tells what failed in a package, and forgets it.
func (p *goPackage) end(at int, name, outcome string) {
	dir := p.r.folder(name)
	for _, test := range p.order {
		if p.hasFailedPart(test) {
			continue
		}
		said := p.said[test]
		switch {
		case said.text != "":
			said.file = path.Join(dir, said.file)
		case p.panics != "":
			said = goSaid{cmp.Or(p.stack, dir), p.panics}
		default:
			said = goSaid{dir, wordless}
		}
		p.r.add(p.failed[test], failedTest("go test", said.file, test, said.text))
	}
	if len(p.order) == 0 && strings.HasPrefix(outcome, "FAIL") && !strings.Contains(outcome, "[build failed]") {
		p.r.add(at, Failure{Tool: "go test", Type: TypeTest, File: dir, Error: titled("the package failed", cmp.Or(p.panics, p.last))})
	}
	*p = *p.r.goPackage()
}

// hasFailedPart says whether a part of a test failed too: then the part is what failed.
func (p *goPackage) hasFailedPart(test string) bool {
	return slices.ContainsFunc(p.order, func(other string) bool { return strings.HasPrefix(other, test+"/") })
}

// folder is where a package lies in the module; a package of another module keeps its import path.
func (r *reading) folder(pkg string) string {
	if pkg == r.Module {
		return ""
	}
	return strings.TrimPrefix(pkg, r.Module+"/")
}
