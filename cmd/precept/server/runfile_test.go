package server

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"precept/configs"
)

// ReadRunFile accepts a run file only if the process exists and the addresses are on this machine. Otherwise, a run
// file in a cloned repository could redirect the user's requests to another machine.
func TestReadRunFileAcceptsOnlyLocalAddresses(t *testing.T) {
	t.Parallel()
	dir, local := t.TempDir(), "http://127.0.0.1:1"
	for _, tc := range []struct {
		name  string
		run   RunFile
		valid bool
	}{
		{"loopback addresses", RunFile{PID: os.Getpid(), DataURL: local, AdminURL: "http://[::1]:2"}, true},
		{"no such process", RunFile{PID: 1<<22 + 1, DataURL: local, AdminURL: local}, false},
		{"other machine", RunFile{PID: os.Getpid(), DataURL: local, AdminURL: "http://203.0.113.7:1"}, false},
		{"loopback address as user name", RunFile{PID: os.Getpid(), DataURL: "http://127.0.0.1:1@example.org", AdminURL: local}, false},
		{"host name that begins with localhost", RunFile{PID: os.Getpid(), DataURL: "http://localhost.example.org:1", AdminURL: local}, false},
		{"HTTPS", RunFile{PID: os.Getpid(), DataURL: "https://127.0.0.1:1", AdminURL: local}, false},
		{"no admin address", RunFile{PID: os.Getpid(), DataURL: local, AdminURL: ""}, false},
	} {
		if err := WriteRunFile(dir, tc.run); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadRunFile(dir); (err == nil) != tc.valid {
			t.Errorf("%s: ReadRunFile(%+v) error = %v, want the run file accepted = %v", tc.name, tc.run, err, tc.valid)
		}
	}
}

// MakeDataDir writes a .gitignore only to a directory that has no other files.
func TestMakeDataDirWritesGitignore(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, dir := range []string{"empty", "used"} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile("used/table.csv", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{"new": true, "empty": true, "used": false} {
		if err := MakeDataDir(dir); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(dir, ".gitignore")); (err == nil) != want {
			t.Errorf("after MakeDataDir(%q): Stat(.gitignore) error = %v, want the file to exist = %v", dir, err, want)
		}
	}
}

func TestHasPreceptDataIgnoresOtherFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "table.csv"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{dir, filepath.Join(dir, "missing")} {
		if HasPreceptData(dir) {
			t.Errorf("HasPreceptData(%q) = true, want false", dir)
		}
	}
}

func TestCloseAfterPrefersRunningServer(t *testing.T) {
	cfg := &configs.Config{DataDir: t.TempDir(), Reward: configs.Reward{CloseAfter: 24 * time.Hour}}
	if got := CloseAfter(cfg); got != 24*time.Hour {
		t.Errorf("CloseAfter without a server = %v, want the 24h of the configuration", got)
	}
	const local = "http://127.0.0.1:1"
	if err := WriteRunFile(cfg.DataDir, RunFile{PID: os.Getpid(), DataURL: local, AdminURL: local, CloseAfter: "5m0s"}); err != nil {
		t.Fatal(err)
	}
	if got := CloseAfter(cfg); got != 5*time.Minute {
		t.Errorf("CloseAfter with a running server = %v, want the 5m in run.json", got)
	}
}
