package verbs

import (
	"os"
	"strings"
	"testing"

	"precept/cmd/precept/server"
	"precept/test/harness"
)

// reportWith runs precept report on a data directory, with an admin token in the environment.
func reportWith(t *testing.T, dir, token string) (code int, out, errs string) {
	t.Helper()
	t.Setenv("PRECEPT_ADMIN_TOKEN", token)
	out, errs, code = harness.Verb(t, "", "report", "--data-dir", dir, "--lessons", t.TempDir())
	return code, out, errs
}

// A wrong token is an error: the store would silently give older numbers. Without a token the store is read, and
// the report says so.
func TestReportNamesARefusedToken(t *testing.T) {
	dir := t.TempDir()
	p := harness.Launch(t, dir, []string{"PRECEPT_ADMIN_TOKEN=right-token-0123456789"}, "--upstream", "http://127.0.0.1:1/v1", "--lessons", t.TempDir()).Ready(dir)
	if code, _, errs := reportWith(t, dir, "right-token-0123456789"); code != harness.ExitDone {
		t.Fatalf("with the right token: exit code %d, want %d\n%s", code, harness.ExitDone, errs)
	}
	code, out, errs := reportWith(t, dir, "wrong-token-0123456789")
	if code != harness.ExitFailed || out != "" || !strings.Contains(errs, "PRECEPT_ADMIN_TOKEN") || !strings.Contains(errs, p.Admin) {
		t.Errorf("with another token: exit %d, out %q, want exit %d and no report\n%s", code, out, harness.ExitFailed, errs)
	}
	code, out, errs = reportWith(t, dir, "")
	if code != harness.ExitDone || out == "" || !strings.Contains(errs, "read from the store") || !strings.Contains(errs, "PRECEPT_ADMIN_TOKEN") {
		t.Errorf("without a token: exit %d, out %q, want the report of the store\n%s", code, out, errs)
	}
	p.Signal(os.Interrupt)
	if code := p.Exit(); code != 0 {
		t.Fatalf("got exit code %d, want 0", code)
	}
	if code, _, errs := reportWith(t, dir, ""); code != harness.ExitDone {
		t.Errorf("without a server the store is read: exit %d\n%s", code, errs)
	}
	if err := server.WriteRunFile(dir, server.RunFile{PID: 1, Admin: "http://127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := reportWith(t, dir, ""); code != harness.ExitDone {
		t.Errorf("with the run.json of a crash: exit code %d, want %d: the verb reads the store\n%s", code, harness.ExitDone, errs)
	}
}
