package detect_test

import (
	"testing"

	"precept/detect"
)

func TestVerificationNeedsAStartedRun(t *testing.T) {
	command := func(cmd string) string { return jsonArgs("command", cmd) }
	for _, tc := range []struct {
		name, args, text string
		kind             string
		passed           bool
	}{
		{"go test passes", command("go test ./..."), "ok  \tshop/cart\t0.003s", "test", true},
		{
			"go test fails", command("cd shop && go test ./..."),
			"--- FAIL: TestTotal (0.00s)\nFAIL\tshop/cart\t0.004s\nFAIL", "test", false,
		},
		{"pytest passes", command("python -m pytest -q"), "8 passed in 0.10s", "test", true},
		{
			"pytest fails", command("uv run pytest"),
			"FAILED tests/test_a.py::test_b\n==== 1 failed, 2 passed in 0.1s ====", "test", false,
		},
		{"jest passes", command("CI=1 npx jest"), "Tests:       9 passed, 9 total", "test", true},
		{"npm lint fails", command("npm run lint"), "npm error code 1", "lint", false},
		{
			"npm test fails", command("npm test -- --watch=false"),
			"Tests: 1 failed, 2 total\n\nCommand exited with code 1", "test", false,
		},
		{
			"cargo build fails", command("cargo build"),
			"error[E0425]: cannot find value `x`\nerror: could not compile `a`", "build", false,
		},
		{"cargo clippy passes", command("cargo clippy"), "Finished dev", "lint", true},
		{"make fails", command("make"), "make: *** [all] Error 2", "build", false},
		{"make check passes", command("make check"), "all fine", "lint", true},
		{"tsc passes without output", command("npx tsc --noEmit"), "(no output)", "build", true},
		{"eslint fails", command("npx eslint ."), "✖ 2 problems (1 error, 1 warning)", "lint", false},
		{"ruff fails", command("ruff check ."), "Found 3 errors.", "lint", false},
		{"ruff passes", command("ruff check ."), "All checks passed!", "lint", true},
		{
			"mypy fails", command("mypy src"), "Found 2 errors in 1 file (checked 8 source files)", "build",
			false,
		},
		{
			"pytest fails with an exit code", jsonArgs("cmd", "pytest"),
			"Process exited with code 1\nOutput:\nsome words", "test", false,
		},
		{"piped to tail, with a summary", command("pytest | tail -1"), "==== 8 passed in 0.31s ====", "test", true},
		{"build and test count as a test", command("npm run build && npm test"), "ok\n<exit>", "test", true},
		{"gradle wrapper fails", command("./gradlew test"), "BUILD FAILED in 3s", "test", false},
		{
			"piped to head, without a summary", command("pytest | head -1"), "==== test session starts ====", "",
			false,
		},
		{"missing program", command("pytest"), "bash: pytest: command not found", "", false},
		{
			"missing program, recognised by exit code 127", command("pytest"), "sh: pytest\n\nCommand exited with code 127", "",
			false,
		},
		{"refused", command("pytest"), "exec command rejected by user", "", false},
		{"list of a test folder", command("ls tests"), "test_a.py", "", false},
		{"printed test configuration", command("cat pytest.ini"), "[pytest]", "", false},
		{"go run", command("go run ."), "FAIL", "", false},
	} {
		kind, passed, ok := detect.Verification("bash", tc.args, tc.text)
		if kind != tc.kind || passed != tc.passed || ok != (tc.kind != "") {
			t.Errorf("%s: Verification = kind %q, passed %v, ok %v, want kind %q, passed %v, ok %v", tc.name, kind, passed, ok, tc.kind, tc.passed, tc.kind != "")
		}
	}
	if kind, passed, ok := detect.Verification("run_tests", `{}`, "Error: 2 tests failed"); kind != "test" || passed || !ok {
		t.Errorf("tool run_tests: Verification = kind %q, passed %v, ok %v, want kind \"test\", passed false, ok true", kind, passed, ok)
	}
}
