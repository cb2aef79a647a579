package detect

import "strings"

// verification reads the outcome of a test, lint or build run: kind is "test", "lint" or "build".
// ok is false when the call is no such run, when the run did not come about (no such command,
// refused, still running), or when a pipe hides how it ended.
func verification(call *toolCall, v Judgement, text string) (kind string, passed, ok bool) {
	kind = call.verifies()
	if kind == "" || v.Outcome == Pending || v.Outcome == Refusal || v.Code == 126 || v.Code == 127 || v.Code == 130 || v.Code == 137 || v.Code == 143 {
		return "", false, false
	}
	if v.Outcome == Error {
		r := unframe(text)
		if v.Rule == "text:shell" || allComplain(r.body) || strings.HasPrefix(strings.ToLower(r.body), "command timed out") {
			return "", false, false
		}
		return kind, false, true
	}
	if call.shell.masked && !v.Sure {
		if r := unframe(text); r.empty || !soundsDone(r.body) {
			return "", false, false
		}
	}
	return kind, true, true
}

// verifies is what a call verifies, "" when nothing. The last part that verifies names it: in
// "build && test" it is the test that speaks.
func (c *toolCall) verifies() string {
	kind := ""
	for _, p := range c.shell.parts {
		if k := verifier(p.prog, p.args); k != "" {
			kind = k
		}
	}
	if kind != "" || c.kind != kindExec && c.kind != kindOther {
		return kind
	}
	switch {
	case c.has("run", "runs", "execute") && c.has("test", "tests"):
		return "test"
	case c.has("run") && c.has("lint", "linter", "lints"):
		return "lint"
	case c.has("run") && c.has("build"):
		return "build"
	}
	return ""
}

// verifier knows the programs that test, lint and build.
func verifier(prog string, args []string) string {
	switch prog {
	case "pytest", "py.test", "jest", "vitest", "mocha", "ava", "rspec", "phpunit", "ctest", "tox", "nox", "nose2", "gotestsum", "karma", "playwright", "busted", "bats", "minitest", "testcafe":
		return "test"
	case "eslint", "ruff", "flake8", "pylint", "golangci-lint", "staticcheck", "shellcheck", "stylelint", "rubocop", "biome", "oxlint", "hadolint", "clippy-driver", "ktlint", "swiftlint", "yamllint", "tslint":
		return "lint"
	case "tsc", "tsgo", "vue-tsc", "mypy", "pyright", "javac", "rustc", "gcc", "g++", "clang", "cc", "msbuild", "ninja", "webpack", "rollup", "esbuild":
		return "build"
	case "npx", "bunx", "pnpx", "uvx", "poetry", "pipenv", "bundle", "uv", "hatch", "rye", "dotenv":
		return wrappedVerifier(args)
	case "python", "python3", "py":
		if i := indexOf(args, "-m"); i >= 0 && i+1 < len(args) {
			if args[i+1] == "unittest" || args[i+1] == "doctest" {
				return "test"
			}
			return verifier(args[i+1], args[i+2:])
		}
		if len(args) > 0 && (strings.HasSuffix(args[0], "manage.py") && hasAny(args, "test") || strings.Contains(args[0], "runtests")) {
			return "test"
		}
	case "npm", "yarn", "pnpm", "bun", "deno":
		return scriptVerifier(args)
	case "go", "cargo", "dotnet", "swift", "mix", "zig", "sbt", "lein", "gradle", "gradlew", "mvn", "mvnw", "make", "gmake", "just", "task", "rake", "bazel", "cmake", "flutter", "dart", "composer", "nx", "turbo", "stack", "cabal":
		return goalVerifier(prog, args)
	case "black", "prettier", "isort", "gofmt", "rustfmt":
		if hasAny(args, "--check", "-c", "--list-different", "-l", "--diff") {
			return "lint"
		}
	}
	return ""
}

// wrappedVerifier looks behind npx, poetry run, uv run.
func wrappedVerifier(args []string) string {
	for i, a := range args {
		if strings.HasPrefix(a, "-") || a == "run" || a == "exec" {
			continue
		}
		return verifier(a, args[i+1:])
	}
	return ""
}

// scriptVerifier reads a package manager's script.
func scriptVerifier(args []string) string {
	for i, a := range args {
		if strings.HasPrefix(a, "-") || a == "run" || a == "run-script" || a == "exec" || a == "workspace" {
			continue
		}
		if i > 0 && args[i-1] == "workspace" { // its name
			continue
		}
		if k := goalKind(a); k != "" {
			return k
		}
		return verifier(a, args[i+1:])
	}
	return ""
}

// goalVerifier reads the goal of a build tool.
func goalVerifier(prog string, args []string) string {
	goals := 0
	for i, a := range args {
		if strings.HasPrefix(a, "-") || strings.Contains(a, "=") || strings.HasPrefix(a, "/") {
			continue
		}
		if i > 0 && (args[i-1] == "-C" || args[i-1] == "-f") { // a folder or a file
			continue
		}
		goals++
		if k := goalKind(a); k != "" {
			return k
		}
		if prog == "go" || prog == "cargo" {
			return ""
		}
	}
	if goals == 0 && (prog == "make" || prog == "gmake") || prog == "cmake" && hasAny(args, "--build") {
		return "build"
	}
	return ""
}

func goalKind(goal string) string {
	base, _, _ := strings.Cut(goal[strings.LastIndexByte(goal, ':')+1:], "-")
	if i := strings.IndexByte(goal, ':'); i > 0 {
		if k := goalKind(goal[:i]); k != "" {
			return k
		}
	}
	switch strings.ToLower(base) {
	case "test", "tests", "t", "e2e", "spec", "unittest", "nextest", "pytest":
		return "test"
	case "lint", "vet", "clippy", "check", "typecheck", "tsc", "format", "fmt", "analyze", "verify":
		return "lint"
	case "build", "compile", "all", "package", "assemble", "install:build":
		return "build"
	}
	return ""
}

func indexOf(args []string, want string) int {
	for i, a := range args {
		if a == want {
			return i
		}
	}
	return -1
}
