package detect

import (
	"cmp"
	"slices"
	"strings"
)

// verification returns the outcome of a call that runs a test, a lint or a build. kind is "test", "lint" or "build".
// kind is "" for other calls, for a run that did not start or did not end, and for a run whose success is uncertain
// because a pipe hides the exit code.
func verification(call *toolCall, v Judgement, text string) (kind string, passed bool) {
	kind = call.verificationKind()
	// A shell returns these exit codes if the command did not run or was killed.
	notRun := slices.Contains([]int{126, 127, 130, 137, 143}, v.Code)
	if kind == "" || v.Outcome == Pending || v.Outcome == Refusal || notRun {
		return "", false
	}
	body := call.phrases.unframe(text).body
	switch {
	case v.Outcome == Error && (v.Rule == "text:shell" || call.phrases.hasOnlyShellErrors(body) ||
		strings.HasPrefix(strings.ToLower(body), "command timed out")):
		return "", false
	case v.Outcome == OK && call.shell.statusMasked && !v.ReportsSuccess && !call.phrases.endsInSuccess(body):
		return "", false
	}
	return kind, v.Outcome == OK
}

// verificationKind returns "test", "lint" or "build", or "" for other calls. If the call runs several such commands,
// the last command decides. For example, "build && test" is a test.
func (c *toolCall) verificationKind() string {
	kind := ""
	for _, part := range c.shell.parts {
		if k := c.phrases.commandKind(part.prog, part.args); k != "" {
			kind = k
		}
	}
	if kind != "" || c.purpose != purposeExec && c.purpose != purposeOther || !c.nameMatches("verifies") {
		return kind
	}
	return c.phrases.verificationKind("tool", c.nameWords...)
}

// verificationKind returns the first kind for which the list "LISTS KIND" of calls.tsv contains one of the words, ""
// for none.
func (p *phrases) verificationKind(lists string, words ...string) string {
	for _, kind := range [...]string{"test", "lint", "build"} {
		if slices.ContainsFunc(words, func(w string) bool { return p.inList(lists+" "+kind, w) }) {
			return kind
		}
	}
	return ""
}

// commandKind returns "test", "lint" or "build" for a simple command, "" for any other command.
func (p *phrases) commandKind(prog string, args []string) string {
	if kind := p.verificationKind("program", prog); kind != "" {
		return kind
	}
	switch {
	case p.inList("program scripts", prog):
		return p.scriptKind(args)
	case p.inList("program goals", prog):
		return p.buildGoalsKind(prog, args)
	case p.inList("program formats", prog):
		if slices.ContainsFunc(args, func(a string) bool { return p.inList("program only-checks", a) }) {
			return "lint"
		}
	case p.inList("program python", prog):
		return p.moduleKind(args)
	}
	return ""
}

// moduleKind returns the commandKind of the module or file that a Python command with these arguments runs.
func (p *phrases) moduleKind(args []string) string {
	if i := slices.Index(args, "-m"); i >= 0 && i+1 < len(args) {
		if args[i+1] == "unittest" || args[i+1] == "doctest" {
			return "test"
		}
		return p.commandKind(args[i+1], args[i+2:])
	}
	if len(args) > 0 && (strings.HasSuffix(args[0], "manage.py") && hasAny(args, "test") ||
		strings.Contains(args[0], "runtests")) {
		return "test"
	}
	return ""
}

// scriptKind returns the commandKind of the script or program that a command such as npm, npx, poetry or uv runs.
func (p *phrases) scriptKind(args []string) string {
	for i, a := range args {
		if strings.HasPrefix(a, "-") || hasAny([]string{a}, "run", "run-script", "exec", "workspace") {
			continue
		}
		if i > 0 && args[i-1] == "workspace" { // name of the workspace
			continue
		}
		return cmp.Or(p.commandKind(a, args[i+1:]), p.goalKind(a))
	}
	return ""
}

// buildGoalsKind returns the kind ("test", "lint" or "build") of the first goal with such a kind in the arguments of a
// build tool, "" for none.
func (p *phrases) buildGoalsKind(prog string, args []string) string {
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

// goalKind returns the kind ("test", "lint" or "build") of a goal of a build tool, such as "test-unit" or ":app:test",
// "" for any other goal.
func (p *phrases) goalKind(goal string) string {
	base, _, _ := strings.Cut(goal[strings.LastIndexByte(goal, ':')+1:], "-")
	if i := strings.IndexByte(goal, ':'); i > 0 {
		if k := p.goalKind(goal[:i]); k != "" {
			return k
		}
	}
	return p.verificationKind("goal", strings.ToLower(base))
}
