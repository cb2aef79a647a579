package verbs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"precept/test/harness"
)

// TestTalk is no test: it is the agent of TestRunGivesAnAgentOneSession, a program that reads OPENAI_BASE_URL only.
func TestTalk(t *testing.T) {
	words := os.Getenv("TALK")
	if words == "" {
		t.Skip("the agent of TestRunGivesAnAgentOneSession")
	}
	for range 2 {
		code, body := harness.Post(t, os.Getenv("OPENAI_BASE_URL")+"/chat/completions", http.Header{"Authorization": {"Bearer sk-test"}},
			`{"model":"m","messages":[{"role":"user","content":"`+words+`"}]}`)
		if code != http.StatusOK {
			t.Fatalf("got code %d, body %q, want status 200", code, body)
		}
	}
	if os.Getenv("TALK_SIGNAL") != "" {
		fmt.Println("waiting")
		time.Sleep(30 * time.Second)
	}
	if os.Getenv("TALK_FAIL") != "" {
		os.Exit(7)
	}
}

// runIn runs precept run in its own folder, and returns its exit code and output.
func runIn(t *testing.T, dir string, env []string, args ...string) (code int, out, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "precept", args...)
	var o, e bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &o, &e
	cmd.Env = append(append(os.Environ(), "OPENAI_BASE_URL="), env...)
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatalf("precept did not start: %v", err)
	}
	return cmd.ProcessState.ExitCode(), o.String(), e.String()
}

// An agent without knowledge of precept runs through precept: the server is found or started, the
// run is one session, and a verifier judges the run.
func TestRunGivesAnAgentOneSession(t *testing.T) {
	m := harness.NewModel(t, []harness.Step{{Text: "Done."}})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	talk := []string{self, "-test.run", "^TestTalk$"}
	lessons := harness.LessonDir(t)
	for _, running := range []bool{false, true} {
		t.Run(map[bool]string{true: "with a server", false: "without"}[running], func(t *testing.T) {
			dir, data := t.TempDir(), t.TempDir()
			flags := append(harness.Always(m, lessons), "--data-dir", data, "--reward-close-after", "1s")
			if running {
				harness.Start(t, data, append(harness.Always(m, lessons), "--reward-close-after", "1s")...)
			}
			args := append(append([]string{"run"}, flags...), "--session", "ci-42", "--agent", "coder", "--verify", "echo 'a.py:1:2: F401 unused thing'; exit 1", "--record", "--")
			code, out, stderr := runIn(t, dir, []string{"TALK=run the build script please", "TALK_FAIL=1"}, append(args, talk...)...)
			if code != 7 {
				t.Fatalf("exit code %d, want 7 of the agent: %s %s", code, out, stderr)
			}
			m.Mu.Lock()
			last := m.Asked[len(m.Asked)-1]
			m.Mu.Unlock()
			if !strings.Contains(last.Raw, "[check-the-target]") {
				t.Error("no lesson reached the model:", last.Raw)
			}
			if !strings.Contains(stderr, "the verifier failed; session ci-42") || !strings.Contains(stderr, "1 failure recorded") {
				t.Errorf(`got %q, want a text with "the verifier failed; session ci-42" and a text with "1 failure recorded"`, stderr)
			}
			if b, _ := os.ReadFile(filepath.Join(dir, "AGENT.md")); !strings.Contains(string(b), "F401 unused thing") || !strings.Contains(string(b), "**Intent ID:** ci-42") {
				t.Errorf(`got %q, want a text with "F401 unused thing" and a text with "**Intent ID:** ci-42"`, string(b))
			}
			if _, err := os.Stat(filepath.Join(data, "run.json")); (err == nil) != running {
				t.Errorf("run.json exists: got error %v, want the file = %v", err, running)
			}
			if !strings.Contains(stderr, "(joined)") {
				t.Error("the verdict did not find its session:", stderr)
			}
			if running {
				verdictOf(t, dir, data)
			}
		})
	}
}

// Without a session name the agents of the command are one run: each conversation is a session, and the verdict
// belongs to the run.
func TestRunWithoutASessionNameIsOneRun(t *testing.T) {
	m := harness.NewModel(t, []harness.Step{{Text: "Done."}})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, data := t.TempDir(), t.TempDir()
	flags := append(harness.Always(m, harness.LessonDir(t)), "--reward-close-after", "1s")
	harness.Start(t, data, flags...)
	args := append(append([]string{"run"}, flags...), "--data-dir", data, "--run", "ci-7", "--verify", "exit 1", "--", self, "-test.run", "^TestTalk$")
	code, out, stderr := runIn(t, dir, []string{"TALK=run the build script please"}, args...)
	if code != 0 || !strings.Contains(stderr, "the verifier failed; run ci-7 (joined)") {
		t.Fatalf(`got exit code %d, output %q, standard error %q, want 0 and standard error with "the verifier failed; run ci-7 (joined)"`, code, out, stderr)
	}
	verdictOf(t, dir, data)
	_, out, _ = runIn(t, dir, nil, "export", "--format", "experiment", "--data-dir", data)
	if n := strings.Count(out, `"run":"ci-7"`); n == 0 || n != strings.Count(out, "\n") {
		t.Errorf("not all draws are the run's: %s", out)
	}
	// The run's verdict is in the samples of its sessions one step after the row of the run.
	harness.Eventually(t, "the verdict in all samples", func() bool {
		_, out, _ = runIn(t, dir, nil, "export", "--data-dir", data)
		n := strings.Count(out, "\n")
		return n > 0 && strings.Count(out, `"run":"ci-7"`) == n && strings.Count(out, `"quality_label":"poor"`) == n
	})
}

// verdictOf waits until the session is closed with the verifier's verdict, and reads the verdict
// from the exported experiment.
func verdictOf(t *testing.T, dir, data string) {
	t.Helper()
	harness.Eventually(t, "the session to close with a verdict", func() bool {
		_, out, _ := runIn(t, dir, nil, "export", "--format", "experiment", "--data-dir", data)
		for line := range strings.Lines(out) {
			var row struct {
				Outcome *float64
				Tier    int
				Closed  bool
			}
			if json.Unmarshal([]byte(line), &row) == nil && row.Closed && row.Tier == 2 && row.Outcome != nil {
				if *row.Outcome != 0 {
					t.Error("a failed verification has the reward", *row.Outcome)
				}
				return true
			}
		}
		return false
	})
}

// A signal to precept run reaches the agent, and the verifier does not judge a stopped agent.
func TestRunForwardsSignals(t *testing.T) {
	m := harness.NewModel(t, []harness.Step{{Text: "Done."}})
	self, _ := os.Executable()
	dir := t.TempDir()
	marker := filepath.Join(dir, "verified")
	cmd := exec.CommandContext(t.Context(), "precept", append(append([]string{"run"}, harness.Always(m, harness.LessonDir(t))...),
		"--data-dir", filepath.Join(dir, "data"), "--verify", "touch "+marker, "--", self, "-test.run", "^TestTalk$", "-test.v")...)
	cmd.Env = append(os.Environ(), "TALK=hello", "TALK_SIGNAL=1", "OPENAI_BASE_URL=")
	out := &harness.LockedBuffer{}
	cmd.Stdout, cmd.Stderr, cmd.Dir = out, out, dir
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the agent at work", func() bool { return strings.Contains(out.String(), "waiting") })
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 128+15 {
		t.Errorf("got exit code %d, output %q, want 143", code, out.String())
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("the work of a stopped agent was verified")
	}
}

// Feedback of scripts and CI reaches its session; an ambiguous command is refused before any request.
func TestFeedbackVerbReachesItsSession(t *testing.T) {
	m := harness.NewModel(t, []harness.Step{{Text: "Done."}})
	dir := t.TempDir()
	p := harness.Start(t, dir, append(harness.Always(m, harness.LessonDir(t)), "--reward-close-after", "1s")...)
	harness.Post(t, p.Data+"/v1/chat/completions", http.Header{"Precept-Session": {"ci-1"}}, `{"model":"m","messages":[{"role":"user","content":"run the build script"}]}`)
	right := filepath.Join(dir, "right.txt")
	if err := os.WriteFile(right, []byte("what would have been right"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		out  string
	}{
		{"--session ci-1 --score 0.7 --rater ci --comment good --id one", 0, ""},
		{"--session ci-1 --approve", 0, ""},
		{"--run nobody --approve", 0, "parked"},
		{"--run a --session b --approve", 2, ""},
		{"--session ci-1 --reject --source system", 0, ""},
		{"--session ci-1 --correct @" + right + " --json", 0, `"status"`},
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
		code, out, stderr := runIn(t, dir, nil, append([]string{"feedback", "--data-dir", dir}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(out, c.out) || code != 0 && stderr == "" {
			t.Errorf("%s: got exit code %d, output %s, standard error %s, want %d, the output %q, and an error message unless the code is 0", c.args, code, out, stderr, c.code, c.out)
		}
	}
	code, _, stderr := runIn(t, dir, nil, "feedback", "--data-dir", t.TempDir(), "--session", "a", "--approve")
	if code != 1 || !strings.Contains(stderr, "precept serve") {
		t.Errorf(`got exit code %d, standard error %q, want 1 and standard error with "precept serve"`, code, stderr)
	}
	code, _, stderr = runIn(t, dir, []string{"PRECEPT_SESSION=ci-1"}, "feedback", "--url", p.Data, "--approve")
	if code != 0 {
		t.Errorf("got exit code %d, standard error %q, want 0", code, stderr)
	}
}

// If the line of --json cannot be written, the exit code stays that of the agent.
func TestRunKeepsTheExitCodeOfTheAgent(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no file refuses all writes")
	}
	defer full.Close() //nolint:errcheck // nothing was written
	cmd := exec.CommandContext(t.Context(), "precept", "run", "--json", "--upstream", "http://127.0.0.1:9/v1", "--", "sh", "-c", "exit 7")
	cmd.Dir, cmd.Stderr = t.TempDir(), full
	if _, err := cmd.Output(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("got error %v, want the exit code 7", err)
	}
}
