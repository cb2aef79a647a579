package server_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"precept/cmd/precept/server"
	"precept/inject/bank/banktest"
	"precept/store/storetest"
)

// makeUnwritableDir returns the path of a directory that not even root can create, because the parent in the path is a
// file.
func makeUnwritableDir(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(file, "data")
}

// If the server cannot write to the data directory, it keeps the store in memory and responds to an export with status
// 503.
func TestServerRunsWithoutWritableDataDirectory(t *testing.T) {
	m := newRecordingModel(t)
	lessons := t.TempDir()
	banktest.WriteLesson(t, lessons, "look-first", "targets")
	data := makeUnwritableDir(t)
	s := startServer(t, newFlagSource(t, injectAllOptions(map[string]string{
		"upstream": m.URL + "/v1", "lessons": lessons, "data_dir": data, "metrics.public": "true",
	})), handleSignals)
	for range 2 {
		if !m.lessonInjected(s) {
			t.Error("session without a data directory: got no lesson in the request, want the lesson look-first")
		}
	}
	for _, line := range []string{"precept runs from memory", "run.json cannot be written"} {
		if !s.console.contains(line) {
			t.Errorf("the log lacks %q", line)
		}
	}
	adminHeader := map[string]string{"Authorization": "Bearer token", "Accept": "text/html"}
	for path, want := range map[string]string{
		"/metrics": `precept_fail_open_total{step="store"} 1`, "/": "nothing is stored: ", "/api/health": `"kind":"memory"`,
		"/breakdown": "The stored sessions cannot be read", "/lessons/look-first?backtest=1": "no session is stored",
	} {
		if _, body := send(t, http.MethodGet, s.adminURL+path, adminHeader, ""); !strings.Contains(body, want) {
			t.Errorf("%s: got body %.3000s, want it to contain %q", path, body, want)
		}
	}
	if status, _ := send(t, http.MethodGet, s.adminURL+"/api/export", adminHeader, ""); status != http.StatusServiceUnavailable {
		t.Errorf("/api/export: got status %d, want 503", status)
	}
	if _, err := server.ReadRunFile(data); err == nil {
		t.Error("ReadRunFile(directory that could not be created) error = nil, want an error")
	}
	if err := s.stopAndWait(); err != nil {
		t.Error(err)
	}
}

func TestUnwritableTokenChangesAtRestart(t *testing.T) {
	source := newFlagSource(t, map[string]string{"data_dir": makeUnwritableDir(t)})
	s := startServer(t, source, handleSignals)
	token := s.server.Token()
	if with, without := getStatus(t, s.adminURL+"/api/report", token), getStatus(t, s.adminURL+"/api/report", ""); with != http.StatusOK || without != http.StatusUnauthorized {
		t.Errorf("/api/report: got status %d with the token %q and status %d without a token, want 200 and 401", with, token, without)
	}
	if err := s.stopAndWait(); err != nil {
		t.Error(err)
	}
	restarted := startServer(t, source, handleSignals)
	if restarted.server.Token() == token || token == "" {
		t.Errorf("administrator's tokens after two starts: got %q and %q, want two different tokens", token, restarted.server.Token())
	}
	if err := restarted.stopAndWait(); err != nil {
		t.Error(err)
	}
}

func TestRedisStoreWorksWithoutWritableDataDirectory(t *testing.T) {
	redis := storetest.StartRedis(t)
	source := newFlagSource(t, injectAllOptions(map[string]string{
		"upstream": startModel(t), "data_dir": makeUnwritableDir(t), "store.url": redis.URL(), "reward.close_after": "50ms",
	}))
	s := startServer(t, source, handleSignals)
	for _, line := range []string{"precept continues, because the store is in Redis", "the copy of the fleet's keys cannot be written"} {
		if !s.console.contains(line) {
			t.Errorf("the log lacks %q", line)
		}
	}
	s.sendSession("coder", "kept", "hello", `"type":"approval"`)
	adminHeader := map[string]string{"Authorization": "Bearer token"}
	eventually(t, "session in Redis", func() bool {
		_, body := send(t, http.MethodGet, s.adminURL+"/api/sessions", adminHeader, "")
		return strings.Contains(body, `"kept"`)
	})
	if _, body := send(t, http.MethodGet, s.adminURL+"/api/health", adminHeader, ""); !strings.Contains(body, `"kind":"redis"`) {
		t.Errorf(`/api/health: got body %s, want it to contain "kind":"redis"`, body)
	}
	if err := s.stopAndWait(); err != nil {
		t.Error(err)
	}
}
