package ledger

import (
	"cmp"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Failure is one distinct thing that a linter, a type checker or a test run complained of.
type Failure struct {
	Tool    string `json:"tool"`    // go test, ruff, ...
	Type    string `json:"type"`    // lint, test or static-analysis
	File    string `json:"file"`    // relative to the folder where the command ran, where the output says which
	Subject string `json:"subject"` // the test's name or the rule's, "" for none
	Error   string `json:"error"`   // one line, without the line number, which moves with every edit
}

// Output is what a command printed, and where it ran.
type Output struct {
	Text   string
	Dir    string // absolute; paths below it are told relative to it
	Module string // the Go module there, "" for none: go test names packages, not files
}

// Failures reads the distinct failures out of an output, in the order in which they stand there.
// Which tool it was follows from the shape of what it printed, not from the command: `make check`
// or `npm test` may run any of them.
func Failures(o Output) []Failure {
	r := &reading{Output: o, lines: strings.Split(strings.ReplaceAll(plain(o.Text), "\r\n", "\n"), "\n")}
	r.gotest()
	r.positions()
	r.ruff()
	r.cargo()
	r.eslint()
	r.jest()
	r.vitest()
	r.pytest()
	return r.distinct()
}

// reading is one output being read.
type reading struct {
	Output
	lines []string
	found []located
}

// located is a failure and the line where it stands, for the order.
type located struct {
	Failure
	at int
}

func (r *reading) add(at int, f Failure) {
	f.File = r.relative(f.File)
	f.Error = line(stable(f.Error))
	if f.Error != "" {
		r.found = append(r.found, located{f, at})
	}
}

// distinct sorts the failures by their lines and drops those that are there already, as the ledger
// would.
func (r *reading) distinct() []Failure {
	slices.SortStableFunc(r.found, func(a, b located) int { return cmp.Compare(a.at, b.at) })
	seen := map[[2]string]bool{}
	var out []Failure
	for i := range r.found {
		f := r.found[i].Failure
		key := [2]string{f.File, Summary(f.Error)}
		if !seen[key] {
			seen[key] = true
			out = append(out, f)
		}
	}
	return out
}

// relative tells a path as the project knows it.
func (r *reading) relative(path string) string {
	path = strings.TrimSpace(path)
	if rel, err := filepath.Rel(r.Dir, path); err == nil && !strings.HasPrefix(rel, "..") {
		path = rel
	}
	path = strings.TrimPrefix(filepath.ToSlash(path), "./")
	if path == "" {
		return "."
	}
	return path
}

// addresses of memory are other numbers in every run.
var addresses = regexp.MustCompile(`\b0x[0-9a-fA-F]{6,16}\b`) //nolint:gochecknoglobals // immutable

func stable(s string) string { return addresses.ReplaceAllString(s, "0x...") }

// block is the lines from i on, up to the next blank one.
func (r *reading) block(i int) []string {
	end := i
	for end < len(r.lines) && strings.TrimSpace(r.lines[end]) != "" {
		end++
	}
	return r.lines[i:end]
}

// failedTest is a test that failed, and what it said.
func failedTest(tool, file, test, said string) Failure {
	return Failure{Tool: tool, Type: TypeTest, File: file, Subject: test, Error: titled(test, said)}
}

// titled puts what failed before what it said, if anything.
func titled(subject, message string) string {
	if subject == "" || message == "" {
		return subject + message
	}
	return subject + ": " + message
}
