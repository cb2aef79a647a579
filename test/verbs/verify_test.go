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

// recordSchema compiles the published schema of the input and output of precept record.
func recordSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.NewCompiler().Compile("../../docs/contracts/record.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// precept record accepts and refuses the same input as the published schema, and its output is valid for the schema.
func TestRecordFollowsItsSchema(t *testing.T) {
	schema := recordSchema(t)
	const good = `{"intent_id":"I","type":"test","file":"a.go","error":"e","cause":"c","resolution":"r","rule":"do"}`
	for _, c := range []struct {
		in string
		ok bool
	}{
		{good, true},
		{strings.Replace(good, `"e"`, `"`+strings.Repeat("long ", 200)+`"`, 1), true},
		{strings.Replace(good, `"c"`, `""`, 1), false},
		{strings.Replace(good, `"c"`, `" \t"`, 1), false},
		{strings.Replace(good, `"test"`, `"other"`, 1), false},
		{strings.Replace(good, `"do"`, `"`+strings.Repeat("x", 4097)+`"`, 1), false},
		{strings.Replace(good, `,"rule":"do"`, ``, 1), false},
		{strings.Replace(good, `"rule"`, `"extra":1,"rule"`, 1), false},
		{`[` + good + `]`, false},
	} {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(c.in))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value); (err == nil) != c.ok {
			t.Errorf("the schema on %.60s: got error %v, want valid = %v", c.in, err, c.ok)
		}
		out, stderr, code := harness.Verb(t, c.in, "record", "--json", "--ledger-file", filepath.Join(t.TempDir(), "AGENT.md"))
		if (code == harness.ExitDone) != c.ok || !c.ok && code != harness.ExitMisuse {
			t.Errorf("record on %.60s: got exit code %d, want accepted (exit code 0) = %v, otherwise %d: %s", c.in, code, c.ok, harness.ExitMisuse, stderr)
		}
		if !c.ok {
			continue
		}
		if value, err = jsonschema.UnmarshalJSON(strings.NewReader(out)); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value); err != nil {
			t.Errorf("the output of record is not valid for the schema: %v", err)
		}
	}
}

// precept verify forwards a signal to the command, exits with its exit code, and records nothing.
func TestVerifyForwardsSignals(t *testing.T) {
	for _, c := range []struct {
		script string
		sig    syscall.Signal
		code   int
	}{
		{`trap 'echo stopping; exit 42' TERM; echo ready; while :; do sleep 0.05; done`, syscall.SIGTERM, 42},
		{`trap 'echo stopping; exit 43' INT; echo ready; while :; do sleep 0.05; done`, syscall.SIGINT, 43},
		{`echo ready; exec sleep 60`, syscall.SIGTERM, 128 + 15},
	} {
		dir := t.TempDir()
		cmd := exec.Command("precept", "verify", "--", "sh", "-c", c.script)
		cmd.Dir = dir
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ready := make([]byte, len("ready\n"))
		if _, err := io.ReadFull(out, ready); err != nil { // verify passes the output on while the command runs
			t.Fatal(err)
		}
		if err := cmd.Process.Signal(c.sig); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != c.code {
			t.Errorf("verify of %s: got exit code %d, want %d", c.script, got, c.code)
		}
		if _, err := os.Stat(filepath.Join(dir, "AGENT.md")); err == nil {
			t.Errorf("verify of %s: AGENT.md exists after a signal, want no record", c.script)
		}
	}
}

// precept verify ends with the command, also when a background process keeps the output open.
func TestVerifyDoesNotWaitForBackgroundProcesses(t *testing.T) {
	pidFile := filepath.Join(t.TempDir(), "pid")
	out, _, code := harness.Verb(t, "", "verify", "--dry-run", "--json", "--", "sh", "-c", "sleep 600 & echo $! >"+pidFile+"; exit 5")
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
		t.Errorf("verify: got exit code %d, want 5; end of the background process: got error %v, want none", code, err)
	}
	var v struct {
		ExitCode int   `json:"exit_code"`
		Failures []any `json:"failures"`
	}
	if err := json.Unmarshal([]byte(out), &v); err != nil || v.ExitCode != 5 || len(v.Failures) != 1 {
		t.Errorf("verify --json: got output %q, error %v, want exit_code 5 and one failure", out, err)
	}
}
