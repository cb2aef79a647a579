package ledger

import (
	"path"
	"slices"
	"strings"

	"github.com/reviewdog/errorformat"
	"github.com/reviewdog/errorformat/fmts"
)

// maxFormatLine is the maximum length of a line. Without it, the library's scanner would stop silently at a line of 64
// KB.
const maxFormatLine = 4 << 10

// readKnownFormat reads the formats that the errorformat library knows, such as rubocop, phpstan or dotnet. The command
// selects the format, because a line can match several formats.
func (r *failureReader) readKnownFormat() {
	name := commandFormat(r.out.Command)
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
	if len(errors) > 0 { // the errors made the command fail, so the warnings are omitted
		all = errors
	}
	for _, f := range all {
		r.add(f.line, f.failure)
	}
}

// commandFormat returns the name of the first program in a command that the library knows, such as rubocop in bundle
// exec rubocop.
func commandFormat(command []string) string {
	formats := fmts.DefinedFmts()
	for _, word := range command {
		name := strings.TrimSuffix(strings.TrimSuffix(path.Base(strings.ReplaceAll(word, `\`, "/")), ".exe"), ".phar")
		if formats[name] != nil {
			return name
		}
	}
	return ""
}

func formatType(name string) string {
	if slices.Contains([]string{"dotnet", "msbuild", "phpstan", "psalm", "sorbet", "scalac", "sbt", "brakeman", "cargo-check", "gosec", "staticcheck"}, name) {
		return TypeAnalysis
	}
	return TypeLint
}

// severity returns the first letter of the severity in an entry's type or text, or 0.
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
