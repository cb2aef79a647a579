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

// unwritable returns a data directory that even root cannot create: a file has the name.
func unwritable(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(file, "data")
}

// Without a writable directory precept starts, forwards, and injects from memory. The log, the
// pages and the metrics report the state, and an export is empty.
func TestServerRunsWithoutWritableDirectory(t *testing.T) {
	m := newLastRequest(t)
	lessons := t.TempDir()
	banktest.WriteLesson(t, lessons, "look-first", "targets")
	data := unwritable(t)
	l := starts(t, flags(t, injectAll(map[string]string{
		"upstream": m.URL + "/v1", "lessons": lessons, "data_dir": data, "metrics.public": "true",
	})), handleSignals)
	for range 2 {
		if !m.got(l, "coder", "build the targets", "End of lessons.") {
			t.Error("a session gets no lesson")
		}
	}
	for _, line := range []string{"precept runs from memory", "run.json cannot be written"} {
		if !l.console.contains(line) {
			t.Errorf("the log does not say %q", line)
		}
	}
	token := map[string]string{"Authorization": "Bearer token", "Accept": "text/html"}
	for path, want := range map[string]string{
		"/metrics": `precept_fail_open_total{step="store"} 1`, "/": "none: ", "/api/health": `"kind":"memory"`,
		"/breakdown": "The stored sessions cannot be read", "/lessons/look-first?backtest=1": "no session is stored",
	} {
		if _, body := send(t, http.MethodGet, l.admin+path, token, ""); !strings.Contains(body, want) {
			t.Errorf("%s does not contain %q: %.3000s", path, want, body)
		}
	}
	if status, _ := send(t, http.MethodGet, l.admin+"/api/export", token, ""); status != http.StatusServiceUnavailable {
		t.Errorf("an export of nothing: got status %d, want 503", status)
	}
	if _, err := server.ReadRunFile(data); err == nil {
		t.Error("a run.json exists, want none")
	}
	if err := l.ends(); err != nil {
		t.Error(err)
	}
}

// A token that cannot be stored is valid until the stop.
func TestUnstorableTokenIsValidUntilTheStop(t *testing.T) {
	source := flags(t, map[string]string{"data_dir": unwritable(t)})
	l := starts(t, source, handleSignals)
	token := l.server.Token()
	if get(t, l.admin+"/api/report", token) != http.StatusOK || get(t, l.admin+"/api/report", "") != http.StatusUnauthorized {
		t.Errorf("the token %q is refused, or the API works without a token; want 200 and 401", token)
	}
	if err := l.ends(); err != nil {
		t.Error(err)
	}
	again := starts(t, source, handleSignals)
	if again.server.Token() == token || token == "" {
		t.Errorf("two starts have the tokens %q and %q, want two tokens", token, again.server.Token())
	}
	if err := again.ends(); err != nil {
		t.Error(err)
	}
}

// With the store in Redis, an unwritable data directory costs the outbox only: the exchanges are
// kept in Redis.
func TestUnwritableDataDirectoryWithRedisKeepsExchanges(t *testing.T) {
	redis := storetest.StartRedis(t)
	source := flags(t, injectAll(map[string]string{
		"upstream": model(t), "data_dir": unwritable(t), "store.url": redis.URL(), "reward.close_after": "50ms",
	}))
	l := starts(t, source, handleSignals)
	if !l.console.contains("precept continues, because the store is in Redis") || !l.console.contains("the copy of the fleet's keys cannot be written") {
		t.Error("the log does not name the missing part")
	}
	l.playSession("coder", "kept", "hello", `"type":"approval"`)
	token := map[string]string{"Authorization": "Bearer token"}
	eventually(t, "the session in Redis", func() bool {
		_, body := send(t, http.MethodGet, l.admin+"/api/sessions", token, "")
		return strings.Contains(body, `"kept"`)
	})
	if _, body := send(t, http.MethodGet, l.admin+"/api/health", token, ""); !strings.Contains(body, `"kind":"redis"`) {
		t.Errorf("the health page has %s, want the store kind redis", body)
	}
	if err := l.ends(); err != nil {
		t.Error(err)
	}
}
