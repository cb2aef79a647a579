package server

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"precept/configs"
)

// A run file in a cloned repository could redirect requests to a different machine.
func TestReadRunFileAcceptsOnlyLocalAddresses(t *testing.T) {
	t.Parallel()
	dir, local := t.TempDir(), "http://127.0.0.1:1"
	for _, tc := range []struct {
		run   RunFile
		valid bool
	}{
		{RunFile{PID: os.Getpid(), DataURL: local, AdminURL: "http://[::1]:2"}, true},
		{RunFile{PID: 1<<22 + 1, DataURL: local, AdminURL: local}, false}, // no such process
		{RunFile{PID: os.Getpid(), DataURL: local, AdminURL: "http://203.0.113.7:1"}, false},
		{RunFile{PID: os.Getpid(), DataURL: "http://127.0.0.1:1@example.org", AdminURL: local}, false},
		{RunFile{PID: os.Getpid(), DataURL: "http://localhost.example.org:1", AdminURL: local}, false},
		{RunFile{PID: os.Getpid(), DataURL: "https://127.0.0.1:1", AdminURL: local}, false},
		{RunFile{PID: os.Getpid(), DataURL: local, AdminURL: ""}, false},
	} {
		if err := WriteRunFile(dir, tc.run); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadRunFile(dir); (err == nil) != tc.valid {
			t.Errorf("ReadRunFile(%+v) error = %v, want valid = %v", tc.run, err, tc.valid)
		}
	}
}

// A directory that already has files gets no .gitignore.
func TestMakeDataDirWritesGitignore(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, dir := range []string{"empty", "foreign"} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile("foreign/table.csv", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{"new": true, "empty": true, "foreign": false} {
		if err := MakeDataDir(dir); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(dir, ".gitignore")); (err == nil) != want {
			t.Errorf("MakeDataDir(%q): Stat(.gitignore) error = %v, want a .gitignore = %v", dir, err, want)
		}
	}
	for _, dir := range []string{"foreign", "nowhere"} {
		if HasPreceptData(dir) {
			t.Errorf("HasPreceptData(%q) = true, want false", dir)
		}
	}
}

func TestCloseAfterPrefersRunningServer(t *testing.T) {
	cfg := &configs.Config{DataDir: t.TempDir(), Reward: configs.Reward{CloseAfter: 24 * time.Hour}}
	if got := CloseAfter(cfg); got != 24*time.Hour {
		t.Errorf("no server: CloseAfter = %v, want the configured 24h", got)
	}
	const local = "http://127.0.0.1:1"
	if err := WriteRunFile(cfg.DataDir, RunFile{PID: os.Getpid(), DataURL: local, AdminURL: local, CloseAfter: "5m0s"}); err != nil {
		t.Fatal(err)
	}
	if got := CloseAfter(cfg); got != 5*time.Minute {
		t.Errorf("running server: CloseAfter = %v, want the 5m in run.json", got)
	}
}
