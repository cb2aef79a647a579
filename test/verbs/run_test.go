package verbs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"precept/test/harness"
)

// TestAgent is not a test, but the agent that the tests of `precept run` start. The agent sends the message in
// AGENT_TEXT twice to the server in OPENAI_BASE_URL. If AGENT_WAITS is set, the agent then waits for a signal. If
// AGENT_FAILS is set, it exits with code 7.
func TestAgent(t *testing.T) {
	text := os.Getenv("AGENT_TEXT")
	if text == "" {
		t.Skip("runs only as the agent in the tests of precept run")
	}
	for range 2 {
		status, body := harness.Post(t, os.Getenv("OPENAI_BASE_URL")+"/chat/completions", http.Header{"Authorization": {"Bearer sk-test"}},
			`{"model":"m","messages":[{"role":"user","content":"`+text+`"}]}`)
		if status != http.StatusOK {
			t.Fatalf("agent's chat request: got status %d, body %q, want 200", status, body)
		}
	}
	if os.Getenv("AGENT_WAITS") != "" {
		fmt.Println("waiting")
		time.Sleep(30 * time.Second)
	}
	if os.Getenv("AGENT_FAILS") != "" {
		os.Exit(7)
	}
}

// runIn runs a precept command in dir. It adds env to the environment variables.
func runIn(t *testing.T, dir string, env []string, args ...string) (out, stderr string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "precept", args...)
	var o, e bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &o, &e
	cmd.Env = append(append(os.Environ(), "OPENAI_BASE_URL="), env...)
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatalf("start precept: %v", err)
	}
	return o.String(), e.String(), cmd.ProcessState.ExitCode()
}

// The flag --record makes precept run add the failures that the verifier found to the file AGENT.md.
func TestRunRatesAgentSession(t *testing.T) {
	m := harness.NewModel(t, []harness.Step{{Text: "Done."}})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	agentArgs := []string{self, "-test.run", "^TestAgent$"}
	lessons := harness.LessonDir(t)
	for _, running := range []bool{false, true} {
		t.Run(map[bool]string{true: "with a running server", false: "without a running server"}[running], func(t *testing.T) {
			dir, dataDir := t.TempDir(), t.TempDir()
			flags := append(harness.AlwaysInject(m, lessons), "--data-dir", dataDir, "--reward-close-after", "1s")
			if running {
				harness.Start(t, dataDir, append(harness.AlwaysInject(m, lessons), "--reward-close-after", "1s")...)
			}
			args := append(append([]string{"run"}, flags...), "--session", "ci-42", "--agent", "coder", "--verify", "echo 'a.py:1:2: F401 unused thing'; exit 1", "--record", "--")
			out, stderr, code := runIn(t, dir, []string{"AGENT_TEXT=run the build script please", "AGENT_FAILS=1"}, append(args, agentArgs...)...)
			if code != 7 {
				t.Fatalf("precept run: got exit code %d, want the agent's exit code 7\n%s%s", code, out, stderr)
			}
			m.Mu.Lock()
			last := m.Requests[len(m.Requests)-1]
			m.Mu.Unlock()
			if !strings.Contains(last.Raw, "[check-the-target]") {
				t.Errorf("last request = %s, want the lesson check-the-target", last.Raw)
			}
			if !strings.Contains(stderr, "the verifier failed; the result was posted for session ci-42") || !strings.Contains(stderr, "1 failure recorded") {
				t.Errorf(`standard error = %q, want "the verifier failed; the result was posted for session ci-42" and "1 failure recorded"`, stderr)
			}
			if b, _ := os.ReadFile(filepath.Join(dir, "AGENT.md")); !strings.Contains(string(b), "F401 unused thing") || !strings.Contains(string(b), "**Intent ID:** ci-42") {
				t.Errorf(`AGENT.md = %q, want "F401 unused thing" and "**Intent ID:** ci-42"`, string(b))
			}
			if _, err := os.Stat(filepath.Join(dataDir, "run.json")); (err == nil) != running {
				t.Errorf("run.json after the run: got error %v, want the file if a server is running, and otherwise no file", err)
			}
			if !strings.Contains(stderr, "(joined)") {
				t.Errorf("standard error = %q, want \"(joined)\", the status of feedback on a known session", stderr)
			}
			if running {
				checkVerdict(t, dir, dataDir)
			}
		})
	}
}

// A running server forwards to its own upstream, so another upstream's API key must not reach the server.
func TestRunRefusesOtherUpstreamThanRunningServer(t *testing.T) {
	t.Parallel()
	m := harness.NewModel(t, []harness.Step{{Text: "Done."}})
	data := t.TempDir()
	p := harness.Start(t, data, "--upstream", m.URL+"/v1")
	for _, tc := range []struct {
		args []string
		env  string
		code int
	}{
		{[]string{"--upstream", "http://127.0.0.1:9/v1"}, "", 2},
		{nil, "PRECEPT_UPSTREAM=http://127.0.0.1:9/v1", 2},
		{[]string{"--url", p.DataURL, "--upstream", "http://127.0.0.1:9/v1"}, "", 2},
		{[]string{"--upstream", m.URL + "/v1"}, "", 0},
		{nil, "", 0},
	} {
		args := append(append([]string{"run", "--data-dir", data}, tc.args...), "--", "sh", "-c", "echo started")
		stdout, stderr, code := runIn(t, t.TempDir(), []string{tc.env}, args...)
		if started := strings.Contains(stdout, "started"); code != tc.code || started != (tc.code == 0) {
			t.Errorf("precept %q with %q: got exit code %d, agent started = %t, want exit code %d\n%s", args, tc.env, code, started, tc.code, stderr)
		}
		if tc.code == 2 && !strings.Contains(stderr, "the server at "+p.DataURL+" runs with its own settings and does not use ") {
			t.Errorf("precept %q with %q: got standard error %q, want the server and the unused setting", args, tc.env, stderr)
		}
	}
}

func TestRunFlagRatesAllAgentSessions(t *testing.T) {
	m := harness.NewModel(t, []harness.Step{{Text: "Done."}})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, dataDir := t.TempDir(), t.TempDir()
	flags := append(harness.AlwaysInject(m, harness.LessonDir(t)), "--reward-close-after", "1s")
	harness.Start(t, dataDir, flags...)
	args := append(append([]string{"run"}, flags...), "--data-dir", dataDir, "--run", "ci-7", "--verify", "exit 1", "--", self, "-test.run", "^TestAgent$")
	out, stderr, code := runIn(t, dir, []string{"AGENT_TEXT=run the build script please"}, args...)
	if code != 0 || !strings.Contains(stderr, "the verifier failed; the result was posted for run ci-7 (joined)") {
		t.Fatalf(`precept run: got exit code %d, output %q, standard error %q, want exit code 0 and a standard error with "the verifier failed; the result was posted for run ci-7 (joined)"`, code, out, stderr)
	}
	checkVerdict(t, dir, dataDir)
	out, _, _ = runIn(t, dir, nil, "export", "--format", "experiment", "--data-dir", dataDir)
	if n := strings.Count(out, `"run":"ci-7"`); n == 0 || n != strings.Count(out, "\n") {
		t.Errorf("export --format experiment = %s, want at least one line, each with the run ci-7", out)
	}
	// The verifier's verdict is in the exported experiment first, and in the samples a moment later.
	harness.Eventually(t, "the verdict in all samples", func() bool {
		out, _, _ = runIn(t, dir, nil, "export", "--data-dir", dataDir)
		n := strings.Count(out, "\n")
		return n > 0 && strings.Count(out, `"run":"ci-7"`) == n && strings.Count(out, `"quality_label":"poor"`) == n
	})
}

// If the model answers no request successfully, no lesson can have caused the verifier's result, so precept run posts
// no rating.
func TestRunWithoutASuccessfulReplyIsNotRated(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
	t.Cleanup(upstream.Close)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"--run", "--session"} {
		out, stderr, code := runIn(t, dir, []string{"AGENT_TEXT=run the build script please"}, "run", "--upstream", upstream.URL+"/v1", "--lessons", harness.LessonDir(t),
			"--data-dir", filepath.Join(dir, "data"), name, "ci-9", "--json", "--verify", "true", "--", self, "-test.run", "^TestAgent$")
		if code == 0 || !strings.Contains(stderr, "ci-9 got a successful reply, so the verifier's result is ignored") || !strings.Contains(stderr, `"status":"unanswered"`) {
			t.Errorf("precept run %s with an upstream that answers 502: got exit code %d, output %q, standard error %q, want a failure, the status unanswered, and a note that the verifier's result is ignored", name, code, out, stderr)
		}
	}
	_, stderr, _ := runIn(t, dir, []string{"AGENT_TEXT=run the build script please"}, "run", "--upstream", upstream.URL+"/v1", "--data-dir", filepath.Join(dir, "data"), "--", self, "-test.run", "^TestAgent$")
	if strings.Contains(stderr, "sent no request") {
		t.Errorf("precept run with an agent that sent a request: standard error %q, want no note that the agent sent no request", stderr)
	}
}

// checkVerdict waits until a session or a run has closed. It then checks that the reward is 0 and that it comes from a
// verifier.
func checkVerdict(t *testing.T, dir, dataDir string) {
	t.Helper()
	harness.Eventually(t, "a closed session or run with the verifier's verdict", func() bool {
		out, _, _ := runIn(t, dir, nil, "export", "--format", "experiment", "--data-dir", dataDir)
		for line := range strings.Lines(out) {
			var row struct {
				Outcome *float64
				Tier    int
				Closed  bool
			}
			if json.Unmarshal([]byte(line), &row) == nil && row.Closed && row.Tier == 2 /* a verifier */ && row.Outcome != nil {
				if *row.Outcome != 0 {
					t.Errorf("reward after a failed verification: got %v, want 0", *row.Outcome)
				}
				return true
			}
		}
		return false
	})
}

func TestRunForwardsSignals(t *testing.T) {
	m := harness.NewModel(t, []harness.Step{{Text: "Done."}})
	self, _ := os.Executable()
	dir := t.TempDir()
	marker := filepath.Join(dir, "verified")
	cmd := exec.CommandContext(t.Context(), "precept", append(append([]string{"run"}, harness.AlwaysInject(m, harness.LessonDir(t))...),
		"--data-dir", filepath.Join(dir, "data"), "--verify", "touch "+marker, "--", self, "-test.run", "^TestAgent$", "-test.v")...)
	cmd.Env = append(os.Environ(), "AGENT_TEXT=hello", "AGENT_WAITS=1", "OPENAI_BASE_URL=")
	out := &harness.LockedBuffer{}
	cmd.Stdout, cmd.Stderr, cmd.Dir = out, out, dir
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the agent to start", func() bool { return strings.Contains(out.String(), "waiting") })
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 128+15 {
		t.Errorf("precept run after SIGTERM: got exit code %d, output %q, want exit code 143", code, out.String())
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("after a signal stopped the agent: the verifier ran, want no verification")
	}
}

func TestFeedbackCommandExitCodes(t *testing.T) {
	m := harness.NewModel(t, []harness.Step{{Text: "Done."}})
	dir := t.TempDir()
	p := harness.Start(t, dir, append(harness.AlwaysInject(m, harness.LessonDir(t)), "--reward-close-after", "1s")...)
	p.Chat(t, http.Header{"Precept-Session": {"ci-1"}}, `{"model":"m","messages":[{"role":"user","content":"run the build script"}]}`)
	correction := filepath.Join(dir, "right.txt")
	if err := os.WriteFile(correction, []byte("the right answer"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args string
		code int
		out  string // part of the output; "parked" is the status of feedback on a session that the server has not seen
	}{
		{"--session ci-1 --score 0.7 --rater ci --comment good --id one", 0, ""},
		{"--session ci-1 --approve", 0, ""},
		{"--run nobody --approve", 0, `parked: precept knows no run "nobody" yet, keeps the feedback for up to 7 days`},
		{"--session nobody --approve", 0, "check the name against the Precept-Session response header"},
		{"--session nobody --approve --json", 0, `"message": "precept knows no session`},
		{"--run a --session b --approve", 2, ""},
		{"--session ci-1 --reject --source system", 0, ""},
		{"--session ci-1 --correct @" + correction + " --json", 0, `"status"`},
		{"--session ci-1 --correct npm-ci --json", 0, `"status"`},
		{"--request req_nothing --approve", 0, "parked"},
		{"--response chatcmpl-unknown --score 1", 0, "parked"},
		{"--approve", 2, ""},
		{"--session a --request b --approve", 2, ""},
		{"--session a", 2, ""},
		{"--session a --approve --reject", 2, ""},
		{"--session a --score 1.5", 2, ""},
		{"--session a --correct @" + filepath.Join(dir, "nowhere"), 1, ""},
		{"--session a --approve --source robot", 1, ""},
	} {
		out, stderr, code := runIn(t, dir, nil, append([]string{"feedback", "--data-dir", dir}, strings.Fields(tc.args)...)...)
		if code != tc.code || !strings.Contains(out, tc.out) || code != 0 && stderr == "" {
			t.Errorf("feedback %s: got exit code %d, output %s, standard error %s, want exit code %d, an output with %q, and if the command fails, an error message", tc.args, code, out, stderr, tc.code, tc.out)
		}
	}
	_, stderr, code := runIn(t, dir, nil, "feedback", "--data-dir", t.TempDir(), "--session", "a", "--approve")
	if code != 1 || !strings.Contains(stderr, "precept serve") {
		t.Errorf(`feedback without a server: got exit code %d, standard error %q, want exit code 1 and a message with "precept serve"`, code, stderr)
	}
	_, stderr, code = runIn(t, dir, []string{"PRECEPT_SESSION=ci-1"}, "feedback", "--url", p.DataURL, "--approve")
	if code != 0 {
		t.Errorf("feedback on the session in PRECEPT_SESSION: got exit code %d, standard error %q, want exit code 0", code, stderr)
	}
}

func TestRunKeepsAgentExitCodeIfStderrIsFull(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("needs /dev/full")
	}
	defer full.Close() //nolint:errcheck // nothing was written
	cmd := exec.CommandContext(t.Context(), "precept", "run", "--json", "--upstream", "http://127.0.0.1:9/v1", "--", "sh", "-c", "exit 7")
	cmd.Dir, cmd.Stderr = t.TempDir(), full
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+cmd.Dir, "XDG_DATA_HOME="+cmd.Dir) // a running server of the user would refuse --upstream
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+cmd.Dir, "XDG_DATA_HOME="+cmd.Dir) // a running server of the user would refuse --upstream
	if _, err := cmd.Output(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("precept run: got error %v, want the agent's exit code 7", err)
	}
}
