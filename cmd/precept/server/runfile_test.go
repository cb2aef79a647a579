package server

import (
	"os"
	"path/filepath"
	"testing"
)

// A run file of a foreign repository cannot lead requests to another machine.
func TestReadRunFileTakesOnlyAddressesOfThisMachine(t *testing.T) {
	t.Parallel()
	dir, own := t.TempDir(), "http://127.0.0.1:1"
	for _, c := range []struct {
		at   RunFile
		want bool
	}{
		{RunFile{os.Getpid(), own, "http://[::1]:2"}, true},
		{RunFile{1<<22 + 1, own, own}, false},
		{RunFile{os.Getpid(), own, "http://203.0.113.7:1"}, false},
		{RunFile{os.Getpid(), "http://127.0.0.1:1@example.org", own}, false},
		{RunFile{os.Getpid(), "http://localhost.example.org:1", own}, false},
		{RunFile{os.Getpid(), "https://127.0.0.1:1", own}, false},
		{RunFile{os.Getpid(), own, ""}, false},
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
