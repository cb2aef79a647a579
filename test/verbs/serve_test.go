package verbs

import (
	"encoding/json"
	"io"
	"os/exec"
	"syscall"
	"testing"

	"precept/cmd/precept/server"
)

// serve --json prints one line with the addresses of the running server, and the log on standard error.
func TestServePrintsAddressesAsJSON(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "precept", "serve", "--json", "--upstream", "http://127.0.0.1:9/v1",
		"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir", dir)
	cmd.Dir = dir
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := json.NewDecoder(out)
	var got server.RunFile
	if err := lines.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if want, err := server.ReadRunFile(dir); err != nil || got != want || got.PID != cmd.Process.Pid {
		t.Errorf("got %+v, want %+v (%v)", got, want, err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := lines.Decode(&got); err != io.EOF { //nolint:errorlint // Decode returns io.EOF itself
		t.Errorf("after the line: got %v, want the end of the output", err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("got %v, want exit code 0", err)
	}
}
