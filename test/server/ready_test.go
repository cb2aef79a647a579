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

// The command ready prints the status of /readyz, finds the server by data directory or address, and fails without a
// server.
func TestReadyVerbMatchesReadyz(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := harness.Launch(t, dir, nil, "--upstream", "http://127.0.0.1:1/v1").Ready(dir)
	out, err := harness.RunVerb(t, "ready", "--data-dir", dir)
	if err != nil || out != p.Data+"/readyz: ok\n" {
		t.Errorf("got error %v, out %q, want no error and out = %q", err, out, p.Data+"/readyz: ok\n")
	}
	out, err = harness.RunVerb(t, "ready", "--json", "--data-dir", t.TempDir(), "--listen", strings.TrimPrefix(p.Data, "http://"))
	if err != nil || !strings.Contains(out, `"ready": true`) {
		t.Errorf("got error %v, out %q, want no error and out with `\"ready\": true`", err, out)
	}
	p.Stop()
	out, err = harness.RunVerb(t, "ready", "--json", "--data-dir", dir, "--listen", strings.TrimPrefix(p.Data, "http://"))
	if err == nil || !strings.Contains(out, `"ready": false`) {
		t.Errorf("got error %v, out %q, want an error and out with `\"ready\": false`", err, out)
	}
	if _, err = harness.RunVerb(t, "ready", "--data-dir", dir, "--listen", ":1"); err == nil || !strings.Contains(err.Error(), "http://127.0.0.1:1/readyz: no server answers; start the server") {
		t.Errorf(`got %v, want an error with "http://127.0.0.1:1/readyz: no server answers; start the server"`, err)
	}
}

// The service manager is notified when precept is ready, of the address, and when precept begins to stop.
func TestServiceManagerIsNotified(t *testing.T) {
	t.Parallel()
	short, err := os.MkdirTemp("", "n") // a socket's path is at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	socket := filepath.Join(short, "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Skip("no datagram sockets here: ", err)
	}
	t.Cleanup(func() { _ = manager.Close() })
	_ = manager.SetReadDeadline(time.Now().Add(2 * time.Minute))
	next := func() string {
		b := make([]byte, 4096)
		n, err := manager.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	dir := t.TempDir()
	p := harness.Launch(t, dir, []string{"NOTIFY_SOCKET=" + socket}, "--upstream", "http://127.0.0.1:1/v1")
	message := next()
	if p.Ready(dir); message != "READY=1\nSTATUS=data "+p.Data+", admin "+p.Admin {
		t.Errorf("got %q, want %q", message, "READY=1\nSTATUS=data "+p.Data+", admin "+p.Admin)
	}
	p.Signal(syscall.SIGTERM)
	if message := next(); !strings.HasPrefix(message, "STOPPING=1\n") {
		t.Errorf("got %q, want a text with the prefix \"STOPPING=1\\n\"", message)
	}
	if code := p.Exit(); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
}

// A service manager that cannot be notified blocks nothing.
func TestMissingServiceManagerIsIgnored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := harness.Launch(t, dir, []string{"NOTIFY_SOCKET=" + filepath.Join(dir, "nobody")}, "--upstream", "http://127.0.0.1:1/v1").Ready(dir)
	p.Eventually("the warning", func() bool { return strings.Contains(p.Log.String(), "the service manager cannot be notified") })
}
