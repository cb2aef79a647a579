package verbs

import (
	"encoding/json"
	"io"
	"os/exec"
	"reflect"
	"syscall"
	"testing"

	"precept/cmd/precept/server"
)

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
	decoder := json.NewDecoder(out)
	var got server.RunFile
	if err := decoder.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if want, err := server.ReadRunFile(dir); err != nil || !reflect.DeepEqual(got, want) || got.PID != cmd.Process.Pid {
		t.Errorf("first value on standard output: got %+v, want %+v as in run.json (error %v), and process %d", got, want, err, cmd.Process.Pid)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := decoder.Decode(&got); err != io.EOF { //nolint:errorlint // Decode returns io.EOF itself
		t.Errorf("standard output after the first value: got error %v, want io.EOF", err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("precept serve after SIGTERM: %v", err)
	}
}
