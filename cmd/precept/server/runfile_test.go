package server

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"precept/configs"
)

// A run file of a foreign repository cannot lead requests to another machine.
func TestReadRunFileTakesOnlyAddressesOfThisMachine(t *testing.T) {
	t.Parallel()
	dir, own := t.TempDir(), "http://127.0.0.1:1"
	for _, c := range []struct {
		at   RunFile
		want bool
	}{
		{RunFile{PID: os.Getpid(), Data: own, Admin: "http://[::1]:2"}, true},
		{RunFile{PID: 1<<22 + 1, Data: own, Admin: own}, false},
		{RunFile{PID: os.Getpid(), Data: own, Admin: "http://203.0.113.7:1"}, false},
		{RunFile{PID: os.Getpid(), Data: "http://127.0.0.1:1@example.org", Admin: own}, false},
		{RunFile{PID: os.Getpid(), Data: "http://localhost.example.org:1", Admin: own}, false},
		{RunFile{PID: os.Getpid(), Data: "https://127.0.0.1:1", Admin: own}, false},
		{RunFile{PID: os.Getpid(), Data: own, Admin: ""}, false},
	} {
		if err := WriteRunFile(dir, c.at); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadRunFile(dir); (err == nil) != c.want {
			t.Errorf("read %+v: error %v, want success: %v", c.at, err, c.want)
		}
	}
}

// A new or empty data directory below the working directory is ignored by git; files of the user are left alone.
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
			t.Errorf(".gitignore in %s: %v, want a file: %v", dir, err, want)
		}
	}
	if HoldsData("foreign") || HoldsData("nowhere") {
		t.Error("a directory without store and token counts as precept's")
	}
}

// A verb on the data directory of a running server counts with the server's closing age, not with the age
// of its own configuration.
func TestCloseAfterIsTheServers(t *testing.T) {
	cfg := &configs.Config{DataDir: t.TempDir(), Reward: configs.Reward{CloseAfter: 24 * time.Hour}}
	if got := CloseAfter(cfg); got != 24*time.Hour {
		t.Errorf("without a server: got %v, want 24h", got)
	}
	const own = "http://127.0.0.1:1"
	if err := WriteRunFile(cfg.DataDir, RunFile{PID: os.Getpid(), Data: own, Admin: own, Close: "5m0s"}); err != nil {
		t.Fatal(err)
	}
	if got := CloseAfter(cfg); got != 5*time.Minute {
		t.Errorf("with a server: got %v, want 5m", got)
	}
}
