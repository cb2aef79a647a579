package detect

import (
	"cmp"
	"slices"
	"strings"
)

// verification returns the outcome of a test, lint or build run; kind is "test", "lint" or "build". kind is ""
// for other calls, for a run without an end (unknown command, killed, refused, still running), and for a run
// whose exit code a pipe hides.
func verification(call *toolCall, v Judgement, text string) (kind string, passed bool) {
	kind = call.verifies()
	// With these exit codes, a shell reports that the command did not run or was killed.
	notRun := slices.Contains([]int{126, 127, 130, 137, 143}, v.Code)
	if kind == "" || v.Outcome == Pending || v.Outcome == Refusal || notRun {
		return "", false
	}
	body := call.phrases.unframe(text).body
	switch {
	case v.Outcome == Error && (v.Rule == "text:shell" || call.phrases.allShellErrors(body) ||
		strings.HasPrefix(strings.ToLower(body), "command timed out")):
		return "", false
	case v.Outcome == OK && call.shell.masked && !v.Sure && !call.phrases.endsInSuccess(body):
		return "", false
	}
	return kind, v.Outcome == OK
}

// verifies returns the kind of a call: "test", "lint" or "build", "" for another call. The last command with a
// kind decides: "build && test" is a test.
func (c *toolCall) verifies() string {
	kind := ""
	for _, part := range c.shell.parts {
		if k := c.phrases.verifier(part.prog, part.args); k != "" {
			kind = k
		}
	}
	if kind != "" || c.purpose != purposeExec && c.purpose != purposeOther || !c.nameMatches("verifies") {
		return kind
	}
	return c.phrases.verifies("tool", c.nameWords...)
}

// verifies returns the first kind whose list (lists + " " + kind) contains one of the words.
func (p *phrases) verifies(lists string, words ...string) string {
	for _, kind := range [...]string{"test", "lint", "build"} {
		if slices.ContainsFunc(words, func(w string) bool { return p.inList(lists+" "+kind, w) }) {
			return kind
		}
	}
	return ""
}

// verifier returns the kind of a command, "" for a command that does not test, lint or build.
func (p *phrases) verifier(prog string, args []string) string {
	if kind := p.verifies("program", prog); kind != "" {
		return kind
	}
	switch {
	case p.inList("program scripts", prog):
		return p.scriptVerifier(args)
	case p.inList("program goals", prog):
		return p.goalVerifier(prog, args)
	case p.inList("program formats", prog):
		if slices.ContainsFunc(args, func(a string) bool { return p.inList("program only-checks", a) }) {
			return "lint"
		}
	case p.inList("program python", prog):
		return p.moduleVerifier(args)
	}
	return ""
}

// moduleVerifier returns the kind of the module or file that Python runs.
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

// scriptVerifier returns the kind of the script or program after npm run, npx, poetry run, uv run.
func (p *phrases) scriptVerifier(args []string) string {
	for i, a := range args {
		if strings.HasPrefix(a, "-") || hasAny([]string{a}, "run", "run-script", "exec", "workspace") {
			continue
		}
		if i > 0 && args[i-1] == "workspace" { // name of the workspace
			continue
		}
		return cmp.Or(p.verifier(a, args[i+1:]), p.goalKind(a))
	}
	return ""
}

// goalVerifier returns the kind of the goal of a build tool.
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
