package ledger

import (
	"path"
	"slices"
	"strings"

	"github.com/reviewdog/errorformat"
	"github.com/reviewdog/errorformat/fmts"
)

// maxFormatLine is the maximum number of bytes of a line that readKnownFormat reads. The scanner of the library stops
// without an error at a line of 64 KB.
const maxFormatLine = 4 << 10

// readKnownFormat reads the output of a program for which the library errorformat has a format, such as rubocop,
// phpstan or dotnet. The name of the program comes from the command, because a line may fit the formats of several
// programs.
func (r *failureReader) readKnownFormat() {
	name := formatOf(r.out.Command)
	if name == "" {
		return
	}
	compiled, err := errorformat.NewErrorformat(fmts.DefinedFmts()[name].Errorformat)
	if err != nil {
		return
	}
	lines := make([]string, len(r.lines))
	for i, text := range r.lines {
		lines[i] = text[:min(len(text), maxFormatLine)]
	}
	var all, errors []locatedFailure
	for scan, at := compiled.NewScanner(strings.NewReader(strings.Join(lines, "\n"))), 0; scan.Scan(); at++ {
		e := scan.Entry()
		if !e.Valid || e.Filename == "" || e.Text == "" {
			continue
		}
		f := locatedFailure{Failure{Tool: name, Type: formatType(name), File: e.Filename, Error: e.Text}, at}
		switch severity(e) {
		case 'e':
			errors = append(errors, f)
		case 'n', 'i': // notes
			continue
		}
		all = append(all, f)
	}
	if len(errors) > 0 { // the errors are the reason why the command failed, so warnings are omitted
		all = errors
	}
	for _, f := range all {
		r.add(f.line, f.failure)
	}
}

// formatOf returns the name of the first program in a command for which the library has a format, as in bundle exec
// rubocop, vendor/bin/phpstan and dotnet build.
func formatOf(command []string) string {
	known := fmts.DefinedFmts()
	for _, word := range command {
		name := strings.TrimSuffix(strings.TrimSuffix(path.Base(strings.ReplaceAll(word, `\`, "/")), ".exe"), ".phar")
		if known[name] != nil {
			return name
		}
	}
	return ""
}

// formatType returns the type of the findings of a program.
func formatType(name string) string {
	if slices.Contains([]string{"dotnet", "msbuild", "phpstan", "psalm", "sorbet", "scalac", "sbt", "brakeman", "cargo-check", "gosec", "staticcheck"}, name) {
		return TypeAnalysis
	}
	return TypeLint
}

// severity returns the first letter of an entry's severity. It is in the type of the entry or is the first word of its
// text. The result is 0 for an entry without a severity.
func severity(e *errorformat.Entry) byte {
	if kind := e.Types(); kind != "" {
		return kind[0]
	}
	word := strings.ToLower(strings.TrimLeft(e.Text, "[ "))
	for _, name := range []string{"error", "warning", "note", "info"} {
		if strings.HasPrefix(word, name) {
			return name[0]
		}
	}
	return 0
}
