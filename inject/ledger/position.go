package ledger

import (
	"regexp"
	"strings"
)

// Patterns for lines with a location (file and line number). Deeply indented lines are quotations, so they do not
// match.
//
//nolint:gochecknoglobals // immutable
var (
	locationLine  = regexp.MustCompile(`^(?:vet: )?((?:[A-Za-z]:[\\/])?[^\s:()"'][^:()"']*\.(\w{1,5})):(\d+)(?::(\d+))?(?:: | - )(.+)$`)
	tscLine       = regexp.MustCompile(`^([^\s()][^()]*\.[cm]?[jt]sx?)\(\d+,\d+\): error (TS\d+): (.+)$`)
	tscText       = regexp.MustCompile(`^error (TS\d+): (.+)$`)
	goLinter      = regexp.MustCompile(`^(.*\S) \(([a-z][a-z0-9_-]*)\)$`)
	pyRule        = regexp.MustCompile(`^([A-Z]{1,4}\d{2,5}|invalid-syntax):? (?:\[\*\] )?(.+)$`)
	pyNamed       = regexp.MustCompile(`^(.*\S) \(([a-z][a-z0-9-]*)\)$`)
	mypyText      = regexp.MustCompile(`^error: (.*)$`)
	mypyCode      = regexp.MustCompile(`\S\s+\[([a-z][a-z-]*)\]$`)
	unixRule      = regexp.MustCompile(`^(.*\S) \[(Error|Warning)(?:/([\w@/-]+))?\]$`)
	eslintCompact = regexp.MustCompile(`^(\S.*\.[cm]?[jt]sx?|\S.*\.(?:vue|svelte)): line \d+, col \d+, Error - (.+?)(?: \(([\w@/-]+)\))?$`)
	anyError      = regexp.MustCompile(`^(?:fatal )?error(?:\[(\w+)\])?: (.+)$`)
)

// readPositions reads lines that begin with a location, as printed by compilers, vet, golangci-lint, ruff, mypy, tsc
// and plain eslint.
func (r *failureReader) readPositions() {
	for i, text := range r.lines {
		if m := tscLine.FindStringSubmatch(text); m != nil {
			r.add(i, Failure{Tool: "tsc", Type: TypeAnalysis, File: m[1], Subject: m[2], Error: m[2] + ": " + m[3]})
			continue
		}
		if m := eslintCompact.FindStringSubmatch(text); m != nil {
			r.add(i, lintFailure("eslint", m[1], m[3], m[2]))
			continue
		}
		m := locationLine.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		f, ok := r.lineFailure(i, m[1], m[2], m[5], m[4] != "" || strings.HasPrefix(text, "vet: "))
		if ok {
			r.add(i, f)
		}
	}
}

// lineFailure returns the failure in a message, or false if the message is not a failure.
func (r *failureReader) lineFailure(i int, file, ext, message string, hasColumn bool) (Failure, bool) {
	switch ext {
	case "go":
		return goLineFailure(file, message, hasColumn)
	case "py", "pyi", "ipynb":
		return r.pyLineFailure(i, file, message)
	case "ts", "tsx", "mts", "cts", "js", "jsx", "mjs", "cjs", "vue", "svelte":
		if m := tscText.FindStringSubmatch(message); m != nil {
			return Failure{Tool: "tsc", Type: TypeAnalysis, File: file, Subject: m[1], Error: m[1] + ": " + m[2]}, true
		}
		if m := unixRule.FindStringSubmatch(message); m != nil && m[2] == "Error" {
			return lintFailure("eslint", file, m[3], m[1]), true
		}
	case "rs":
		if m := anyError.FindStringSubmatch(message); m != nil {
			return rustLineFailure(file, m[1], m[2]), true
		}
	default:
		if m := anyError.FindStringSubmatch(message); m != nil {
			return Failure{Tool: "compiler", Type: TypeAnalysis, File: file, Error: m[2]}, true
		}
	}
	return Failure{}, false
}

// goLineFailure reads a message from the compiler, from vet, or from a linter whose name is at the end of the message.
// A message without a column is a log line or belongs to a stack trace.
func goLineFailure(file, message string, hasColumn bool) (Failure, bool) {
	if m := goLinter.FindStringSubmatch(message); m != nil {
		return lintFailure("golangci-lint", file, m[2], m[1]), true
	}
	return Failure{Tool: "go vet", Type: TypeAnalysis, File: file, Error: message}, hasColumn
}

// pyLineFailure reads a message from pylint, ruff or mypy.
func (r *failureReader) pyLineFailure(i int, file, message string) (f Failure, ok bool) {
	if m := pyRule.FindStringSubmatch(message); m != nil {
		if n := pyNamed.FindStringSubmatch(m[2]); n != nil && strings.HasPrefix(message, m[1]+": ") {
			return Failure{Tool: "pylint", Type: TypeLint, File: file, Subject: n[2], Error: m[1] + " " + n[1] + " (" + n[2] + ")"}, true
		}
		return Failure{Tool: "ruff", Type: TypeLint, File: file, Subject: m[1], Error: m[1] + " " + m[2]}, true
	}
	m := mypyText.FindStringSubmatch(message)
	if m == nil {
		return Failure{}, false
	}
	f = Failure{Tool: "mypy", Type: TypeAnalysis, File: file}
	f.Error = r.joinWrapped(i, strings.TrimRight(m[1], " "))
	if c := mypyCode.FindStringSubmatch(f.Error); c != nil {
		f.Subject = c[1]
	}
	return f, true
}

// joinWrapped joins a message that mypy --pretty wrapped. The last line ends with the error code.
func (r *failureReader) joinWrapped(i int, text string) string {
	joined := text
	for n := i + 1; !mypyCode.MatchString(joined); n++ {
		if n > i+6 || n >= len(r.lines) || r.lines[n] == "" || strings.HasPrefix(r.lines[n], "    ") || locationLine.MatchString(r.lines[n]) {
			return text
		}
		joined += " " + strings.TrimSpace(r.lines[n])
	}
	return joined
}
