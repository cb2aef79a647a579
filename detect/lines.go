package detect

import (
	"cmp"
	"slices"
	"strings"
)

// weight is the strength of the evidence for a failure in a line.
type weight uint8

const (
	noEvidence     weight = iota
	weakEvidence          // a single error, which counts only in the first line and the last lines
	strongEvidence        // a tool's own summary, which counts in any line
)

// gradeLine returns the rule that a line matches, or "", and the line's weight. t is the result of plainLine.
func (p *phrases) gradeLine(t string) (string, weight) {
	if len(t) < 4 || len(t) > 2000 {
		return "", noEvidence
	}
	if rule := cmp.Or(p.line.strong.rule(t), testFailureRule(t), buildFailureRule(t), toolFailureRule(t)); rule != "" {
		return rule, strongEvidence
	}
	if rule := cmp.Or(p.line.weak.rule(t), p.reportedErrorRule(t), errorAfterFileNameRule(t)); rule != "" {
		return rule, weakEvidence
	}
	return "", noEvidence
}

func testFailureRule(t string) string {
	switch {
	case t == "FAIL" || t == "FAILED" || t == "FAILURES!" || t == "ERRORS!":
		return "test-fail"
	case strings.HasPrefix(t, "FAIL ") && strings.ContainsAny(t, "./"),
		strings.HasPrefix(t, "FAILED ") && strings.Contains(t, "::"):
		return "test-fail"
	case strings.HasPrefix(t, "ERROR ") && strings.Contains(t, "::"),
		t[0] == '=' && (pytestFails(t) || strings.Trim(t, "=") == " FAILURES "),
		isPytestSummary(t) && hasPositiveCount(t, " failed", " error"):
		return "pytest"
	case hasAnyPrefix(t, []string{"Tests:", "Test Suites:", "Test Files"}) && hasPositiveCount(t, " failed"):
		return "jest"
	case strings.HasPrefix(t, "tests finished: ") && hasPositiveCount(t, " failed", " exceptions"),
		isDigit(t[0]) && countsFailures(t):
		return "test-fail"
	case strings.HasSuffix(t, " failing") && hasPositiveCount(t, " failing"):
		return "mocha"
	}
	return ""
}

func buildFailureRule(t string) string {
	if strings.HasPrefix(t, "TS") && strings.Contains(t, " [ERROR]: ") { // deno
		return "tsc"
	}
	if strings.Contains(t, "rror") {
		switch {
		case followsPosition(t, "error TS"):
			return "tsc"
		case hasErrorCode(t), followsPosition(t, "error:") || followsPosition(t, "fatal error:") || followsPosition(t, "error "):
			return "compiler"
		case strings.HasPrefix(t, "Found ") && hasPositiveCount(t, " error"):
			return "linter"
		case strings.HasPrefix(t, "✖ ") && hasPositiveCount(t, " error"):
			return "eslint"
		case strings.HasPrefix(t, "webpack ") && containsAny(t, " compiled with ") && hasPositiveCount(t, " error"):
			return "build"
		case strings.Contains(t, ": parser error : ") && fileBefore(t, ":") != "": // xmllint
			return "command"
		}
	}
	switch {
	case strings.HasPrefix(t, "^") && strings.Contains(t, "^ SC"): // shellcheck
		return "linter"
	case strings.HasSuffix(t, "[build failed]"), strings.HasSuffix(t, "[setup failed]"):
		return "go-build"
	}
	who, _, ok := strings.Cut(t, ": *** ")
	if ok && (strings.HasSuffix(t, ".  Stop.") || len(who) < 24 && strings.Contains(who, "make")) {
		return "make"
	}
	return ""
}

func toolFailureRule(t string) string {
	switch {
	case strings.HasPrefix(t, "Killed") && len(t) < 12, strings.HasSuffix(t, "(core dumped)"),
		strings.HasSuffix(t, ": exec format error"):
		return "crash"
	case strings.HasPrefix(t, "==") && strings.Contains(t, "ERROR: AddressSanitizer"):
		return "sanitizer"
	case isMySQLError(t),
		t[0] == '!' && strings.Contains(t, "==> Fatal error occurred"),          // TeX
		t[0] == '-' && strings.Contains(t, ": Plugin failed with status code "), // protoc
		isDigit(t[0]) && strings.Contains(t, " FAILED -- saving rejects "),      // patch
		strings.HasPrefix(t, "husky - ") && containsAny(t, "failed", "exited with code"),
		strings.HasSuffix(t, " failed!") && hasAnyPrefix(t, []string{"Starting ", "Restarting "}): // init scripts
		return "command"
	}
	return ""
}

func (p *phrases) reportedErrorRule(t string) string {
	low := strings.ToLower(cutText(t, 160))
	switch {
	case containsAny(low, "(expected)", "(as expected)"):
		return ""
	case p.line.errorLine.match(low):
		return "error-line"
	case isExceptionLine(strings.Trim(t, "[]")), // Symfony puts the exception in brackets
		strings.HasPrefix(t, "** (") && isExceptionLine(strings.Replace(t[4:], ")", ":", 1)), // Elixir
		strings.HasPrefix(t, "thread '") && strings.Contains(t, "panicked at"):
		return "exception"
	case p.isShellError(t):
		return "shell"
	case p.line.command.match(t), containsAny(t, p.lists["command-anywhere"]...),
		strings.HasPrefix(t, "The ") && strings.Contains(t, "\" is invalid: "): // kubectl, about an object
		return "command"
	case isDigit(t[0]) && strings.Contains(t, " ERROR 4"): // wget
		return "http"
	case strings.HasPrefix(t, "exit status ") && t != "exit status 0" && len(t) < 16:
		return "go-run"
	}
	return ""
}

func errorAfterFileNameRule(t string) string {
	file := fileBefore(t, ":")
	rest := t[len(file):]
	switch {
	case file == "":
	case strings.HasSuffix(file, ".rb") && strings.HasSuffix(t, "Error)"):
		return "exception" // "rows.rb:3:in 'f': undefined method (NoMethodError)"
	case strings.HasSuffix(file, ".py") && strings.HasPrefix(rest, ": error: "):
		return "command" // Python's argument parser
	case isLintError(rest[1:]):
		return "linter"
	case strings.HasSuffix(file, ".go") && startsWithPosition(rest[1:]):
		return "go-build"
	}
	return ""
}

// fileBefore returns the file name at the start of t if mark follows it, or "".
func fileBefore(t, mark string) string {
	file, _, ok := strings.Cut(t, mark)
	if ok && len(file) >= 3 && len(file) <= 200 && strings.Contains(file, ".") &&
		!strings.ContainsAny(file, " \t\"'") {
		return file
	}
	return ""
}

// countsFailures matches "3 examples, 1 failure" (rspec), "3 tests, 1 failure" (mix), "1 fail" (bun) and "2 issues:"
// (golangci-lint).
func countsFailures(t string) bool {
	switch {
	case strings.HasSuffix(t, " failure") || strings.HasSuffix(t, " failures"):
		return hasPositiveCount(t, " failure") && containsAny(t, " example", " test")
	case strings.HasSuffix(t, " fail") || strings.HasSuffix(t, " issues:"):
		return t[0] != '0' && strings.Count(t, " ") == 1
	}
	return false
}

// cutPosition removes line and column numbers ("12:5: ") at the start of a text.
func cutPosition(s string) (rest string, ok bool) {
	line, rest, _ := strings.Cut(s, ":")
	column, rest, ok := strings.Cut(rest, ": ")
	return rest, ok && isNumber(line) && isNumber(column)
}

// isLintError matches "3:1: F821 undefined name" and "3:0: E0602: Undefined variable".
func isLintError(s string) bool {
	rest, ok := cutPosition(s)
	code, _, _ := strings.Cut(rest, " ")
	code = strings.TrimSuffix(code, ":")
	number := strings.TrimLeft(code, "EF")
	return ok && isNumber(number) && len(number) == len(code)-1 &&
		(len(number) == 3 || len(number) == 4)
}

func startsWithPosition(s string) bool {
	_, ok := cutPosition(s)
	return ok
}

// isMySQLError matches "ERROR 1055 (42000) at line 1: ...".
func isMySQLError(t string) bool {
	rest, ok := strings.CutPrefix(t, "ERROR ")
	if !ok {
		return false
	}
	code, state, ok := strings.Cut(rest, " (")
	return ok && isNumber(code) && len(state) > 5 && state[5] == ')'
}

// hasErrorCode matches "error NU1101: ..." and "MSBUILD : error MSB1003: ...".
func hasErrorCode(t string) bool {
	before, rest, ok := strings.Cut(t, "error ")
	code, _, coded := strings.Cut(rest, ": ")
	digits := strings.TrimLeft(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
	return ok && coded && len(code)-len(digits) >= 2 && len(digits) >= 3 && isNumber(digits) &&
		(before == "" || strings.HasSuffix(before, ": ") || strings.HasSuffix(before, ": fatal "))
}

// followsPosition reports whether mark follows a file name with a line number, as in "path:12:5: error:" and
// "path(12,5): error".
func followsPosition(t, mark string) bool {
	i := strings.Index(t, mark)
	if i < 3 {
		return false
	}
	before := strings.TrimRight(t[:i], " -")
	if before == "" {
		return false
	}
	switch before[len(before)-1] {
	case ':', ')':
	default:
		return mark == "error TS" && isDigit(before[len(before)-1]) && strings.Contains(before, ":")
	}
	before = strings.TrimRight(before, ":)")
	if strings.ContainsAny(before, " \t") && !strings.Contains(before, "(") {
		return false
	}
	return before != "" && isDigit(before[len(before)-1]) && strings.ContainsAny(before, "./") &&
		!strings.Contains(before, "_test.go:") // Go test log
}

// isExceptionLine matches "ValueError: ...", "pkg.mod.NoSuchThingError: ..." and "java.lang.IllegalStateException:
// ...".
func isExceptionLine(t string) bool {
	i := 0
	for i < len(t) && (isLetter(t[i]) || isDigit(t[i]) || t[i] == '_' || t[i] == '.' || t[i] == '$') {
		i++
	}
	name := t[:i]
	if i < 5 || !isLetter(name[0]) {
		return false
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	if last == "" || last[0] < 'A' || last[0] > 'Z' {
		return false
	}
	rest := t[i:]
	if strings.HasPrefix(rest, " [") { // node: Error [ERR_X]: ...
		if end := strings.IndexByte(rest, ']'); end > 0 {
			rest = rest[end+1:]
		}
	}
	suffixes := []string{"Error", "Exception", "NotFound", "KeyboardInterrupt", "SystemExit"}
	isException := slices.ContainsFunc(suffixes, func(suffix string) bool { return strings.HasSuffix(last, suffix) })
	return isException && (rest == "" || strings.HasPrefix(rest, ": "))
}

// isShellError matches "ls: x: No such file or directory".
func (p *phrases) isShellError(t string) bool {
	i := strings.IndexByte(t, ':')
	if i < 1 || i > 40 || len(t) > 400 {
		return false
	}
	if strings.ContainsAny(t[:i], " \t\"'=") && !strings.HasPrefix(t, "(eval)") {
		return false
	}
	if found := strings.Contains(t, ": "); !found && !strings.HasPrefix(t, "zsh:") {
		return false
	}
	low := strings.ToLower(t[i:])
	if strings.Contains(low, "broken pipe") {
		return false
	}
	for rest, ok := low, true; ok; {
		if _, rest, ok = strings.Cut(rest, ": "); ok && rest != "" && p.line.shell.match(rest) {
			return true
		}
	}
	return containsAny(low, p.lists["shell-anywhere"]...)
}

// pytestFails matches "==== 1 failed, 21 passed in 3.20s ====".
func pytestFails(t string) bool {
	return strings.HasSuffix(t, "=") && strings.Contains(t, " in ") && hasPositiveCount(t, " failed", " error")
}

// isPytestSummary matches "1 failed, 7 passed in 0.12s".
func isPytestSummary(t string) bool {
	counts, duration, ok := strings.Cut(t, " in ")
	duration, _, _ = strings.Cut(duration, " ")
	if !ok || !isDigit(t[0]) || !strings.HasSuffix(duration, "s") || !isDigit(duration[0]) {
		return false
	}
	for count := range strings.SplitSeq(counts, ", ") {
		n, word, _ := strings.Cut(count, " ")
		if !isNumber(n) || word == "" || strings.Contains(word, " ") {
			return false
		}
	}
	return true
}

// hasPositiveCount reports whether one of the words follows a number other than 0.
func hasPositiveCount(t string, words ...string) bool {
	for _, word := range words {
		for rest, ok := t, true; ok; {
			var before string
			before, rest, ok = strings.Cut(rest, word)
			number := before[len(strings.TrimRight(before, "0123456789")):]
			if ok && strings.Trim(number, "0") != "" {
				return true
			}
		}
	}
	return false
}
