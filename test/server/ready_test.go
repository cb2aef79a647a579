package server

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"precept/test/harness"
)

func TestReadyCommandPrintsReadyz(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := harness.Launch(t, dir, nil, "--upstream", "http://127.0.0.1:1/v1").WaitUntilReady(dir)
	out, err := harness.CommandOutput(t, "ready", "--data-dir", dir)
	if err != nil || out != p.DataURL+"/readyz: ok\n" {
		t.Errorf("ready --data-dir: got error %v, output %q, want %q", err, out, p.DataURL+"/readyz: ok\n")
	}
	out, err = harness.CommandOutput(t, "ready", "--json", "--data-dir", t.TempDir(), "--listen", strings.TrimPrefix(p.DataURL, "http://"))
	if err != nil || !strings.Contains(out, `"ready": true`) {
		t.Errorf("ready --listen: got error %v, output %q, want ready: true", err, out)
	}
	p.Stop()
	out, err = harness.CommandOutput(t, "ready", "--json", "--data-dir", dir, "--listen", strings.TrimPrefix(p.DataURL, "http://"))
	if err == nil || !strings.Contains(out, `"ready": false`) {
		t.Errorf("ready after shutdown: got error %v, output %q, want an error and ready: false", err, out)
	}
	if _, err = harness.CommandOutput(t, "ready", "--data-dir", dir, "--listen", ":1"); err == nil || !strings.Contains(err.Error(), "http://127.0.0.1:1/readyz: no server answers; start the server") {
		t.Errorf(`ready on a free port: err = %v, want "/readyz: no server answers; start the server"`, err)
	}
}

func TestServiceManagerIsNotified(t *testing.T) {
	t.Parallel()
	socketDir, err := os.MkdirTemp("", "n") // the path of a socket has at most 107 bytes, and t.TempDir can be longer
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(socketDir) })
	socket := filepath.Join(socketDir, "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Skip("needs datagram sockets: ", err)
	}
	t.Cleanup(func() { _ = manager.Close() })
	_ = manager.SetReadDeadline(time.Now().Add(2 * time.Minute))
	nextNotification := func() string {
		b := make([]byte, 4096)
		n, err := manager.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	dir := t.TempDir()
	p := harness.Launch(t, dir, []string{"NOTIFY_SOCKET=" + socket}, "--upstream", "http://127.0.0.1:1/v1")
	message := nextNotification()
	if p.WaitUntilReady(dir); message != "READY=1\nSTATUS=data "+p.DataURL+", admin "+p.AdminURL {
		t.Errorf("first notification: got %q, want %q", message, "READY=1\nSTATUS=data "+p.DataURL+", admin "+p.AdminURL)
	}
	p.Signal(syscall.SIGTERM)
	if message := nextNotification(); !strings.HasPrefix(message, "STOPPING=1\n") {
		t.Errorf("notification after SIGTERM: got %q, want prefix %q", message, "STOPPING=1\n")
	}
	if code := p.ExitCode(); code != 0 {
		t.Errorf("precept serve after SIGTERM: got exit code %d, want 0", code)
	}
}

func TestMissingServiceManagerIsLogged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := harness.Launch(t, dir, []string{"NOTIFY_SOCKET=" + filepath.Join(dir, "nobody")}, "--upstream", "http://127.0.0.1:1/v1").WaitUntilReady(dir)
	p.Eventually("the warning about the service manager", func() bool { return strings.Contains(p.Log.String(), "the service manager cannot be notified") })
}
