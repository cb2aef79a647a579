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

// Failure is a distinct finding of a linter, a type checker or a test run.
type Failure struct {
	Tool    string `json:"tool"`    // go test, ruff, ...
	Type    string `json:"type"`    // lint, test or static-analysis
	File    string `json:"file"`    // relative to the folder of the command, where the output names the file
	Subject string `json:"subject"` // name of the test or the rule; "" for none
	Error   string `json:"error"`   // one line, without the line number, which moves with every edit
}

// Output is the output of a command, and the place where the command ran.
type Output struct {
	Text    string
	Command []string // program and arguments
	Dir     string   // absolute; paths below Dir become relative to Dir
	Module  string   // Go module in Dir, "" for none: go test names packages, not files
}

// Failures returns the distinct failures of an output in order. Failures recognizes the tool by the form of the
// output, because `make check` or `npm test` may run any tool. For a tool without a reader in this package,
// the command determines the format.
func Failures(o Output) []Failure {
	r := &reading{out: o, lines: strings.Split(strings.ReplaceAll(plain(o.Text), "\r\n", "\n"), "\n")}
	r.gotest()
	r.positions()
	r.ruff()
	r.cargo()
	r.eslint()
	r.jest()
	r.vitest()
	r.pytest()
	if len(r.found) == 0 {
		r.format()
	}
	return r.distinct()
}

// reading is the state of one call of Failures.
type reading struct {
	out   Output
	lines []string
	found []located
}

// located is a failure and the number of its line, for the order.
type located struct {
	failure Failure
	at      int
}

func (r *reading) add(at int, f Failure) {
	f.File = r.relative(f.File)
	f.Error = line(stable(f.Error))
	if f.Error != "" {
		r.found = append(r.found, located{f, at})
	}
}

// distinct sorts the failures by line and drops duplicates, by the key of the ledger.
func (r *reading) distinct() []Failure {
	slices.SortStableFunc(r.found, func(a, b located) int { return cmp.Compare(a.at, b.at) })
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

// relative returns a path with slashes, relative to the folder of the command if the file is below the folder.
func (r *reading) relative(path string) string {
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

func stable(s string) string { return addresses.ReplaceAllString(s, "0x...") }

// block returns the lines from line i to the next blank line.
func (r *reading) block(i int) []string {
	end := i
	for end < len(r.lines) && strings.TrimSpace(r.lines[end]) != "" {
		end++
	}
	return r.lines[i:end]
}

// failedTest returns the failure of a test.
func failedTest(tool, file, test, message string) Failure {
	return Failure{Tool: tool, Type: TypeTest, File: file, Subject: test, Error: titled(test, message)}
}

// titled returns the subject of a failure, followed by the message.
func titled(subject, message string) string {
	if subject == "" || message == "" {
		return subject + message
	}
	return subject + ": " + message
}

// Entry returns an entry for a failure that a command found. The resolution is open; the rule is to
// run the command.
func (f *Failure) Entry(intent string, command []string) Entry {
	quoted := codeSpan(line(shortened(shell.Quote(command...), 200)))
	cause := fmt.Sprintf("Found by %s (%s).", quoted, f.Tool)
	if f.Subject != "" {
		cause = fmt.Sprintf("Found by %s (%s): %s.", quoted, f.Tool, shortened(line(f.Subject), 200))
	}
	file := f.File
	if n := []rune(file); len(n) > maxFile {
		file = string(n[len(n)-maxFile:])
	}
	what := "editing " + file
	if f.Type == TypeTest {
		what = "changing what " + file + " tests"
	}
	if file == "." {
		what = "the last edit"
	}
	return Entry{
		IntentID: intent, Type: f.Type, File: file, Error: f.Error, Cause: cause,
		Resolution: unresolved,
		Rule:       fmt.Sprintf("Run %s after %s, before you say that the work is done.", quoted, what),
	}
}

// NotRun reports whether the output of a failed command says that the command did not run its task: make has no such
// target, npm no such script.
func NotRun(text string) bool {
	return strings.Contains(text, "*** No rule to make target '") && strings.Contains(text, "'.  Stop.") && !strings.Contains(text, "needed by '") ||
		strings.Contains(text, " Missing script: ") || strings.Contains(text, "ERR_PNPM_NO_SCRIPT")
}

// Unread returns the failure of a command in whose output Failures found none. The last lines of the output are the
// error.
func Unread(command []string, code int, text string) Failure {
	lines := strings.Split(plain(text), "\n")
	var lastLines []string
	size := 0
	for i := len(lines) - 1; i >= 0 && size < MaxSummary && len(lastLines) < 5; i-- {
		if t := line(lines[i]); t != "" {
			lastLines, size = append([]string{t}, lastLines...), size+len(t)
		}
	}
	f := Failure{Tool: command[0], Type: TypeTest, File: ".", Error: stable(strings.Join(lastLines, " "))}
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

// unresolved is the resolution of an entry until a person or an agent resolves the failure.
const unresolved = "None yet: it was recorded when it failed."

// lint returns the finding of a linter. The error is the message, followed by the rule in parentheses.
func lint(tool, file, rule, message string) Failure {
	f := Failure{Tool: tool, Type: TypeLint, File: file, Subject: rule, Error: message}
	if rule != "" {
		f.Error += " (" + rule + ")"
	}
	return f
}
