package ledger

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"precept/internal/shell"
)

// Failure is a distinct finding from a linter, a type checker or a test run.
type Failure struct {
	Tool    string `json:"tool"`    // go test, ruff, ...
	Type    string `json:"type"`    // lint, test or static-analysis
	File    string `json:"file"`    // path, relative to the command's folder; without a file, the package's folder or "."
	Subject string `json:"subject"` // test or rule name; "" for none
	Error   string `json:"error"`   // one line, without the line number, which an edit further up would change
}

// Output is a command's output.
type Output struct {
	Text    string
	Command []string // program and arguments
	Dir     string   // absolute path; paths below it become relative
	Module  string   // Go module in Dir, to convert the packages that go test prints to folders; "" if none
}

// Failures returns the distinct failures in order. The tool is recognized by the form of the output, because `make
// check` or `npm test` can run any tool. Only for tools without a reader in this package, the command names the tool.
func Failures(o Output) []Failure {
	r := &failureReader{out: o, lines: strings.Split(strings.ReplaceAll(stripEscapes(o.Text), "\r\n", "\n"), "\n")}
	r.readGoTest()
	r.readPositions()
	r.readRuff()
	r.readCargo()
	r.readESLint()
	r.readJest()
	r.readVitest()
	r.readPytest()
	if len(r.found) == 0 {
		r.readKnownFormat()
	}
	return r.distinctFailures()
}

type failureReader struct {
	out   Output
	lines []string
	found []locatedFailure
}

// locatedFailure is a failure with its line in the output, for sorting.
type locatedFailure struct {
	failure Failure
	line    int
}

func (r *failureReader) add(at int, f Failure) {
	f.File = r.relative(f.File)
	f.Error = singleLine(withoutAddresses(f.Error))
	if f.Error != "" {
		r.found = append(r.found, locatedFailure{f, at})
	}
}

// distinctFailures drops failures that the ledger would store as the same entry.
func (r *failureReader) distinctFailures() []Failure {
	slices.SortStableFunc(r.found, func(a, b locatedFailure) int { return cmp.Compare(a.line, b.line) })
	seen := map[[2]string]bool{}
	var out []Failure
	for i := range r.found {
		f := r.found[i].failure
		key := [2]string{f.File, Summary(f.Error)}
		if !seen[key] {
			seen[key] = true
			out = append(out, f)
		}
	}
	return out
}

// relative returns a path with slashes. A path below the command's folder becomes relative.
func (r *failureReader) relative(path string) string {
	path = strings.TrimSpace(path)
	if rel, err := filepath.Rel(r.out.Dir, path); err == nil && !strings.HasPrefix(rel, "..") {
		path = rel
	}
	path = strings.TrimPrefix(filepath.ToSlash(path), "./")
	if path == "" {
		return "."
	}
	return path
}

// addresses matches memory addresses, which differ between runs.
var addresses = regexp.MustCompile(`\b0x[0-9a-fA-F]{6,16}\b`) //nolint:gochecknoglobals // immutable

func withoutAddresses(s string) string { return addresses.ReplaceAllString(s, "0x...") }

// block returns the lines from i to the next blank line.
func (r *failureReader) block(i int) []string {
	end := i
	for end < len(r.lines) && strings.TrimSpace(r.lines[end]) != "" {
		end++
	}
	return r.lines[i:end]
}

func testFailure(tool, file, test, message string) Failure {
	return Failure{Tool: tool, Type: TypeTest, File: file, Subject: test, Error: withSubject(test, message)}
}

func withSubject(subject, message string) string {
	if subject == "" || message == "" {
		return subject + message
	}
	return subject + ": " + message
}

// Entry returns an entry for a command's failure, without a resolution. The entry's rule says when to run the command.
func (f *Failure) Entry(intent string, command []string) Entry {
	quoted := codeSpan(singleLine(truncate(shell.Quote(command...), 200)))
	cause := fmt.Sprintf("Found by %s (%s).", quoted, f.Tool)
	if f.Subject != "" {
		cause = fmt.Sprintf("Found by %s (%s): %s.", quoted, f.Tool, truncate(singleLine(f.Subject), 200))
	}
	file := f.File
	if n := []rune(file); len(n) > maxFile {
		file = string(n[len(n)-maxFile:])
	}
	trigger := "editing " + file
	if f.Type == TypeTest {
		trigger = "changing what " + file + " tests"
	}
	if file == "." {
		trigger = "the last edit"
	}
	return Entry{
		IntentID: intent, Type: f.Type, File: file, Error: f.Error, Cause: cause,
		Resolution: unresolved,
		Rule:       fmt.Sprintf("Run %s after %s, before you say that the work is done.", quoted, trigger),
	}
}

// DidNotRun reports whether a command did nothing because make has no such target or npm has no such script.
func DidNotRun(text string) bool {
	return strings.Contains(text, "*** No rule to make target '") && strings.Contains(text, "'.  Stop.") && !strings.Contains(text, "needed by '") ||
		strings.Contains(text, " Missing script: ") || strings.Contains(text, "ERR_PNPM_NO_SCRIPT")
}

// UnrecognizedFailure returns a failure for a command whose output Failures does not recognize. The error consists of
// the output's last lines.
func UnrecognizedFailure(command []string, code int, text string) Failure {
	lines := strings.Split(stripEscapes(text), "\n")
	var lastLines []string
	size := 0
	for i := len(lines) - 1; i >= 0 && size < MaxSummary && len(lastLines) < 5; i-- {
		if t := singleLine(lines[i]); t != "" {
			lastLines, size = append([]string{t}, lastLines...), size+len(t)
		}
	}
	f := Failure{Tool: command[0], Type: TypeTest, File: ".", Error: withoutAddresses(strings.Join(lastLines, " "))}
	if f.Error == "" {
		f.Error = fmt.Sprintf("exit status %d without output", code)
	}
	words := strings.ToLower(strings.Join(command, " "))
	has := func(part string) bool { return strings.Contains(words, part) }
	switch {
	case slices.ContainsFunc([]string{"lint", "format", "fmt"}, has):
		f.Type = TypeLint
	case slices.ContainsFunc([]string{"check", "vet", "build", "tsc"}, has):
		f.Type = TypeAnalysis
	}
	return f
}

// unresolved is the resolution until a person or an agent writes one.
const unresolved = "None yet: it was recorded when it failed."

func lintFailure(tool, file, rule, message string) Failure {
	f := Failure{Tool: tool, Type: TypeLint, File: file, Subject: rule, Error: message}
	if rule != "" {
		f.Error += " (" + rule + ")"
	}
	return f
}
