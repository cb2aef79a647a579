package agents

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"precept/test/harness"
)

// sandbox is a home directory, a project and an environment for one agent's commands.
type sandbox struct {
	t        *testing.T
	home     string
	work     string
	base     string // http://127.0.0.1:PORT, without /v1
	programs string // directory with the installed agents
	env      []string
	limit    time.Duration
}

func newSandbox(t *testing.T, base string) *sandbox {
	t.Helper()
	// t.TempDir would fail the test if an agent daemon writes while the directory is removed.
	dir, err := os.MkdirTemp("", "precept-agent-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	b := &sandbox{
		t: t, home: filepath.Join(dir, "home"), work: newProject(t), base: base,
		programs: agentsHome(t), limit: 90 * time.Second,
	}
	if d, err := time.ParseDuration(os.Getenv("AGENTS_LIMIT")); err == nil {
		b.limit = d
	}
	b.env = []string{
		"PATH=" + b.modulePath("node22", "node/bin") + ":" + os.Getenv("PATH"), "HOME=" + b.home, "WORK=" + b.work,
		"XDG_CONFIG_HOME=" + b.home + "/.config", "XDG_DATA_HOME=" + b.home + "/.local/share",
		"XDG_STATE_HOME=" + b.home + "/.local/state", "XDG_CACHE_HOME=" + b.home + "/.cache",
		"NO_PROXY=127.0.0.1,localhost", "CI=1", "TERM=dumb", "NO_COLOR=1", "DO_NOT_TRACK=1", "LANG=C.UTF-8",
	}
	if err := os.MkdirAll(b.home, 0o700); err != nil {
		t.Fatal(err)
	}
	return b
}

func agentsHome(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("AGENTS_HOME"); dir != "" {
		return dir
	}
	dir, err := filepath.Abs("../../.cache/agents")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// modulePath returns a path in the node_modules of an installed agent.
func (s *sandbox) modulePath(folder, rest string) string {
	return filepath.Join(s.programs, folder, "node_modules", rest)
}

func (s *sandbox) writeFile(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.home, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// call runs an agent command in a separate process group, so that child processes end with the command. A value in
// interrupt makes call send ^C.
func (s *sandbox) call(argv []string, interrupt <-chan struct{}) (code int, out string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), s.limit)
	defer cancel()
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Dir, c.Env = s.work, s.env
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGTERM) }
	c.WaitDelay = 5 * time.Second
	var buf bytes.Buffer
	c.Stdout, c.Stderr = &buf, &buf
	start := time.Now()
	err := c.Start()
	if err == nil {
		exited := make(chan struct{})
		go func() {
			select {
			case <-interrupt:
				time.Sleep(harness.CutDelay) // lets the agent read the written bytes first
				_ = syscall.Kill(-c.Process.Pid, syscall.SIGINT)
			case <-exited:
			}
		}()
		err = c.Wait()
		close(exited)
	}
	if c.Process != nil {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.t.Fatalf("%s is not installed; run tools/agents.sh", argv[0])
	case ctx.Err() != nil:
		s.t.Errorf("%s has not ended within %s", strings.Join(argv[:min(len(argv), 3)], " "), s.limit)
	case c.ProcessState == nil:
		s.t.Fatalf("start %s: %v", argv[0], err)
	}
	s.t.Logf("%s: exit %d after %s", filepath.Base(argv[0]), c.ProcessState.ExitCode(), time.Since(start).Round(100*time.Millisecond))
	return c.ProcessState.ExitCode(), buf.String()
}
