package detect

import (
	"cmp"
	"slices"
	"strings"
)

// verification returns "test", "lint" or "build", and whether the run passed. The kind is "" for other calls. It is
// also "" for a run that did not start or end, or whose exit code is hidden by a pipe.
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

// verificationKind returns "test", "lint" or "build", according to the last such program in a command. So "build &&
// test" is a test. It returns "" for other calls.
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

// verificationKind returns the kind "test", "lint" or "build" if one of the words is in the "LISTS KIND" list in
// calls.tsv. If lists is "program", this list is "program test" for a test.
func (p *phrases) verificationKind(lists string, words ...string) string {
	for _, kind := range [...]string{"test", "lint", "build"} {
		if slices.ContainsFunc(words, func(w string) bool { return p.inList(lists+" "+kind, w) }) {
			return kind
		}
	}
	return ""
}

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

func (p *phrases) scriptKind(args []string) string {
	for i, a := range args {
		if strings.HasPrefix(a, "-") || hasAny([]string{a}, "run", "run-script", "exec", "workspace") {
			continue
		}
		if i > 0 && args[i-1] == "workspace" { // workspace name
			continue
		}
		return cmp.Or(p.commandKind(a, args[i+1:]), p.goalKind(a))
	}
	return ""
}

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

// goalKind returns the kind of a build goal, such as "test-unit" or ":app:test".
func (p *phrases) goalKind(goal string) string {
	base, _, _ := strings.Cut(goal[strings.LastIndexByte(goal, ':')+1:], "-")
	if i := strings.IndexByte(goal, ':'); i > 0 {
		if k := p.goalKind(goal[:i]); k != "" {
			return k
		}
	}
	return p.verificationKind("goal", strings.ToLower(base))
}
