package ledger

import (
	"path"
	"slices"
	"strings"

	"github.com/reviewdog/errorformat"
	"github.com/reviewdog/errorformat/fmts"
)

// maxFormatLine is the number of bytes of a line that a format reads. The scanner of the library
// stops without an error at a line of 64 KB.
const maxFormatLine = 4 << 10

// format reads the output of a program that only the library knows: rubocop, phpstan, dotnet and some
// 30 others. format takes the program from the command, because a line may fit the formats of several programs.
func (r *reading) format() {
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
	var all, errors []located
	for scan, at := compiled.NewScanner(strings.NewReader(strings.Join(lines, "\n"))), 0; scan.Scan(); at++ {
		e := scan.Entry()
		if !e.Valid || e.Filename == "" || e.Text == "" {
			continue
		}
		f := located{Failure{Tool: name, Type: formatType(name), File: e.Filename, Error: e.Text}, at}
		switch severity(e) {
		case 'e':
			errors = append(errors, f)
		case 'n', 'i': // notes
			continue
		}
		all = append(all, f)
	}
	if len(errors) > 0 { // the errors failed the command, so the warnings are left out
		all = errors
	}
	for _, f := range all {
		r.add(f.at, f.failure)
	}
}

// formatOf returns the name of the first program of a command for which the library has a format:
// bundle exec rubocop, vendor/bin/phpstan, dotnet build.
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

// severity returns the first letter of an entry's severity: from its type, or from the first word of
// its text; 0 for an entry without one.
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
