package detect_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"precept/detect"
	"precept/internal/wire"
)

func shellArgs(command string) string {
	b, _ := json.Marshal(map[string]string{"command": command})
	return string(b)
}

// Classify takes the output "error: boom" for content after a read-only command, and for a failure after any other
// command.
func TestClassifyKnowsReadOnlyCommands(t *testing.T) {
	for command, readOnly := range map[string]bool{
		"ls -la":                        true,
		"/bin/ls -la":                   true,
		"cat a b":                       true,
		"cat a > b":                     false,
		"cat a >> b":                    false,
		"cat a 2>/dev/null":             true,
		"cat a 2>&1":                    true,
		"cat a >&2":                     true,
		"cat a > /dev/stderr":           true,
		"cat 'a > b'":                   true,
		`cat "a > b"`:                   true,
		`cat "a \" > b"`:                true,
		`cat a\>b`:                      true,
		"# look first\nls -la # of all": true,
		"echo $(make gen)":              false,
		"cat \"$(go generate ./...)\"":  false,
		"for f in a b; do cat $f; done": true,
		"for f in a b; do rm $f; done":  false,
		"bash -c 'ls -la'":              true,
		"bash -c 'ls -la; rm a'":        false,
		"cat <<EOF\nerror: x\nEOF":      true,
		"cat <<EOF && make\nx\nEOF":     false,
		"cat <<< word":                  true,
		"cat a && rm a":                 false,
		"cat a || rm a":                 false,
		"cat a; rm a":                   false,
		"cat a\nrm a":                   false,
		"cat a & rm a":                  false,
		"cat a | tee b | wc -l":         false,
		"cat a | grep x":                true,
		"cat a |& grep x":               true,
		"(cd a && ls)":                  true,
		"{ ls; }":                       true,
		"! grep -q x a":                 true,
		"sudo ls":                       true,
		"sudo rm a":                     false,
		"time ls":                       true,
		"env A=1 ls":                    true,
		"A=1 ls":                        true,
		"A=1 make":                      false,
		"nohup ls":                      true,
		"timeout 5 ls":                  true,
		"timeout -k 1 5s make":          false,
		"nice -n 5 ls":                  true,
		"if ls; then ls; else ls; fi":   true,
		"while true; do date; done":     true,
		"find . -name x":                true,
		"find . -name x -delete":        false,
		"find . -exec rm {} +":          false,
		"find . -exec grep x {} +":      true,
		"find . -execdir mv {} b":       false,
		"ls | xargs cat":                true,
		"ls | xargs -n 1 cat":           true,
		"ls | xargs rm":                 false,
		"sed -n 1,9p a":                 true,
		"sed -i s/a/b/ a":               false,
		"sed -i.bak s/a/b/ a":           false,
		"sed --in-place s/a/b/ a":       false,
		"awk '{print $1}' a":            true,
		"perl -ne print a":              true,
		"perl a.pl":                     false,
		"git status":                    true,
		"git -C /srv status":            true,
		"git -c core.pager=cat log":     true,
		"git --no-pager diff":           true,
		"git":                           true,
		"git log | head":                true,
		"git show HEAD":                 true,
		"git blame a":                   true,
		"git ls-files":                  true,
		"git commit -m x":               false,
		"git checkout main":             false,
		"git branch":                    true,
		"git branch -a":                 true,
		"git branch --show-current":     true,
		"git branch new":                false,
		"git stash list":                true,
		"git stash pop":                 false,
		"git tag -l":                    true,
		"git tag v1":                    false,
		"node --version":                true,
		"node a.js":                     false,
		"python3 -V":                    true,
		"python3 a.py":                  false,
		"go version":                    true,
		"go doc fmt":                    true,
		"go list ./...":                 true,
		"go env":                        true,
		"go run .":                      false,
		"npm ls":                        true,
		"npm view x":                    true,
		"npm start":                     false,
		"pip show x":                    true,
		"pip install x":                 false,
		"cargo list":                    false,
		"docker ps -a":                  true,
		"docker logs x":                 true,
		"docker run x":                  false,
		"kubectl get pods":              true,
		"kubectl describe pod x":        true,
		"kubectl apply -f x":            false,
		"docker":                        false,
		"gh pr view 3":                  true,
		"gh run list":                   true,
		"gh pr create":                  false,
		"gh auth":                       false,
		"jq .a b":                       true,
		"tree":                          true,
		"./ls":                          true,
		"mytool":                        false,
	} {
		got := detect.Classify("bash", shellArgs(command), "error: boom", 0)
		if (got.Outcome == detect.OK) != readOnly {
			t.Errorf("%q with output \"error: boom\": got outcome %s (rule %q), want a success: %t", command, got.Outcome, got.Rule, readOnly)
		}
	}
}

func TestClassifyKnowsWriteOptions(t *testing.T) {
	for command, readOnly := range map[string]bool{
		"sed -Ei s/a/b/ a":                           false,
		"sed -ri s/a/b/ a":                           false,
		"sed -nEi.bak s/a/b/p a":                     false,
		"sed -n -i.bak s/a/b/p a":                    false,
		"sed -e s/a/b/ -i a":                         false,
		"sed s/a/b/ a -i":                            false,
		"sed --in-place=.bak s/a/b/ a":               false,
		"sed -I '' s/a/b/ a":                         false,
		"sed -ne '/i/p' a":                           true,
		"sed -e -i a":                                true,
		"sed -n -- -i a":                             true,
		"sed --expression=s/i/-i/ a":                 true,
		"perl -ne 'print if /i/' a":                  true,
		"perl -i -ne print a":                        false,
		"perl -i.bak -ne print a":                    false,
		"perl -pi -e s/a/b/ a":                       false,
		"ruby -pi -e x a":                            false,
		"awk -i inplace '{print}' a":                 false,
		"gawk -iinplace '{print}' a":                 false,
		"gawk --include inplace '{print}' a":         false,
		"awk -F i '{print $1}' a":                    true,
		"sort -o a a":                                false,
		"sort -uo a a":                               false,
		"sort --output=a a":                          false,
		"sort -t o -k 2 a":                           true,
		"sort -to a":                                 true,
		"uniq a b":                                   false,
		"uniq -c -f 1 a":                             true,
		"tree -o a":                                  false,
		"tree -I o -L 2":                             true,
		"git diff --output=a":                        false,
		"git diff --output-indicator-new=x":          true,
		"go env -w A=1":                              false,
		"go env GOPATH":                              true,
		"ls | tee a":                                 false,
		"ls >| a":                                    false,
		"ls &> a":                                    false,
		"ls > >(cat > a)":                            false,
		"grep -rl a . | xargs sed -i s/a/b/":         false,
		"grep -rl a . | xargs -r sed -n 1p":          true,
		"ls | xargs git rm x":                        false,
		"ls | xargs git log cat":                     true,
		"ls | xargs -n1 -I{} grep x {}":              true,
		"ls | xargs -0 -P 4 -I % sudo grep x %":      true,
		"ls | xargs -n 1 rm cat":                     false,
		"ls | xargs mv -t cat":                       false,
		"ls | xargs --max-args=1 wc -l":              true,
		"ls | xargs":                                 true,
		"ls | xargs --max-args 1 cat":                true,
		"ls | xargs --max-args 1 --delimiter x rm":   false,
		"ls | xargs --max-procs=4 --max-args 1 wc":   true,
		"sed -n 'w b' a":                             false,
		"sed -n '/x/w b' a":                          false,
		"sed 's/a/b/w b' a":                          false,
		"sed -e p -e 's|a/w|b|gw b' a":               false,
		"sed --expression 's,a,b,w b' a":             false,
		"sed 's/a/b/e' a":                            false,
		"sed -n 's/a/b/gpw /dev/stdout' a":           true,
		"sed 's/x/w y/;s/ w / e /g' a":               true,
		"sed -n '/w b/p' a":                          true,
		"sed '1i w b' a":                             true,
		"sed -n '1,9{/e/d;p}' w":                     true,
		`sed 's/a\/w/b/' a`:                          true,
		"sed ':w;N;$!bw;s/x/y/' a":                   true,
		"awk '{print > \"b\"}' a":                    false,
		"awk '{print $1 >> $2\".txt\"}' a":           false,
		"awk '{printf \"%s\", $1 > f}' a":            false,
		"awk '{print | \"sh\"}' a":                   false,
		"awk '{system(\"rm \" $1)}' a":               false,
		"awk '{print | \"sort -u\"}' a":              true,
		"awk '{print > \"/dev/stderr\"}' a":          true,
		"awk '$1 > 5 {print $2}' a":                  true,
		"awk '{print ($1 > 5), \"a > b\"}' a":        true,
		"awk '/a > b|c/ || $1 > 2' a":                true,
		"awk -F '>' '{print $1}' a":                  true,
		"awk '{print $1} END {if (n > 3) print n}'":  true,
		"awk '{print $1 / 2; x = a > b}' a":          true,
		"ls | xargs xargs rm":                        false,
		`find . -name cat -delete`:                   false,
		`find . -name cat -exec rm {} \;`:            false,
		`find . -exec grep -q x {} \; -exec rm {} +`: false,
		`find . -exec grep -q x {} \; -delete`:       false,
		`find . -exec sed -n 1p {} \;`:               true,
		`find . -exec sed -Ei s/a/b/ {} +`:           false,
		`find . -exec grep -l x {} + -o -name y`:     true,
		"find . -fprint a":                           false,
		"fd -e go -x rm":                             false,
		"fd -e go --exec-batch wc -l":                true,
	} {
		got := detect.Classify("bash", shellArgs(command), "error: boom", 0)
		if (got.Outcome == detect.OK) != readOnly {
			t.Errorf("%q with output \"error: boom\": got outcome %s (rule %q), want a success: %t", command, got.Outcome, got.Rule, readOnly)
		}
	}
}

// A find command can start another find command with -exec.
func TestNestedFindTakesLinearTime(t *testing.T) {
	start := time.Now()
	detect.Classify("bash", shellArgs(strings.Repeat("find . -exec ", 300)+"ls"), "error: boom", 0)
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("Classify took %s for 300 nested find commands, want less than 5 s", d)
	}
}

// In a timeout message, a harness quotes the command, which can itself contain many quotation marks.
func TestQuotedCommandTakesLinearTime(t *testing.T) {
	start := time.Now()
	detect.Classify("bash", shellArgs("make"), "Command '"+strings.Repeat("' ", 45_000), 0)
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("Classify took %s for a message with 45,000 quotation marks, want less than 5 s", d)
	}
}

// A harness, the program that runs an agent, adds the exit code to a command's output. Similar words that the command
// itself printed are not an exit code.
func TestClassifyReadsHarnessExitCode(t *testing.T) {
	for name, tc := range map[string]struct {
		format string
		found  bool // whether Classify reads the exit code
	}{
		"codex": {
			"Chunk ID: 1a\nWall time: 0.1 seconds\nProcess exited with code %d\nOriginal token count: 4\nOutput:\nstep 1",
			true,
		},
		"codex, short": {
			"Exit code: %d\nWall time: 0.1 seconds\nTotal output lines: 1\nOutput:\nstep 1", true,
		},
		"claude":                  {"Exit code %d\nstep 1", true},
		"claude, with a note":     {"Exit code %d (see below)\nstep 1", true},
		"a sentence about a code": {"Exit code %d means that\nstep 1", false},
		"autogen":                 {"exitcode: %d (execution ended)\nCode output: step 1", true},
		"gemini": {
			"Command: ./x\nDirectory: (root)\nstep 1\nError: (none)\nExit Code: %d\nSignal: 0\nBackground PIDs: (none)\nProcess Group PGID: 17",
			true,
		},
		"openhands": {
			"step 1\n[The command completed with exit code %d.]\n[Current working directory: /srv]\n[Python interpreter: /bin/python]\n[Command finished with exit code %d]",
			true,
		},
		"pi":                     {"step 1\n\nCommand exited with code %d", true},
		"copilot":                {"step 1\n<shellId: 7 completed with exit code %d>", true},
		"copilot, still running": {"step 1\n<shellId: 7 goes on %d>", false},
		"claude, before its working directory": {
			"step 1\nExited with code %d\nShell cwd was reset to /srv", true,
		},
		"an IDE": {"step 1\nProcess finished with exit code %d", true},
		"a returncode tag": {
			"<returncode>%d</returncode>\n<output>\nstep 1\n</output>", true,
		},
		"an unclosed returncode tag": {"<returncode>%d\n<output>\nstep 1\n</output>", false},
		"title case at the end":      {"step 1\nExit Code: %d", true},
		"gptme":                      {"Ran command: `./x`\n\n`step 1`\n\nReturn code: %d", true},
		"a script":                   {"step 1\nScript exited with code %d", true},
		"all in lower case":          {"exit code %d\nstep 1", true},
		"swe-agent":                  {"OBSERVATION:\nExit code: %d\nstep 1\nbash-$", true},
		"nanocoder":                  {"EXIT_CODE: %d\nSTDERR:\nstep 1\nSTDOUT:\n", true},
		"exit_code in brackets":      {"step 1\n[exit_code=%d]", true},
		"a status code":              {"step 1\nExited with status %d", true},
		"an exit_code tag": {
			"<exit_code>%d</exit_code>\n<stdout>\nstep 1\n</stdout>\n<stderr></stderr>", true,
		},
		"an exitcode tag": {
			"<exitcode>%d</exitcode>\n<output>step 1</output>", true,
		},
		"an exit_status tag": {
			"<exit_status>%d</exit_status>\n<stderr>step 1</stderr>", true,
		},
		"exit in brackets":         {"step 1\n[exit %d]", true},
		"a script's last line":     {"#!/bin/sh\nstep 1\nexit %d", false},
		"a comment":                {"step 1\n# exit %d", false},
		"a program's own variable": {"step 1\nrc: %d", false},
		"a count of exit codes":    {"step 1\nexit codes seen: %d", false},
		"between output lines":     {"step 1\nExit code: %d\nstep 2", false},
		"before the output":        {"Output:\nExit code: %d\nstep 2", false},
		"before another word":      {"step 1\nCommand exited with code %d today", false},
		"before thirteen more lines": {
			"step 1\nExit code: %d" + strings.Repeat("\nSignal: 0", 13), false,
		},
		"before eleven more lines": {
			"step 1\nExit code: %d" + strings.Repeat("\nSignal: 0", 11), true,
		},
	} {
		for _, code := range []int{0, 1, 3, 255} {
			text := strings.ReplaceAll(tc.format, "%d", fmt.Sprint(code))
			got := detect.Classify("bash", shellArgs("./release.sh"), text, 0)
			want := detect.Judgement{Outcome: detect.OK}
			if tc.found {
				want = detect.Judgement{Outcome: detect.OK, Rule: "exit-code", ReportsSuccess: true}
				if code != 0 {
					want = detect.Judgement{Outcome: detect.Error, Rule: "exit-code", Code: code}
				}
			}
			if got != want {
				t.Errorf("%s, exit code %d: got judgement %+v, want %+v", name, code, got, want)
			}
		}
	}
}

func TestExitCodeOneAfterOutputCanBeAnAnswer(t *testing.T) {
	const differences = "4c4\n< total: 12\n---\n> total: 13"
	for _, tc := range []struct {
		command, out string
		want         detect.Outcome
	}{
		{"diff a b", differences, detect.OK},
		{"cat a && echo '--- b' && cat b && diff a b", "total: 12\n--- b\ntotal: 13\n" + differences, detect.OK},
		{"cat a && grep -n price a", "total: 12", detect.OK},
		{"which node bun", "/usr/bin/node", detect.OK},
		{"ls && ps aux | grep node", "a\n/bin/sh: 1: ps: not found", detect.Error},
		{"cat a && diff a b", "cat: a: gone", detect.Error},
		{"./check && diff a b", differences, detect.Error},
		{"git diff --exit-code", differences, detect.Error},
		{"diff a b | tail -3", differences, detect.Error},
	} {
		got := detect.Classify("bash", shellArgs(tc.command), tc.out+"\n\nCommand exited with code 1", 0)
		if got.Outcome != tc.want {
			t.Errorf("%s with output %q and exit code 1: got outcome %s (rule %q), want %s", tc.command, tc.out, got.Outcome, got.Rule, tc.want)
		}
	}
}

// A search that exits with code 1 found nothing. With an error line in the output, or with exit code 2, the search
// failed.
func TestSearchExitCodeOneMeansNothingFound(t *testing.T) {
	for command, searches := range map[string]bool{
		"grep x a": true, "rg x": true, "git diff --exit-code": true, "diff a b": true, "test -f a": true, "[ -f a ]": true, "which x": true, "ls | xargs grep x": true,
		"cat a": false, "make": false, "grep x a; make": false, "make; grep x a": true, "pgrep x": true, "cmp a b": true,
	} {
		quiet := detect.Classify("bash", shellArgs(command), "(no output)\nCommand exited with code 1", 0)
		if (quiet.Outcome == detect.OK) != searches || searches && quiet.Rule != "nothing-found" {
			t.Errorf("%q with exit code 1 and no output: got judgement %+v, want a success by the rule \"nothing-found\": %t", command, quiet, searches)
		}
		for _, ending := range []string{"grep: a: gone\nCommand exited with code 1", "(no output)\nCommand exited with code 2"} {
			if got := detect.Classify("bash", shellArgs(command), ending, 0); got.Outcome != detect.Error {
				t.Errorf("%q with result %q: got judgement %+v, want outcome %q", command, ending, got, detect.Error)
			}
		}
	}
}

// A verification is a test, a lint or a build. A command that did not run, was interrupted or is still running gives no
// feedback.
func TestSignalsReadVerificationExitCode(t *testing.T) {
	for command, kind := range map[string]string{
		"pytest -q":                        "test",
		"python -m pytest":                 "test",
		"python3 -m unittest":              "test",
		"python -m doctest a.py":           "test",
		"python -m mypy .":                 "build",
		"python -m http.server":            "",
		"python manage.py test":            "test",
		"python manage.py migrate":         "",
		"python tests/runtests.py":         "test",
		"python a.py":                      "",
		"npx jest":                         "test",
		"npx --yes vitest run":             "test",
		"uv run pytest":                    "test",
		"poetry run ruff check":            "lint",
		"bundle exec rspec":                "test",
		"eslint .":                         "lint",
		"golangci-lint run":                "lint",
		"tsc --noEmit":                     "build",
		"gcc -c a.c":                       "build",
		"npm test":                         "test",
		"npm run test":                     "test",
		"npm run lint":                     "lint",
		"yarn build":                       "build",
		"pnpm run start":                   "",
		"npm install":                      "",
		"go test ./...":                    "test",
		"go vet ./...":                     "lint",
		"go build ./...":                   "build",
		"go mod tidy":                      "",
		"cargo test":                       "test",
		"cargo clippy":                     "lint",
		"cargo build --release":            "build",
		"cargo run":                        "",
		"mvn -q test":                      "test",
		"gradle build":                     "build",
		"./gradlew test":                   "test",
		"make test":                        "test",
		"make lint":                        "lint",
		"make":                             "build",
		"make -C sub":                      "build",
		"make deploy":                      "",
		"just check":                       "lint",
		"dotnet test":                      "test",
		"black --check .":                  "lint",
		"black .":                          "",
		"prettier --list-different a":      "lint",
		"gofmt -l .":                       "lint",
		"go build ./... && go test ./...":  "test",
		"cd a && FOO=1 timeout 60 go test": "test",
		"ls":                               "",
		"echo pytest":                      "",
		"git commit -m pytest":             "",
		"cat pytest.ini":                   "",
	} {
		for ending, feeling := range map[string]string{
			"all\nCommand exited with code 0":                              "approval",
			"all\nCommand exited with code 1":                              "rejection",
			"bash: x: command not found\nCommand exited with code 127":     "",
			"all\nCommand exited with code 130":                            "",
			"Command running in background with ID: 1":                     "",
			"The user rejected permission to use this specific tool call.": "refused",
		} {
			want := ""
			if kind != "" && feeling != "" {
				want = feeling + " verify:" + kind
			}
			if feeling == "refused" {
				want = "rejection refusal:opencode"
			}
			got := ""
			for _, s := range new(detect.Results).Signals(newRequest(t, wire.Chat, command, ending, ""), nil) {
				got = string(s.Feeling) + " " + s.Rule
			}
			if got != want {
				t.Errorf("%q with result %q: got feedback %q, want %q", command, ending, got, want)
			}
		}
	}
}

func TestSignalsReadPipedVerificationOutput(t *testing.T) {
	for _, tc := range []struct{ command, text, want string }{
		{"pytest | tail -3", "==== 3 passed in 0.1s ====", "approval"},
		{"pytest | tail -3", "==== 1 failed, 3 passed in 0.1s ====", "rejection"},
		{"pytest | tail -3", "some words", ""},
		{"pytest | tail -3", "", ""},
		{"pytest | tail -3", "Command exited with code 0", ""},
		{"go -C sub test", "Command exited with code 0", "approval"},
		{"set -o pipefail; pytest | tail -3", "some words\nCommand exited with code 0", "approval"},
		{"pytest || true", "some words", ""},
		{"pytest; echo done", "some words", ""},
		{"pytest; ls", "some words", "approval"},
		{"pytest", "bash: pytest: command not found", ""},
		{"pytest", "Command timed out after 60s", ""},
	} {
		got := ""
		for _, s := range new(detect.Results).Signals(newRequest(t, wire.Chat, tc.command, tc.text, ""), nil) {
			got = string(s.Feeling)
		}
		if got != tc.want {
			t.Errorf("%q with result %q: got feedback %q, want %q", tc.command, tc.text, got, tc.want)
		}
	}
}

func TestClassifyRemovesHarnessWrappers(t *testing.T) {
	reminder := "<system-reminder>read it</system-reminder>"
	for text, want := range map[string]detect.Outcome{
		`# var_3 = "Error: no such row"`:                                detect.Error,
		`# var_3 = 'Error: no such row'`:                                detect.Error,
		`# var_3 = Error: no such row`:                                  detect.Error,
		`# var 3 = "Error: no such row"`:                                detect.OK,
		`var_3 = "Error: no such row"`:                                  detect.OK,
		`# Error: no such row`:                                          detect.OK,
		`"Error: no such row"`:                                          detect.Error,
		`"Error: \"row\""`:                                              detect.OK, // quotation marks around other quotation marks stay
		`{"error":"no such row"}` + "\n" + reminder:                     detect.Error,
		`{"error":"no such row"} ` + reminder + strings.Repeat(".", 70): detect.OK,
		`{"error":"no such row"}` + "\n\n[2 rows are hidden]":           detect.Error,
		`{"error":"no such row"}` + "\n\n(2 rows are hidden)":           detect.OK,
		"<returncode>0</returncode>\n<output>Error: no row</output>":    detect.Error,
		"<exit_code>0</exit_code>\n<stdout>Error: no row</stdout>":      detect.Error,
		"<exit_code>0</exit_code>\n<stderr>Error: no row</stderr>":      detect.Error,
		"<exit_code>0</exit_code>\n<stdout>all rows</stdout>":           detect.OK,
	} {
		if got := detect.Classify("rows", "{}", text, 0); got.Outcome != want {
			t.Errorf("result %q: got outcome %s (rule %q), want %s", text, got.Outcome, got.Rule, want)
		}
	}
}
