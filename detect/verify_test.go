package detect_test

import (
	"testing"

	"precept/detect"
)

func TestTestRunsAreRecognisedAndJudged(t *testing.T) {
	mk := func(cmd string) string { return jsonArgs("command", cmd) }
	for _, c := range []struct {
		name, args, text string
		kind             string
		passed           bool
	}{
		{"go test passes", mk("go test ./..."), "ok  \tshop/cart\t0.003s", "test", true},
		{
			"go test fails", mk("cd shop && go test ./..."),
			"--- FAIL: TestTotal (0.00s)\nFAIL\tshop/cart\t0.004s\nFAIL", "test", false,
		},
		{"pytest passes", mk("python -m pytest -q"), "8 passed in 0.10s", "test", true},
		{
			"pytest fails", mk("uv run pytest"),
			"FAILED tests/test_a.py::test_b\n==== 1 failed, 2 passed in 0.1s ====", "test", false,
		},
		{"jest", mk("CI=1 npx jest"), "Tests:       9 passed, 9 total", "test", true},
		{"npm script", mk("npm run lint"), "npm error code 1", "lint", false},
		{
			"npm t", mk("npm test -- --watch=false"),
			"Tests: 1 failed, 2 total\n\nCommand exited with code 1", "test", false,
		},
		{
			"cargo build", mk("cargo build"),
			"error[E0425]: cannot find value `x`\nerror: could not compile `a`", "build", false,
		},
		{"cargo clippy", mk("cargo clippy"), "Finished dev", "lint", true},
		{"make", mk("make"), "make: *** [all] Error 2", "build", false},
		{"make check", mk("make check"), "all fine", "lint", true},
		{"tsc is silent", mk("npx tsc --noEmit"), "(no output)", "build", true},
		{"eslint", mk("npx eslint ."), "✖ 2 problems (1 error, 1 warning)", "lint", false},
		{"ruff", mk("ruff check ."), "Found 3 errors.", "lint", false},
		{"ruff is happy", mk("ruff check ."), "All checks passed!", "lint", true},
		{
			"mypy", mk("mypy src"), "Found 2 errors in 1 file (checked 8 source files)", "build",
			false,
		},
		{
			"exit code", jsonArgs("cmd", "pytest"),
			"Process exited with code 1\nOutput:\nsome words", "test", false,
		},
		{"behind tail, with a summary", mk("pytest | tail -1"), "==== 8 passed in 0.31s ====", "test", true},
		{"build and test: the test", mk("npm run build && npm test"), "ok\n<exit>", "test", true},
		{"gradle wrapper", mk("./gradlew test"), "BUILD FAILED in 3s", "test", false},
		{
			"behind head, without a summary", mk("pytest | head -1"), "==== test session starts ====", "",
			false,
		},
		{"no such command", mk("pytest"), "bash: pytest: command not found", "", false},
		{
			"no such command, code", mk("pytest"), "sh: pytest\n\nCommand exited with code 127", "",
			false,
		},
		{"refused", mk("pytest"), "exec command rejected by user", "", false},
		{"no verification", mk("ls tests"), "test_a.py", "", false},
		{"cat a test", mk("cat pytest.ini"), "[pytest]", "", false},
		{"go run", mk("go run ."), "FAIL", "", false},
	} {
		kind, passed, ok := detect.Verification("bash", c.args, c.text)
		if kind != c.kind || passed != c.passed || ok != (c.kind != "") {
			t.Errorf("%s: got %q %v %v, want %q %v", c.name, kind, passed, ok, c.kind, c.passed)
		}
	}
	if kind, passed, ok := detect.Verification("run_tests", `{}`, "Error: 2 tests failed"); kind != "test" || passed || !ok {
		t.Errorf("a tool of its own is verification %q, passed %v, found %v; want a failed test", kind, passed, ok)
	}
}
