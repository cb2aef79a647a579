package server_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"precept/cmd/precept/server"
)

// handleSignals lets a server handle the signals of the process.
func handleSignals(o *server.Options) { o.Embedded = false }

// signalled sends a signal to this process for the server.
func signalled(t *testing.T, s os.Signal) {
	t.Helper()
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Signal(s)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Between a signal and the end of the drain delay a server is not ready, and answers requests all
// the same. A second signal ends the delay, and cuts no idle connection.
func TestDrainDelayIsNotReadyButServes(t *testing.T) {
	l := starts(t, flags(t, map[string]string{"upstream": model(t), "limits.drain_delay": "1h"}), handleSignals)
	ahead, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(l.data, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ahead.Close() }()
	signalled(t, syscall.SIGTERM)
	eventually(t, "/readyz that says no", func() bool { return get(t, l.data+"/readyz", "") == http.StatusServiceUnavailable })
	if status, answer := send(t, http.MethodPost, l.data+"/v1/chat/completions", nil, `{"messages":[{"role":"user","content":"hi"}]}`); status != http.StatusOK {
		t.Errorf("while it drains: %d %s, want 200", status, answer)
	}
	if get(t, l.data+"/healthz", "") != http.StatusOK {
		t.Error("/healthz fails during the drain, want status 200")
	}
	signalled(t, syscall.SIGTERM)
	if err := <-l.over; err != nil {
		t.Error(err)
	}
	l.stop()
}

// While a stream has time to end, the admin listener is not ready, and the data listener accepts no
// connection. The stream ends whole; a second signal cuts the stream.
func TestDrainLetsAStreamEnd(t *testing.T) {
	for _, hurried := range []bool{false, true} {
		end := make(chan struct{})
		upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "data: {}\n\n")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-end:
				_, _ = io.WriteString(w, "data: [DONE]\n\n")
			case <-r.Context().Done():
			}
		}))
		l := starts(t, flags(t, map[string]string{
			"upstream": upstream.URL + "/v1", "limits.drain_timeout": "1h", "admin.tokens": "[token]",
		}), handleSignals)
		stream := l.openStream()
		signalled(t, syscall.SIGTERM)
		eventually(t, "/readyz of the admin listener that says no", func() bool {
			return get(t, l.admin+"/readyz", "") == http.StatusServiceUnavailable
		})
		eventually(t, "a closed port", func() bool {
			c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(l.data, "http://"))
			if err == nil {
				_ = c.Close()
			}
			return err != nil
		})
		if hurried {
			signalled(t, syscall.SIGINT)
		} else {
			close(end)
		}
		body, err := io.ReadAll(stream)
		if whole := err == nil && strings.HasSuffix(string(body), "[DONE]\n\n"); whole == hurried {
			t.Errorf("hurried %v: the stream is %q, %v; want it whole only without hurry", hurried, body, err)
		}
		if err := <-l.over; errors.Is(err, server.ErrCut) != hurried || !hurried && err != nil {
			t.Errorf("hurried %v: the server ended with %v, want %v only in a hurry", hurried, err, server.ErrCut)
		}
		l.stop()
		upstream.Close()
	}
}

// openStream starts a stream through the server, and returns the body after the first bytes.
func (l *runningServer) openStream() io.Reader {
	l.t.Helper()
	transport := &http.Transport{}
	req, err := http.NewRequestWithContext(l.t.Context(), http.MethodPost, l.data+"/v1/chat/completions", strings.NewReader(`{"messages":[]}`))
	if err != nil {
		l.t.Fatal(err)
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = res.Body.Close(); transport.CloseIdleConnections() })
	return res.Body
}

// A reload applies the whole file or nothing. The log and the health page report the faults until a
// reload succeeds, and the changes that wait for a restart.
func TestReloadAppliesTheWholeFileOrNothing(t *testing.T) {
	source := flags(t, map[string]string{"admin.tokens": "[token]"})
	write := saved(t, source)
	write("bandit: {epsilon: 0.3}\n")
	l := starts(t, source, handleSignals)
	health := func() string {
		_, body := send(t, http.MethodGet, l.admin+"/api/health", map[string]string{"Authorization": "Bearer token"}, "")
		return body
	}
	for _, wrong := range []struct{ text, message string }{
		{"bandit: {epsilon: 3}\nlog: {level: debug}\n", "out of bounds"},
		{"", "the configuration file is empty"},
		{"bandit: [\n", "is not YAML"},
	} {
		write(wrong.text)
		eventually(t, wrong.message+" in the log", func() bool { return l.console.contains(wrong.message) })
		eventually(t, wrong.message+" on the health page", func() bool { return strings.Contains(health(), wrong.message) })
		if l.console.contains("level=DEBUG") {
			t.Errorf("%q: a part of the faulty file was applied, want none", wrong.text)
		}
	}
	right := filepath.Join(t.TempDir(), "next.yaml") // a rename replaces the file, as editors do
	if err := os.WriteFile(right, []byte("bandit: {epsilon: 0.4}\nreward: {close_after: 1h}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(right, source.File); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the right one", func() bool { return l.console.contains("configuration reloaded") })
	if now := health(); strings.Contains(now, "config_fault") || !strings.Contains(now, `"0.4"`) {
		t.Errorf("the health page after the correction is %s, want 0.4 and no fault", now)
	}
	if !l.console.contains("changed settings need a restart") || !l.console.contains("keys=reward.close_after") {
		t.Error("the settings that need a restart are not reported")
	}
	// A signal reads the file again without a change.
	count := func() int { return l.console.times("configuration reloaded") }
	before := count()
	signalled(t, syscall.SIGHUP)
	eventually(t, "another reading", func() bool { return count() > before })
	if err := l.ends(); err != nil {
		t.Error(err)
	}
}
