package detect

import "strings"

// weight says how much a line proves.
type weight uint8

const (
	nothing weight = iota
	weak           // an error was reported: proof when it is the first or among the last things said
	strong         // a tool's own summary of a failure: proof wherever it stands
)

// failLine judges one line of a program's output. The line is trimmed and without colours.
func failLine(t string) (string, weight) {
	if len(t) < 4 || len(t) > 2000 {
		return "", nothing
	}
	if rule, w := failPrefix(t); w != nothing {
		return rule, w
	}
	if strings.Contains(t, "rror") || strings.Contains(t, "ERROR") {
		if rule, w := errorInLine(t); w != nothing {
			return rule, w
		}
	}
	return failElsewhere(t)
}

// failPrefix: the line begins as failures begin.
func failPrefix(t string) (string, weight) {
	switch t[0] {
	case 'n', 'm', 'g', 'c', 'C', '!', 'E':
		if rule := buildPrefix(t); rule != "" {
			return rule, strong
		}
	case '-', 'F', 'T', 't', '=', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		if rule := testPrefix(t); rule != "" {
			return rule, strong
		}
	case 'B':
		if strings.HasPrefix(t, "BUILD FAILED") || strings.HasPrefix(t, "BUILD FAILURE") {
			return "build", strong
		}
	case 'P':
		if strings.HasPrefix(t, "PHP Fatal error: ") || strings.HasPrefix(t, "PHP Parse error: ") {
			return "exception", strong
		}
	case 'p', 'S':
		if strings.HasPrefix(t, "panic: ") || strings.HasPrefix(t, "Segmentation fault") {
			return "crash", strong
		}
	case 'f':
		if strings.HasPrefix(t, "fatal: ") || strings.HasPrefix(t, "fatal error: ") {
			return "fatal", weak
		}
	}
	return "", nothing
}

// buildPrefix: build tools, package managers, git, curl.
func buildPrefix(t string) string {
	switch {
	case strings.HasPrefix(t, "npm ERR!"), strings.HasPrefix(t, "npm error"):
		return "npm"
	case strings.HasPrefix(t, "ninja: build stopped"), strings.HasPrefix(t, "ninja: error:"):
		return "ninja"
	case strings.HasPrefix(t, "curl: ("):
		return "curl"
	case strings.HasPrefix(t, "CMake Error"):
		return "cmake"
	case strings.HasPrefix(t, "CONFLICT ("), strings.HasPrefix(t, "! [rejected]"), strings.HasPrefix(t, "! [remote rejected]"):
		return "git"
	case strings.HasPrefix(t, "ERROR ") && strings.Contains(t, "::"):
		return "pytest"
	case strings.HasPrefix(t, "ELIFECYCLE"), strings.HasPrefix(t, "ERR_PNPM"):
		return "pnpm"
	}
	if i := strings.Index(t, ": *** "); i > 0 && i < 24 && strings.Contains(t[:i], "make") {
		return "make"
	}
	return ""
}

// testPrefix: the summaries of test runners.
func testPrefix(t string) string {
	switch {
	case strings.HasPrefix(t, "--- FAIL: "):
		return "go-test"
	case t == "FAIL" || t == "FAILED" || strings.HasPrefix(t, "FAIL\t") || strings.HasPrefix(t, "FAIL: ") || strings.HasPrefix(t, "FAIL  ") || strings.HasPrefix(t, "FAIL ") && strings.ContainsAny(t, "./"),
		strings.HasPrefix(t, "FAILED (") || strings.HasPrefix(t, "FAILED ") && strings.Contains(t, "::") || strings.HasPrefix(t, "FAILURE: Build failed"):
		return "test-fail"
	case countBefore(t, " failed") > 0 && (strings.HasPrefix(t, "Tests:") || strings.HasPrefix(t, "Test Suites:") || strings.HasPrefix(t, "Test Files")):
		return "jest"
	case t == "FAILURES!" || t == "ERRORS!" || strings.HasPrefix(t, "Failed!  - Failed:"):
		return "test-fail"
	case strings.HasPrefix(t, "test result: FAILED"):
		return "cargo-test"
	case strings.HasPrefix(t, "tests finished: ") && (countBefore(t, " failed") > 0 || countBefore(t, " exceptions") > 0):
		return "test-fail"
	case t[0] == '=' && pytestFails(t), pytestEnds(t) && countBefore(t, " failed")+countBefore(t, " error") > 0:
		return "pytest"
	}
	return ""
}

// errorInLine: the word error stands where compilers, linters and programs put it.
func errorInLine(t string) (string, weight) {
	switch {
	case strings.HasPrefix(t, "error TS") || located(t, "error TS"):
		return "tsc", strong
	case strings.HasPrefix(t, "error[E") || strings.HasPrefix(t, "error: could not compile"):
		return "cargo", strong
	case located(t, "error:") || located(t, "fatal error:") || located(t, "error "):
		return "compiler", strong
	case strings.HasPrefix(t, "error Command failed") || strings.HasPrefix(t, "error: script ") || strings.HasPrefix(t, "error: Recipe "):
		return "script", strong
	case strings.HasPrefix(t, "Error response from daemon"), strings.HasPrefix(t, "docker: Error response from daemon"), strings.HasPrefix(t, "collect2: error: "), strings.HasPrefix(t, "error: failed to push"):
		return "command", strong
	case strings.HasPrefix(t, "Found ") && countBefore(t, " error") > 0:
		return "linter", strong
	case strings.HasPrefix(t, "✖ ") && strings.Contains(t, "problem") && countBefore(t, " error") > 0:
		return "eslint", strong
	case strings.HasPrefix(t, "[ERROR] ") && (strings.Contains(t, "BUILD") || strings.Contains(t, "COMPILATION") || strings.Contains(t, "Failed to execute goal")):
		return "maven", strong
	case strings.HasPrefix(t, "==") && strings.Contains(t, "ERROR: AddressSanitizer"):
		return "sanitizer", strong
	}
	low := strings.ToLower(cutText(t, 24))
	for _, p := range []string{"error:", "error -", "error!", "error. ", "error (", "error [", "err:", "[error]"} {
		if strings.HasPrefix(low, p) {
			return "error-line", weak
		}
	}
	if exceptionLine(t) {
		return "exception", weak
	}
	return "", nothing
}

// failElsewhere: failures whose words stand at the end or in the middle.
func failElsewhere(t string) (string, weight) {
	if shellComplaint(t) {
		return "shell", weak
	}
	if wording().command.opens(t) {
		return "command", weak
	}
	if rule, w := failOpening(t); w != nothing {
		return rule, w
	}
	if rule, w := failAtPlace(t); w != nothing {
		return rule, w
	}
	switch {
	case strings.HasPrefix(t, "Killed") && len(t) < 12, strings.HasSuffix(t, "(core dumped)"), strings.HasSuffix(t, ": exec format error"):
		return "crash", strong
	case strings.HasSuffix(t, " failing") && countBefore(t, " failing") > 0:
		return "mocha", strong
	case strings.HasPrefix(t, "husky - ") && strings.Contains(t, "failed"), strings.HasPrefix(t, "Command timed out"), strings.HasPrefix(t, "husky - ") && strings.Contains(t, "exited with code"):
		return "command", strong
	case strings.HasSuffix(t, ".  Stop.") && strings.Contains(t, ": *** "):
		return "make", strong
	case strings.HasSuffix(t, "[build failed]"), strings.HasSuffix(t, "[setup failed]"):
		return "go-build", strong
	case goPosition(t):
		return "go-build", weak
	case strings.HasPrefix(t, "exit status ") && t != "exit status 0" && len(t) < 16:
		return "go-run", weak
	case strings.HasPrefix(t, "Uncaught ") || strings.HasPrefix(t, "Unhandled ") || strings.HasPrefix(t, "thread '") && strings.Contains(t, "panicked at"):
		return "exception", weak
	case strings.HasPrefix(t, "Caused by: "), exceptionLine(t):
		return "exception", weak
	}
	return "", nothing
}

// failOpening knows failures that differ from most lines in their first byte.
func failOpening(t string) (string, weight) {
	switch c := t[0]; {
	case c == 'T' && strings.HasPrefix(t, "The ") && strings.Contains(t, "\" is invalid: "): // kubectl, of an object
		return "command", weak
	case c == 'E' && mysqlError(t), c == '!' && strings.Contains(t, "==> Fatal error occurred"), // TeX
		c == '-' && strings.Contains(t, ": Plugin failed with status code "): // protoc
		return "command", strong
	case c == '^' && strings.Contains(t, "^ SC"): // shellcheck, below the line
		return "linter", strong
	case c == 'w' && strings.HasPrefix(t, "webpack ") && strings.Contains(t, " compiled with ") && countBefore(t, " error") > 0:
		return "build", strong
	case isDigit(c) && strings.Contains(t, " FAILED -- saving rejects "): // patch
		return "command", strong
	case isDigit(c) && strings.Contains(t, " ERROR 4"): // wget
		return "http", weak
	case isDigit(c) && failureCount(t):
		return "test-fail", strong
	}
	return "", nothing
}

// failureCount: "3 examples, 1 failure" of rspec, "3 tests, 1 failure" of mix, "1 fail" of bun, "2
// issues:" of golangci-lint.
func failureCount(t string) bool {
	switch {
	case strings.HasSuffix(t, " failure") || strings.HasSuffix(t, " failures"):
		return countBefore(t, " failure") > 0 && (strings.Contains(t, " example") || strings.Contains(t, " test"))
	case strings.HasSuffix(t, " fail") || strings.HasSuffix(t, " issues:"):
		return t[0] != '0' && strings.Count(t, " ") == 1
	}
	return false
}

// failAtPlace: a file stands in front, and most often a line of it.
func failAtPlace(t string) (string, weight) {
	i := strings.IndexByte(t, ':')
	if i < 3 || i > 200 || i+2 > len(t) || strings.IndexByte(t[:i], '.') < 0 {
		return "", nothing
	}
	switch {
	case strings.ContainsAny(t[:i], " \t\"'"):
	case strings.HasSuffix(t[:i], ".rb") && strings.Contains(t[i:], ":in ") && (strings.HasSuffix(t, "Error)") || strings.HasSuffix(t, "(RuntimeError)")):
		return "exception", weak // "rows.rb:3:in 'f': undefined method (NoMethodError)"
	case strings.HasSuffix(t[:i], ".py") && strings.HasPrefix(t[i:], ": error: "):
		return "command", weak // as Python's argument parser says it
	case strings.Contains(t[i:], ": parser error : "):
		return "command", strong // xmllint
	case lintCode(t[i+1:]):
		return "linter", weak
	}
	return "", nothing
}

// lintCode: "3:1: F821 undefined name", "3:0: E0602: Undefined variable": a place in a file, and
// the code of an error.
func lintCode(rest string) bool {
	n, colons := 0, 0
	for n < len(rest) && (isDigit(rest[n]) || rest[n] == ':') {
		if rest[n] == ':' {
			colons++
		}
		n++
	}
	if colons != 2 || n+5 > len(rest) || rest[n] != ' ' || rest[n+1] != 'E' && rest[n+1] != 'F' {
		return false
	}
	digits := 0
	for _, c := range []byte(rest[n+2 : min(n+7, len(rest))]) {
		if !isDigit(c) {
			break
		}
		digits++
	}
	return digits == 3 || digits == 4
}

// mysqlError: "ERROR 1055 (42000) at line 1: ...".
func mysqlError(t string) bool {
	rest, ok := strings.CutPrefix(t, "ERROR ")
	code, state, found := strings.Cut(rest, " (")
	return ok && found && len(code) == 4 && isDigit(code[0]) && isDigit(code[3]) && len(state) > 6 && state[5] == ')'
}

// located: "path:12:5: error:", "path(12,5): error", "prog: error:": mark stands behind a position,
// not inside prose.
func located(t, mark string) bool {
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
	return before != "" && isDigit(before[len(before)-1]) && strings.ContainsAny(before, "./")
}

// goPosition: "./main.go:12:5: undefined: x", as go build and go vet say it.
func goPosition(t string) bool {
	i := strings.Index(t, ".go:")
	if i < 1 || strings.ContainsAny(t[:i], " \t") {
		return false
	}
	rest := t[i+4:]
	n := 0
	for n < len(rest) && (isDigit(rest[n]) || rest[n] == ':') {
		n++
	}
	return n >= 4 && n < len(rest) && rest[n] == ' ' && strings.Count(rest[:n], ":") == 2
}

// exceptionLine: "ValueError: ...", "pkg.mod.NoSuchThingError: ...",
// "java.lang.IllegalStateException: ...".
func exceptionLine(t string) bool {
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
	named := strings.HasSuffix(last, "Error") || strings.HasSuffix(last, "Exception") || last == "KeyboardInterrupt" || last == "SystemExit" || strings.HasSuffix(last, "NotFound")
	return named && (rest == "" || strings.HasPrefix(rest, ": "))
}

// shellComplaint: a shell or one of its utilities says that it could not: "ls: x: No such file or
// directory".
func shellComplaint(t string) bool { return wording().shellComplains(t) }

func (p *prose) shellComplains(t string) bool {
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
	if !hasWord(low, "o such", "not", "denied", " is a", "not a", "exist", "cannot", "can't", "option", "operand", "bad ", "syntax", "unterminated", "read-only", "no space", "no match", "unknown", "too long") || strings.Contains(low, "broken pipe") {
		return false
	}
	for _, s := range p.shell {
		if strings.Contains(low, s) {
			return true
		}
	}
	return false
}

// pytestFails reads "==== 1 failed, 21 passed in 3.20s ====".
func pytestFails(t string) bool {
	return strings.HasSuffix(t, "=") && strings.Contains(t, " in ") && (countBefore(t, " failed") > 0 || countBefore(t, " error") > 0)
}

// pytestEnds: the last line of pytest, "1 failed, 7 passed in 0.12s", which stands between bars
// unless it was to be quiet.
func pytestEnds(t string) bool {
	counts, took, ok := strings.Cut(t, " in ")
	took, _, _ = strings.Cut(took, " ")
	if !ok || !isDigit(t[0]) || !strings.HasSuffix(took, "s") || !isDigit(took[0]) {
		return false
	}
	for count := range strings.SplitSeq(counts, ", ") {
		n, word, _ := strings.Cut(count, " ")
		if n == "" || strings.Trim(n, "0123456789") != "" || word == "" || strings.Contains(word, " ") {
			return false
		}
	}
	return true
}

// countBefore is the number that stands right before word, 0 when there is none.
func countBefore(t, word string) int {
	for from := 0; ; {
		i := strings.Index(t[from:], word)
		if i < 0 {
			return 0
		}
		i += from
		n, p := 0, 1
		for j := i - 1; j >= 0 && isDigit(t[j]) && p < 1e6; j-- {
			n += int(t[j]-'0') * p
			p *= 10
		}
		if n > 0 {
			return n
		}
		from = i + len(word)
	}
}
