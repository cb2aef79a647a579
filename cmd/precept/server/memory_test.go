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

// unwritableDir returns the path of a data directory that even root cannot create, because its parent is a file.
func unwritableDir(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(file, "data")
}

// Without a writable directory precept starts, forwards, and injects lessons, with a store in memory. The log, the
// pages and the metrics report the missing store, and an export gets status 503.
func TestServerRunsWithoutWritableDirectory(t *testing.T) {
	m := newRecordingModel(t)
	lessons := t.TempDir()
	banktest.WriteLesson(t, lessons, "look-first", "targets")
	data := unwritableDir(t)
	l := startServer(t, flagSource(t, injectAll(map[string]string{
		"upstream": m.URL + "/v1", "lessons": lessons, "data_dir": data, "metrics.public": "true",
	})), handleSignals)
	for range 2 {
		if !m.newSessionSees(l, "coder", "build the targets", "End of lessons.") {
			t.Error("a session gets no lesson, want the lesson look-first")
		}
	}
	for _, line := range []string{"precept runs from memory", "run.json cannot be written"} {
		if !l.console.contains(line) {
			t.Errorf("the log lacks %q, want it", line)
		}
	}
	token := map[string]string{"Authorization": "Bearer token", "Accept": "text/html"}
	for path, want := range map[string]string{
		"/metrics": `precept_fail_open_total{step="store"} 1`, "/": "none: ", "/api/health": `"kind":"memory"`,
		"/breakdown": "The stored sessions cannot be read", "/lessons/look-first?backtest=1": "no session is stored",
	} {
		if _, body := send(t, http.MethodGet, l.admin+path, token, ""); !strings.Contains(body, want) {
			t.Errorf("%s is %.3000s, want a body with %q", path, body, want)
		}
	}
	if status, _ := send(t, http.MethodGet, l.admin+"/api/export", token, ""); status != http.StatusServiceUnavailable {
		t.Errorf("an export without a store: got status %d, want 503", status)
	}
	if _, err := server.ReadRunFile(data); err == nil {
		t.Error("ReadRunFile finds a run.json in the unwritable directory, want an error")
	}
	if err := l.stopAndWait(); err != nil {
		t.Error(err)
	}
}

// A token that cannot be stored is valid until the stop. The next start makes another token.
func TestUnstorableTokenIsValidUntilTheStop(t *testing.T) {
	source := flagSource(t, map[string]string{"data_dir": unwritableDir(t)})
	l := startServer(t, source, handleSignals)
	token := l.server.Token()
	if with, without := get(t, l.admin+"/api/report", token), get(t, l.admin+"/api/report", ""); with != http.StatusOK || without != http.StatusUnauthorized {
		t.Errorf("/api/report: got status %d with token %q and %d without a token, want 200 and 401", with, token, without)
	}
	if err := l.stopAndWait(); err != nil {
		t.Error(err)
	}
	restarted := startServer(t, source, handleSignals)
	if restarted.server.Token() == token || token == "" {
		t.Errorf("two starts have tokens %q and %q, want two different tokens", token, restarted.server.Token())
	}
	if err := restarted.stopAndWait(); err != nil {
		t.Error(err)
	}
}

// With the store in Redis and an unwritable data directory, precept has no outbox and no copy of the fleet's keys. The
// exchanges are stored in Redis.
func TestUnwritableDataDirectoryWithRedisKeepsExchanges(t *testing.T) {
	redis := storetest.StartRedis(t)
	source := flagSource(t, injectAll(map[string]string{
		"upstream": startModel(t), "data_dir": unwritableDir(t), "store.url": redis.URL(), "reward.close_after": "50ms",
	}))
	l := startServer(t, source, handleSignals)
	for _, line := range []string{"precept continues, because the store is in Redis", "the copy of the fleet's keys cannot be written"} {
		if !l.console.contains(line) {
			t.Errorf("the log lacks %q, want it", line)
		}
	}
	l.playSession("coder", "kept", "hello", `"type":"approval"`)
	token := map[string]string{"Authorization": "Bearer token"}
	eventually(t, "the session in Redis", func() bool {
		_, body := send(t, http.MethodGet, l.admin+"/api/sessions", token, "")
		return strings.Contains(body, `"kept"`)
	})
	if _, body := send(t, http.MethodGet, l.admin+"/api/health", token, ""); !strings.Contains(body, `"kind":"redis"`) {
		t.Errorf("the health page is %s, want a store of the kind redis", body)
	}
	if err := l.stopAndWait(); err != nil {
		t.Error(err)
	}
}
