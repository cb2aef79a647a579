package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"precept/admin"
	"precept/configs"
	"precept/internal/file"
)

// RunFile is the content of <data_dir>/run.json.
type RunFile struct {
	PID        int      `json:"pid"`
	DataURL    string   `json:"data"`
	AdminURL   string   `json:"admin"`
	CloseAfter string   `json:"close_after,omitempty"` // the server's reward.close_after
	Upstreams  []string `json:"upstreams,omitempty"`   // base URLs, sorted
}

// CloseAfter returns the running server's reward.close_after or, without a server, the configured value.
func CloseAfter(cfg *configs.Config) time.Duration {
	if r, err := ReadRunFile(cfg.DataDir); err == nil {
		if age, err := time.ParseDuration(r.CloseAfter); err == nil && age > 0 {
			return age
		}
	}
	return cfg.Reward.CloseAfter
}

// RunFilePath returns the path of run.json.
func RunFilePath(dataDir string) string { return filepath.Join(dataDir, "run.json") }

// WriteRunFile writes run.json atomically, because programs read it as soon as it exists.
func WriteRunFile(dataDir string, r RunFile) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return file.Write(RunFilePath(dataDir), 0o600, b, []byte("\n"))
}

func removeRunFile(dataDir string) { _ = os.Remove(RunFilePath(dataDir)) }

// ReadRunFile returns a data directory's run file. A cloned repository could contain a run.json that sends API keys to
// another machine, so ReadRunFile refuses a process that has ended and an address on another machine. The caller must
// check that precept answers.
func ReadRunFile(dataDir string) (RunFile, error) {
	var r RunFile
	b, err := os.ReadFile(RunFilePath(dataDir))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("%s: %w", RunFilePath(dataDir), err)
	}
	if !isAlive(r.PID) {
		return RunFile{}, fmt.Errorf("%s names process %d, which is not running; start the server", RunFilePath(dataDir), r.PID)
	}
	for _, address := range []string{r.DataURL, r.AdminURL} {
		if !isLocal(address) {
			return RunFile{}, fmt.Errorf("%s names %q, which is not an address on this machine; name the server with --url", RunFilePath(dataDir), address)
		}
	}
	return r, nil
}

// isLocal reports whether a URL has the form that the server writes: http, one of this machine's IP addresses, and a
// port.
func isLocal(address string) bool {
	text, isHTTP := strings.CutPrefix(address, "http://")
	addrPort, err := netip.ParseAddrPort(text)
	if !isHTTP || err != nil {
		return false
	}
	localAddrs, _ := net.InterfaceAddrs()
	return addrPort.Addr().IsLoopback() || slices.ContainsFunc(localAddrs, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(addrPort.Addr().AsSlice())
	})
}

// UserRun is the content of the user's run file, which describes the server that this user started last.
type UserRun struct {
	PID      int    `json:"pid"`
	DataURL  string `json:"data"`
	AdminURL string `json:"admin"`
	DataDir  string `json:"data_dir"`          // absolute path
	Lessons  string `json:"lessons,omitempty"` // absolute path of the lesson directory, or Redis URL without a password
	Config   string `json:"config,omitempty"`  // absolute path of the configuration file
}

// UserRunPath returns the path for the user's run file, in XDG_RUNTIME_DIR, XDG_STATE_HOME or ~/.local/state; ""
// without a home directory.
func UserRunPath(env func(string) (string, bool)) string {
	return userPath(env, "run.json", "state", "XDG_RUNTIME_DIR", "XDG_STATE_HOME")
}

// UserDataDir returns the data directory for `precept run` without a server, in XDG_DATA_HOME or ~/.local/share; ""
// without a home directory.
func UserDataDir(env func(string) (string, bool)) string {
	return userPath(env, "data", "share", "XDG_DATA_HOME")
}

// TrustPath returns the path for the user's list of accepted configuration files, in XDG_STATE_HOME or ~/.local/state;
// "" without a home directory.
func TrustPath(env func(string) (string, bool)) string {
	return userPath(env, "trusted", "state", "XDG_STATE_HOME")
}

// HasPreceptData reports whether a directory contains precept's store or admin token.
func HasPreceptData(dir string) bool {
	return slices.ContainsFunc([]string{"precept.db", admin.TokenFile}, func(name string) bool {
		info, err := os.Lstat(filepath.Join(dir, name))
		return err == nil && info.Mode().IsRegular()
	})
}

// MakeDataDir creates a data directory. A new directory gets a .gitignore, because it will contain a token. So does an
// empty directory below the working directory.
func MakeDataDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if err == nil && (len(entries) > 0 || !filepath.IsLocal(dir)) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("*\n"), 0o600)
}

// restrictData removes other users' access to precept's files, because files restored from a backup are often readable
// by other users.
func restrictData(dir string, log *slog.Logger) {
	if runtime.GOOS == "windows" { // the mode says nothing about other users
		return
	}
	entries, _ := os.ReadDir(dir) // sqlite.Lock has reported an unreadable directory
	patterns := []string{"precept.db*", "outbox.db*", admin.TokenFile, "audit.jsonl*", "consulted.json", "fleet.json", "run.log"}
	var names []string
	for _, e := range entries {
		isPreceptFile := slices.ContainsFunc(patterns, func(pattern string) bool {
			ok, _ := filepath.Match(pattern, e.Name()) // the patterns are well-formed
			return ok
		})
		info, err := e.Info()
		if !isPreceptFile || err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o077 == 0 {
			continue
		}
		if err := os.Chmod(filepath.Join(dir, e.Name()), info.Mode().Perm()&^0o077); err != nil {
			log.Warn("a file in the data directory is readable by other users, and precept cannot change its mode; run chmod 600 on the file", "file", e.Name(), "error", err)
			continue
		}
		names = append(names, e.Name())
	}
	if len(names) > 0 {
		log.Warn("files in the data directory were readable by other users; precept has removed this access", "files", strings.Join(names, " "))
	}
}

// userPath returns DIR/precept/name. DIR is the first absolute path in the environment variables, or else
// ~/.local/kind.
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

// ReadUserRunFile returns the user's run file; ok is false if the file is missing or the process has ended.
func ReadUserRunFile(env func(string) (string, bool)) (r UserRun, ok bool) {
	b, err := os.ReadFile(UserRunPath(env))
	if err != nil || json.Unmarshal(b, &r) != nil || r.DataURL == "" || r.DataDir == "" {
		return UserRun{}, false
	}
	return r, isAlive(r.PID)
}

func isAlive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil || pid <= 0 {
		return false
	}
	if runtime.GOOS == "windows" { // FindProcess fails for a process that has ended
		return true
	}
	err = p.Signal(syscall.Signal(0))
	return err == nil || errors.Is(err, os.ErrPermission)
}

// writeUserRunFile writes the user's run file with mode 0600. It makes the paths absolute, and removes the password
// from a Redis URL.
func writeUserRunFile(path string, r UserRun) error {
	if path == "" {
		return nil
	}
	paths := []*string{&r.DataDir}
	if r.Config != "" {
		paths = append(paths, &r.Config)
	}
	if !IsRedis(r.Lessons) {
		paths = append(paths, &r.Lessons)
	} else if at, err := url.Parse(r.Lessons); err == nil {
		at.User = nil
		r.Lessons = at.String()
	} else {
		r.Lessons = "redis://"
	}
	for _, path := range paths {
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = absolute
	}
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return file.Write(path, 0o600, b, []byte("\n"))
}

// removeUserRunFile removes the user's run file, unless another server has written it.
func removeUserRunFile(path string) {
	b, err := os.ReadFile(path)
	var r UserRun
	if err == nil && json.Unmarshal(b, &r) == nil && r.PID == os.Getpid() {
		_ = os.Remove(path)
	}
}
