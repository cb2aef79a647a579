package verbs

import (
	"os"
	"strings"
	"testing"

	"precept/cmd/precept/server"
	"precept/test/harness"
)

func runReport(t *testing.T, dir, token string) (out, stderr string, code int) {
	t.Helper()
	t.Setenv("PRECEPT_ADMIN_TOKEN", token)
	return harness.RunCommand(t, "", "report", "--data-dir", dir, "--lessons", t.TempDir())
}

// If the server refuses the token, the command must not read the store instead, because the numbers in the store can be
// older than the server's numbers.
func TestReportRefusesAWrongToken(t *testing.T) {
	dir := t.TempDir()
	p := harness.Launch(t, dir, []string{"PRECEPT_ADMIN_TOKEN=right-token-0123456789"}, "--upstream", "http://127.0.0.1:1/v1", "--lessons", t.TempDir()).WaitUntilReady(dir)
	if _, stderr, code := runReport(t, dir, "right-token-0123456789"); code != harness.ExitOK {
		t.Fatalf("report with the right token: got exit code %d, want %d\n%s", code, harness.ExitOK, stderr)
	}
	out, stderr, code := runReport(t, dir, "wrong-token-0123456789")
	if code != harness.ExitFailed || out != "" || !strings.Contains(stderr, "PRECEPT_ADMIN_TOKEN") || !strings.Contains(stderr, p.AdminURL) {
		t.Errorf("report with a wrong token: got exit code %d, output %q, standard error %q, want %d, no output, and an error with PRECEPT_ADMIN_TOKEN and %s",
			code, out, stderr, harness.ExitFailed, p.AdminURL)
	}
	out, stderr, code = runReport(t, dir, "")
	if code != harness.ExitOK || out == "" || !strings.Contains(stderr, "read from the store") || !strings.Contains(stderr, "PRECEPT_ADMIN_TOKEN") {
		t.Errorf("report without a token: got exit code %d, output %q, standard error %q, want 0, a report, and a note with \"read from the store\" and PRECEPT_ADMIN_TOKEN",
			code, out, stderr)
	}
	p.Signal(os.Interrupt)
	if code := p.ExitCode(); code != 0 {
		t.Fatalf("precept serve after an interrupt: got exit code %d, want 0", code)
	}
	if _, stderr, code := runReport(t, dir, ""); code != harness.ExitOK {
		t.Errorf("report without a server: got exit code %d, want %d\n%s", code, harness.ExitOK, stderr)
	}
	if err := server.WriteRunFile(dir, server.RunFile{PID: 1, AdminURL: "http://127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := runReport(t, dir, ""); code != harness.ExitOK {
		t.Errorf("report with the run.json of a crashed server: got exit code %d, want %d\n%s", code, harness.ExitOK, stderr)
	}
}
