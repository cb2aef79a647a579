package verbs

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"precept/test/harness"
)

type unprivilegedUser struct {
	binary, dir string
	credential  *syscall.Credential
}

// newUnprivilegedUser returns a user without the rights of root. This is the current user, or if the test runs as root,
// the user with id 65534. In this case, the binary is copied to a directory where the user can enter.
func newUnprivilegedUser(t *testing.T) unprivilegedUser {
	t.Helper()
	dir := t.TempDir()
	binary, err := exec.LookPath("precept")
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		return unprivilegedUser{binary, dir, nil}
	}
	for d := dir; strings.HasPrefix(d, os.TempDir()) && d != os.TempDir(); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil { //nolint:gosec // the unprivileged user enters the directory
			t.Fatal(err)
		}
	}
	u := unprivilegedUser{filepath.Join(dir, "precept"), dir, &syscall.Credential{Uid: 65534, Gid: 65534}}
	in, err := os.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close() //nolint:errcheck // the file was only read
	out, err := os.OpenFile(u.binary, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(out, in)
	if closeErr := out.Close(); err != nil || closeErr != nil {
		t.Fatalf("copy and close the binary: %v, %v", err, closeErr)
	}
	return u
}

func (u unprivilegedUser) run(t *testing.T, args ...string) (stderr string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), u.binary, args...)
	cmd.Dir = u.dir
	cmd.Env = append(os.Environ(), "OPENAI_BASE_URL=", "HOME="+u.dir, "XDG_RUNTIME_DIR="+u.dir, "XDG_STATE_HOME="+u.dir, "XDG_DATA_HOME="+u.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: u.credential}
	var out strings.Builder
	cmd.Stderr = &out
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatalf("precept did not start: %v", err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

func TestPermissionErrorsNameTheRemedy(t *testing.T) {
	u := newUnprivilegedUser(t)
	lessonFile := strings.Join([]string{
		"---", "schema: learning/v1", "slug: look-twice", "title: Look twice", "trigger:", "  description: when in doubt",
		"  metadata:", "    precept:", "      keywords: [doubt]", "outcome: success", "evidence:", "  - kind: run", "    ref: one", "---", "",
		"## What to do", "", "Look twice.", "",
	}, "\n")
	if err := os.Mkdir(filepath.Join(u.dir, "lessons"), 0o755); err != nil { //nolint:gosec // the unprivileged user reads the directory
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"lessons/look-twice.md": 0o444, "secret.yaml": 0} {
		if err := os.WriteFile(filepath.Join(u.dir, name), []byte(lessonFile), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{"lessons", "."} {
		if err := os.Chmod(filepath.Join(u.dir, d), 0o555); err != nil { //nolint:gosec // a directory without secrets
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { // without this permission, the test cannot remove the directory
		for _, d := range []string{".", "lessons"} {
			_ = os.Chmod(filepath.Join(u.dir, d), 0o755) //nolint:gosec // a directory without secrets
		}
	})
	const lessonsError = "permission denied; make the directory writable for the user that runs precept, or set lessons to another directory"
	const initError = "permission denied; make the directory writable for this user, or name another directory with --dir"
	cases := []struct{ command, want string }{
		{"init", initError},
		{"init --dir other", initError},
		{"lessons new hello", lessonsError},
		{"lessons approve look-twice", lessonsError},
		{"lessons retire look-twice", lessonsError},
		{"check --config secret.yaml", "permission denied; make the file readable for this user, or name another file with --config or PRECEPT_CONFIG"},
		{"serve --config secret.yaml", "permission denied; make the file readable for this user, or name another file with --config or PRECEPT_CONFIG"},
	}
	if first, err := os.ReadFile("/proc/sys/net/ipv4/ip_unprivileged_port_start"); err == nil {
		if port, err := strconv.Atoi(strings.TrimSpace(string(first))); err == nil && port > 1 {
			cases = append(cases, struct{ command, want string }{
				fmt.Sprintf("serve --upstream http://127.0.0.1:1/v1 --listen 127.0.0.1:%d", port-1),
				"permission denied; choose a port above 1023, or give precept the right to bind the port (on Linux CAP_NET_BIND_SERVICE)",
			})
		}
	}
	for _, tc := range cases {
		stderr, code := u.run(t, strings.Fields(tc.command)...)
		if code != harness.ExitFailed || !strings.Contains(stderr, tc.want+"\n") {
			t.Errorf("precept %s: got exit code %d, standard error %q, want %d and %q", tc.command, code, stderr, harness.ExitFailed, tc.want)
		}
	}
}
