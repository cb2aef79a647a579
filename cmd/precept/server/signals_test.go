package server_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"precept/cmd/precept/server"
)

func handleSignals(o *server.Options) { o.Embedded = false }

func sendSignal(t *testing.T, s os.Signal) {
	t.Helper()
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Signal(s)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// During limits.drain_delay, the server still serves requests, but /readyz tells load balancers that the server is
// about to stop. A second signal ends the delay. The server then stops without an error, even if a client holds an idle
// connection open.
func TestServerServesDuringDrainDelay(t *testing.T) {
	s := startServer(t, newFlagSource(t, map[string]string{"upstream": startModel(t), "limits.drain_delay": "1h"}), handleSignals)
	idle, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.dataURL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = idle.Close() }()
	sendSignal(t, syscall.SIGTERM)
	eventually(t, "status 503 from /readyz", func() bool { return getStatus(t, s.dataURL+"/readyz", "") == http.StatusServiceUnavailable })
	if status, answer := send(t, http.MethodPost, s.dataURL+"/v1/chat/completions", nil, `{"messages":[{"role":"user","content":"hi"}]}`); status != http.StatusOK {
		t.Errorf("chat request during the drain delay: got status %d, body %s, want status 200", status, answer)
	}
	if status := getStatus(t, s.dataURL+"/healthz", ""); status != http.StatusOK {
		t.Errorf("/healthz during the drain delay: got status %d, want 200", status)
	}
	sendSignal(t, syscall.SIGTERM)
	if err := <-s.runErr; err != nil {
		t.Error(err)
	}
	s.stop()
}

func TestSecondSignalCutsStreams(t *testing.T) {
	for _, secondSignal := range []bool{false, true} {
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
		s := startServer(t, newFlagSource(t, map[string]string{
			"upstream": upstream.URL + "/v1", "limits.drain_timeout": "1h", "admin.tokens": "[token]",
		}), handleSignals)
		stream := s.openStream()
		sendSignal(t, syscall.SIGTERM)
		eventually(t, "status 503 from the admin listener's /readyz", func() bool {
			return getStatus(t, s.adminURL+"/readyz", "") == http.StatusServiceUnavailable
		})
		eventually(t, "closed data listener port", func() bool {
			c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.dataURL, "http://"))
			if err == nil {
				_ = c.Close()
			}
			return err != nil
		})
		if secondSignal {
			sendSignal(t, syscall.SIGINT)
		} else {
			close(end)
		}
		body, err := io.ReadAll(stream)
		if whole := err == nil && strings.HasSuffix(string(body), "[DONE]\n\n"); whole == secondSignal {
			t.Errorf("second signal sent = %v: got stream %q, error %v; want the complete stream if no second signal was sent, or else a read error", secondSignal, body, err)
		}
		if err := <-s.runErr; errors.Is(err, server.ErrStreamsCut) != secondSignal || !secondSignal && err != nil {
			t.Errorf("second signal sent = %v: got error %v from Run; want no error if no second signal was sent, or else %v", secondSignal, err, server.ErrStreamsCut)
		}
		s.stop()
		upstream.Close()
	}
}

func (s *runningServer) openStream() io.Reader {
	s.t.Helper()
	transport := &http.Transport{}
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.dataURL+"/v1/chat/completions", strings.NewReader(`{"messages":[]}`))
	if err != nil {
		s.t.Fatal(err)
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = res.Body.Close(); transport.CloseIdleConnections() })
	return res.Body
}

// If the changed configuration file has a fault, the server applies no part of it. The log, the health page and the
// metrics report the fault until a reload succeeds.
func TestReloadAppliesWholeFileOrNothing(t *testing.T) {
	source := newFlagSource(t, map[string]string{"admin.tokens": "[token]"})
	write := addConfigFile(t, source)
	write("bandit: {epsilon: 0.3}\n")
	s := startServer(t, source, handleSignals)
	health := func() string {
		_, body := send(t, http.MethodGet, s.adminURL+"/api/health", map[string]string{"Authorization": "Bearer token"}, "")
		return body
	}
	reloadMetrics := func() (successful string, lastSuccess float64) {
		_, body := send(t, http.MethodGet, s.adminURL+"/metrics", map[string]string{"Authorization": "Bearer token"}, "")
		m := regexp.MustCompile(`(?ms)^precept_config_last_reload_success_timestamp_seconds (\S+)$.*^precept_config_last_reload_successful (\S+)$`).FindStringSubmatch(body)
		if m == nil {
			t.Fatalf("/metrics: got no result of the last reload, want its success and time; metrics:\n%s", body)
		}
		lastSuccess, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		return m[2], lastSuccess
	}
	successful, startedAt := reloadMetrics()
	if successful != "1" || startedAt <= 0 {
		t.Errorf("metrics after startup: got last_reload_successful %s, last success at %v; want 1, and the time of the startup", successful, startedAt)
	}
	for _, faulty := range []struct{ text, message string }{
		{"bandit: {epsilon: 3}\nlog: {level: debug}\n", "out of range"},
		{"", "the configuration file is empty"},
		{"bandit: [\n", "is not YAML"},
	} {
		write(faulty.text)
		eventually(t, faulty.message+" in the log", func() bool { return s.console.contains(faulty.message) })
		eventually(t, faulty.message+" on the health page", func() bool { return strings.Contains(health(), faulty.message) })
		if s.console.contains("level=DEBUG") {
			t.Errorf("faulty file %q: got log level DEBUG from this file, want the log level unchanged", faulty.text)
		}
		if successful, lastSuccess := reloadMetrics(); successful != "0" || lastSuccess != startedAt {
			t.Errorf("metrics after the faulty file %q: got last_reload_successful %s, last success at %v; want 0, and last success at %v, the time of the startup", faulty.text, successful, lastSuccess, startedAt)
		}
	}
	corrected := filepath.Join(t.TempDir(), "next.yaml") // the test renames this file over the old one, as editors do
	if err := os.WriteFile(corrected, []byte("bandit: {epsilon: 0.4}\nreward: {close_after: 1h}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(corrected, source.File); err != nil {
		t.Fatal(err)
	}
	eventually(t, "corrected file reloaded", func() bool { return s.console.contains("configuration reloaded") })
	if current := health(); strings.Contains(current, "config_fault") || !strings.Contains(current, `"0.4"`) {
		t.Errorf("/api/health after the correction: got %s, want a body that contains 0.4 but not config_fault", current)
	}
	if successful, lastSuccess := reloadMetrics(); successful != "1" || lastSuccess <= startedAt {
		t.Errorf("metrics after the correction: got last_reload_successful %s, last success at %v; want 1, and last success after %v", successful, lastSuccess, startedAt)
	}
	for _, text := range []string{"changed settings need a restart", "keys=reward.close_after"} {
		if !s.console.contains(text) {
			t.Errorf("the log lacks %q", text)
		}
	}
	// On SIGHUP, the server reloads the file even if the file has not changed.
	reloadCount := func() int { return s.console.count("configuration reloaded") }
	before := reloadCount()
	sendSignal(t, syscall.SIGHUP)
	eventually(t, "reload after SIGHUP", func() bool { return reloadCount() > before })
	if err := s.stopAndWait(); err != nil {
		t.Error(err)
	}
}
