package ledger

import (
	"fmt"
	"slices"
	"strings"
)

// Entry makes an entry of a failure that a command found. What mended it nobody knows yet; the rule
// is the one thing that is certain: that the command finds it.
func (f *Failure) Entry(intent string, command []string) Entry {
	quoted := codeSpan(line(shortened(strings.Join(command, " "), 200)))
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

// Unread is the failure of a command whose output none of the readers understood: its last lines
// are what it said.
func Unread(command []string, code int, text string) Failure {
	lines := strings.Split(plain(text), "\n")
	var said []string
	size := 0
	for i := len(lines) - 1; i >= 0 && size < MaxSummary && len(said) < 5; i-- {
		if t := line(lines[i]); t != "" {
			said, size = append([]string{t}, said...), size+len(t)
		}
	}
	f := Failure{Tool: command[0], Type: TypeTest, File: ".", Error: stable(strings.Join(said, " "))}
	if f.Error == "" {
		f.Error = fmt.Sprintf("exit status %d without a word", code)
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

// unresolved stands for the resolution of what nobody has resolved.
const unresolved = "None yet: it was recorded when it failed."
