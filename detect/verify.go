package detect

import (
	"cmp"
	"slices"
	"strings"
)

// verification reads the outcome of a test, lint or build run: kind is "test", "lint" or "build".
// It is "" when the call is no such run, when the run did not come about (no such command, refused,
// still running), or when a pipe hides how it ended.
func verification(call *toolCall, v Judgement, text string) (kind string, passed bool) {
	kind = call.verifies()
	// With these exit codes a shell says that a command could not be run, or was killed.
	notRun := slices.Contains([]int{126, 127, 130, 137, 143}, v.Code)
	if kind == "" || v.Outcome == Pending || v.Outcome == Refusal || notRun {
		return "", false
	}
	body := call.known.unframe(text).body
	switch {
	case v.Outcome == Error && (v.Rule == "text:shell" || call.known.allComplain(body) ||
		strings.HasPrefix(strings.ToLower(body), "command timed out")):
		return "", false
	case v.Outcome == OK && call.shell.masked && !v.Sure && !call.known.soundsDone(body):
		return "", false
	}
	return kind, v.Outcome == OK
}

// verifies is what a call verifies, "" when nothing. The last part that verifies names it: in
// "build && test" it is the test that speaks.
func (c *toolCall) verifies() string {
	kind := ""
	for _, part := range c.shell.parts {
		if k := c.known.verifier(part.prog, part.args); k != "" {
			kind = k
		}
	}
	if kind != "" || c.kind != kindExec && c.kind != kindOther || !c.named("verifies") {
		return kind
	}
	return c.known.verifies("tool", c.words...)
}

// verifies is the first of the kinds of runs in whose list one of the words stands.
func (p *phrases) verifies(lists string, words ...string) string {
	for _, kind := range [...]string{"test", "lint", "build"} {
		if slices.ContainsFunc(words, func(w string) bool { return p.is(lists+" "+kind, w) }) {
			return kind
		}
	}
	return ""
}

// verifier knows the programs that test, lint and build.
func (p *phrases) verifier(prog string, args []string) string {
	if kind := p.verifies("program", prog); kind != "" {
		return kind
	}
	switch {
	case p.is("program scripts", prog):
		return p.scriptVerifier(args)
	case p.is("program goals", prog):
		return p.goalVerifier(prog, args)
	case p.is("program formats", prog):
		if slices.ContainsFunc(args, func(a string) bool { return p.is("program only-checks", a) }) {
			return "lint"
		}
	case p.is("program python", prog):
		return p.moduleVerifier(args)
	}
	return ""
}

// moduleVerifier reads what Python runs: a module, or a file that is known to run tests.
func (p *phrases) moduleVerifier(args []string) string {
	if i := slices.Index(args, "-m"); i >= 0 && i+1 < len(args) {
		if args[i+1] == "unittest" || args[i+1] == "doctest" {
			return "test"
		}
		return p.verifier(args[i+1], args[i+2:])
	}
	if len(args) > 0 && (strings.HasSuffix(args[0], "manage.py") && hasAny(args, "test") ||
		strings.Contains(args[0], "runtests")) {
		return "test"
	}
	return ""
}

// scriptVerifier looks behind npm run, npx, poetry run, uv run: at a script by its name, or at the
// program that is run.
func (p *phrases) scriptVerifier(args []string) string {
	for i, a := range args {
		if strings.HasPrefix(a, "-") || hasAny([]string{a}, "run", "run-script", "exec", "workspace") {
			continue
		}
		if i > 0 && args[i-1] == "workspace" { // its name
			continue
		}
		return cmp.Or(p.verifier(a, args[i+1:]), p.goalKind(a))
	}
	return ""
}

// goalVerifier reads the goal of a build tool.
func (p *phrases) goalVerifier(prog string, args []string) string {
	goals := 0
	for i, a := range args {
		if strings.HasPrefix(a, "-") || strings.Contains(a, "=") || strings.HasPrefix(a, "/") {
			continue
		}
		if i > 0 && (args[i-1] == "-C" || args[i-1] == "-f") { // a folder or a file
			continue
		}
		goals++
		if k := p.goalKind(a); k != "" {
			return k
		}
		if prog == "go" || prog == "cargo" {
			return ""
		}
	}
	if goals == 0 && strings.HasSuffix(prog, "make") && prog != "cmake" ||
		prog == "cmake" && hasAny(args, "--build") {
		return "build"
	}
	return ""
}

func (p *phrases) goalKind(goal string) string {
	base, _, _ := strings.Cut(goal[strings.LastIndexByte(goal, ':')+1:], "-")
	if i := strings.IndexByte(goal, ':'); i > 0 {
		if k := p.goalKind(goal[:i]); k != "" {
			return k
		}
	}
	return p.verifies("goal", strings.ToLower(base))
}
