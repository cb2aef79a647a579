package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"precept/internal/file"
)

// RunFile is <data_dir>/run.json: the addresses of the precept of this data directory.
type RunFile struct {
	PID   int    `json:"pid"`
	Data  string `json:"data"`
	Admin string `json:"admin"`
}

// RunFilePath returns the path of run.json.
func RunFilePath(dataDir string) string { return filepath.Join(dataDir, "run.json") }

// WriteRunFile writes the whole file or nothing, because programs read the file as soon as it exists.
func WriteRunFile(dataDir string, r RunFile) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return file.Write(RunFilePath(dataDir), 0o600, b, []byte("\n"))
}

// removeRunFile removes run.json at a clean stop.
func removeRunFile(dataDir string) { _ = os.Remove(RunFilePath(dataDir)) }

// ReadRunFile returns the addresses of the precept of a data directory. After a crash the file may be
// stale: the caller tries the address.
func ReadRunFile(dataDir string) (RunFile, error) {
	var r RunFile
	b, err := os.ReadFile(RunFilePath(dataDir))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("%s: %w", RunFilePath(dataDir), err)
	}
	return r, nil
}

// UserRun is the run file of a user: the newest running server of the user.
type UserRun struct {
	PID     int    `json:"pid"`
	Data    string `json:"data"`
	Admin   string `json:"admin"`
	DataDir string `json:"data_dir"` // absolute
}

// UserRunPath returns the path of the run file of the user, in XDG_RUNTIME_DIR, XDG_STATE_HOME or ~/.local/state;
// "" without a home directory.
func UserRunPath(env func(string) (string, bool)) string {
	return userPath(env, "run.json", "state", "XDG_RUNTIME_DIR", "XDG_STATE_HOME")
}

// UserDataDir returns the data directory of runs without a server, in XDG_DATA_HOME or ~/.local/share; "" without a
// home directory.
func UserDataDir(env func(string) (string, bool)) string {
	return userPath(env, "data", "share", "XDG_DATA_HOME")
}

// userPath returns a path below the first variable that is set, or below ~/.local/kind.
func userPath(env func(string) (string, bool), name, kind string, variables ...string) string {
	for _, v := range variables {
		if dir, _ := env(v); filepath.IsAbs(dir) {
			return filepath.Join(dir, "precept", name)
		}
	}
	home, _ := env("HOME")
	if !filepath.IsAbs(home) {
		var err error
		if home, err = os.UserHomeDir(); err != nil {
			return ""
		}
	}
	return filepath.Join(home, ".local", kind, "precept", name)
}

// ReadUserRunFile returns the running server of the user. A run file of a dead process is ignored.
func ReadUserRunFile(env func(string) (string, bool)) (r UserRun, ok bool) {
	b, err := os.ReadFile(UserRunPath(env))
	if err != nil || json.Unmarshal(b, &r) != nil || r.Data == "" || r.DataDir == "" {
		return UserRun{}, false
	}
	return r, isAlive(r.PID)
}

// isAlive reports whether a process exists.
func isAlive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil || pid <= 0 {
		return false
	}
	if runtime.GOOS == "windows" { // FindProcess fails for a dead process
		return true
	}
	err = p.Signal(syscall.Signal(0))
	return err == nil || errors.Is(err, os.ErrPermission)
}

// writeUserRunFile writes the run file with mode 0600; without a path there is nothing to write.
func writeUserRunFile(path, dataDir, data, adminURL string) error {
	if path == "" {
		return nil
	}
	dir, err := filepath.Abs(dataDir)
	if err != nil {
		return err
	}
	b, err := json.Marshal(UserRun{PID: os.Getpid(), Data: data, Admin: adminURL, DataDir: dir})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return file.Write(path, 0o600, b, []byte("\n"))
}

// removeUserRunFile removes the run file at a clean stop, unless another server has replaced the file.
func removeUserRunFile(path string) {
	b, err := os.ReadFile(path)
	var r UserRun
	if err == nil && json.Unmarshal(b, &r) == nil && r.PID == os.Getpid() {
		_ = os.Remove(path)
	}
}
