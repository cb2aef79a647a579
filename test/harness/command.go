package harness

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The exit codes of precept.
const (
	ExitOK     = 0
	ExitFailed = 1
	ExitMisuse = 2 // wrong command line or configuration
	ExitCut    = 3 // the server stopped, and had to cut streams
)

// RunCommand runs a precept command in an empty directory and returns the output and exit code.
func RunCommand(t *testing.T, stdin string, args ...string) (out, stderr string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "precept", args...)
	cmd.Env = append(os.Environ(), "OPENAI_BASE_URL=", "XDG_RUNTIME_DIR="+t.TempDir(), "XDG_DATA_HOME="+t.TempDir())
	cmd.Dir = t.TempDir()
	cmd.Stdin = strings.NewReader(stdin)
	var o, e strings.Builder
	cmd.Stdout, cmd.Stderr = &o, &e
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatalf("precept did not start: %v", err)
	}
	return o.String(), e.String(), cmd.ProcessState.ExitCode()
}

// CommandOutput runs a precept command and returns what it wrote to standard output. The error contains what it wrote
// to standard error.
func CommandOutput(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "precept", args...)
	c.Dir = t.TempDir()
	var stderr strings.Builder
	c.Stderr = &stderr
	b, err := c.Output()
	if err != nil {
		err = fmt.Errorf("precept %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(b), err
}

// MustRun runs a precept command, fails the test if the command fails, and returns standard output.
func MustRun(t *testing.T, args ...string) string {
	t.Helper()
	out, err := CommandOutput(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Diagnosis is the output of precept doctor --json. Spooled counts the exchanges in the outbox, and Admitted is the sum
// of Stored, Spooled, Incomplete and Dropped.
type Diagnosis struct {
	OK         bool             `json:"ok"`
	Admitted   int64            `json:"admitted"`
	Stored     int64            `json:"stored"`
	Spooled    int64            `json:"spooled"`
	Incomplete int64            `json:"incomplete"`
	Dropped    map[string]int64 `json:"dropped"`
	Unsampled  int64            `json:"unsampled"` // exchanges in closed sessions without a sample
	SetAside   struct {
		Total int `json:"total"` // damaged outbox files
	} `json:"set_aside"`
	Store      map[string]int64 `json:"store"`
	StoreError string           `json:"store_error"`
	Missing    int64            `json:"missing"` // exchanges in neither the store nor the outbox
	Running    *struct{}        `json:"running"`
}

// Doctor runs precept doctor on a data directory and checks the sum in Diagnosis.
func Doctor(t *testing.T, dir string, flags ...string) Diagnosis {
	t.Helper()
	out, stderr, code := RunCommand(t, "", append([]string{"doctor", "--json", "--data-dir", dir}, flags...)...)
	var d Diagnosis
	if err := json.Unmarshal([]byte(out), &d); err != nil || code != ExitOK && code != ExitFailed || d.OK != (code == ExitOK) {
		t.Fatalf("precept doctor: got exit code %d, decoding error %v, want JSON, with exit code 0 if ok is true and otherwise 1\n%s%s", code, err, out, stderr)
	}
	sum := d.Stored + d.Spooled + d.Incomplete
	for _, n := range d.Dropped {
		sum += n
	}
	if sum != d.Admitted {
		t.Errorf("doctor: stored + spooled + incomplete + dropped = %d, want admitted, %d; output:\n%s", sum, d.Admitted, out)
	}
	return d
}
