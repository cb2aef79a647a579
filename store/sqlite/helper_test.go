package sqlite_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"precept/store/sqlite"
)

// helperEnv is an environment variable that makes the test binary run as a helper process instead of running tests. The
// value is the mode for runHelper.
const helperEnv = "PRECEPT_SQLITE_HELPER"

func TestMain(m *testing.M) {
	mode := os.Getenv(helperEnv)
	if mode == "" {
		goleak.VerifyTestMain(m)
		return
	}
	if err := runHelper(mode, os.Args[1], os.Args[2:]); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

func runHelper(mode, path string, args []string) error {
	switch mode {
	case "hold": // executes the statements in args, prints "held", and keeps the connection until standard input ends
		db, err := sql.Open("sqlite", path)
		if err != nil {
			return err
		}
		db.SetMaxOpenConns(1)
		for _, stmt := range args {
			if _, err := db.ExecContext(context.Background(), stmt); err != nil {
				return err
			}
		}
		fmt.Println("held")
		_, err = io.Copy(io.Discard, os.Stdin)
		return err
	case "lock": // locks the directory, prints "held", and keeps the lock until standard input ends
		l, err := sqlite.Lock(path)
		if err != nil {
			return err
		}
		fmt.Println("held")
		_, err = io.Copy(io.Discard, os.Stdin)
		return firstError(err, l.Close())
	case "open": // opens the store, read-only if there is an argument, and prints the number of sessions
		s, err := sqlite.Open(context.Background(), sqlite.Options{Path: path, ReadOnly: len(args) > 0})
		if err != nil {
			return err
		}
		st, err := s.Stats(context.Background())
		fmt.Println("sessions", st["sessions"])
		return firstError(err, s.Close())
	case "burst": // writes batches until the process is killed, beginning with the number in args
		return writeUntilKilled(path, args[0])
	}
	return fmt.Errorf("unknown mode %q", mode)
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// process is a running helper process.
type process struct {
	cmd   *exec.Cmd
	in    io.Closer
	lines *bufio.Scanner
}

// startProcess starts the test binary as a helper process. For the modes, see runHelper.
func startProcess(t *testing.T, mode string, args ...string) *process {
	t.Helper()
	return startProcessAs(t, os.Args[0], nil, mode, args...)
}

// startProcessAs starts a binary as a helper process with the rights of user. If user is nil, the process has the
// rights of the current user.
func startProcessAs(t *testing.T, binary string, user *syscall.Credential, mode string, args ...string) *process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Env = append(os.Environ(), helperEnv+"="+mode)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: user}
	if user != nil {
		cmd.Dir = "/"
	}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd, in, bufio.NewScanner(out)}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	return p
}

func (p *process) readLine(t *testing.T) string {
	t.Helper()
	if !p.lines.Scan() {
		t.Fatalf("the helper process ended without printing another line (error: %v)", p.lines.Err())
	}
	return p.lines.Text()
}

// startConnectionHolder starts a helper process that executes SQL statements. The process keeps the connection and the
// connection's locks until the test calls release.
func startConnectionHolder(t *testing.T, path string, stmts ...string) *process {
	t.Helper()
	p := startProcess(t, "hold", append([]string{path}, stmts...)...)
	if line := p.readLine(t); line != "held" {
		t.Fatalf(`first line of the helper process: got %q, want "held"`, line)
	}
	return p
}

func (p *process) release(t *testing.T) {
	t.Helper()
	if err := p.in.Close(); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait()
}

func dbPath(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "precept.db")
}

func checkErrorText(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("got no error, want an error that contains %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("text of the error: got %q, want it to contain %q", err, p)
		}
	}
}
