package verbs

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"precept/test/harness"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

func recordSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.NewCompiler().Compile("../../docs/contracts/record.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRecordMatchesSchema(t *testing.T) {
	schema := recordSchema(t)
	const validEntry = `{"intent_id":"I","type":"test","file":"a.go","error":"e","cause":"c","resolution":"r","rule":"do"}`
	for _, tc := range []struct {
		entry string
		valid bool
	}{
		{validEntry, true},
		{strings.Replace(validEntry, `"e"`, `"`+strings.Repeat("long ", 200)+`"`, 1), true},
		{strings.Replace(validEntry, `"c"`, `""`, 1), false},
		{strings.Replace(validEntry, `"c"`, `" \t"`, 1), false},
		{strings.Replace(validEntry, `"test"`, `"other"`, 1), false},
		{strings.Replace(validEntry, `"do"`, `"`+strings.Repeat("x", 4097)+`"`, 1), false},
		{strings.Replace(validEntry, `,"rule":"do"`, ``, 1), false},
		{strings.Replace(validEntry, `"rule"`, `"extra":1,"rule"`, 1), false},
		{`[` + validEntry + `]`, false},
	} {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(tc.entry))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value); (err == nil) != tc.valid {
			t.Errorf("Validate(%.60s): err = %v, want valid = %v", tc.entry, err, tc.valid)
		}
		out, stderr, code := harness.RunCommand(t, tc.entry, "record", "--json", "--ledger-file", filepath.Join(t.TempDir(), "AGENT.md"))
		wantCode := harness.ExitMisuse
		if tc.valid {
			wantCode = harness.ExitOK
		}
		if code != wantCode {
			t.Errorf("record %.60s: got exit code %d, standard error %s, want %d", tc.entry, code, stderr, wantCode)
		}
		if !tc.valid {
			continue
		}
		if value, err = jsonschema.UnmarshalJSON(strings.NewReader(out)); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value); err != nil {
			t.Errorf("record %.60s: invalid output: %v", tc.entry, err)
		}
	}
}

func TestVerifyForwardsSignals(t *testing.T) {
	for _, tc := range []struct {
		script string
		sig    syscall.Signal
		code   int
	}{
		{`trap 'echo stopping; exit 42' TERM; echo ready; while :; do sleep 0.05; done`, syscall.SIGTERM, 42},
		{`trap 'echo stopping; exit 43' INT; echo ready; while :; do sleep 0.05; done`, syscall.SIGINT, 43},
		{`echo ready; exec sleep 60`, syscall.SIGTERM, 128 + 15},
	} {
		dir := t.TempDir()
		cmd := exec.Command("precept", "verify", "--", "sh", "-c", tc.script)
		cmd.Dir = dir
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ready := make([]byte, len("ready\n"))
		if _, err := io.ReadFull(out, ready); err != nil { // the output must arrive while the command is still running
			t.Fatal(err)
		}
		if err := cmd.Process.Signal(tc.sig); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != tc.code {
			t.Errorf("verify %s: got exit code %d, want %d", tc.script, got, tc.code)
		}
		if _, err := os.Stat(filepath.Join(dir, "AGENT.md")); err == nil {
			t.Errorf("verify %s: after a signal, AGENT.md exists, want no file", tc.script)
		}
	}
}

func TestVerifyDoesNotWaitForBackgroundProcesses(t *testing.T) {
	pidFile := filepath.Join(t.TempDir(), "pid")
	out, _, code := harness.RunCommand(t, "", "verify", "--dry-run", "--json", "--", "sh", "-c", "sleep 600 & echo $! >"+pidFile+"; exit 5")
	text, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	background, err := os.FindProcess(pid)
	if err == nil {
		err = background.Kill()
	}
	if code != 5 || err != nil {
		t.Errorf("verify with a background process: got exit code %d, want 5; killing the background process: got error %v, want none", code, err)
	}
	var v struct {
		ExitCode int   `json:"exit_code"`
		Failures []any `json:"failures"`
	}
	if err := json.Unmarshal([]byte(out), &v); err != nil || v.ExitCode != 5 || len(v.Failures) != 1 {
		t.Errorf("verify --json: got output %q (error %v), want exit_code 5 and 1 failure", out, err)
	}
}

func TestVerifyReportsUnrecordedFailures(t *testing.T) {
	ledger := filepath.Join(t.TempDir(), "AGENT.md")
	_, stderr, code := harness.RunCommand(t, "", "verify", "--ledger-file", ledger, "--", "make", "-f", "/dev/null", "test")
	if _, err := os.Stat(ledger); code != 2 || !strings.Contains(stderr, "`make -f /dev/null test` did not run") || err == nil {
		t.Errorf("verify with a missing make target: got exit code %d, standard error %q, error %v for the ledger file, want exit code 2, a note that the command did not run, and no ledger file", code, stderr, err)
	}
	if err := os.WriteFile(ledger, []byte("# Agent\n"), 0o444); err != nil { //nolint:gosec // a file without secrets
		t.Fatal(err)
	}
	_, stderr, code = harness.RunCommand(t, "", "verify", "--ledger-file", ledger, "--", "sh", "-c", "echo boom; exit 3")
	if code != 3 || !strings.Contains(stderr, "AGENT.md was not changed: ") || !strings.Contains(stderr, "is read-only") {
		t.Errorf("verify with a read-only ledger: got exit code %d, standard error %q, want exit code 3 and a note that the ledger is read-only", code, stderr)
	}
}

// verify writes the trace to the directory of the ledger. If the directory is not writable, verify prints one message
// for both files.
func TestVerifyReportsUnwritableDirectoryOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, stderr, code := harness.RunCommand(t, "", "verify", "--ledger-file", filepath.Join(file, "AGENT.md"), "--", "sh", "-c", "echo boom; exit 3")
	if code != 3 || strings.Count(stderr, "precept: ") != 1 || !strings.Contains(stderr, "precept: nothing was recorded: ") || strings.Count(stderr, "trace: ") != 1 {
		t.Errorf("verify with an unwritable ledger directory: got exit code %d, standard error %q, want exit code 3 and a single line that contains \"nothing was recorded\" and names the trace", code, stderr)
	}
}

// The command that init prints changes to the project directory first, because the configuration names ./lessons, a
// path relative to the working directory.
func TestInitPrintsServeCommand(t *testing.T) {
	for dir, want := range map[string]string{".": "    precept serve --config precept.yaml\n", "my proj": "    cd 'my proj' && precept serve --config precept.yaml\n"} {
		if out, stderr, code := harness.RunCommand(t, "", "init", "--dir", dir); code != 0 || !strings.Contains(out, want) {
			t.Errorf("init --dir %q: got exit code %d, output %q, standard error %q, want exit code 0 and the line %q", dir, code, out, stderr, want)
		}
	}
}
