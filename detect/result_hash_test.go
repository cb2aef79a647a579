package detect_test

import (
	"fmt"
	"strings"
	"testing"

	"precept/detect"
	"precept/internal/wire"
)

func TestVerificationKindFollowsCommandOrTool(t *testing.T) {
	for kind, commands := range map[string][]string{
		"test": {
			"pytest -q", "go test ./...", "cargo test", "npm test", "npm run -s test:unit", "yarn workspace web test", "npx jest",
			"poetry run pytest", "uv run --frozen pytest", "python -m pytest", "python3 -m unittest", "python manage.py test",
			"python tests/runtests.py", "make -C web test", "make -f ci.mk it test", "gradlew :app:test", "bazel test //...",
			"go build ./... && go test ./...", "CI=1 timeout 60 pytest", "pnpm exec vitest run", "mvn -q test",
		},
		"lint": {
			"go vet ./...", "golangci-lint run", "ruff check .", "eslint .", "npm run lint", "black --check .", "prettier -l src",
			"cargo clippy", "make lint", "python -m flake8", "npx eslint src", "yarn typecheck",
		},
		"build": {
			"make", "make -j4", "make all", "tsc -p .", "cmake --build out", "go build ./...", "cargo build", "npm run build",
			"npx tsc", "gcc -c a.c", "gradle assemble",
		},
		"": {
			"ls", "go run .", "cargo run", "npm install", "python app.py", "python -m http.server", "black .", "make install",
			"cmake ..", "go mod tidy", "npx", "poetry install", "git status",
		},
	} {
		for _, command := range commands {
			got, _, _ := detect.Verification("bash", mustJSON(t, obj{"command": command}), "ok")
			if got != kind {
				t.Errorf("%s: verification kind = %q, want %q", command, got, kind)
			}
		}
	}
	for tool, kind := range map[string]string{
		"run_tests": "test", "executeTest": "test", "run_linter": "lint", "runLint": "lint", "run_build": "build",
		"run_query": "", "test_results": "", "build_list": "",
	} {
		if got, _, _ := detect.Verification(tool, "{}", "ok"); got != kind {
			t.Errorf("tool %s: verification kind = %q, want %q", tool, got, kind)
		}
	}
}

// Volatile parts, such as addresses, times and temporary names, differ between equal runs.
func TestResultHashIgnoresVolatileParts(t *testing.T) {
	samePairs := [][2]string{
		{"at 0x7ffe12 it fell", "at 0x55aa it fell"},
		{"began 1718000000", "began 1718009999"},
		{"began 1718000000123", "began 1718009999456"},
		{"wrote /tmp/tmpab12cd", "wrote /tmp/tmpzz99xy"},
		{"took 12 seconds", "took 9 seconds"},
		{"took 1.5 s", "took 2.25 s"},
		{"ran in 971ms", "ran in 3ms"},
		{"ran in 1m30s", "ran in 2m05s"},
		{"12:31:07.250 start", "09:00:59.001 start"},
		{"2026-01-02 at 12:31", "2026-01-02 at 13:00"},
		{"job 550e8400-e29b-41d4-a716-446655440000", "job 12345678-e29b-41d4-a716-0123456789ab"},
		{"commit 0a1b2c3", "commit f9e8d7c"},
		{"pid 4711 exited", "pid 4712 exited"},
		{"\x1b[31mred\x1b[0m", "red"},
		{"Wall time: 1.2\nx", "Wall time: 3.4\nx"},
	}
	for _, pair := range samePairs {
		if detect.ResultHash(pair[0]) != detect.ResultHash(pair[1]) {
			t.Errorf("%q and %q have different hashes", pair[0], pair[1])
		}
	}
	differentPairs := [][2]string{
		{"3 failed", "4 failed"},
		{"line 12", "line 13"},
		{"a 1234567", "a 1234568"},
		{"v1.2.3", "v1.2.4"},
		{"ratio 12:31", "ratio 12:32"},
		{"deadbeef", "feedface"},
		{"tmp1", "tmp2"},
		{"exit 1", "exit 2"},
		{"12 items", "13 items"},
		{"began 2718000000", "began 2718009999"},
	}
	for _, pair := range differentPairs {
		if detect.ResultHash(pair[0]) == detect.ResultHash(pair[1]) {
			t.Errorf("%q and %q have the same hash", pair[0], pair[1])
		}
	}
}

// The second answer repeats the calls in the first answer, but with a different key order, white space and description.
func TestLoopsFindsRespelledParallelCalls(t *testing.T) {
	arguments := []func(i int, repeated bool) string{
		func(i int, repeated bool) string {
			if repeated {
				return fmt.Sprintf(`{ "description" : "once more", "n": %d, "cmd" : "make x" }`, i)
			}
			return fmt.Sprintf(`{"cmd":"make x","n":%d,"description":"make it"}`, i)
		},
		func(i int, repeated bool) string {
			return fmt.Sprintf(`{"q":{"list":[%d,"a",null,true],"b":"\u0041"}}`, i)
		},
		func(i int, repeated bool) string { return fmt.Sprintf(`plain text %d`, i) },
		func(i int, repeated bool) string { // a different call, so not a loop
			if repeated {
				return fmt.Sprintf(`{"cmd":"make y%d"}`, i)
			}
			return fmt.Sprintf(`{"cmd":"make x%d"}`, i)
		},
	}
	const callsPerForm = 12
	var list []any
	list = append(list, obj{"role": "user", "content": "go"})
	for _, repeated := range []bool{false, true} {
		var made, results []any
		for k, args := range arguments {
			for i := range callsPerForm {
				id := fmt.Sprint("c", repeated, k, i)
				made = append(made, obj{"id": id, "type": "function", "function": obj{"name": "api_call", "arguments": args(i, repeated)}})
				results = append(results, obj{"role": "tool", "tool_call_id": id, "content": fmt.Sprint("Error: refused ", k, i)})
			}
		}
		list = append(list, obj{"role": "assistant", "tool_calls": made})
		list = append(list, results...)
	}
	req, err := wire.Parse(wire.Chat, []byte(mustJSON(t, obj{"messages": list})))
	if err != nil {
		t.Fatal(err)
	}
	var r detect.Results
	loops := r.Loops(req, nil, nil)
	if len(loops) != 3*callsPerForm {
		t.Errorf("Loops found %d loops, want %d", len(loops), 3*callsPerForm)
	}
	for _, l := range loops {
		if strings.Contains(l.Args, "make y") || l.Rule != "failed-again" {
			t.Errorf(`loop %+v, want Args without "make y" and Rule = "failed-again"`, l)
		}
	}
}

func TestResultsWithoutIDsFollowCallOrder(t *testing.T) {
	newCall := func(name string) obj {
		return obj{"type": "function", "function": obj{"name": name, "arguments": `{"id":7}`}}
	}
	var list []any
	for range 2 {
		list = append(list,
			obj{"role": "assistant", "tool_calls": []any{newCall("get_quote"), newCall("get_order")}},
			obj{"role": "tool", "content": "Error: there is no quote"}, obj{"role": "tool", "content": "Error: there is no order"})
	}
	found, err := inspect(t, mustJSON(t, obj{"messages": append([]any{obj{"role": "user", "content": "go"}}, list...)}))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range found {
		if f.Kind != detect.KindUser {
			got = append(got, fmt.Sprintf("%d %s %s", f.Index, f.Kind, f.Tool))
		}
	}
	want := "2 tool_result get_quote, 3 tool_result get_order, 5 tool_result get_quote, 5 loop get_quote, 6 tool_result get_order, 6 loop get_order"
	if strings.Join(got, ", ") != want {
		t.Errorf("Inspect findings:\ngot  %s\nwant %s", strings.Join(got, ", "), want)
	}
}
