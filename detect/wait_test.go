package detect_test

import (
	"fmt"
	"testing"
)

const connectionRefused = "curl: (7) Failed to connect to localhost port 3000: Connection refused\n\nCommand exited with code 7"

// A wait between two failures ends a loop. A command that only mentions a wait does not end it.
func TestFailureAfterAWaitIsNotALoop(t *testing.T) {
	down := bash("./check", "the service is down\n\nCommand exited with code 1")
	for name, between := range map[string]testStep{
		"sleep":                      bash("sleep 2", "(no output)"),
		"sleep with an echo":         bash("sleep 2; echo done", "done"),
		"sleep in a subshell":        bash("(sleep 2)", ""),
		"sleep by its path":          bash("/bin/sleep 2", ""),
		"a loop that waits":          bash("for i in 1 2 3; do sleep 1; done", ""),
		"an until loop":              bash("until nc -z localhost 5432; do :; done", ""),
		"PowerShell":                 call("powershell", jsonArgs("command", "Start-Sleep -Seconds 5"), ""),
		"timeout on Windows":         call("cmd", jsonArgs("command", "timeout /t 5 >nul"), ""),
		"a Python one-liner":         bash(`python3 -c "import time; time.sleep(3)"`, ""),
		"a Python tool":              call("execute_python", jsonArgs("code", "import time\ntime.sleep(3)"), ""),
		"wait-for-it":                bash("bash wait-for-it.sh db:5432", "wait-for-it.sh: db:5432 is available after 3 seconds"),
		"wait-for-it, timed out":     bash("./wait-for-it.sh db:5432", "wait-for-it.sh: timeout occurred after waiting 15 seconds for db:5432\n\nCommand exited with code 124"),
		"kubectl":                    bash("kubectl wait pod/x --for=condition=Ready", "pod/x condition met"),
		"kubectl rollout":            bash("kubectl rollout status deploy/x --timeout=30s", "error: timed out waiting for the condition\n\nCommand exited with code 1"),
		"GitHub":                     bash("gh run watch 7 --exit-status", "Run ci (7) has already completed with 'success'"),
		"AWS":                        bash("aws ec2 wait instance-running --instance-ids i-1", ""),
		"a tool that waits":          call("wait", `{"seconds":3}`, "waited"),
		"an action that waits":       call("computer", `{"action":"wait","duration":2}`, "waited"),
		"background job output":      call("BashOutput", `{"bash_id":"1"}`, "listening"),
		"a server in the background": bash("npm start", "Command running in background with ID: 1"),
		"sleep over ssh":             bash("ssh host 'sleep 5'", ""),
		"until in a container":       bash(`docker compose exec db sh -c "until pg_isready; do sleep 1; done"`, "accepting connections"),
	} {
		if got := countLoops(t, down, between, down); got != 0 {
			t.Errorf("%s between two failures: got %d loops, want none", name, got)
		}
	}
	for name, between := range map[string]testStep{
		"a refused sleep":       bash("sleep 30", "The user doesn't want to proceed with this tool use. The tool use was rejected."),
		"sleep in a string":     bash("echo 'sleep 5'", "sleep 5"),
		"a missing program":     bash("kubectl wait pod/x", "bash: kubectl: command not found\n\nCommand exited with code 127"),
		"a search for sleeps":   bash("grep -rn 'time.sleep(' .", "a.py:3: time.sleep(5)"),
		"a printed wait script": bash("cat wait-for-it.sh", "#!/bin/sh"),
	} {
		if got := countLoops(t, down, between, down); got != 1 {
			t.Errorf("%s between two failures: got %d loops, want 1", name, got)
		}
	}
}

// Polling repeats a command to wait for a state, and is not a loop. Three failures of a command that does not poll are
// a loop.
func TestPollingIsNotALoop(t *testing.T) {
	for command, result := range map[string]string{
		"sleep 2; curl localhost:3000":                                             connectionRefused,
		"sleep 5 && make deploy-check":                                             "boom\n\nCommand exited with code 2",
		"curl localhost:3000; sleep 2":                                             connectionRefused,
		"until curl -sf http://localhost:3000; do echo waiting; done":              "waiting\n\nCommand exited with code 124",
		"while ! nc -z localhost 5432; do sleep 1; done":                           "\n\nCommand exited with code 1",
		"timeout 60 bash -c 'until pg_isready; do sleep 1; done'":                  "no response\n\nCommand exited with code 124",
		"for i in $(seq 9); do curl -sf localhost:3000 && break; sleep 1; done":    "\n\nCommand exited with code 7",
		"curl -sf http://localhost:3000/health":                                    connectionRefused,
		"curl -s -o /dev/null -w '%{http_code}' localhost:8080/api/healthz?full=1": "503\n\nCommand exited with code 22",
		"wget -qO- http://db/actuator/health/readiness":                            "\n\nCommand exited with code 4",
		"curl --retry 5 --retry-connrefused http://localhost:3000":                 connectionRefused,
		"pg_isready -h db -p 5432":                                                 "db:5432 - no response\n\nCommand exited with code 2",
		"pg_isready || echo no":                                                    "no",
		"docker compose exec -T db pg_isready":                                     "db:5432 - no response\n\nCommand exited with code 2",
		"kubectl exec db-0 -- pg_isready":                                          "db:5432 - no response\n\nCommand exited with code 2",
		"gh pr checks 12":                                                          "build\tpending\t0\n\nCommand exited with code 8",
		"gh run view 7 --json status":                                              `{"status":"in_progress"}`,
		"gh run watch 7":                                                           "x failed\n\nCommand exited with code 1",
		"gh run list --limit 1":                                                    "queued",
		"glab ci status":                                                           "(running)",
		"kubectl rollout status deployment/web":                                    "error: deployment exceeded its progress deadline\n\nCommand exited with code 1",
		"kubectl get pods -n shop":                                                 "web-1 0/1 CrashLoopBackOff",
		"docker inspect --format '{{.State.Health.Status}}' db":                    "unhealthy",
		"docker compose ps":                                                        "db Up (health: starting)",
		"nc -z localhost 5432":                                                     "\n\nCommand exited with code 1",
		"nc -vz -w1 localhost 5432":                                                "nc: connect to localhost port 5432 (tcp) failed: Connection refused\n\nCommand exited with code 1",
		"./wait-for-it.sh db:5432 -t 10":                                           "wait-for-it.sh: timeout occurred\n\nCommand exited with code 124",
		"npx wait-on http://localhost:3000":                                        "Error: Timed out waiting for: http://localhost:3000\n\nCommand exited with code 1",
		"aws cloudformation wait stack-create-complete --stack-name x":             "Waiter StackCreateComplete failed: Max attempts exceeded\n\nCommand exited with code 255",
		"aws cloudformation describe-stacks --stack-name x":                        `{"StackStatus":"CREATE_IN_PROGRESS"}`,
		"systemctl is-active nginx":                                                "activating\n\nCommand exited with code 3",
		"sudo systemctl status nginx":                                              "Active: activating\n\nCommand exited with code 3",
		"redis-cli ping":                                                           "Could not connect to Redis at 127.0.0.1:6379: Connection refused\n\nCommand exited with code 1",
		"redis-cli -h db -p 6380 ping":                                             "LOADING\n\nCommand exited with code 1",
		"mysqladmin -h db ping --silent":                                           "\n\nCommand exited with code 1",
		"squeue -u me":                                                             "7 debug job me PD 0:00",
	} {
		if got := countLoops(t, repeatSteps(7, bash(command, result))...); got != 0 {
			t.Errorf("%s: got %d loops, want none", command, got)
		}
	}
	for command, result := range map[string]string{
		"pg_isready":              "bash: pg_isready: command not found\n\nCommand exited with code 127",
		"make && pg_isready":      "make: *** [all] Error 2\n\nCommand exited with code 2",
		"curl localhost:3000":     connectionRefused,
		"curl localhost/user/7":   "curl: (22) The requested URL returned error: 404\n\nCommand exited with code 22",
		"docker build .":          "boom\n\nCommand exited with code 1",
		"kubectl apply -f x.yaml": "boom\n\nCommand exited with code 1",
		"gh pr create":            "boom\n\nCommand exited with code 1",
		"redis-cli get x":         "ERR\n\nCommand exited with code 1",
		"nc localhost 5432":       "boom\n\nCommand exited with code 1",
		"tail -n 5 missing":       "tail: cannot open 'missing' for reading: No such file or directory\n\nCommand exited with code 1",
	} {
		if got := countLoops(t, repeatSteps(3, bash(command, result))...); got != 1 {
			t.Errorf("%s: got %d loops, want 1", command, got)
		}
	}
}

// The second retry after a transient failure, or the first retry after a lasting failure, is a loop.
func TestFirstTransientRetryIsNotALoop(t *testing.T) {
	for _, why := range []string{
		"HTTP 503", "status code: 429", "The requested URL returned error: 502", "response 504", "Error code: 529 - overloaded_error",
		"503 Service Unavailable", "429 Too Many Requests", "rate limit exceeded", "Throttling: slow down",
		"request timed out", "read ETIMEDOUT", "context deadline exceeded", "i/o timeout", "gateway time-out",
		"connect ECONNREFUSED 127.0.0.1:3000", "read ECONNRESET", "connection reset by peer", "socket hang up", "broken pipe",
		"Temporary failure in name resolution", "unexpected EOF",
		"database is locked", "Unable to create '/r/.git/index.lock': File exists.", "Could not get lock /var/lib/dpkg/lock-frontend",
		"Error acquiring the state lock", "deadlock detected", "Resource temporarily unavailable", "Text file busy",
		"Blocking waiting for file lock on package cache", "Another git process seems to be running in this repository",
	} {
		for form, failure := range map[string]testStep{
			"command": bash("./deploy", "starting\nError: "+why+"\n\nCommand exited with code 1"),
			"API":     call("get_quote", `{"id":7}`, fmt.Sprintf(`{"error":%q}`, why)),
		} {
			if got := countLoops(t, failure, failure); got != 0 {
				t.Errorf("%s, %s: got %d loops after the first retry, want none", form, why, got)
			}
			if got := countLoops(t, failure, failure, failure); got != 1 {
				t.Errorf("%s, %s: got %d loops after the second retry, want 1", form, why, got)
			}
		}
	}
	for _, why := range []string{
		"no such file: 503.html", "line 503: unexpected token", "package-lock.json is not in sync", "Cargo.lock needs to be updated",
		"404 not found", "status code: 404", "no connection string was given", "exit status 250",
	} {
		failure := bash("./deploy", "Error: "+why+"\n\nCommand exited with code 1")
		if got := countLoops(t, failure, failure); got != 1 {
			t.Errorf("%s: got %d loops after the first retry, want 1", why, got)
		}
	}
	timeout := bash("timeout 60 ./deploy", "starting\n\nCommand exited with code 124")
	if got := countLoops(t, timeout, timeout); got != 0 {
		t.Errorf("exit code 124 from timeout: got %d loops after the first retry, want none", got)
	}
}

func TestLoopsCompareFailureOutput(t *testing.T) {
	for name, tc := range map[string]struct {
		a, b string
		want int
	}{
		"fewer failures":     {"3 failed, 1 passed", "1 failed, 3 passed", 0},
		"different test":     {"FAIL TestA", "FAIL TestB", 0},
		"different line":     {"a.go:3: undefined: x", "a.go:9: undefined: y", 0},
		"different duration": {"FAIL TestA (0.31s)", "FAIL TestA (0.07s)", 1},
		"different process":  {"pid 4711: FAIL TestA", "pid 9: FAIL TestA", 1},
		"nothing changed":    {"FAIL TestA", "FAIL TestA", 1},
	} {
		first := bash("make test", tc.a+"\n\nCommand exited with code 2")
		second := bash("make test", tc.b+"\n\nCommand exited with code 2")
		if got := countLoops(t, first, second); got != tc.want {
			t.Errorf("%s: got %d loops, want %d", name, got, tc.want)
		}
	}
}
