package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"precept/admin"
	"precept/cmd/precept/server"
)

// Process is a running `precept serve`. When the test ends, the process is killed.
type Process struct {
	DataURL, AdminURL string // base URLs for the data and the admin listener, set by WaitUntilReady
	PID               int    // set by WaitUntilReady

	T      *testing.T
	Dir    string
	Flags  []string
	Cmd    *exec.Cmd
	Log    LockedBuffer // standard output and standard error
	Exited chan struct{}
	err    error // the result of Cmd.Wait, valid after Exited is closed
	killed bool
}

// LockedBuffer collects a process's output. A test can call String while the process writes.
type LockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *LockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *LockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Launch starts `precept serve` on free ports and does not wait until it is ready.
func Launch(t *testing.T, dir string, env []string, flags ...string) *Process {
	t.Helper()
	return LaunchWith(t, []string{"precept"}, dir, env, flags...)
}

// LaunchWith is like Launch, but starts precept through a command, such as a shell that limits how many files are open.
func LaunchWith(t *testing.T, command []string, dir string, env []string, flags ...string) *Process {
	t.Helper()
	args := slices.Concat(command[1:], []string{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir", dir}, flags)
	p := &Process{T: t, Dir: dir, Flags: flags, Cmd: exec.CommandContext(context.Background(), command[0], args...), Exited: make(chan struct{})}
	p.Cmd.Env = append(append(os.Environ(), "OPENAI_BASE_URL=", "XDG_RUNTIME_DIR="+t.TempDir()), env...)
	p.Cmd.Dir = t.TempDir()
	p.Cmd.Stdout, p.Cmd.Stderr = &p.Log, &p.Log
	if err := p.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.Cmd.Wait()
		close(p.Exited)
	}()
	t.Cleanup(func() {
		_ = p.Cmd.Process.Kill()
		<-p.Exited
	})
	return p
}

// StartWithUpstream starts precept with the admin token "token" and waits for run.json.
func StartWithUpstream(t *testing.T, dir, upstream string, flags ...string) *Process {
	t.Helper()
	return Launch(t, dir, []string{"PRECEPT_ADMIN_TOKEN=token"}, append([]string{"--upstream", upstream + "/v1"}, flags...)...).WaitUntilReady(dir)
}

// Start starts precept with the admin token "e2e-token" and waits for run.json. When the test ends, Start stops the
// process and expects exit code 0, unless Kill has ended the process.
func Start(t *testing.T, dir string, flags ...string) *Process {
	t.Helper()
	p := Launch(t, dir, []string{"PRECEPT_ADMIN_TOKEN=e2e-token"}, flags...)
	t.Cleanup(func() {
		select {
		case <-p.Exited:
		default:
			p.Signal(syscall.SIGTERM)
		}
		if code := p.ExitCode(); code != ExitOK && !p.killed {
			t.Errorf("precept serve: got exit code %d when the test ended, want 0\n%s", code, p.Log.String())
		}
	})
	return p.WaitUntilReady(dir)
}

// WaitUntilReady waits until this process has written run.json, and reads the addresses from the file.
func (p *Process) WaitUntilReady(dir string) *Process {
	p.T.Helper()
	p.Eventually("run.json with this process's id", func() bool {
		r, err := server.ReadRunFile(dir)
		if err != nil || r.PID != p.Cmd.Process.Pid {
			return false
		}
		p.DataURL, p.AdminURL, p.PID = r.DataURL, r.AdminURL, r.PID
		return true
	})
	return p
}

// Eventually waits up to two minutes until happened returns true. If the process ends, the test fails immediately.
func (p *Process) Eventually(event string, happened func() bool) {
	p.T.Helper()
	p.EventuallyEvery(20*time.Millisecond, event, happened)
}

// EventuallyEvery is like Eventually, with the given pause between two calls of happened.
func (p *Process) EventuallyEvery(interval time.Duration, event string, happened func() bool) {
	p.T.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(interval) {
		if happened() {
			return
		}
		select {
		case <-p.Exited:
			p.T.Fatalf("precept stopped while the test waited for %s: %v\n%s", event, p.err, p.Log.String())
		default:
		}
	}
	p.T.Fatalf("waited two minutes for %s\n%s", event, p.Log.String())
}

// ExitCode waits for the process and returns the exit code.
func (p *Process) ExitCode() int {
	p.T.Helper()
	select {
	case <-p.Exited:
	case <-time.After(30 * time.Second):
		p.T.Fatalf("precept has not exited after 30 seconds\n%s", p.Log.String())
	}
	if failed, ok := errors.AsType[*exec.ExitError](p.err); ok {
		return failed.ExitCode()
	}
	if p.err != nil {
		p.T.Fatal(p.err)
	}
	return ExitOK
}

// Signal sends a signal to the process.
func (p *Process) Signal(s os.Signal) {
	p.T.Helper()
	if err := p.Cmd.Process.Signal(s); err != nil {
		p.T.Fatal(err)
	}
}

// Stop ends the process with SIGTERM and expects exit code 0.
func (p *Process) Stop() {
	p.T.Helper()
	p.Signal(syscall.SIGTERM)
	if code := p.ExitCode(); code != ExitOK {
		p.T.Errorf("precept serve after SIGTERM: got exit code %d, want 0\n%s", code, p.Log.String())
	}
}

// Kill ends the process with SIGKILL and returns the time at which the signal was sent.
func (p *Process) Kill() time.Time {
	p.T.Helper()
	p.killed = true
	sentAt := time.Now()
	if err := p.Cmd.Process.Kill(); err != nil {
		p.T.Fatal(err)
	}
	<-p.Exited
	return sentAt
}

// WaitUntilDegraded waits until /readyz says degraded.
func (p *Process) WaitUntilDegraded() {
	p.T.Helper()
	p.Eventually("/readyz to say degraded", func() bool { return p.isDegraded() })
}

// WaitUntilRecovered waits until /readyz no longer says degraded.
func (p *Process) WaitUntilRecovered() {
	p.T.Helper()
	p.Eventually("/readyz to stop saying degraded", func() bool { return !p.isDegraded() })
}

func (p *Process) isDegraded() bool {
	p.T.Helper()
	_, body := Get(p.T, p.DataURL+"/readyz", "")
	return strings.Contains(body, "degraded")
}

// Health returns /api/health, read with the admin token "token".
func (p *Process) Health() (h admin.Health) {
	p.T.Helper()
	status, body := Get(p.T, p.AdminURL+"/api/health", "token")
	if err := json.Unmarshal([]byte(body), &h); err != nil || status != http.StatusOK {
		p.T.Fatalf("/api/health: got status %d, error %v, body %s, want 200 and JSON", status, err, body)
	}
	return h
}

// WaitUntilDrained waits until the outbox is empty, and returns the output from precept doctor.
func (p *Process) WaitUntilDrained(dir string, flags ...string) Diagnosis {
	p.T.Helper()
	var d Diagnosis
	p.Eventually("an empty outbox", func() bool {
		d = Doctor(p.T, dir, flags...)
		return d.Spooled == 0
	})
	return d
}

// Chat sends a chat completion request, fails the test unless the status is 200, and returns the answer.
func (p *Process) Chat(t *testing.T, header http.Header, body string) string {
	t.Helper()
	status, answer := Post(t, p.DataURL+"/v1/chat/completions", header, body)
	if status != http.StatusOK {
		t.Fatalf("chat request %.300s: got status %d, answer %s, want 200", body, status, answer)
	}
	return answer
}

// PostFeedback posts feedback, and fails the test unless the status is 202.
func (p *Process) PostFeedback(t *testing.T, header http.Header, body string) {
	t.Helper()
	if status, answer := Post(t, p.DataURL+"/v1/feedback", header, body); status != http.StatusAccepted {
		t.Fatalf("feedback %.300s: got status %d, answer %s, want 202", body, status, answer)
	}
}

// GetAdmin requests a path on the admin listener with the token "e2e-token". If result is a *string, it receives the
// body, and otherwise the decoded JSON.
func (p *Process) GetAdmin(t *testing.T, path string, result any) int {
	t.Helper()
	status, body := Get(t, p.AdminURL+path, "e2e-token")
	switch result := result.(type) {
	case nil:
	case *string:
		*result = body
	default:
		if err := json.Unmarshal([]byte(body), result); err != nil {
			t.Fatalf("%s: decode body %s as %T: %v", path, body, result, err)
		}
	}
	return status
}

// Metrics requests /metrics with an Accept header and the token "e2e-token", and returns the body.
func (p *Process) Metrics(t *testing.T, accept string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.AdminURL+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("Authorization", "Bearer e2e-token")
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Eventually waits up to two minutes until happened returns true.
func Eventually(t *testing.T, event string, happened func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !happened(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited two minutes for %s", event)
		}
	}
}
